/* Contributed operators: activations and other element-wise work. */
#include "compiler/import_onnx/contrib/contrib.h"

#include <math.h>

/* ---- Shared ---- */

xcc_value *xcc_contrib_biased(xcc_lowering *n, xcc_value *x, xcc_value *bias)
{
    return bias != NULL ? xcc_build_add(&n->b, x, bias) : x;
}

xcvm_status xcc_contrib_need_ranks(const xcc_lowering *n, const xcc_value *x, const char *what, int least, int most)
{
    XCVM_CHECK(n->m->error, x->type.kind == XCVM_KIND_TENSOR, TYPE_MISMATCH, "%s is no tensor", what);
    XCVM_CHECK(n->m->error, x->type.rank < 0 || (x->type.rank >= least && x->type.rank <= most), SHAPE_MISMATCH,
               "%s has %d dimensions, %d to %d are expected", what, x->type.rank, least, most);
    return XCVM_OK;
}

xcvm_status xcc_contrib_need_int(xcc_lowering *n, const char *name, int64_t least, int64_t most, int64_t *value)
{
    XCVM_CHECK(n->m->error, xcc_attribute_find(n, name) != NULL, INVALID_MODEL, "attribute '%s' is missing", name);
    XCVM_TRY(xcc_attribute_int(n, name, 0, value));
    XCVM_CHECK(n->m->error, *value >= least && *value <= most, OUT_OF_RANGE,
               "attribute '%s' is %lld, %lld to %lld is expected", name, (long long)*value, (long long)least,
               (long long)most);
    return XCVM_OK;
}

static double parameter(xcvm_floats params, size_t i, double fallback)
{
    return i < params.count ? params.at[i] : fallback;
}

xcc_value *xcc_contrib_activate(xcc_lowering *n, const char *name, xcvm_floats params, xcc_value *x)
{
    if (x == NULL || *name == '\0')
        return x;
    if (strcmp(name, "Relu") == 0)
        return xcc_build_unary(&n->b, XCVM_OP_Relu, x);
    if (strcmp(name, "Tanh") == 0)
        return xcc_build_unary(&n->b, XCVM_OP_Tanh, x);
    if (strcmp(name, "Sigmoid") == 0)
        return xcc_build_unary(&n->b, XCVM_OP_Sigmoid, x);
    if (strcmp(name, "HardSwish") == 0)
        return xcc_build_unary(&n->b, XCVM_OP_HardSwish, x);
    if (strcmp(name, "Softplus") == 0)
        return xcc_build_unary(&n->b, XCVM_OP_Softplus, x);
    if (strcmp(name, "Softsign") == 0)
        return xcc_build_unary(&n->b, XCVM_OP_Softsign, x);
    if (strcmp(name, "LeakyRelu") == 0)
        return xcc_apply(&n->b, LeakyRelu, y, .x = XCC_IN(x), .alpha = parameter(params, 0, 0.01));
    if (strcmp(name, "Elu") == 0)
        return xcc_apply(&n->b, Elu, y, .x = XCC_IN(x), .alpha = parameter(params, 0, 1));
    if (strcmp(name, "ThresholdedRelu") == 0)
        return xcc_apply(&n->b, ThresholdedRelu, y, .x = XCC_IN(x), .alpha = parameter(params, 0, 1));
    if (strcmp(name, "HardSigmoid") == 0)
        return xcc_apply(&n->b, HardSigmoid, y, .x = XCC_IN(x), .alpha = parameter(params, 0, 0.2),
                         .beta = parameter(params, 1, 0.5));
    if (strcmp(name, "Clip") == 0) {
        xcc_value *least = xcc_build_number(&n->b, x, parameter(params, 0, -INFINITY));
        return xcc_build_call(&n->b, XCVM_OP_Clip, 3,
                              (xcc_value *[]){x, least, xcc_build_number(&n->b, x, parameter(params, 1, INFINITY))});
    }
    xcvm_error_set(n->m->error, XCVM_UNSUPPORTED,
                   "attribute 'activation' is '%.60s', one of Relu, LeakyRelu, Clip, Sigmoid, Tanh, HardSigmoid, "
                   "HardSwish, Elu, Softplus, Softsign, ThresholdedRelu is expected",
                   name);
    return NULL;
}

