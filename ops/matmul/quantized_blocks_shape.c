/* Shape rule of BlockQuantizedGemm, and checks of block-quantized operands. */
#include "ops/elementwise/activation.h"
#include "ops/matmul/packed_shape.h"
#include "ops/matmul/quantized_blocks_shape.h"

static xcvm_status need_shape(const xcvm_inference *t, const xcvm_value *v, const char *what, const int64_t dims[3])
{
    bool same = v->rank < 0 || v->rank == 3;
    for (int i = 0; same && i < v->rank; i++)
        same = v->dims[i] < 0 || dims[i] < 0 || v->dims[i] == dims[i];
    char text[96], wanted[96];
    XCVM_CHECK(t->error, same, SHAPE_MISMATCH, "%s has the wrong shape (%s; expected %s)", what,
               xcvm_dims_describe(v->rank, v->dims, text, sizeof text),
               xcvm_dims_describe(3, dims, wanted, sizeof wanted));
    return XCVM_OK;
}

xcvm_status xcvm_qblocks_check(const xcvm_inference *t, const xcvm_qblocks_operands *o)
{
    XCVM_CHECK(t->error, o->bits == 4 || o->bits == 8, OUT_OF_RANGE,
               "codes have an unsupported width in bits (%lld; expected 4 or 8)", (long long)o->bits);
    XCVM_CHECK(t->error, o->block_size % XCVM_QBLOCKS_LEAST == 0, OUT_OF_RANGE,
               "blocks have an unsupported number of rows (%lld; expected a multiple of %d)", (long long)o->block_size,
               XCVM_QBLOCKS_LEAST);
    const xcvm_qblocks b = {
        .k = (size_t)o->depth, .n = (size_t)o->columns, .block = (size_t)o->block_size, .bits = (unsigned)o->bits};
    const int64_t panels = (int64_t)xcvm_qblocks_panels(&b), blocks = (int64_t)xcvm_qblocks_count(&b);
    const int64_t codes[] = {panels, (int64_t)xcvm_qblocks_lines(&b), XCVM_QBLOCKS_LINE};
    const int64_t numbers[] = {panels, blocks, XCVM_PACKED_COLUMNS};
    XCVM_TRY(need_shape(t, o->codes, o->name, codes));
    XCVM_TRY(need_shape(t, o->scales, "scales", numbers));
    return o->offsets != NULL ? need_shape(t, o->offsets, "offsets", numbers) : XCVM_OK;
}

XCVM_SHAPE_RULE_OF(BlockQuantizedGemm)
{
    const xcvm_value *x = a->a;
    const xcvm_qblocks_operands operands = {"w",      a->w,       a->scales, a->offsets,
                                            a->depth, a->columns, a->bits,   a->block_size};
    XCVM_TRY(xcvm_activation_check(t->error, a->activation, a->activation_params));
    XCVM_CHECK(t->error, x->rank != 0, SHAPE_MISMATCH, "a is a scalar (rank 0; expected a matrix)");
    XCVM_CHECK(t->error, x->rank < 0 || x->dims[x->rank - 1] < 0 || x->dims[x->rank - 1] == a->depth, SHAPE_MISMATCH,
               "a has %lld columns, depth is %lld", x->rank > 0 ? (long long)x->dims[x->rank - 1] : 0LL,
               (long long)a->depth);
    XCVM_TRY(xcvm_qblocks_check(t, &operands));
    return xcvm_packed_product_shape(t, x, a->columns, a->c, a->z, a->y);
}
