/* Contributed operators whose weights are quantized in blocks. */
#include "compiler/import_onnx/contrib/contrib.h"

#include "compiler/ir/block_weights.h"
#include "ops/util/convert.h"

/* ---- Bits ---- */

xcc_value *xcc_contrib_unpacked(xcc_lowering *n, xcc_value *bytes, int64_t bits)
{
    int64_t shifts[8], shape[XCVM_MAX_RANK];
    if (bytes == NULL || bits == 8)
        return bytes;
    const int64_t count = 8 / bits;
    const int rank = bytes->type.rank;
    if (rank < 1 || rank >= XCVM_MAX_RANK) {
        xcvm_error_set(n->m->error, XCVM_UNSUPPORTED, "packed values have %d dimensions, 1 to %d are expected", rank,
                       XCVM_MAX_RANK - 1);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++)
        shifts[i] = i * bits;
    xcc_value *by = xcc_build_cast(&n->b, xcc_build_ints(&n->b, (size_t)count, shifts), XCVM_U8);
    xcc_value *column = xcc_build_unsqueeze(&n->b, bytes, 1, (const int64_t[]){rank});
    if (by == NULL || column == NULL)
        return NULL;
    xcc_value *shifted =
        xcc_apply(&n->b, BitShift, y, .a = XCC_IN(column), .b = XCC_IN(by), .direction = XCVM_SHIFT_RIGHT);
    if (shifted == NULL)
        return NULL;
    xcc_value *values = xcc_build_binary(&n->b, XCVM_OP_BitwiseAnd, shifted,
                                         xcc_build_number(&n->b, shifted, (double)(((int64_t)1 << bits) - 1)));
    for (int i = 0; i < rank; i++)
        shape[i] = 0;
    const int64_t last = bytes->type.dims[rank - 1];
    shape[rank - 1] = last >= 0 ? last * count : -1;
    return xcc_build_reshape(&n->b, values, xcc_build_ints(&n->b, (size_t)rank, shape));
}

static bool is_power_of_two(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

static xcvm_status need_block_size(xcc_lowering *n, int64_t block)
{
    XCVM_CHECK(n->m->error, block >= 16 && block <= INT32_MAX && is_power_of_two(block), OUT_OF_RANGE,
               "attribute 'block_size' is %lld, a power of two from 16 on is expected", (long long)block);
    return XCVM_OK;
}

/* ---- MatMulNBits ---- */

typedef struct block_weights {
    int64_t rows, columns, bits, block, blocks; /* columns: the product's K, cut into blocks */
} block_weights;

static xcvm_status need_shape(xcc_lowering *n, const xcc_value *x, const char *what, int rank, const int64_t *dims)
{
    bool same = x->type.rank == rank, flat = x->type.rank == 1;
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        same = same && (x->type.dims[i] == dims[i] || x->type.dims[i] < 0);
        count *= dims[i];
    }
    XCVM_CHECK(n->m->error, same || (flat && (x->type.dims[0] == count || x->type.dims[0] < 0)), SHAPE_MISMATCH,
               "the shape of %s differs from that of K, N, bits and block_size: %lld elements", what, (long long)count);
    return XCVM_OK;
}

/* Zero points [rows, blocks]: packed like the weights, or floats; the middle of the range if there are none. */
static xcvm_status zero_points(xcc_lowering *n, const block_weights *w, xcc_value *given, xcc_value **zero)
{
    xcc_value *shape = XCC_BUILD_INTS(&n->b, w->rows, w->blocks);
    if (given == NULL) {
        xcc_value *middle = xcc_scalar(n->b.graph, XCVM_U8, (double)((int64_t)1 << (w->bits - 1)));
        *zero = xcc_build_expand(&n->b, middle, shape);
    } else if (given->type.dtype != XCVM_U8) {
        XCVM_TRY(need_shape(n, given, "zero_points", 2, (const int64_t[]){w->rows, w->blocks}));
        *zero = xcc_build_reshape(&n->b, given, shape);
    } else {
        const int64_t bytes = (w->blocks * w->bits + 7) / 8;
        XCVM_TRY(need_shape(n, given, "zero_points", 2, (const int64_t[]){w->rows, bytes}));
        xcc_value *rows = xcc_build_reshape(&n->b, given, XCC_BUILD_INTS(&n->b, w->rows, bytes));
        *zero = xcc_build_slice(&n->b, xcc_contrib_unpacked(n, rows, w->bits), 1, 0, w->blocks, 1);
    }
    return *zero != NULL ? XCVM_OK : xcc_failure(n);
}