/* ---- Activations ---- */

xcvm_status xcc_lower_contrib_bias_gelu(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    xcc_value *sum = xcc_build_add(&n->b, n->inputs[0], n->inputs[1]);
    return xcc_bind(n, 0, xcc_build_unary(&n->b, XCVM_OP_Gelu, sum));
}

xcvm_status xcc_lower_contrib_fast_gelu(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 1, 2));
    xcc_value *x = xcc_contrib_biased(n, n->inputs[0], xcc_input(n, 1));
    if (x == NULL)
        return xcc_failure(n);
    return xcc_bind(n, 0, xcc_apply(&n->b, Gelu, y, .x = XCC_IN(x), .approximate = XCVM_GELU_tanh));
}

xcvm_status xcc_lower_contrib_quick_gelu(xcc_lowering *n)
{
    double alpha;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_float(n, "alpha", 1.702, &alpha));
    return xcc_bind(n, 0, xcc_apply(&n->b, Swish, y, .x = XCC_IN(n->inputs[0]), .alpha = alpha));
}

/* The left half of the last axis times the Gelu of the right one. */
xcvm_status xcc_lower_contrib_bias_split_gelu(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[0], "X", 3, 3));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[1], "bias", 1, 1));
    const int64_t width = n->inputs[0]->type.rank == 3 ? n->inputs[0]->type.dims[2] : -1;
    XCVM_CHECK(n->m->error, width > 0 && width % 2 == 0, UNSUPPORTED,
               "the last dimension of X has to be known, and even");
    xcc_value *x = xcc_build_add(&n->b, n->inputs[0], n->inputs[1]);
    xcc_value *gate = xcc_build_unary(&n->b, XCVM_OP_Gelu, xcc_build_slice(&n->b, x, 2, width / 2, width, 1));
    return xcc_bind(n, 0, xcc_build_mul(&n->b, xcc_build_slice(&n->b, x, 2, 0, width / 2, 1), gate));
}

xcvm_status xcc_lower_contrib_bias_add(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 3, 3));
    xcc_value *sum = xcc_build_add(&n->b, n->inputs[0], n->inputs[1]);
    return xcc_bind(n, 0, xcc_build_add(&n->b, sum, n->inputs[2]));
}

/* The softmax over all dimensions from axis on, made one, of data + bias; the bias has dimensions of 1 where it is
 * broadcast, or lacks the leading ones. */
xcvm_status xcc_lower_contrib_bias_softmax(xcc_lowering *n)
{
    int64_t axis, inner;
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_contrib_need_int(n, "is_inner_broadcast", 0, 1, &inner));
    XCVM_TRY(xcc_attribute_int(n, "axis", 1, &axis));
    xcc_value *x = n->inputs[0], *bias = n->inputs[1], *y;
    XCVM_TRY(xcc_need_rank(n, x, "data"));
    XCVM_TRY(xcc_need_rank(n, bias, "bias"));
    XCVM_CHECK(n->m->error, bias->type.rank <= x->type.rank, SHAPE_MISMATCH, "the bias has %d dimensions, data only %d",
               bias->type.rank, x->type.rank);
    xcc_value *sum = xcc_build_add(&n->b, x, bias);
    XCVM_TRY(xcc_lower_inner(n, "", "Softmax", 1, 1, &sum, 1, &y));
    return xcc_bind(n, 0, y);
}

