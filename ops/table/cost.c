/* Estimates of arithmetic operations, for profiles and reports. A multiply-add counts 2. Open dimensions count as 1,
 * values of unknown rank as 0. Numbers saturate at 64 bits. */
#include "ops/conv/blocked.h"
#include "ops/optimizer/factors.h"
#include "ops/util/shape.h"

enum {
    TRANSCENDENTAL = 8, /* a polynomial */
    INTERPOLATION = 8,  /* a sample from four neighbors */
    NORMALIZATION = 6   /* mean, variance, scale and shift */
};

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static uint64_t dim(const xcvm_value *v, int axis)
{
    return axis < 0 || axis >= v->rank ? 1 : v->dims[axis] < 0 ? 1 : (uint64_t)v->dims[axis];
}

/* Product of the dimensions from `axis`. */
static uint64_t extent(const xcvm_value *v, int axis)
{
    if (v == NULL || v->kind != XCVM_KIND_TENSOR || v->rank < 0)
        return 0;
    uint64_t count = 1;
    for (int i = axis; i < v->rank; i++)
        count = times(count, dim(v, i));
    return count;
}

static uint64_t elements(const xcvm_value *v) { return extent(v, 0); }

static uint64_t result_elements(const xcvm_inference *t)
{
    for (size_t i = 0; i < t->out_count; i++)
        if (t->out[i] != NULL)
            return elements(t->out[i]);
    return 0;
}

static const xcvm_value *operand(const xcvm_inference *t, size_t index)
{
    return index < t->in_count ? t->in[index] : NULL;
}

uint64_t xcvm_flops_none(const xcvm_inference *t)
{
    (void)t;
    return 0;
}

uint64_t xcvm_flops_element(const xcvm_inference *t)
{
    uint64_t in = elements(operand(t, 0)), out = result_elements(t);
    return in > out ? in : out;
}

uint64_t xcvm_flops_transcendental(const xcvm_inference *t) { return times(TRANSCENDENTAL, xcvm_flops_element(t)); }

uint64_t xcvm_flops_reduction(const xcvm_inference *t) { return elements(operand(t, 0)); }

/* For lists: a few operations per element of each list. */
uint64_t xcvm_flops_lists(const xcvm_inference *t)
{
    uint64_t count = 0;
    for (size_t i = 0; i < t->in_count; i++)
        count = plus(count, elements(operand(t, i)));
    return times(2, count);
}

/* For an optimizer: a few operations per element of each list, and the products that represent gradients. */
uint64_t xcvm_flops_optimizer(const xcvm_inference *t)
{
    const xcvm_inputs *gradients = xcvm_optimizer_gradients(t->schema, t->args);
    const xcvm_inputs *parameters = xcvm_optimizer_parameters(t->schema, t->args);
    uint64_t count = xcvm_flops_lists(t);
    if (xcvm_gradients_are_factors(gradients, parameters))
        for (size_t i = 0; i < parameters->count; i++)
            count = plus(count, times(2, times(elements(parameters->at[i]), dim(gradients->at[2 * i], 0) + 1)));
    return count;
}

uint64_t xcvm_flops_MatMul(const xcvm_inference *t)
{
    const xcvm_value *a = t->in[0];
    return times(2, times(result_elements(t), dim(a, a->rank - 1)));
}

uint64_t xcvm_flops_Gemm(const xcvm_inference *t)
{
    const xcvm_Gemm_args *a = t->args;
    uint64_t count = result_elements(t), depth = dim(a->a, a->transA ? a->a->rank - 2 : a->a->rank - 1);
    return plus(times(2, times(count, depth)), a->c != NULL ? count : 0);
}

/* Every query with every key, then with every value. y has as many elements as there are queries times value width. */
uint64_t xcvm_flops_Attention(const xcvm_inference *t)
{
    const xcvm_Attention_args *a = t->args;
    const xcvm_value *k = a->k != NULL ? a->k : a->q, *past = a->past_key;
    if (k->rank < 3)
        return 0;
    const uint64_t keys = plus(dim(k, k->rank - 2), past != NULL && past->rank == 4 ? dim(past, 2) : 0);
    const uint64_t scores = a->k != NULL ? elements(a->q) : elements(a->y);
    return times(2, times(keys, plus(scores, elements(a->y))));
}

uint64_t xcvm_flops_PackedGemm(const xcvm_inference *t)
{
    const xcvm_PackedGemm_args *a = t->args;
    const uint64_t added = (a->c != NULL ? 1u : 0u) + (a->z != NULL ? 1u : 0u);
    return times(result_elements(t), plus(times(2, dim(a->a, a->a->rank - 1)), added));
}

uint64_t xcvm_flops_Bf16Gemm(const xcvm_inference *t)
{
    const xcvm_Bf16Gemm_args *a = t->args;
    const uint64_t added = (a->c != NULL ? 1u : 0u) + (a->z != NULL ? 1u : 0u);
    return times(result_elements(t), plus(times(2, dim(a->a, a->a->rank - 1)), added));
}

uint64_t xcvm_flops_BlockQuantizedGemm(const xcvm_inference *t)
{
    const xcvm_BlockQuantizedGemm_args *a = t->args;
    const uint64_t added = (a->c != NULL ? 1u : 0u) + (a->z != NULL ? 1u : 0u);
    return times(result_elements(t), plus(times(2, (uint64_t)a->depth), added));
}

/* Assumes a full cache. */
uint64_t xcvm_flops_CachedAttention(const xcvm_inference *t)
{
    const xcvm_CachedAttention_args *a = t->args;
    if (a->k->rank != 4 || a->past_key->rank != 4)
        return 0;
    return times(2, times(plus(dim(a->k, 2), dim(a->past_key, 2)), plus(elements(a->q), elements(a->y))));
}