/* The weights [rows, columns] as floats. */
static xcvm_status dequantized_blocks(xcc_lowering *n, const block_weights *w, xcc_value *packed, xcc_value *scale,
                                      xcc_value *zero, xcc_value **y)
{
    const int64_t whole = w->blocks * w->block, dims[2] = {w->rows, whole};
    xcc_value *bytes = xcc_build_reshape(&n->b, packed, XCC_BUILD_INTS(&n->b, w->rows, whole * w->bits / 8));
    xcc_value *q = xcc_contrib_unpacked(n, bytes, w->bits);
    scale = xcc_build_reshape(&n->b, scale, XCC_BUILD_INTS(&n->b, w->rows, w->blocks));
    if (q == NULL || scale == NULL)
        return xcc_failure(n);
    if (zero->type.dtype == XCVM_U8) {
        *y = xcc_apply(&n->b, DequantizeLinear, y, .x = XCC_IN(q), .scale = XCC_IN(scale), .zero_point = XCC_IN(zero),
                       .axis = 1, .block_size = w->block);
    } else {
        const int64_t apart[1] = {2};
        xcc_value *blocks = xcc_build_reshape(&n->b, xcc_build_cast(&n->b, q, (xcvm_dtype)scale->type.dtype),
                                              XCC_BUILD_INTS(&n->b, w->rows, w->blocks, w->block));
        xcc_value *centered = xcc_build_sub(&n->b, blocks, xcc_build_unsqueeze(&n->b, zero, 1, apart));
        *y = xcc_build_reshape(&n->b, xcc_build_mul(&n->b, centered, xcc_build_unsqueeze(&n->b, scale, 1, apart)),
                               xcc_build_ints(&n->b, 2, dims));
    }
    if (whole != w->columns)
        *y = xcc_build_slice(&n->b, *y, 1, 0, w->columns, 1);
    return *y != NULL ? XCVM_OK : xcc_failure(n);
}

/* Codes of 2 bits are stored in 4. */
static xcvm_qblocks layout_of(const block_weights *w)
{
    return (xcvm_qblocks){.k = (size_t)w->columns,
                          .n = (size_t)w->rows,
                          .block = (size_t)w->block,
                          .bits = w->bits == 2 ? 4 : (unsigned)w->bits};
}

/* Returns true if the product can use the blocks directly: they are constants, the computation is f32, and nothing is
 * differentiated. Several nodes may share them. */
static bool takes_blocks(const xcc_lowering *n, const block_weights *w)
{
    const xcc_options *o = n->m->options;
    const xcc_value *scale = n->inputs[2], *zero = xcc_input(n, 3);
    const xcvm_qblocks layout = layout_of(w);
    return o->train == NULL && !o->backprop && n->inputs[0]->type.dtype == XCVM_F32 && n->inputs[0]->type.rank != 0 &&
           xcc_is_constant(n->inputs[1]) && xcc_is_constant(scale) &&
           xcvm_dtype_in((xcvm_dtype)scale->type.dtype, XCVM_TYPES_SCALE) &&
           (zero == NULL ||
            (xcc_is_constant(zero) &&
             (zero->type.dtype == XCVM_U8 || xcvm_dtype_in((xcvm_dtype)zero->type.dtype, XCVM_TYPES_SCALE)))) &&
           w->block <= XCVM_QBLOCKS_MOST && xcc_may_copy(n->m, xcvm_qblocks_bytes(&layout));
}

static unsigned bits_at(const uint8_t *bytes, size_t i, unsigned bits)
{
    return bytes[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);
}