/* Dropout of data + bias, plus the residual. */
xcvm_status xcc_lower_contrib_bias_dropout(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 5));
    xcc_value *results[2];
    const size_t wanted = xcc_wants(n, 1) ? 2 : 1;
    xcc_value *sum = xcc_build_add(&n->b, n->inputs[0], n->inputs[1]);
    XCVM_TRY(xcc_lower_inner(n, "", "Dropout", 13, 3, (xcc_value *[]){sum, xcc_input(n, 3), xcc_input(n, 4)}, wanted,
                             results));
    xcc_attribute_ignore(n, "seed");
    if (wanted == 2)
        XCVM_TRY(xcc_bind(n, 1, results[1]));
    return xcc_bind(n, 0, xcc_contrib_biased(n, results[0], xcc_input(n, 2)));
}

/* ---- Numbers ---- */

/* Pairs of real and imaginary parts along the last axis. */
xcvm_status xcc_lower_contrib_complex_mul(xcc_lowering *n)
{
    const bool conjugate = strcmp(n->op->info.name, "ComplexMulConj") == 0;
    xcc_value *part[2][2];
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    for (size_t i = 0; i < 2; i++) {
        const xcc_value *x = n->inputs[i];
        XCVM_TRY(xcc_need_rank(n, x, "an operand"));
        XCVM_CHECK(n->m->error,
                   x->type.rank > 0 && (x->type.dims[x->type.rank - 1] < 0 || x->type.dims[x->type.rank - 1] == 2),
                   SHAPE_MISMATCH, "the last dimension of operand %zu has to be 2, real and imaginary part", i);
        for (int64_t k = 0; k < 2; k++)
            part[i][k] = xcc_build_slice(&n->b, n->inputs[i], x->type.rank - 1, k, k + 1, 1);
    }
    xcc_value *ac = xcc_build_mul(&n->b, part[0][0], part[1][0]), *bd = xcc_build_mul(&n->b, part[0][1], part[1][1]);
    xcc_value *ad = xcc_build_mul(&n->b, part[0][0], part[1][1]), *bc = xcc_build_mul(&n->b, part[0][1], part[1][0]);
    xcc_value *real = conjugate ? xcc_build_add(&n->b, ac, bd) : xcc_build_sub(&n->b, ac, bd);
    xcc_value *imaginary = conjugate ? xcc_build_sub(&n->b, bc, ad) : xcc_build_add(&n->b, ad, bc);
    if (real == NULL || imaginary == NULL)
        return xcc_failure(n);
    return xcc_bind(n, 0, xcc_build_concat(&n->b, 2, (xcc_value *[]){real, imaginary}, real->type.rank - 1));
}

/* Distances of the rows of a from those of b. */
xcvm_status xcc_lower_contrib_cdist(xcc_lowering *n)
{
    xcvm_text metric;
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_attribute_text(n, "metric", "sqeuclidean", &metric));
    const bool root = xcc_text_is(metric, "euclidean");
    XCVM_CHECK(n->m->error, root || xcc_text_is(metric, "sqeuclidean"), UNSUPPORTED,
               "attribute 'metric' is '%.60s', one of euclidean, sqeuclidean is expected", metric.at);
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[0], "A", 2, 2));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[1], "B", 2, 2));
    xcc_value *a = n->inputs[0], *b = n->inputs[1], *last = XCC_BUILD_INTS(&n->b, 1);
    xcc_value *aa = xcc_build_reduce(&n->b, XCVM_OP_ReduceSumSquare, a, last, true);
    xcc_value *bb = xcc_build_reduce(&n->b, XCVM_OP_ReduceSumSquare, b, last, false);
    xcc_value *squares = xcc_build_add(&n->b, aa, bb);
    if (squares == NULL)
        return xcc_failure(n);
    xcc_value *d = xcc_apply(&n->b, Gemm, y, .a = XCC_IN(a), .b = XCC_IN(b), .c = XCC_IN(squares), .alpha = -2,
                             .beta = 1, .transB = 1);
    if (d == NULL)
        return xcc_failure(n);
    /* Rounding must not leave a square below 0. */
    d = xcc_build_binary(&n->b, XCVM_OP_Max, d, xcc_build_number(&n->b, d, 0));
    return xcc_bind(n, 0, root ? xcc_build_unary(&n->b, XCVM_OP_Sqrt, d) : d);
}

