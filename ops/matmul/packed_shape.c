/* Shape rules of PackedGemm and Bf16Gemm. */
#include "ops/matmul/packed_shape.h"
#include "ops/elementwise/activation.h"
#include "ops/matmul/pairs.h"

xcvm_status xcvm_packed_product_shape(const xcvm_inference *t, const xcvm_value *a, int64_t columns,
                                      const xcvm_value *c, const xcvm_value *z, xcvm_value *y)
{
    XCVM_CHECK(t->error, c == NULL || c->rank < 0 || (c->rank == 1 && (c->dims[0] < 0 || c->dims[0] == columns)),
               SHAPE_MISMATCH, "c is not a vector of %lld numbers", (long long)columns);
    if (a->rank < 0) {
        xcvm_set_unknown(y, XCVM_F32, -1);
        return XCVM_OK;
    }
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, a->dims, sizeof dims);
    dims[a->rank - 1] = columns;
    XCVM_CHECK(t->error, z == NULL || z->rank < 0 || z->rank == a->rank, SHAPE_MISMATCH,
               "z has the wrong rank (%d; expected %d)", z != NULL ? z->rank : 0, a->rank);
    for (int i = 0; z != NULL && i < z->rank; i++)
        XCVM_CHECK(t->error, !xcvm_dims_differ(z->dims[i], dims[i]), SHAPE_MISMATCH,
                   "dimension %d of z has the wrong size (%lld; expected %lld)", i, (long long)z->dims[i],
                   (long long)dims[i]);
    xcvm_value_set_tensor(y, XCVM_F32, a->rank, dims);
    return XCVM_OK;
}

/* Checks a and w. Each line of a panel has `per_line` numbers of a column. */
static xcvm_status check_panels(const xcvm_inference *t, const xcvm_value *a, const xcvm_value *w, int64_t columns,
                                int64_t per_line)
{
    const int rank = per_line == 1 ? 3 : 4;
    XCVM_CHECK(t->error, a->rank != 0, SHAPE_MISMATCH, "a is a scalar (rank 0; expected a matrix)");
    XCVM_CHECK(t->error, w->rank < 0 || w->rank == rank, SHAPE_MISMATCH, "w has the wrong rank (%d; expected %d)",
               w->rank, rank);
    if (w->rank < 0)
        return XCVM_OK;
    const int64_t panels = (int64_t)xcvm_packed_panels((size_t)columns);
    char text[96];
    XCVM_CHECK(t->error,
               !xcvm_dims_differ(w->dims[0], panels) && !xcvm_dims_differ(w->dims[2], XCVM_PACKED_COLUMNS) &&
                   (rank == 3 || !xcvm_dims_differ(w->dims[3], per_line)),
               SHAPE_MISMATCH, "w has the wrong shape (%s; expected %lld panels of %d columns%s)",
               xcvm_dims_describe(w->rank, w->dims, text, sizeof text), (long long)panels, XCVM_PACKED_COLUMNS,
               rank == 3 ? "" : ", in pairs,");
    const int64_t depth = a->rank > 0 ? a->dims[a->rank - 1] : XCVM_ANY_DIM;
    XCVM_CHECK(t->error, depth < 0 || w->dims[1] < 0 || (depth + per_line - 1) / per_line == w->dims[1], SHAPE_MISMATCH,
               "a has %lld columns, w has panels of %lld %s", (long long)depth, (long long)w->dims[1],
               rank == 3 ? "rows" : "pairs");
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(PackedGemm)
{
    XCVM_TRY(xcvm_activation_check(t->error, a->activation, a->activation_params));
    XCVM_TRY(check_panels(t, a->a, a->w, a->columns, 1));
    return xcvm_packed_product_shape(t, a->a, a->columns, a->c, a->z, a->y);
}

XCVM_SHAPE_RULE_OF(Bf16Gemm)
{
    XCVM_TRY(xcvm_activation_check(t->error, a->activation, a->activation_params));
    XCVM_TRY(check_panels(t, a->a, a->w, a->columns, XCVM_PAIR));
    return xcvm_packed_product_shape(t, a->a, a->columns, a->c, a->z, a->y);
}
