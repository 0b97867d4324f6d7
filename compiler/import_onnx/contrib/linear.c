/* Contributed operators: matrix products with fused operations, and mixtures of experts. */
#include "compiler/import_onnx/contrib/contrib.h"

/* ---- Products ---- */

/* x with its first dimension made the last but one (`batch`), then with the last two exchanged. */
static xcc_value *turned(xcc_lowering *n, xcc_value *x, bool batch, bool exchange)
{
    int64_t perm[XCVM_MAX_RANK];
    const int rank = x->type.rank;
    if (rank < 2)
        return x;
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    if (batch) {
        for (int i = 0; i + 2 < rank; i++)
            perm[i] = i + 1;
        perm[rank - 2] = 0;
    }
    if (exchange) {
        const int64_t last = perm[rank - 1];
        perm[rank - 1] = perm[rank - 2];
        perm[rank - 2] = last;
    }
    return xcc_build_transpose(&n->b, x, (size_t)rank, perm);
}

xcvm_status xcc_lower_contrib_fused_mat_mul(xcc_lowering *n)
{
    static const char *const exchanges[] = {"transA", "transB"}, *const batches[] = {"transBatchA", "transBatchB"};
    double alpha;
    bool batch[2] = {false, false}, exchange[2];
    xcc_value *operand[2];
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_attribute_float(n, "alpha", 1, &alpha));
    const bool batched = strcmp(n->op->info.name, "FusedMatMul") == 0;
    for (size_t i = 0; i < 2; i++) {
        XCVM_TRY(xcc_attribute_bool(n, exchanges[i], false, &exchange[i]));
        if (batched)
            XCVM_TRY(xcc_attribute_bool(n, batches[i], false, &batch[i]));
        operand[i] = n->inputs[i];
        if (exchange[i] || batch[i])
            XCVM_TRY(xcc_need_rank(n, operand[i], i == 0 ? "A" : "B"));
    }
    const xcvm_value *a = &operand[0]->type, *b = &operand[1]->type;
    if (a->rank == 2 && b->rank == 2) {
        xcc_value *y = xcc_apply(&n->b, Gemm, y, .a = a, .b = b, .alpha = alpha, .beta = 1, .transA = exchange[0],
                                 .transB = exchange[1]);
        return xcc_bind(n, 0, y);
    }
    for (size_t i = 0; i < 2; i++)
        if (exchange[i] || batch[i])
            operand[i] = turned(n, operand[i], batch[i], exchange[i]);
    xcc_value *y = xcc_build_binary(&n->b, XCVM_OP_MatMul, operand[0], operand[1]);
    return xcc_bind(n, 0, alpha == 1 || y == NULL ? y : xcc_build_mul(&n->b, y, xcc_build_number(&n->b, y, alpha)));
}

xcvm_status xcc_lower_contrib_fused_gemm(xcc_lowering *n)
{
    static const char *const names[] = {"activation_alpha", "activation_beta"};
    xcvm_text activation;
    double *params = xcc_alloc(n->m, 2 * sizeof *params);
    size_t count = 0;
    xcc_value *y;
    if (params == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcc_need_inputs(n, 2, 3));
    XCVM_TRY(xcc_attribute_text(n, "activation", "", &activation));
    for (size_t i = 0; i < 2 && xcc_attribute_find(n, names[i]) != NULL; i++)
        XCVM_TRY(xcc_attribute_float(n, names[i], 0, &params[count++]));
    xcc_attribute_ignore(n, "activation_gamma");
    /* The attribute is the product's here. */
    xcvm_Gemm_args args = {.a = XCC_IN(n->inputs[0]), .b = XCC_IN(n->inputs[1]), .c = XCC_IN(xcc_input(n, 2))};
    bool exchange[2];
    XCVM_TRY(xcc_attribute_bool(n, "transA", false, &exchange[0]));
    XCVM_TRY(xcc_attribute_bool(n, "transB", false, &exchange[1]));
    XCVM_TRY(xcc_attribute_float(n, "alpha", 1, &args.alpha));
    XCVM_TRY(xcc_attribute_float(n, "beta", 1, &args.beta));
    args.transA = exchange[0];
    args.transB = exchange[1];
    y = xcc_apply_at(&n->b, XCVM_OP_Gemm, &args, offsetof(xcvm_Gemm_args, y));
    return xcc_bind(n, 0, xcc_contrib_activate(n, activation.at, (xcvm_floats){params, count}, y));
}

/* ---- Mixtures of experts ---- */

/* The weights of experts for each token, [tokens, experts], 0 for all but the k greatest, which come to 1 where the
 * attribute asks for it, or always, as ONNX Runtime has it for quantized experts. */
