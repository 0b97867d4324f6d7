/* The shape rule of BlockQuantizedGemm. */
#include "ops/elementwise/activation.h"
#include "ops/matmul/quantized_blocks.h"
#include "ops/shape.h"

static xcvm_status need_shape(const xcvm_inference *t, const xcvm_value *v, const char *what, const int64_t dims[3])
{
    bool same = v->rank < 0 || v->rank == 3;
    for (int i = 0; same && i < v->rank; i++)
        same = v->dims[i] < 0 || dims[i] < 0 || v->dims[i] == dims[i];
    char text[96], wanted[96];
    XCVM_CHECK(t->error, same, SHAPE_MISMATCH, "%s has shape %s, %s is needed", what,
               xcvm_dims_describe(v->rank, v->dims, text, sizeof text),
               xcvm_dims_describe(3, dims, wanted, sizeof wanted));
    return XCVM_OK;
}

static xcvm_status check_operands(const xcvm_inference *t, const xcvm_BlockQuantizedGemm_args *a)
{
    const xcvm_value *x = a->a;
    XCVM_CHECK(t->error, a->bits == 4 || a->bits == 8, OUT_OF_RANGE, "codes have %lld bits, 4 or 8 are needed",
               (long long)a->bits);
    XCVM_CHECK(t->error, a->block_size % XCVM_QBLOCKS_LEAST == 0, OUT_OF_RANGE,
               "blocks have %lld rows, a multiple of %d is needed", (long long)a->block_size, XCVM_QBLOCKS_LEAST);
    XCVM_CHECK(t->error, x->rank != 0, SHAPE_MISMATCH, "a is a scalar, a matrix is needed");
    XCVM_CHECK(t->error, x->rank < 0 || x->dims[x->rank - 1] < 0 || x->dims[x->rank - 1] == a->depth, SHAPE_MISMATCH,
               "a has %lld columns, depth is %lld", x->rank > 0 ? (long long)x->dims[x->rank - 1] : 0LL,
               (long long)a->depth);
    const xcvm_qblocks b = {
        .k = (size_t)a->depth, .n = (size_t)a->columns, .block = (size_t)a->block_size, .bits = (unsigned)a->bits};
    const int64_t panels = (int64_t)xcvm_qblocks_panels(&b), blocks = (int64_t)xcvm_qblocks_count(&b);
    const int64_t codes[] = {panels, (int64_t)xcvm_qblocks_lines(&b), XCVM_QBLOCKS_LINE};
    const int64_t numbers[] = {panels, blocks, XCVM_PACKED_COLUMNS};
    XCVM_TRY(need_shape(t, a->w, "w", codes));
    XCVM_TRY(need_shape(t, a->scales, "scales", numbers));
    return a->offsets != NULL ? need_shape(t, a->offsets, "offsets", numbers) : XCVM_OK;
}

XCVM_SHAPE_RULE_OF(BlockQuantizedGemm)
{
    XCVM_TRY(xcvm_activation_check(t->error, a->activation, a->activation_params));
    XCVM_TRY(check_operands(t, a));
    const xcvm_value *x = a->a, *c = a->c, *z = a->z;
    XCVM_CHECK(t->error, c == NULL || c->rank < 0 || (c->rank == 1 && (c->dims[0] < 0 || c->dims[0] == a->columns)),
               SHAPE_MISMATCH, "c is no vector of %lld numbers", (long long)a->columns);
    if (x->rank < 0) {
        xcvm_set_unknown(a->y, XCVM_F32, -1);
        return XCVM_OK;
    }
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank - 1] = a->columns;
    XCVM_CHECK(t->error, z == NULL || z->rank < 0 || z->rank == x->rank, SHAPE_MISMATCH, "z has rank %d, %d is needed",
               z != NULL ? z->rank : 0, x->rank);
    for (int i = 0; z != NULL && i < z->rank; i++)
        XCVM_CHECK(t->error, !xcvm_dims_differ(z->dims[i], dims[i]), SHAPE_MISMATCH,
                   "dimension %d of z is %lld, %lld is needed", i, (long long)z->dims[i], (long long)dims[i]);
    xcvm_value_set_tensor(a->y, XCVM_F32, x->rank, dims);
    return XCVM_OK;
}