/* Fourier transforms of the last axis, of even length. */
static xcvm_status read_fourier(xcc_lowering *n)
{
    int64_t normalized, onesided, dimensions;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_int(n, "normalized", 0, &normalized));
    XCVM_TRY(xcc_attribute_int(n, "onesided", 1, &onesided));
    XCVM_TRY(xcc_attribute_int(n, "signal_ndim", 1, &dimensions));
    XCVM_CHECK(n->m->error, normalized == 0 && onesided == 1 && dimensions == 1, UNSUPPORTED,
               "normalized %lld, onesided %lld, signal_ndim %lld: only 0, 1 and 1 are supported", (long long)normalized,
               (long long)onesided, (long long)dimensions);
    return xcc_need_rank(n, n->inputs[0], "X");
}

xcvm_status xcc_lower_contrib_rfft(xcc_lowering *n)
{
    XCVM_TRY(read_fourier(n));
    const int rank = n->inputs[0]->type.rank;
    XCVM_CHECK(n->m->error, rank >= 1 && rank < XCVM_MAX_RANK, SHAPE_MISMATCH,
               "X has %d dimensions, 1 to %d are needed", rank, XCVM_MAX_RANK - 1);
    xcc_value *x = xcc_build_unsqueeze(&n->b, n->inputs[0], 1, (const int64_t[]){rank});
    xcc_value *axis = xcc_scalar_i64(n->b.graph, rank - 1);
    if (x == NULL || axis == NULL)
        return xcc_failure(n);
    return xcc_bind(n, 0, xcc_apply(&n->b, DFT, y, .x = XCC_IN(x), .axis = XCC_IN(axis), .onesided = 1));
}

xcvm_status xcc_lower_contrib_irfft(xcc_lowering *n)
{
    XCVM_TRY(read_fourier(n));
    const int rank = n->inputs[0]->type.rank;
    XCVM_CHECK(n->m->error, rank >= 2, SHAPE_MISMATCH, "X has %d dimensions, 2 or more are needed", rank);
    const int64_t half = n->inputs[0]->type.dims[rank - 2];
    XCVM_CHECK(n->m->error, half >= 2, UNSUPPORTED, "the length of the transform has to be known, and 2 or more");
    /* The whole spectrum. Its missing part is the conjugate of the given part in reverse order. */
    xcc_value *x = n->inputs[0], *mirror = xcc_build_slice(&n->b, x, rank - 2, half - 2, 0, -1);
    float signs[2] = {1, -1};
    const int64_t two = 2;
    xcc_value *sign = xcc_literal(xcc_constant(n->b.graph, NULL, XCVM_F32, 1, &two, signs, false));
    if (sign == NULL)
        return xcc_failure(n);
    mirror = xcc_build_mul(&n->b, mirror, xcc_build_cast(&n->b, sign, (xcvm_dtype)x->type.dtype));
    xcc_value *whole = half > 2 ? xcc_build_concat(&n->b, 2, (xcc_value *[]){x, mirror}, rank - 2) : x;
    xcc_value *axis = xcc_scalar_i64(n->b.graph, rank - 2);
    if (whole == NULL || axis == NULL)
        return xcc_failure(n);
    xcc_value *y = xcc_apply(&n->b, DFT, y, .x = XCC_IN(whole), .axis = XCC_IN(axis), .inverse = 1);
    y = xcc_build_slice(&n->b, y, rank - 1, 0, 1, 1);
    return xcc_bind(n, 0, xcc_build_squeeze(&n->b, y, 1, (const int64_t[]){rank - 1}));
}