static xcvm_status route(xcc_lowering *n, xcc_value *logits, bool always, xcc_value **weights)
{
    int64_t k;
    bool normalize, sparse;
    XCVM_TRY(xcc_attribute_int(n, "k", 1, &k));
    XCVM_TRY(xcc_attribute_bool(n, "normalize_routing_weights", false, &normalize));
    normalize = normalize || always;
    XCVM_TRY(xcc_attribute_bool(n, "use_sparse_mixer", false, &sparse));
    XCVM_CHECK(n->m->error, !sparse, UNSUPPORTED, "the sparse mixer is not supported");
    XCVM_TRY(xcc_contrib_need_ranks(n, logits, "router_probs", 2, 2));
    XCVM_CHECK(n->m->error, k >= 1 && (logits->type.rank != 2 || logits->type.dims[1] < 0 || k <= logits->type.dims[1]),
               OUT_OF_RANGE, "attribute 'k' is %lld, 1 up to the number of experts is expected", (long long)k);
    xcc_value *p = xcc_apply(&n->b, Softmax, y, .x = XCC_IN(logits), .axis = 1), *count = XCC_BUILD_INTS(&n->b, k);
    xcc_value *values = xcc_value_create(n->b.graph, NULL), *indices = xcc_value_create(n->b.graph, NULL);
    if (p == NULL || count == NULL || values == NULL || indices == NULL)
        return xcc_failure(n);
    if (xcc_emit(&n->b, TopK, .values = XCC_OUT(values), .indices = XCC_OUT(indices), .x = XCC_IN(p),
                 .k = XCC_IN(count), .axis = 1, .largest = 1, .sorted = 1) == NULL)
        return xcc_failure(n);
    if (normalize)
        values = xcc_build_div(&n->b, values,
                               xcc_build_reduce(&n->b, XCVM_OP_ReduceSum, values, XCC_BUILD_INTS(&n->b, 1), true));
    xcc_value *none = xcc_build_expand(&n->b, xcc_build_number(&n->b, p, 0), xcc_build_shape_of(&n->b, p));
    if (none == NULL || values == NULL)
        return xcc_failure(n);
    *weights = xcc_apply(&n->b, ScatterElements, y, .x = XCC_IN(none), .indices = XCC_IN(indices),
                         .updates = XCC_IN(values), .axis = 1);
    return *weights != NULL ? XCVM_OK : xcc_failure(n);
}

/* g times its sigmoid, times l + beta, of pairs (g, l) along the last axis, interleaved or one half after the other. */
static xcc_value *gated(xcc_lowering *n, xcc_value *x, int64_t fusion, double alpha, double beta, double limit)
{
    xcc_value *part[2];
    if (x == NULL)
        return NULL;
    const int64_t width = x->type.dims[x->type.rank - 1] / 2;
    for (int64_t i = 0; i < 2; i++)
        part[i] = fusion == 1 ? xcc_build_slice(&n->b, x, -1, i, INT64_MAX, 2)
                              : xcc_build_slice(&n->b, x, -1, i * width, (i + 1) * width, 1);
    if (part[0] == NULL || part[1] == NULL)
        return NULL;
    if (limit > 0) {
        xcc_value *most = xcc_build_number(&n->b, x, limit), *least = xcc_build_number(&n->b, x, -limit);
        part[0] = xcc_build_binary(&n->b, XCVM_OP_Min, part[0], most);
        part[1] = xcc_build_call(&n->b, XCVM_OP_Clip, 3, (xcc_value *[]){part[1], least, most});
        if (part[0] == NULL)
            return NULL;
    }
    xcc_value *gate = xcc_apply(&n->b, Swish, y, .x = XCC_IN(part[0]), .alpha = alpha);
    xcc_value *linear = beta == 0 ? part[1] : xcc_build_add(&n->b, part[1], xcc_build_number(&n->b, x, beta));
    return xcc_build_mul(&n->b, gate, linear);
}

/* x [experts or 1, tokens, in] times weights [experts, out, in] transposed, plus bias [experts, out]. */
static xcc_value *expert_product(xcc_lowering *n, xcc_value *x, xcc_value *weights, xcc_value *bias)
{
    xcc_value *w = xcc_build_transpose(&n->b, weights, 3, (const int64_t[]){0, 2, 1});
    xcc_value *y = xcc_build_binary(&n->b, XCVM_OP_MatMul, x, w);
    return bias == NULL ? y : xcc_build_add(&n->b, y, xcc_build_unsqueeze(&n->b, bias, 1, (const int64_t[]){1}));
}

