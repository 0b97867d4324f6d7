/* MatMulInteger and QLinearMatMul. */
#include "ops/util/convert.h"
#include "ops/matmul/product_shape.h"
#include "ops/quantize/simd/integer_gemm.h"

typedef struct integer_matmul_loop {
    xcvm_product shape;
    const xcvm_value *a, *b, *a_zero_point, *b_zero_point;
    xcvm_value *y;
    const xcvm_QLinearMatMul_args *quantized; /* NULL: sums are the result */
    /* Zero points of all rows of a and columns of b, and the scales of the quantized product. */
    int16_t *a_zeros, *b_zeros;
    float *a_scales, *b_scales;
} integer_matmul_loop;

/* Number of rows (or columns) of all matrices of a tensor. */
static size_t lines_of(const xcvm_value *v, size_t line) { return line == 0 ? 0 : xcvm_element_count(v) / line; }

static void set_item(const void *context, size_t index, xcvm_integer_gemm *g)
{
    const integer_matmul_loop *t = context;
    const xcvm_product *s = &t->shape;
    size_t a, b;
    xcvm_product_at(s, index, &a, &b);
    g->a = (const char *)t->a->data + a * s->m * s->k;
    g->b = (const char *)t->b->data + b * s->k * s->n;
    g->a_zero = t->a_zeros + a * s->m;
    g->b_zero = t->b_zeros + b * s->n;
}

static const uint8_t *read_row(const xcvm_integer_gemm *g, size_t p, size_t n0, size_t n1, uint8_t *buffer)
{
    const uint8_t *row = (const uint8_t *)g->b + p * g->n + n0;
    return (n1 - n0) % XCVM_LANES == 0 ? row : memcpy(buffer, row, n1 - n0);
}

static void store_quantized(const xcvm_integer_gemm *g, size_t i, size_t n0, size_t n1, const int32_t *sums)
{
    const integer_matmul_loop *t = g->context;
    size_t a, b;
    xcvm_product_at(&t->shape, g->item, &a, &b);
    xcvm_quantize_sums(sums, n1 - n0, t->a_scales[a * g->m + i], t->b_scales + b * g->n + n0,
                       xcvm_zero_point(t->quantized->y_zero_point, 0), t->y->dtype == XCVM_I8,
                       XCVM_DATA(char, t->y) + (g->item * g->m + i) * g->n + n0);
}

/* Index of the number for line i, in a tensor with one number, one per line of a matrix, or one per line of all
 * matrices. */
static size_t line_of(const xcvm_value *v, size_t i, size_t lines)
{
    const size_t count = xcvm_element_count(v);
    return count == 1 ? 0 : count == lines ? i % lines : i;
}

static void spread_zeros(const xcvm_value *v, size_t count, size_t lines, int16_t *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = v != NULL ? xcvm_zero_point(v, line_of(v, i, lines)) : 0;
}

static void spread_scales(const xcvm_value *v, size_t count, size_t lines, float factor, float *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)xcvm_element_as_double(v, line_of(v, i, lines)) * factor;
}

static xcvm_status multiply(xcvm_kernel *k, integer_matmul_loop *t)
{
    t->shape = xcvm_product_of(t->a, t->b, false);
    const xcvm_product *s = &t->shape;
    if (xcvm_element_count(t->y) == 0)
        return XCVM_OK;
    const size_t rows = s->k == 0 ? s->m * s->count : lines_of(t->a, s->k);
    const size_t columns = s->k == 0 ? s->n * s->count : lines_of(t->b, s->k);
    xcvm_integer_batch batch = {.count = s->count, .at = set_item};
    batch.shape = (xcvm_integer_gemm){.m = s->m,
                                      .n = s->n,
                                      .k = s->k,
                                      .a_signed = t->a->dtype == XCVM_I8,
                                      .b_signed = t->b->dtype == XCVM_I8,
                                      .row = read_row,
                                      .c = t->quantized == NULL ? t->y->data : NULL,
                                      .finish = store_quantized,
                                      .context = t};
    const size_t numbers = xcvm_round_up((rows + columns) * (sizeof(float) + sizeof(int16_t)), XCVM_ALIGNMENT);
    const int threads = xcvm_threads_count(k->threads);
    char *scratch = xcvm_kernel_scratch(k, numbers + xcvm_integer_gemm_scratch(&batch, threads));
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    t->a_scales = (float *)(void *)scratch;
    t->b_scales = t->a_scales + rows;
    t->a_zeros = (int16_t *)(void *)(t->b_scales + columns);
    t->b_zeros = t->a_zeros + rows;
    spread_zeros(t->a_zero_point, rows, s->m, t->a_zeros);
    spread_zeros(t->b_zero_point, columns, s->n, t->b_zeros);
    if (t->quantized != NULL) {
        double y_scale;
        XCVM_TRY(xcvm_read_double(k->error, t->quantized->y_scale, "y_scale", &y_scale));
        const float factor = 1.0f / (float)y_scale;
        spread_scales(t->quantized->a_scale, rows, s->m, factor, t->a_scales);
        spread_scales(t->quantized->b_scale, columns, s->n, 1.0f, t->b_scales);
    }
    return xcvm_integer_gemm_run(k, &batch, scratch + numbers);
}

XCVM_KERNEL(MatMulInteger)
{
    integer_matmul_loop t = {
        .a = a->a, .b = a->b, .a_zero_point = a->a_zero_point, .b_zero_point = a->b_zero_point, .y = a->y};
    return multiply(k, &t);
}

XCVM_KERNEL(QLinearMatMul)
{
    integer_matmul_loop t = {.a = a->a,
                             .b = a->b,
                             .a_zero_point = a->a_zero_point,
                             .b_zero_point = a->b_zero_point,
                             .y = a->y,
                             .quantized = a};
    return multiply(k, &t);
}
