/* The shape rule of PackedGemm. */
#include "ops/elementwise/activation.h"
#include "ops/matmul/packed.h"
#include "ops/shape.h"

XCVM_SHAPE_RULE_OF(PackedGemm)
{
    XCVM_TRY(xcvm_activation_check(t->error, a->activation, a->activation_params));
    const xcvm_value *x = a->a, *w = a->w;
    XCVM_CHECK(t->error, x->rank != 0, SHAPE_MISMATCH, "a is a scalar, a matrix is needed");
    XCVM_CHECK(t->error, w->rank < 0 || w->rank == 3, SHAPE_MISMATCH, "w has rank %d, 3 is needed", w->rank);
    if (w->rank == 3) {
        const int64_t panels = (int64_t)xcvm_packed_panels((size_t)a->columns);
        char text[96];
        XCVM_CHECK(t->error,
                   (w->dims[0] < 0 || w->dims[0] == panels) && (w->dims[2] < 0 || w->dims[2] == XCVM_PACKED_COLUMNS),
                   SHAPE_MISMATCH, "w has shape %s, %lld panels of %d columns are needed",
                   xcvm_dims_describe(w->rank, w->dims, text, sizeof text), (long long)panels, XCVM_PACKED_COLUMNS);
        const int64_t depth = x->rank > 0 ? x->dims[x->rank - 1] : XCVM_ANY_DIM;
        XCVM_CHECK(t->error, depth < 0 || w->dims[1] < 0 || depth == w->dims[1], SHAPE_MISMATCH,
                   "a has %lld columns, w has panels of %lld rows", (long long)depth, (long long)w->dims[1]);
    }
    const xcvm_value *c = a->c;
    XCVM_CHECK(t->error, c == NULL || c->rank < 0 || (c->rank == 1 && (c->dims[0] < 0 || c->dims[0] == a->columns)),
               SHAPE_MISMATCH, "c is no vector of %lld numbers", (long long)a->columns);
    if (x->rank < 0) {
        xcvm_set_unknown(a->y, XCVM_F32, -1);
        return XCVM_OK;
    }
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank - 1] = a->columns;
    const xcvm_value *z = a->z;
    XCVM_CHECK(t->error, z == NULL || z->rank < 0 || z->rank == x->rank, SHAPE_MISMATCH, "z has rank %d, %d is needed",
               z != NULL ? z->rank : 0, x->rank);
    for (int i = 0; z != NULL && i < z->rank; i++)
        XCVM_CHECK(t->error, z->dims[i] < 0 || dims[i] < 0 || z->dims[i] == dims[i], SHAPE_MISMATCH,
                   "dimension %d of z is %lld, %lld is needed", i, (long long)z->dims[i], (long long)dims[i]);
    xcvm_value_set_tensor(a->y, XCVM_F32, x->rank, dims);
    return XCVM_OK;
}
