/* Shape rule of Det. */
#include "ops/util/shape.h"

XCVM_SHAPE_RULE_OF(Det)
{
    const xcvm_value *x = a->x;
    XCVM_CHECK(t->error, x->rank < 0 || x->rank >= 2, SHAPE_MISMATCH, "x has the wrong rank (%d; expected 2 or more)",
               x->rank);
    if (x->rank >= 2) {
        const int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
        XCVM_CHECK(t->error, rows < 0 || columns < 0 || rows == columns, SHAPE_MISMATCH,
                   "the matrices of x are %lld x %lld, not square", (long long)rows, (long long)columns);
    }
    xcvm_value_set_tensor(a->y, a->y->dtype, x->rank < 0 ? -1 : x->rank - 2, x->dims);
    return XCVM_OK;
}
