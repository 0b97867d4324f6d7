/* Fuses block-quantized weights of a model: products use them directly, and gathered rows of a table are dequantized
 * after gathering. The rules run before constant folding. */
#include "compiler/ir/block_weights.h"
#include "compiler/passes/fuse_ops.h"
#include "ops/util/convert.h"

/* Returns true if there is a scale, and a zero point if any, for each block along `axis`, which the shape rule leaves
 * to the kernel. */
static bool has_all_scales(const xcvm_DequantizeLinear_args *a, int axis)
{
    const int64_t *dims = a->x->dims, *scales = a->scale->dims;
    const size_t blocks = xcvm_ceil_div((size_t)dims[axis], (size_t)a->block_size);
    return scales[1 - axis] == dims[1 - axis] && (size_t)scales[axis] == blocks &&
           (a->zero_point == NULL || xcvm_element_count(a->zero_point) == xcvm_element_count(a->scale));
}

/* A DequantizeLinear of two-dimensional constants with a scale per block of one dimension. */
static bool in_blocks(const xcc_node *n, int axis)
{
    if (n == NULL)
        return false;
    const xcvm_DequantizeLinear_args *a = XCC_ARGS(DequantizeLinear, n);
    const xcvm_dtypes codes = XCVM_TYPES_BYTE | XCVM_DTYPE_BIT(U4) | XCVM_DTYPE_BIT(I4);
    const xcc_value *x = xcc_value_of(a->x), *scale = xcc_value_of(a->scale), *zero = xcc_value_of(a->zero_point);
    return xcc_is_constant(x) && xcc_is_constant(scale) && (zero == NULL || xcc_is_constant(zero)) &&
           a->block_size > 0 && x->type.rank == 2 && scale->type.rank == 2 && (a->axis + 2) % 2 == axis &&
           xcvm_dtype_in((xcvm_dtype)x->type.dtype, codes) &&
           xcvm_dtype_in((xcvm_dtype)scale->type.dtype, XCVM_TYPES_SCALE) &&
           (zero == NULL || zero->type.dtype == x->type.dtype) && x->type.bytes > 0 && has_all_scales(a, axis);
}

static bool is_signed(const xcvm_value *v) { return v->dtype == XCVM_I8 || v->dtype == XCVM_I4; }

/* The code of an element, as BlockQuantizedGemm defines it: from 0. */
static unsigned code_at(const xcvm_value *v, size_t at)
{
    const uint8_t *bytes = v->data;
    const bool half = v->dtype == XCVM_U4 || v->dtype == XCVM_I4;
    const unsigned code = half ? bytes[at / 2] >> at % 2 * 4 & 15u : bytes[at];
    return is_signed(v) ? code ^ (half ? 8u : 128u) : code;
}

/* For a matrix of k rows along `axis`. */
static xcvm_qblocks layout_of(const xcvm_DequantizeLinear_args *a, int axis)
{
    const bool half = a->x->dtype == XCVM_U4 || a->x->dtype == XCVM_I4;
    return (xcvm_qblocks){.k = (size_t)a->x->dims[axis],
                          .n = (size_t)a->x->dims[1 - axis],
                          .block = (size_t)a->block_size,
                          .bits = half ? 4 : 8};
}

/* Builds x times the result of `n`, a matrix of k rows along `axis`. */
static xcc_value *multiply(xcc_rewrite *r, xcc_node *user, const xcc_node *n, int axis,
                           const xcvm_PackedGemm_args *rest)
{
    const xcvm_DequantizeLinear_args *a = XCC_ARGS(DequantizeLinear, n);
    const xcvm_value *zero = a->zero_point;
    const xcvm_qblocks layout = layout_of(a, axis);
    /* Signed codes without zero points are relative to the middle. */
    const bool offsets = zero != NULL || !is_signed(a->x);
    const size_t size = xcvm_dtype_size((xcvm_dtype)a->scale->dtype), count = xcvm_qblocks_count(&layout);
    xcc_block_weights w;
    if (!xcc_rewrite_ok(r, xcc_block_weights_create(user->graph, &layout, (xcvm_dtype)a->scale->dtype,
                                                    offsets ? XCVM_U8 : XCVM_NO_DTYPE, &w)))
        return NULL;
    for (size_t j = 0; j < layout.n; j++) {
        if (!xcc_rewrite_ok(r, xcc_poll(r->m)))
            return NULL;
        for (size_t p = 0; p < layout.k; p++)
            xcc_block_weights_set(&w, p, j, code_at(a->x, axis == 0 ? p * layout.n + j : j * layout.k + p));
        for (size_t i = 0; i < count; i++) {
            const size_t from = axis == 0 ? i * layout.n + j : j * count + i;
            const size_t to = xcvm_qblocks_scale_at(&layout, i * layout.block, j);
            memcpy((char *)w.scales->type.data + to * size, (const char *)a->scale->data + from * size, size);
            if (offsets)
                XCVM_DATA(uint8_t, &w.offsets->type)[to] = zero != NULL ? (uint8_t)code_at(zero, from) : 0;
        }
    }
    xcc_builder b = xcc_builder_before(user);
    return xcc_block_weights_product(&b, &w, rest->a, rest);
}