/* The product by the blocks as they are: codes and scales change their places, no number changes. */
static xcvm_status multiply_blocks(xcc_lowering *n, const block_weights *w, xcc_value **y)
{
    const xcc_value *given = xcc_input(n, 3), *scales = n->inputs[2];
    const unsigned bits = (unsigned)w->bits;
    const size_t rows = (size_t)w->rows, blocks = (size_t)w->blocks, block = (size_t)w->block;
    const xcvm_qblocks layout = layout_of(w);
    const xcvm_dtype scale_dtype = (xcvm_dtype)scales->type.dtype;
    const xcvm_dtype offset_dtype = given == NULL                  ? (bits == 2 ? XCVM_U8 : XCVM_NO_DTYPE)
                                    : given->type.dtype == XCVM_U8 ? XCVM_U8
                                                                   : XCVM_F32;
    xcc_block_weights b;
    XCVM_TRY(xcc_block_weights_create(n->b.graph, &layout, scale_dtype, offset_dtype, &b));
    const size_t row_bytes = blocks * block * bits / 8, zero_bytes = (blocks * bits + 7) / 8;
    const size_t size = xcvm_dtype_size(scale_dtype);
    for (size_t j = 0; j < rows; j++) {
        const uint8_t *codes = XCVM_CDATA(uint8_t, &n->inputs[1]->type) + j * row_bytes;
        XCVM_TRY(xcc_poll(n->m));
        for (size_t p = 0; p < layout.k; p++)
            xcc_block_weights_set(&b, p, j, bits_at(codes, p, bits));
        for (size_t i = 0; i < blocks; i++) {
            const size_t at = xcvm_qblocks_scale_at(&layout, i * block, j);
            memcpy((char *)b.scales->type.data + at * size, (const char *)scales->type.data + (j * blocks + i) * size,
                   size);
            if (offset_dtype == XCVM_U8)
                XCVM_DATA(uint8_t, &b.offsets->type)
            [at] = given == NULL ? 2 : (uint8_t)bits_at(XCVM_CDATA(uint8_t, &given->type) + j * zero_bytes, i, bits);
            else if (offset_dtype == XCVM_F32)
                xcvm_load_f32((xcvm_dtype)given->type.dtype, given->type.data, j * blocks + i, 1,
                              XCVM_DATA(float, &b.offsets->type) + at);
        }
    }
    xcc_value *bias = xcc_input(n, 5);
    const bool fused = bias != NULL && bias->type.dtype == XCVM_F32 && bias->type.rank == 1;
    const xcvm_PackedGemm_args rest = {.c = fused ? XCC_IN(bias) : NULL, .activation = XCVM_ACTIVATION_none};
    *y = xcc_block_weights_product(&n->b, &b, &n->inputs[0]->type, &rest);
    if (*y != NULL && bias != NULL && !fused)
        *y = xcc_contrib_biased(n, *y, bias);
    return *y != NULL ? XCVM_OK : xcc_failure(n);
}

xcvm_status xcc_lower_contrib_mat_mul_nbits(xcc_lowering *n)
{
    block_weights w;
    int64_t prepacked;
    xcc_value *zero, *b;
    XCVM_TRY(xcc_need_inputs(n, 3, 6));
    XCVM_TRY(xcc_contrib_need_int(n, "K", 1, INT32_MAX, &w.columns));
    XCVM_TRY(xcc_contrib_need_int(n, "N", 1, INT32_MAX, &w.rows));
    XCVM_TRY(xcc_contrib_need_int(n, "block_size", 1, INT32_MAX, &w.block));
    XCVM_TRY(need_block_size(n, w.block));
    XCVM_TRY(xcc_attribute_int(n, "bits", 4, &w.bits));
    XCVM_TRY(xcc_attribute_int(n, "weight_prepacked", 0, &prepacked));
    xcc_attribute_ignore(n, "accuracy_level");
    XCVM_CHECK(n->m->error, w.bits == 2 || w.bits == 4 || w.bits == 8, UNSUPPORTED,
               "attribute 'bits' is %lld, 2, 4 or 8 is expected", (long long)w.bits);
    XCVM_CHECK(n->m->error, prepacked == 0, UNSUPPORTED, "weights that are packed for a graphics processor");
    XCVM_CHECK(n->m->error, xcc_input(n, 4) == NULL, UNSUPPORTED, "operand 4 (g_idx) is not supported");
    w.blocks = (w.columns + w.block - 1) / w.block;
    XCVM_CHECK(n->m->error, n->inputs[1]->type.dtype == XCVM_U8, TYPE_MISMATCH, "B is %s, u8 is expected",
               xcvm_dtype_name((xcvm_dtype)n->inputs[1]->type.dtype));
    XCVM_TRY(need_shape(n, n->inputs[1], "B", 3, (const int64_t[]){w.rows, w.blocks, w.block * w.bits / 8}));
    XCVM_TRY(need_shape(n, n->inputs[2], "scales", 2, (const int64_t[]){w.rows, w.blocks}));
    if (takes_blocks(n, &w)) {
        const xcc_value *given = xcc_input(n, 3);
        const int64_t packed = (w.blocks * w.bits + 7) / 8;
        if (given != NULL)
            XCVM_TRY(need_shape(n, given, "zero_points", 2,
                                (const int64_t[]){w.rows, given->type.dtype == XCVM_U8 ? packed : w.blocks}));
        XCVM_TRY(multiply_blocks(n, &w, &b));
        return xcc_bind(n, 0, b);
    }
    XCVM_TRY(zero_points(n, &w, xcc_input(n, 3), &zero));
    XCVM_TRY(dequantized_blocks(n, &w, n->inputs[1], n->inputs[2], zero, &b));
    xcc_value *y = xcc_build_binary(&n->b, XCVM_OP_MatMul, n->inputs[0],
                                    xcc_build_transpose(&n->b, b, 2, (const int64_t[]){1, 0}));
    return xcc_bind(n, 0, xcc_contrib_biased(n, y, xcc_input(n, 5)));
}

