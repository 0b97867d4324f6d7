/* Matrix-vector products. */
#include "ops/matmul/simd/gemv.h"
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/matmul/simd/dot.h"
#include "ops/matmul/simd/panels.h"
#include "ops/simd/reductions.h"

enum {
    CHUNK = 1024,     /* outputs that are accumulated before they are stored; at least a page of each row */
    SHORT_ROWS = 256, /* longer rows are read a few at a time, so that each is prefetched */
    AXPY_ROWS = 8,
    AXPY_VECTORS = XCVM_LANES == 16 ? 8 : 4 /* vectors of sums that stay in registers */
};

/* The product as y[i] = sum of w[i * w_row + p * w_column] * x[p]. */
typedef struct vector_product {
    size_t n, k;
    const void *w;
    const float *x;
    size_t w_row, w_column;
    const float *bias; /* one per output, or NULL */
    float same_bias;
    size_t c_stride;
} vector_product;

static vector_product view(const xcvm_gemm *g)
{
    vector_product v = {.k = g->k};
    if (g->m == 1) {
        v.n = g->n;
        v.w = g->b;
        v.w_row = g->b_column;
        v.w_column = g->b_row;
        v.x = g->a;
        v.bias = g->column_bias;
        v.same_bias = g->row_bias != NULL ? g->row_bias[0] : 0.0f;
        v.c_stride = g->c_column;
    } else {
        v.n = g->m;
        v.w = g->a;
        v.w_row = g->a_row;
        v.w_column = g->a_column;
        v.x = g->b;
        v.bias = g->row_bias;
        v.same_bias = g->column_bias != NULL ? g->column_bias[0] : 0.0f;
        v.c_stride = g->c_row;
    }
    return v;
}

bool xcvm_gemv_fits(const xcvm_gemm *g)
{
    if (g->b_ahead)
        return g->m == 1 && g->a_column == 1 && !g->pairs;
    if (g->b_rows != NULL || g->b_packed)
        return false;
    return g->m == 1 ? g->a_column == 1 : g->n == 1 && g->b_row == 1;
}

/* Outputs contiguous in w: adds AXPY_ROWS values of p at a time to all of them. */
static void axpy(const vector_product *v, size_t begin, size_t count, float *restrict y)
{
    const float *w = (const float *)v->w + begin;
    const size_t stride = v->w_column;
    for (size_t i = 0; i < count; i++)
        y[i] = 0.0f;
    size_t p = 0;
    for (; p + AXPY_ROWS <= v->k; p += AXPY_ROWS, w += AXPY_ROWS * stride) {
        const float *x = v->x + p;
        size_t i = 0;
        for (; i + XCVM_LANES <= count; i += XCVM_LANES) {
            xcvm_lanes even = xcvm_lanes_load(y + i), odd = {0};
#pragma GCC unroll 8
            for (size_t q = 0; q < AXPY_ROWS; q += 2) {
                even = xcvm_lanes_add_product(even, xcvm_lanes_load(w + q * stride + i), xcvm_lanes_all(x[q]));
                odd = xcvm_lanes_add_product(odd, xcvm_lanes_load(w + (q + 1) * stride + i), xcvm_lanes_all(x[q + 1]));
            }
            xcvm_lanes_store(y + i, even + odd);
        }
        for (; i < count; i++) {
            float even = y[i], odd = 0.0f;
            for (size_t q = 0; q < AXPY_ROWS; q += 2) {
                even += w[q * stride + i] * x[q];
                odd += w[(q + 1) * stride + i] * x[q + 1];
            }
            y[i] = even + odd;
        }
    }
    for (; p < v->k; p++, w += stride)
        for (size_t i = 0; i < count; i++)
            y[i] += w[i] * v->x[p];
}

/* The same, in the same order, for `vectors` vectors of outputs, whose sums stay in registers. The last vector may
 * overlap the one before it. */