/* All experts see all tokens, and the weights choose among their results. */
static xcvm_status mix(xcc_lowering *n, xcc_value *routing, xcc_value *const weights[3], xcc_value *const biases[3])
{
    xcvm_text activation;
    int64_t fusion;
    double alpha, beta, limit;
    xcc_value *x = n->inputs[0], *chosen;
    XCVM_TRY(xcc_attribute_text(n, "activation_type", "relu", &activation));
    XCVM_TRY(xcc_attribute_int(n, "swiglu_fusion", 0, &fusion));
    XCVM_TRY(xcc_attribute_float(n, "activation_alpha", 1, &alpha));
    XCVM_TRY(xcc_attribute_float(n, "activation_beta", 0, &beta));
    XCVM_TRY(xcc_attribute_float(n, "swiglu_limit", 0, &limit));
    XCVM_TRY(xcc_contrib_need_ranks(n, x, "input", 2, 3));
    const bool swiglu = xcc_text_is(activation, "swiglu");
    XCVM_CHECK(n->m->error, fusion >= 0 && fusion <= 2, OUT_OF_RANGE,
               "attribute 'swiglu_fusion' is %lld, 0 to 2 is expected", (long long)fusion);
    XCVM_CHECK(n->m->error, weights[2] == NULL || !swiglu || fusion == 0, INVALID_MODEL,
               "fc3_experts_weights are given, and swiglu_fusion says that they are part of fc1's");
    for (size_t i = 0; i < 3; i++)
        if (weights[i] != NULL)
            XCVM_CHECK(n->m->error, weights[i]->type.rank == 3 && weights[i]->type.dims[1] > 0, UNSUPPORTED,
                       "the weights of fc%zu have to be of known shape, of rank 3", i + 1);
    XCVM_TRY(route(n, routing, strcmp(n->op->info.name, "QMoE") == 0, &chosen));
    xcc_value *hidden =
        weights[0] != NULL && weights[0]->type.dims[2] > 0
            ? XCC_BUILD_INTS(&n->b, -1, weights[0]->type.dims[2])
            : xcc_build_concat(&n->b, 2, (xcc_value *[]){XCC_BUILD_INTS(&n->b, -1), xcc_build_dim_of(&n->b, x, -1)}, 0);
    xcc_value *tokens = xcc_build_reshape(&n->b, x, hidden);
    tokens = xcc_build_unsqueeze(&n->b, tokens, 1, (const int64_t[]){0});
    xcc_value *inner = expert_product(n, tokens, weights[0], biases[0]);
    if (inner == NULL)
        return xcc_failure(n);
    if (swiglu && fusion > 0) {
        XCVM_TRY(xcc_need_rank(n, inner, "the product of tokens and weights"));
        XCVM_TRY(xcc_contrib_need_ranks(n, inner, "the product of tokens and weights", 1, XCVM_MAX_RANK));
        inner = gated(n, inner, fusion, alpha, beta, limit);
    } else if (swiglu || xcc_text_is(activation, "silu")) {
        inner = xcc_apply(&n->b, Swish, y, .x = XCC_IN(inner), .alpha = swiglu ? alpha : 1);
    } else if (xcc_text_is(activation, "relu")) {
        inner = xcc_build_unary(&n->b, XCVM_OP_Relu, inner);
    } else if (xcc_text_is(activation, "gelu")) {
        inner = xcc_apply(&n->b, Gelu, y, .x = XCC_IN(inner), .approximate = XCVM_GELU_tanh);
    } else {
        XCVM_CHECK(n->m->error, xcc_text_is(activation, "identity"), UNSUPPORTED,
                   "attribute 'activation_type' is '%.60s', one of relu, gelu, silu, swiglu, identity is expected",
                   activation.at);
    }
    if (weights[2] != NULL)
        inner = xcc_build_mul(&n->b, inner, expert_product(n, tokens, weights[2], biases[2]));
    xcc_value *outer = expert_product(n, inner, weights[1], biases[1]);
    xcc_value *shares = xcc_build_transpose(&n->b, chosen, 2, (const int64_t[]){1, 0});
    shares = xcc_build_unsqueeze(&n->b, shares, 1, (const int64_t[]){2});
    xcc_value *sum = xcc_build_reduce(&n->b, XCVM_OP_ReduceSum, xcc_build_mul(&n->b, outer, shares),
                                      XCC_BUILD_INTS(&n->b, 0), false);
    return xcc_bind(n, 0, xcc_build_reshape_to(&n->b, sum, xcc_build_shape_of(&n->b, x)));
}