/* ---- MatMulBnb4 ---- */

/* A code of 4 bits selects one of 16 floats. The high bits of a byte come first. Blocks continue across rows. */
xcvm_status xcc_lower_contrib_mat_mul_bnb4(xcc_lowering *n)
{
    static const float tables[2][16] = {
        {0.0f, 5.208333333e-03f, 0.66666667f, 1.0f, 0.33333333f, 0.5f, 0.16666667f, 0.25f, -0.0f, -5.208333333e-03f,
         -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f},
        {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
         -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
         0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f,
         1.0f}};
    int64_t k, columns, block, type;
    bool transposed;
    const int64_t entries = 16;
    XCVM_TRY(xcc_need_inputs(n, 3, 3));
    XCVM_TRY(xcc_contrib_need_int(n, "K", 1, INT32_MAX, &k));
    XCVM_TRY(xcc_contrib_need_int(n, "N", 1, INT32_MAX, &columns));
    XCVM_TRY(xcc_contrib_need_int(n, "block_size", 1, INT32_MAX, &block));
    XCVM_TRY(need_block_size(n, block));
    XCVM_TRY(xcc_contrib_need_int(n, "quant_type", 0, 1, &type));
    XCVM_TRY(xcc_attribute_bool(n, "transB", true, &transposed));
    xcc_attribute_ignore(n, "training_mode");
    const int64_t count = k * columns, blocks = (count + block - 1) / block;
    XCVM_CHECK(n->m->error, n->inputs[1]->type.dtype == XCVM_U8, TYPE_MISMATCH, "B is %s, u8 is expected",
               xcvm_dtype_name((xcvm_dtype)n->inputs[1]->type.dtype));
    XCVM_TRY(need_shape(n, n->inputs[1], "B", 1, (const int64_t[]){(count + 1) / 2}));
    XCVM_TRY(need_shape(n, n->inputs[2], "absmax", 1, (const int64_t[]){blocks}));
    xcc_value *bytes = xcc_build_reshape(&n->b, n->inputs[1], XCC_BUILD_INTS(&n->b, (count + 1) / 2, 1));
    xcc_value *four = bytes != NULL ? xcc_build_number(&n->b, bytes, 4) : NULL;
    if (four == NULL)
        return xcc_failure(n);
    xcc_value *high =
        xcc_apply(&n->b, BitShift, y, .a = XCC_IN(bytes), .b = XCC_IN(four), .direction = XCVM_SHIFT_RIGHT);
    xcc_value *low = xcc_build_binary(&n->b, XCVM_OP_BitwiseAnd, bytes, xcc_build_number(&n->b, bytes, 15));
    xcc_value *codes = xcc_build_concat(&n->b, 2, (xcc_value *[]){high, low}, 1);
    codes = xcc_build_cast(&n->b, xcc_build_reshape(&n->b, codes, XCC_BUILD_INTS(&n->b, -1)), XCVM_I32);
    codes = xcc_build_slice(&n->b, codes, 0, 0, count, 1);
    if (codes == NULL)
        return xcc_failure(n);
    if (blocks * block != count) {
        xcc_value *pads = XCC_BUILD_INTS(&n->b, 0, blocks * block - count);
        codes = xcc_build_binary(&n->b, XCVM_OP_Pad, codes, pads);
    }
    xcc_value *table = xcc_literal(xcc_constant(n->b.graph, NULL, XCVM_F32, 1, &entries, tables[type], false));
    table = xcc_build_cast(&n->b, table, (xcvm_dtype)n->inputs[2]->type.dtype);
    xcc_value *values =
        xcc_build_reshape(&n->b, xcc_build_gather(&n->b, table, codes, 0), XCC_BUILD_INTS(&n->b, blocks, block));
    values = xcc_build_mul(&n->b, values, xcc_build_reshape(&n->b, n->inputs[2], XCC_BUILD_INTS(&n->b, blocks, 1)));
    values = xcc_build_slice(&n->b, xcc_build_reshape(&n->b, values, XCC_BUILD_INTS(&n->b, -1)), 0, 0, count, 1);
    xcc_value *b = xcc_build_reshape(&n->b, values, XCC_BUILD_INTS(&n->b, columns, k));
    if (transposed)
        b = xcc_build_transpose(&n->b, b, 2, (const int64_t[]){1, 0});
    return xcc_bind(n, 0, xcc_build_binary(&n->b, XCVM_OP_MatMul, n->inputs[0], b));
}