/* Padding to whole blocks may exceed the model's data by far, so the padded size counts. */
static bool fits(xcc_rewrite *r, const xcvm_value *x, const xcc_node *n, int axis)
{
    const xcvm_DequantizeLinear_args *a = XCC_ARGS(DequantizeLinear, n);
    const xcvm_qblocks layout = layout_of(a, axis);
    return x->dtype == XCVM_F32 && x->rank > 0 && a->y->dtype == XCVM_F32 && a->block_size % XCVM_QBLOCKS_LEAST == 0 &&
           a->block_size <= XCVM_QBLOCKS_MOST && a->x->dims[1 - axis] <= INT32_MAX && a->x->dims[axis] <= INT32_MAX &&
           xcc_may_copy(r->m, xcvm_qblocks_bytes(&layout));
}

static bool matmul(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_MatMul_args *a = XCC_ARGS(MatMul, n);
    const xcc_value *b = xcc_value_of(a->b);
    const xcc_node *turned = xcc_producer(b, XCVM_OP_Transpose);
    const int axis = turned != NULL && turned->graph == n->graph ? 1 : 0;
    const xcc_node *from = xcc_producer(axis == 1 ? xcc_node_input(turned, 0) : b, XCVM_OP_DequantizeLinear);
    if (!in_blocks(from, axis) || a->b->rank != 2 || !fits(r, a->a, from, axis))
        return false;
    const xcvm_PackedGemm_args rest = {.a = a->a, .activation = XCVM_ACTIVATION_none};
    return xcc_rewrite_replace(r, xcc_node_output(n, 0), multiply(r, n, from, axis, &rest));
}

static bool gemm(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_Gemm_args *a = XCC_ARGS(Gemm, n);
    const int axis = a->transB ? 1 : 0;
    const xcc_node *from = xcc_producer(xcc_value_of(a->b), XCVM_OP_DequantizeLinear);
    const bool plain = a->transA == 0 && a->alpha == 1.0 &&
                       (a->c == NULL || (a->beta == 1.0 && a->c->rank == 1 && a->c->dtype == XCVM_F32));
    if (!plain || !in_blocks(from, axis) ||
        (a->c != NULL && a->c->dims[0] != XCC_ARGS(DequantizeLinear, from)->x->dims[1 - axis]) ||
        !fits(r, a->a, from, axis))
        return false;
    const xcvm_PackedGemm_args rest = {
        .a = a->a, .c = a->c, .activation = a->activation, .activation_params = a->activation_params};
    return xcc_rewrite_replace(r, xcc_node_output(n, 0), multiply(r, n, from, axis, &rest));
}

/* Gathers rows of a table whose blocks are along the rows. */
static bool gather(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_Gather_args *a = XCC_ARGS(Gather, n);
    const xcc_node *from = xcc_producer(xcc_value_of(a->x), XCVM_OP_DequantizeLinear);
    if (!in_blocks(from, 1) || (a->axis != 0 && a->axis != -2))
        return false;
    xcvm_DequantizeLinear_args d = *XCC_ARGS(DequantizeLinear, from);
    xcc_builder b = xcc_builder_before(n);
    xcc_value *x = xcc_apply(&b, Gather, y, .x = d.x, .indices = a->indices, .axis = 0), *scale = NULL, *zero = NULL;
    if (x != NULL)
        scale = xcc_apply(&b, Gather, y, .x = d.scale, .indices = a->indices, .axis = 0);
    if (scale != NULL && d.zero_point != NULL)
        zero = xcc_apply(&b, Gather, y, .x = d.zero_point, .indices = a->indices, .axis = 0);
    if (scale == NULL || (d.zero_point != NULL && zero == NULL))
        return xcc_rewrite_replace(r, xcc_node_output(n, 0), NULL);
    return xcc_rewrite_replace(r, xcc_node_output(n, 0),
                               xcc_apply(&b, DequantizeLinear, y, .x = XCC_IN(x), .scale = XCC_IN(scale),
                                         .zero_point = XCC_IN(zero), .axis = -1, .block_size = d.block_size));
}

const xcc_rule xcc_rules_blocks[] = {
    {XCVM_OP_MatMul, matmul, "product with constants quantized in blocks"},
    {XCVM_OP_Gemm, gemm, "product with constants quantized in blocks"},
    {XCVM_OP_Gather, gather, "rows of a table quantized in blocks"},
};
const size_t xcc_rules_blocks_count = sizeof xcc_rules_blocks / sizeof *xcc_rules_blocks;