/* Per head, every token writes and reads a state of key width by value width. */
uint64_t xcvm_flops_LinearAttention(const xcvm_inference *t)
{
    const xcvm_LinearAttention_args *a = t->args;
    if (a->kv_num_heads <= 0)
        return 0;
    return times(4, times(elements(a->k), dim(a->v, 2) / (uint64_t)a->kv_num_heads));
}

/* Every result sums over one filter: input channels of a group times the window. */
static uint64_t convolution(const xcvm_inference *t, const xcvm_value *w)
{
    return times(2, times(result_elements(t), extent(w, 1)));
}

uint64_t xcvm_flops_Conv(const xcvm_inference *t) { return convolution(t, t->in[1]); }

uint64_t xcvm_flops_QLinearConv(const xcvm_inference *t) { return convolution(t, t->in[3]); }

/* Each result sums over all bytes of its output's lane of a panel. */
static uint64_t of_quads(const xcvm_inference *t, const xcvm_value *w)
{
    return times(2, times(result_elements(t), times(dim(w, 1), dim(w, 3))));
}

uint64_t xcvm_flops_QuantizedConv(const xcvm_inference *t) { return of_quads(t, t->in[1]); }

uint64_t xcvm_flops_QuantizedGemm(const xcvm_inference *t) { return of_quads(t, t->in[1]); }

uint64_t xcvm_flops_QuantizedDepthwiseConv(const xcvm_inference *t)
{
    return times(2, times(result_elements(t), times(dim(t->in[1], 0), dim(t->in[1], 1))));
}

/* Each position is multiplied by all of w, by the definition and not by transformed filters. */
uint64_t xcvm_flops_BlockedConv(const xcvm_inference *t)
{
    const xcvm_BlockedConv_args *a = t->args;
    const xcvm_value *y = t->out[0];
    uint64_t positions = dim(y, 0);
    for (int i = 2; i + 1 < y->rank; i++)
        positions = times(positions, dim(y, i));
    positions = times(positions, (uint64_t)(a->pool * a->pool));
    uint64_t taps = elements(a->w);
    if (a->algorithm == XCVM_BLOCKED_winograd)
        taps = times(9, extent(a->w, 1));
    else if (a->algorithm == XCVM_BLOCKED_winograd_strided)
        taps = times(XCVM_BLOCKED_STRIDED_WINDOW * XCVM_BLOCKED_STRIDED_WINDOW, extent(a->w, 1) / 4);
    return times(2, times(positions, taps));
}

uint64_t xcvm_flops_BlockedConvTranspose(const xcvm_inference *t)
{
    const xcvm_value *x = t->in[0];
    return times(2, times(times(dim(x, 0), times(dim(x, 2), dim(x, 3))), elements(t->in[1])));
}

/* Every position of g meets a window of x, for each of its channels. */
uint64_t xcvm_flops_ConvFilterGradient(const xcvm_inference *t)
{
    return times(2, times(elements(t->in[1]), extent(t->out[0], 1)));
}

/* Every element of x is multiplied by one filter. */
uint64_t xcvm_flops_ConvTranspose(const xcvm_inference *t)
{
    return times(2, times(elements(t->in[0]), extent(t->in[1], 1)));
}

uint64_t xcvm_flops_pool(const xcvm_inference *t)
{
    uint64_t window = 1;
    for (size_t i = 0; i < t->schema->field_count; i++) {
        const xcvm_field *f = &t->schema->fields[i];
        if (f->kind != XCVM_FIELD_INTS || strcmp(f->name, "kernel_shape") != 0)
            continue;
        xcvm_ints shape;
        memcpy(&shape, (const char *)t->args + f->offset, sizeof shape);
        for (size_t j = 0; j < shape.count; j++)
            window = times(window, (uint64_t)shape.at[j]);
    }
    return times(result_elements(t), window);
}

uint64_t xcvm_flops_resize(const xcvm_inference *t) { return times(INTERPOLATION, result_elements(t)); }

uint64_t xcvm_flops_normalization(const xcvm_inference *t) { return times(NORMALIZATION, elements(t->in[0])); }

/* For each step and batch entry, the products with w and r. The gates are negligible. */
uint64_t xcvm_flops_recurrent(const xcvm_inference *t)
{
    const xcvm_value *x = t->in[0];
    if (x->rank < 0)
        return 0;
    return times(2, times(times(dim(x, 0), dim(x, 1)), plus(elements(t->in[1]), elements(t->in[2]))));
}

uint64_t xcvm_flops_packed_recurrent(const xcvm_inference *t)
{
    const xcvm_value *x = t->in[0];
    uint64_t hidden = 0;
    for (size_t i = 0; i < t->out_count; i++)
        if (t->out[i] != NULL && t->out[i]->rank > 0)
            hidden = dim(t->out[i], t->out[i]->rank - 1);
    /* Each row of x is multiplied by each column of the recurrence weights. */
    return times(2, times(elements(x), hidden));
}

/* 5 n log2 n for a fast transform of n complex numbers, where n is the result's largest dimension. */
uint64_t xcvm_flops_DFT(const xcvm_inference *t)
{
    const xcvm_value *y = t->out[0];
    uint64_t longest = 1, log2 = 1;
    for (int i = 0; i < y->rank - 1; i++)
        longest = dim(y, i) > longest ? dim(y, i) : longest;
    while (log2 < 63 && UINT64_C(1) << log2 < longest)
        log2++;
    return times(times(5, log2), result_elements(t) / 2);
}