xcvm_status xcc_lower_contrib_moe(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 3, 8));
    XCVM_CHECK(n->m->error, xcc_input(n, 4) != NULL, INVALID_MODEL, "operand 4 (fc2_experts_weights) is missing");
    return mix(n, n->inputs[1], (xcc_value *[]){n->inputs[2], n->inputs[4], xcc_input(n, 6)},
               (xcc_value *[]){xcc_input(n, 3), xcc_input(n, 5), xcc_input(n, 7)});
}

/* The weights of one layer of all experts: bytes [experts, out, in * bits / 8], a scale for each row or block of it. */
static xcc_value *expert_weights(xcc_lowering *n, xcc_value *x, xcc_value *scale, xcc_value *zero, int64_t bits,
                                 int64_t block)
{
    xcc_value *q = xcc_contrib_unpacked(n, x, bits);
    if (q == NULL)
        return NULL;
    if (zero != NULL)
        zero = xcc_contrib_unpacked(n, zero, bits);
    else
        zero = xcc_build_expand(&n->b, xcc_scalar(n->b.graph, XCVM_U8, (double)((int64_t)1 << (bits - 1))),
                                xcc_build_shape_of(&n->b, scale));
    if (block == 0) {
        scale = xcc_build_unsqueeze(&n->b, scale, 1, (const int64_t[]){2});
        zero = xcc_build_unsqueeze(&n->b, zero, 1, (const int64_t[]){2});
        block = q->type.dims[2];
    }
    if (scale == NULL || zero == NULL)
        return NULL;
    return xcc_apply(&n->b, DequantizeLinear, y, .x = XCC_IN(q), .scale = XCC_IN(scale), .zero_point = XCC_IN(zero),
                     .axis = 2, .block_size = block);
}

xcvm_status xcc_lower_contrib_qmoe(xcc_lowering *n)
{
    enum { FIRST = 2, ZERO_POINTS = 11, LAYERS = 3 };
    int64_t bits, block;
    xcvm_text quant_type;
    xcc_value *weights[LAYERS] = {NULL}, *biases[LAYERS] = {NULL};
    XCVM_TRY(xcc_need_inputs(n, 3, 21));
    XCVM_TRY(xcc_attribute_int(n, "expert_weight_bits", 4, &bits));
    XCVM_TRY(xcc_attribute_int(n, "block_size", 0, &block));
    XCVM_TRY(xcc_attribute_text(n, "quant_type", "int", &quant_type));
    xcc_attribute_ignore(n, "accuracy_level");
    xcc_attribute_ignore(n, "weights_prepacked");
    XCVM_CHECK(n->m->error, xcc_text_is(quant_type, "int"), UNSUPPORTED,
               "attribute 'quant_type' is '%.60s', only int is supported", quant_type.at);
    XCVM_CHECK(n->m->error, bits == 2 || bits == 4 || bits == 8, OUT_OF_RANGE,
               "attribute 'expert_weight_bits' is %lld, 2, 4 or 8 is expected", (long long)bits);
    XCVM_CHECK(n->m->error, block == 0 || (block >= 16 && block <= INT32_MAX && (block & (block - 1)) == 0),
               OUT_OF_RANGE, "attribute 'block_size' is %lld, a power of two from 16 on is expected", (long long)block);
    for (size_t i = 14; i < n->input_count; i++)
        XCVM_CHECK(n->m->error, n->inputs[i] == NULL, UNSUPPORTED, "operand %zu is not supported", i);
    for (size_t i = 0; i < LAYERS; i++) {
        xcc_value *w = xcc_input(n, FIRST + 3 * i), *scale = xcc_input(n, FIRST + 3 * i + 1);
        biases[i] = xcc_input(n, FIRST + 3 * i + 2);
        if (w == NULL && i == 2)
            continue;
        XCVM_CHECK(n->m->error, w != NULL && scale != NULL, INVALID_MODEL, "the weights or scales of fc%zu are missing",
                   i + 1);
        XCVM_CHECK(n->m->error, w->type.rank == 3 && w->type.dims[2] > 0 && w->type.dtype == XCVM_U8, UNSUPPORTED,
                   "the weights of fc%zu have to be bytes of known shape, of rank 3", i + 1);
        XCVM_CHECK(n->m->error, scale->type.rank == (block == 0 ? 2 : 3), SHAPE_MISMATCH,
                   "the scales of fc%zu have %d dimensions, %d are expected", i + 1, scale->type.rank,
                   block == 0 ? 2 : 3);
        weights[i] = expert_weights(n, w, scale, xcc_input(n, ZERO_POINTS + i), bits, block);
        if (weights[i] == NULL)
            return xcc_failure(n);
    }
    return mix(n, n->inputs[1], weights, biases);
}