/* ---- MurmurHash3_x86_32 ---- */

static xcc_value *word(xcc_lowering *n, uint32_t value) { return xcc_scalar(n->b.graph, XCVM_U32, (double)value); }

static xcc_value *shifted(xcc_lowering *n, xcc_value *x, uint32_t bits, bool right)
{
    xcc_value *by = x != NULL ? xcc_build_number(&n->b, x, bits) : NULL;
    if (by == NULL)
        return NULL;
    return xcc_apply(&n->b, BitShift, y, .a = XCC_IN(x), .b = XCC_IN(by),
                     .direction = right ? XCVM_SHIFT_RIGHT : XCVM_SHIFT_LEFT);
}

static xcc_value *rotated(xcc_lowering *n, xcc_value *x, uint32_t bits)
{
    return xcc_build_binary(&n->b, XCVM_OP_BitwiseOr, shifted(n, x, bits, false), shifted(n, x, 32 - bits, true));
}

static xcc_value *times(xcc_lowering *n, xcc_value *x, uint32_t factor)
{
    return xcc_build_mul(&n->b, x, word(n, factor));
}

/* h changed by one block of four bytes. */
static xcc_value *hash_block(xcc_lowering *n, xcc_value *h, xcc_value *block)
{
    xcc_value *k = times(n, rotated(n, times(n, block, 0xcc9e2d51u), 15), 0x1b873593u);
    h = rotated(n, xcc_build_binary(&n->b, XCVM_OP_BitwiseXor, h, k), 13);
    return xcc_build_add(&n->b, times(n, h, 5), word(n, 0xe6546b64u));
}

static xcc_value *hash_mixed(xcc_lowering *n, xcc_value *h, uint32_t bits)
{
    return xcc_build_binary(&n->b, XCVM_OP_BitwiseXor, h, shifted(n, h, bits, true));
}

xcvm_status xcc_lower_contrib_murmur_hash(xcc_lowering *n)
{
    int64_t positive, seed;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_int(n, "positive", 1, &positive));
    XCVM_TRY(xcc_attribute_int(n, "seed", 0, &seed));
    XCVM_CHECK(n->m->error, seed >= INT32_MIN && seed <= UINT32_MAX, OUT_OF_RANGE,
               "attribute 'seed' is %lld, which has more than 32 bits", (long long)seed);
    xcc_value *x = n->inputs[0];
    const int dtype = (int)x->type.dtype;
    const bool wide = dtype == XCVM_I64 || dtype == XCVM_U64 || dtype == XCVM_F64;
    XCVM_CHECK(n->m->error, wide || dtype == XCVM_I32 || dtype == XCVM_U32 || dtype == XCVM_F32, UNSUPPORTED,
               "hashes of %s are not supported, only those of numbers of 4 or 8 bytes",
               xcvm_dtype_name((xcvm_dtype)dtype));
    xcc_value *bits = xcc_apply(&n->b, BitCast, y, .x = XCC_IN(x), .to = wide ? XCVM_U64 : XCVM_U32);
    xcc_value *h = word(n, (uint32_t)seed);
    h = hash_block(n, h, xcc_build_cast(&n->b, bits, XCVM_U32));
    if (wide)
        h = hash_block(n, h, xcc_build_cast(&n->b, shifted(n, bits, 32, true), XCVM_U32));
    h = xcc_build_binary(&n->b, XCVM_OP_BitwiseXor, h, word(n, wide ? 8 : 4));
    h = times(n, hash_mixed(n, h, 16), 0x85ebca6bu);
    h = times(n, hash_mixed(n, h, 13), 0xc2b2ae35u);
    h = hash_mixed(n, h, 16);
    if (h == NULL)
        return xcc_failure(n);
    return xcc_bind(n, 0, positive != 0 ? h : xcc_apply(&n->b, BitCast, y, .x = XCC_IN(h), .to = XCVM_I32));
}
