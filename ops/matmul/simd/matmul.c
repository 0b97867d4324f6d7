/* MatMul and Gemm. */
#include "ops/util/convert.h"
#include "ops/matmul/product_shape.h"
#include "ops/util/strided.h"
#include "ops/matmul/simd/gemm.h"
#include "ops/simd/halves.h"
#include "ops/simd/math.h"

#include <math.h>

typedef struct operands {
    const xcvm_product *shape;
    const float *a, *b;
    float *y;
    bool swapped;
    const float *start; /* for outer products: added; NULL: nothing */
    bool negated;
} operands;

static void set_item(const void *context, size_t index, xcvm_gemm *g)
{
    const operands *o = context;
    size_t a, b;
    xcvm_product_at(o->shape, index, &a, &b);
    const float *at_a = o->a + a * o->shape->m * o->shape->k, *at_b = o->b + b * o->shape->k * o->shape->n;
    g->a = o->swapped ? at_b : at_a;
    g->b = o->swapped ? at_a : at_b;
    g->c = o->y + index * o->shape->m * o->shape->n;
    if (g->start != NULL)
        g->start += g->c - o->y;
}

/* Operands and factors of Gemm beyond the product. */
typedef struct extras {
    bool transpose_a, transpose_b;
    float alpha;
    const float *start, *column_bias;
    const xcvm_activation *activation;
} extras;

static xcvm_gemm_batch product_of(const operands *o, const extras *e)
{
    const xcvm_product *s = o->shape;
    const size_t lda = e->transpose_a ? s->m : s->k, ldb = e->transpose_b ? s->k : s->n;
    xcvm_gemm g = {.m = s->m, .n = s->n, .k = s->k, .alpha = e->alpha, .start = e->start};
    g.a_row = e->transpose_a ? 1 : lda;
    g.a_column = e->transpose_a ? lda : 1;
    g.b_row = e->transpose_b ? 1 : ldb;
    g.b_column = e->transpose_b ? ldb : 1;
    g.c_row = s->n;
    g.c_column = 1;
    g.column_bias = e->column_bias;
    g.activation = e->activation;
    if (o->swapped)
        xcvm_gemm_swap(&g);
    return (xcvm_gemm_batch){.shape = g, .count = s->count, .at = set_item, .context = o};
}

/* y = alpha * a * b + start + column_bias, activated. With `accumulate`, start is y instead of e's. */
static xcvm_status multiply(xcvm_kernel *k, const xcvm_product *shape, const xcvm_value *a, const xcvm_value *b,
                            xcvm_value *y, extras *e, const xcvm_value *bias, bool accumulate)
{
    operands o = {.shape = shape};
    o.swapped = e->transpose_b && !e->transpose_a && xcvm_gemm_swaps(shape->m);
    xcvm_gemm_batch batch = product_of(&o, e);
    const size_t copies = xcvm_halves_copy_bytes(a) + xcvm_halves_copy_bytes(b) + xcvm_halves_copy_bytes(bias) +
                          xcvm_halves_copy_bytes(y);
    char *at = xcvm_kernel_scratch(k, copies + xcvm_gemm_scratch(&batch, xcvm_threads_count(k->threads)));
    if (at == NULL)
        return XCVM_OUT_OF_MEMORY;
    void *rest = at + copies;
    o.a = xcvm_halves_as_floats(k, a, &at);
    o.b = xcvm_halves_as_floats(k, b, &at);
    if (bias != NULL)
        e->column_bias = xcvm_halves_as_floats(k, bias, &at);
    o.y = y->data;
    if (y->dtype != XCVM_F32) {
        o.y = (float *)(void *)at;
        if (accumulate)
            XCVM_TRY(xcvm_halves_load_all(k, y, o.y));
    }
    if (accumulate)
        e->start = o.y;
    batch = product_of(&o, e);
    XCVM_TRY(xcvm_gemm_run(k, &batch, rest));
    return y->dtype != XCVM_F32 ? xcvm_halves_store_all(k, o.y, y) : XCVM_OK;
}