/* ---- GatherBlockQuantized ---- */

xcvm_status xcc_lower_contrib_gather_block_quantized(xcc_lowering *n)
{
    int64_t axis, along, block, bits;
    XCVM_TRY(xcc_need_inputs(n, 3, 4));
    XCVM_TRY(xcc_attribute_int(n, "gather_axis", 0, &axis));
    XCVM_TRY(xcc_attribute_int(n, "quantize_axis", 1, &along));
    XCVM_TRY(xcc_attribute_int(n, "block_size", 128, &block));
    XCVM_TRY(xcc_attribute_int(n, "bits", 4, &bits));
    xcc_value *data = n->inputs[0], *indices = n->inputs[1], *scale = n->inputs[2], *zero = xcc_input(n, 3);
    const bool bytes = data->type.dtype == XCVM_U8;
    XCVM_CHECK(n->m->error, bytes || data->type.dtype == XCVM_U4 || data->type.dtype == XCVM_I4, UNSUPPORTED,
               "data is %s, u8, u4 or i4 is expected", xcvm_dtype_name((xcvm_dtype)data->type.dtype));
    XCVM_CHECK(n->m->error, bytes ? bits == 2 || bits == 4 || bits == 8 : bits == 4, OUT_OF_RANGE,
               "attribute 'bits' is %lld, %s is expected", (long long)bits, bytes ? "2, 4 or 8" : "4");
    XCVM_TRY(need_block_size(n, block));
    XCVM_TRY(xcc_need_rank(n, data, "data"));
    XCVM_TRY(xcc_need_rank(n, indices, "indices"));
    const int rank = data->type.rank, spread = indices->type.rank - 1;
    XCVM_TRY(xcc_need_axis(n, axis, rank, &axis));
    XCVM_TRY(xcc_need_axis(n, along, rank, &along));
    XCVM_CHECK(n->m->error, scale->type.rank == rank, SHAPE_MISMATCH, "scales have %d dimensions, data %d",
               scale->type.rank, rank);
    XCVM_CHECK(n->m->error, !bytes || (axis == 0 && along == rank - 1 && rank > 1), UNSUPPORTED,
               "bytes are gathered along axis 0 and have their blocks along the last one");
    XCVM_CHECK(n->m->error, rank + spread <= XCVM_MAX_RANK, UNSUPPORTED, "the result has more than %d dimensions",
               XCVM_MAX_RANK);
    const bool within = axis == along;
    if (!within) {
        /* Results that are not used are not converted to floats. */
        data = xcc_build_gather(&n->b, data, indices, axis);
        scale = xcc_build_gather(&n->b, scale, indices, axis);
        if (zero != NULL && (zero = xcc_build_gather(&n->b, zero, indices, axis)) == NULL)
            return xcc_failure(n);
        along += along > axis ? spread : 0;
    }
    if (data == NULL || scale == NULL)
        return xcc_failure(n);
    if (bytes) {
        data = xcc_contrib_unpacked(n, data, bits);
        if (zero == NULL) {
            zero = xcc_build_expand(&n->b, xcc_scalar(n->b.graph, XCVM_U8, (double)((int64_t)1 << (bits - 1))),
                                    xcc_build_shape_of(&n->b, scale));
        } else {
            xcc_value *blocks = xcc_build_dim_of(&n->b, scale, -1), *last = XCC_BUILD_INTS(&n->b, -1);
            zero = xcc_build_call(
                &n->b, XCVM_OP_Slice, 4,
                (xcc_value *[]){xcc_contrib_unpacked(n, zero, bits), XCC_BUILD_INTS(&n->b, 0), blocks, last});
        }
        if (data == NULL || zero == NULL)
            return xcc_failure(n);
    }
    xcc_value *y = xcc_apply(&n->b, DequantizeLinear, y, .x = XCC_IN(data), .scale = XCC_IN(scale),
                             .zero_point = XCC_IN(zero), .axis = along, .block_size = block);
    return xcc_bind(n, 0, within ? xcc_build_gather(&n->b, y, indices, axis) : y);
}