XCVM_INLINE void axpy_vectors(const vector_product *v, const float *w, const size_t vectors, size_t count, float *y)
{
    xcvm_lanes even[AXPY_VECTORS], odd[AXPY_VECTORS];
    const size_t stride = v->w_column, last = count - XCVM_LANES;
#pragma GCC unroll 8
    for (size_t i = 0; i < vectors; i++)
        even[i] = (xcvm_lanes){0};
    size_t p = 0;
    while (p + AXPY_ROWS <= v->k) {
#pragma GCC unroll 8
        for (size_t i = 0; i < vectors; i++)
            odd[i] = (xcvm_lanes){0};
#pragma GCC unroll 1
        for (const size_t end = p + AXPY_ROWS; p < end; p += 2, w += 2 * stride) {
            const xcvm_lanes x = xcvm_lanes_all(v->x[p]), next = xcvm_lanes_all(v->x[p + 1]);
#pragma GCC unroll 8
            for (size_t i = 0; i < vectors; i++)
                even[i] =
                    xcvm_lanes_add_product(even[i], xcvm_lanes_load(w + (i + 1 < vectors ? i * XCVM_LANES : last)), x);
#pragma GCC unroll 8
            for (size_t i = 0; i < vectors; i++)
                odd[i] = xcvm_lanes_add_product(
                    odd[i], xcvm_lanes_load(w + stride + (i + 1 < vectors ? i * XCVM_LANES : last)), next);
        }
#pragma GCC unroll 8
        for (size_t i = 0; i < vectors; i++)
            even[i] += odd[i];
    }
    for (; p < v->k; p++, w += stride)
#pragma GCC unroll 8
        for (size_t i = 0; i < vectors; i++)
            even[i] += xcvm_lanes_load(w + (i + 1 < vectors ? i * XCVM_LANES : last)) * v->x[p];
#pragma GCC unroll 8
    for (size_t i = 0; i < vectors; i++)
        xcvm_lanes_store(y + (i + 1 < vectors ? i * XCVM_LANES : last), even[i]);
}

/* For one to AXPY_VECTORS vectors. */
static void axpy_few(const vector_product *v, size_t begin, size_t count, float *y)
{
    const float *w = (const float *)v->w + begin;
    switch ((count + XCVM_LANES - 1) / XCVM_LANES) {
#define AXPY_OF(n)                                                                                                     \
    case n:                                                                                                            \
        axpy_vectors(v, w, n, count, y);                                                                               \
        break;
        AXPY_OF(1)
        AXPY_OF(2)
        AXPY_OF(3)
        AXPY_OF(4)
#if XCVM_LANES == 16
        AXPY_OF(5)
        AXPY_OF(6)
        AXPY_OF(7)
        AXPY_OF(8)
#endif
#undef AXPY_OF
    default:
        break;
    }
}

/* For fewer outputs than a vector has, if partial loads are available. */
#if defined(__AVX512F__)
enum { NARROW = 1, LEAST_DOTS = 1 };
static xcvm_lanes load_end(const float *x, size_t all, size_t count)
{
    return xcvm_lanes_load_first(x + all - count, count, 0.0f);
}
#else
enum { NARROW = XCVM_LANES, LEAST_DOTS = XCVM_LANES };
static xcvm_lanes load_end(const float *x, size_t all, size_t count)
{
    return xcvm_lanes_load_rest(x, all, count, 0.0f);
}
#endif

static void axpy_narrow(const vector_product *v, size_t begin, size_t count, float *y)
{
    xcvm_lanes even = {0};
    const size_t stride = v->w_column;
    const float *w = (const float *)v->w + begin;
    size_t p = 0;
    while (p + AXPY_ROWS <= v->k) {
        xcvm_lanes odd = {0};
        for (const size_t end = p + AXPY_ROWS; p < end; p += 2, w += 2 * stride) {
            even += load_end(w, count, count) * v->x[p];
            odd += load_end(w + stride, count, count) * v->x[p + 1];
        }
        even += odd;
    }
    for (; p < v->k; p++, w += stride)
        even += load_end(w, count, count) * v->x[p];
    xcvm_lanes_store(y, even);
}