static bool through_floats(uint8_t dtype) { return dtype == XCVM_F32 || dtype == XCVM_F16 || dtype == XCVM_BF16; }

/* ---- Outer products: one term per sum ---- */

enum { OUTER_COLUMNS = 4 * XCVM_LANES, OUTER_GRAIN = 32768 /* in elements */ };

/* The range is over the rows of all items. */
static void multiply_outer(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const operands *o = context;
    const size_t rows = o->shape->m, columns = o->shape->n;
    for (size_t row = begin; row < end; row++) {
        size_t a, b;
        xcvm_product_at(o->shape, row / rows, &a, &b);
        const float product = o->a[a * rows + row % rows], *from = o->b + b * columns;
        const float factor = o->negated ? -product : product;
        const float *start = o->start != NULL ? o->start + row * columns : NULL;
        float *to = o->y + row * columns;
        if (start == NULL) {
            XCVM_INDEPENDENT
            for (size_t j = 0; j < columns; j++)
                to[j] = factor * from[j] + 0.0f; /* a sum is never -0 */
        } else {
            XCVM_INDEPENDENT
            for (size_t j = 0; j < columns; j++)
                to[j] = factor * from[j] + start[j];
        }
    }
}

XCVM_KERNEL(MatMul)
{
    const xcvm_product shape = xcvm_product_of(a->a, a->b, true);
    if (a->y->dtype == XCVM_F32 && shape.k == 1 && shape.n >= OUTER_COLUMNS) {
        operands o = {.shape = &shape, .a = a->a->data, .b = a->b->data, .y = a->y->data};
        return xcvm_kernel_parallel(k, shape.count * shape.m, OUTER_GRAIN / shape.n + 1, multiply_outer, &o);
    }
    if (through_floats(a->y->dtype)) {
        extras e = {.alpha = 1.0f};
        return multiply(k, &shape, a->a, a->b, a->y, &e, NULL, false);
    }
    const xcvm_product_task task = {.shape = shape,
                                    .dtype = (xcvm_dtype)a->y->dtype,
                                    .multiply = xcvm_product_multiply,
                                    .a = a->a->data,
                                    .b = a->b->data,
                                    .y = a->y->data};
    return xcvm_product_run(k, &task);
}

/* to = c, broadcast to the shape of y. */
static xcvm_status spread(const xcvm_kernel *k, const xcvm_value *c, const xcvm_value *y, void *to)
{
    xcvm_strided s = {.rank = 0};
    ptrdiff_t strides[XCVM_MAX_RANK], from[XCVM_MAX_RANK];
    xcvm_row_major(y->rank, y->dims, strides);
    xcvm_row_major(c->rank, c->dims, from);
    for (int i = 0; i < y->rank; i++) {
        const int at = i - (y->rank - c->rank);
        xcvm_strided_axis(&s, (size_t)y->dims[i], strides[i], at < 0 || c->dims[at] == 1 ? 0 : from[at]);
    }
    return xcvm_strided_copy(k, &s, xcvm_dtype_size((xcvm_dtype)y->dtype), to, c->data);
}

/* y = f(alpha * y + beta * c), where c has as many elements of the same type, or is NULL. */
static xcvm_status combine(const xcvm_kernel *k, xcvm_value *y, double alpha, const void *c, double beta,
                           const xcvm_activation *f)
{
    const size_t count = xcvm_element_count(y);
    const xcvm_dtype dtype = (xcvm_dtype)y->dtype;
    double block[XCVM_BLOCK], added[XCVM_BLOCK];
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t at = 0; at < count; at += XCVM_BLOCK) {
        XCVM_TRY(xcvm_poll_after(&poller, XCVM_BLOCK));
        const size_t n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
        xcvm_load_f64(dtype, y->data, at, n, block);
        for (size_t i = 0; i < n; i++)
            block[i] *= alpha;
        if (c != NULL) {
            xcvm_load_f64(dtype, c, at, n, added);
            for (size_t i = 0; i < n; i++)
                block[i] += beta * added[i];
        }
        if (f != NULL)
            for (size_t i = 0; i < n; i++)
                block[i] = xcvm_activate_f64(f, block[i]);
        xcvm_store_f64(dtype, y->data, at, n, block, true);
    }
    return XCVM_OK;
}

