/* Shape rule of TopK; ops/reduce/simd/topk.c has the kernel. */
#include "ops/util/kernel.h"

XCVM_SHAPE_RULE_OF(TopK)
{
    const xcvm_value *x = a->x;
    int64_t k = XCVM_ANY_DIM, dims[XCVM_MAX_RANK];
    xcvm_value *results[2] = {a->values, a->indices};
    int axis = 0;
    bool known;
    XCVM_TRY(xcvm_scalar_check(t->error, a->k, "k", &known));
    if (x->rank >= 0) {
        XCVM_TRY(xcvm_resolve_axis(t->error, a->axis, x->rank, &axis));
        memcpy(dims, x->dims, sizeof dims);
    }
    if (known) {
        k = xcvm_element_as_int(a->k, 0);
        XCVM_CHECK(t->error, k >= 0 && (x->rank < 0 || x->dims[axis] < 0 || k <= x->dims[axis]), OUT_OF_RANGE,
                   "k is %lld, the dimension is %lld", (long long)k, x->rank < 0 ? -1LL : (long long)x->dims[axis]);
    }
    dims[axis] = k;
    for (int i = 0; i < 2; i++)
        if (results[i] != NULL)
            xcvm_value_set_tensor(results[i], i == 0 ? x->dtype : XCVM_I64, x->rank, dims);
    return XCVM_OK;
}