/* Inner products of short rows, a vector of them at a time, whose lanes are reduced together. The result of a row does
 * not depend on its neighbors. */
static void dot_short(const vector_product *v, size_t begin, size_t count, float *y)
{
    const size_t rest = v->k % XCVM_LANES, whole = v->k - rest;
    for (size_t i = 0; i < count; i += XCVM_LANES) {
        xcvm_lanes sum[XCVM_LANES];
        const float *w[XCVM_LANES];
#pragma GCC unroll 16
        for (size_t r = 0; r < XCVM_LANES; r++) {
            w[r] = (const float *)v->w + (begin + xcvm_min(i + r, count - 1)) * v->w_row;
            sum[r] = (xcvm_lanes){0};
        }
        for (size_t p = 0; p < whole; p += XCVM_LANES) {
            const xcvm_lanes x = xcvm_lanes_load(v->x + p);
#pragma GCC unroll 16
            for (size_t r = 0; r < XCVM_LANES; r++)
                sum[r] = xcvm_lanes_add_product(sum[r], xcvm_lanes_load(w[r] + p), x);
        }
        if (rest > 0) {
            const xcvm_lanes x = load_end(v->x, v->k, rest);
#pragma GCC unroll 16
            for (size_t r = 0; r < XCVM_LANES; r++)
                sum[r] += load_end(w[r], v->k, rest) * x;
        }
        xcvm_lanes_store(y + i, xcvm_lanes_reduce_rows(xcvm_lanes_plus, sum));
    }
}

/* Outputs of prepacked panels. `begin` is the start of a panel group, so that each output is summed the same way in any
 * partition. */
static void groups(const vector_product *v, xcvm_dtype dtype, size_t begin, size_t count, float *y)
{
    const char *w = v->w;
    const size_t column = v->k * xcvm_packed_element(dtype);
    for (size_t i = 0; i < count; i += XCVM_GEMV_GROUP) {
        const size_t left = xcvm_packed_panels(count - i);
        xcvm_panels_product(dtype, v->x, v->k, w + (begin + i) * column, NULL, y + i,
                            left < XCVM_PANELS_GROUP ? left : XCVM_PANELS_GROUP);
    }
}

xcvm_status xcvm_gemv_part(const xcvm_kernel *k, const xcvm_gemm *g, size_t begin, size_t end)
{
    float y[CHUNK] __attribute__((aligned(64)));
    const vector_product v = view(g);
    const xcvm_activation *f = g->activation;
    for (size_t at = begin; at < end; at += CHUNK) {
        const size_t count = end - at < CHUNK ? end - at : CHUNK;
        XCVM_TRY(xcvm_kernel_poll(k));
        if (g->b_ahead)
            groups(&v, g->b_dtype, at, count, y);
        else if (v.w_column == 1 && v.k >= LEAST_DOTS && v.k <= SHORT_ROWS)
            dot_short(&v, at, count, y);
        else if (v.w_column == 1)
            xcvm_dot((const float *)v.w + at * v.w_row, v.w_row, v.x, 0, v.k, y, 1, count, 1);
        else if (count >= XCVM_LANES && count <= AXPY_VECTORS * XCVM_LANES)
            axpy_few(&v, at, count, y);
        else if (count >= NARROW && count < XCVM_LANES)
            axpy_narrow(&v, at, count, y);
        else
            axpy(&v, at, count, y);
        for (size_t i = 0; i < count; i++)
            y[i] = y[i] * g->alpha + (v.bias != NULL ? v.bias[at + i] : v.same_bias);
        if (g->start != NULL)
            for (size_t i = 0; i < count; i++)
                y[i] += g->start[(at + i) * v.c_stride];
        if (f != NULL) {
            for (size_t i = 0; i < count; i++)
                y[i] = xcvm_clamp_f32(y[i], f->low, f->high);
            xcvm_activate_row(f, y, count);
        }
        for (size_t i = 0; i < count; i++)
            g->c[(at + i) * v.c_stride] = y[i];
    }
    return XCVM_OK;
}