/* Gemm of f64 and integers. */
static xcvm_status gemm_of_others(xcvm_kernel *k, const xcvm_Gemm_args *a, const xcvm_product *shape, bool has_c)
{
    xcvm_product_task task = {.shape = *shape,
                              .dtype = (xcvm_dtype)a->y->dtype,
                              .multiply = xcvm_product_multiply,
                              .a = a->a->data,
                              .b = a->b->data,
                              .y = a->y->data,
                              .transpose_a = a->transA != 0,
                              .transpose_b = a->transB != 0};
    const xcvm_activation f = xcvm_activation_of(a->activation, a->activation_params);
    const bool plain = a->alpha == 1.0 && a->activation == XCVM_ACTIVATION_none;
    if (plain && (!has_c || a->beta == 1.0)) {
        if (has_c)
            XCVM_TRY(spread(k, a->c, a->y, a->y->data));
        task.add = has_c;
        return xcvm_product_run(k, &task);
    }
    void *c = NULL;
    if (has_c) {
        c = xcvm_kernel_scratch(k, a->y->bytes);
        if (c == NULL)
            return XCVM_OUT_OF_MEMORY;
        XCVM_TRY(spread(k, a->c, a->y, c));
    }
    XCVM_TRY(xcvm_product_run(k, &task));
    return combine(k, a->y, a->alpha, c, a->beta, &f);
}

XCVM_KERNEL(Gemm)
{
    xcvm_product shape = {.count = 1};
    const xcvm_value *x = a->a, *y = a->y;
    shape.k = (size_t)x->dims[a->transA ? 0 : x->rank - 1];
    shape.n = (size_t)y->dims[y->rank - 1];
    shape.m = 1;
    for (int i = 0; i < y->rank - 1; i++)
        shape.m *= (size_t)y->dims[i];
    const bool has_c = a->c != NULL && a->beta != 0.0 && xcvm_element_count(y) > 0;
    if (!through_floats(y->dtype))
        return gemm_of_others(k, a, &shape, has_c);

    const bool adds_all = has_c && a->beta == 1.0 && xcvm_element_count(a->c) == xcvm_element_count(y);
    if (y->dtype == XCVM_F32 && shape.k == 1 && shape.n >= OUTER_COLUMNS && fabs(a->alpha) == 1.0 &&
        a->activation == XCVM_ACTIVATION_none && (!has_c || adds_all)) {
        operands o = {.shape = &shape,
                      .a = a->a->data,
                      .b = a->b->data,
                      .y = y->data,
                      .start = has_c ? a->c->data : NULL,
                      .negated = a->alpha < 0.0};
        return xcvm_kernel_parallel(k, shape.m, OUTER_GRAIN / shape.n + 1, multiply_outer, &o);
    }
    const xcvm_activation f = xcvm_activation_of(a->activation, a->activation_params);
    extras e = {.transpose_a = a->transA != 0, .transpose_b = a->transB != 0, .alpha = (float)a->alpha};
    e.activation = a->activation != XCVM_ACTIVATION_none ? &f : NULL;
    if (!has_c)
        return multiply(k, &shape, a->a, a->b, a->y, &e, NULL, false);
    const size_t c_count = xcvm_element_count(a->c);
    const bool is_row = c_count == shape.n && a->c->rank > 0 && a->c->dims[a->c->rank - 1] == y->dims[y->rank - 1];
    if (a->beta == 1.0 && is_row)
        return multiply(k, &shape, a->a, a->b, a->y, &e, a->c, false);
    if (adds_all && y->dtype == XCVM_F32) {
        e.start = a->c->data;
        return multiply(k, &shape, a->a, a->b, a->y, &e, NULL, false);
    }
    XCVM_TRY(spread(k, a->c, a->y, a->y->data));
    if (a->beta != 1.0)
        XCVM_TRY(combine(k, a->y, a->beta, NULL, 0.0, NULL));
    return multiply(k, &shape, a->a, a->b, a->y, &e, NULL, true);
}
