/* Products of few columns, whose rows are single vectors, and products of one term. */
#include "ops/matmul/simd/gemm_small.h"

#include "ops/matmul/packed.h"
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/simd/reductions.h"

/* Rows of b, of one vector each, that are copied to the stack. */
enum { SMALL_DEPTH = 64 };

/* Computes rows [i, i + rows) of c; rows of b are `stride` apart. */
XCVM_INLINE void multiply_rows(const xcvm_gemm *g, size_t i, const int rows, const float *b, size_t stride)
{
    xcvm_lanes sum[XCVM_GEMM_TALL];
    const size_t n = g->n, row = g->a_row, column = g->a_column, c_row = g->c_row;
    const float *a = g->a + i * row, *a_half = a + XCVM_GEMM_ROWS * row;
    float *c = g->c + i * c_row;
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
        sum[r] = (xcvm_lanes){0};
    for (size_t p = g->k; p > 0; p--) {
        const xcvm_lanes v = xcvm_lanes_load(b);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
            sum[r] +=
                xcvm_lanes_all(r < XCVM_GEMM_ROWS ? a[(size_t)r * row] : a_half[(size_t)(r - XCVM_GEMM_ROWS) * row]) *
                v;
        a += column;
        a_half += column;
        b += stride;
    }
    const xcvm_activation *f = g->activation;
    const float *start = g->start != NULL ? g->start + i * c_row : NULL;
    if (g->alpha != 1.0f || g->row_bias != NULL)
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
            sum[r] = sum[r] * g->alpha + (g->row_bias != NULL ? g->row_bias[i + (size_t)r] : 0.0f);
    if (start != NULL)
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
            sum[r] += xcvm_lanes_load_up_to(start + (size_t)r * c_row, n);
    if (g->column_bias != NULL) {
        const xcvm_lanes bias = xcvm_lanes_load_up_to(g->column_bias, n);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
            sum[r] += bias;
    }
    if (f != NULL)
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
            sum[r] = xcvm_lanes_min(xcvm_lanes_max(sum[r], xcvm_lanes_all(f->low)), xcvm_lanes_all(f->high));
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
        xcvm_lanes_store_up_to(c + (size_t)r * c_row, n, sum[r]);
    if (f != NULL && f->kind != XCVM_ACTIVATION_none)
        for (int r = 0; r < rows; r++)
            xcvm_activate_row(f, c + (size_t)r * c_row, n);
}

static void multiply_small(const xcvm_gemm *g, size_t m0, size_t m1)
{
    float rows[SMALL_DEPTH * XCVM_LANES] __attribute__((aligned(64)));
    const float *b = g->b;
    size_t stride = XCVM_PACKED_COLUMNS;
    if (!g->b_ahead) {
        for (size_t p = 0; p < g->k; p++) {
            const float *from = (const float *)g->b + p * g->b_row;
            if (g->b_column == 1)
                xcvm_lanes_store(rows + p * XCVM_LANES, xcvm_lanes_load_up_to(from, g->n));
            else
                for (size_t j = 0; j < XCVM_LANES; j++)
                    rows[p * XCVM_LANES + j] = j < g->n ? from[j * g->b_column] : 0.0f;
        }
        b = rows;
        stride = XCVM_LANES;
    }
    size_t i = m0;
    for (; i + XCVM_GEMM_TALL <= m1; i += XCVM_GEMM_TALL)
        multiply_rows(g, i, XCVM_GEMM_TALL, b, stride);
    for (; i + 4 <= m1; i += 4)
        multiply_rows(g, i, 4, b, stride);
    for (; i < m1; i++)
        multiply_rows(g, i, 1, b, stride);
}

bool xcvm_gemm_small_fits(const xcvm_gemm *g)
{
    if (g->n > XCVM_LANES || g->c_column != 1 || g->b_packed || g->b_rows != NULL || g->pairs)
        return false;
    return g->b_ahead ? !xcvm_dtype_in(g->b_dtype, XCVM_TYPES_NARROW) && g->k <= 1024 : g->k <= SMALL_DEPTH;
}

xcvm_status xcvm_gemm_small_part(xcvm_poller *poller, const xcvm_gemm *g, size_t m0, size_t m1)
{
    enum { ROWS = 512 * XCVM_GEMM_TALL };
    for (size_t i = m0; i < m1; i += ROWS) {
        const size_t rows = m1 - i < ROWS ? m1 - i : ROWS;
        XCVM_TRY(xcvm_poll_after(poller, g->k + rows * (1 + g->k / 16)));
        multiply_small(g, i, i + rows);
    }
    return XCVM_OK;
}

bool xcvm_gemm_outer_fits(const xcvm_gemm *g)
{
    return g->k == 1 && g->c_column == 1 && g->b_column == 1 && !g->b_packed && !g->b_ahead && g->b_rows == NULL &&
           g->start == NULL && g->row_bias == NULL && g->column_bias == NULL && g->activation == NULL;
}

/* Like a longer sum that begins with 0. */
XCVM_INLINE xcvm_lanes one_term(const xcvm_gemm *g, xcvm_lanes a, xcvm_lanes b)
{
    const xcvm_lanes sum = (xcvm_lanes){0} + a * b;
    return g->alpha != 1.0f ? sum * g->alpha : sum;
}

/* Computes a row or a part of it. */
static void multiply_row(const xcvm_gemm *g, size_t i, size_t begin, size_t end)
{
    const float *b = g->b;
    const xcvm_lanes a = xcvm_lanes_all(g->a[i * g->a_row]);
    float *c = g->c + i * g->c_row;
    size_t j = begin;
    for (; j + XCVM_LANES <= end; j += XCVM_LANES)
        xcvm_lanes_store(c + j, one_term(g, a, xcvm_lanes_load(b + j)));
    if (j < end)
        xcvm_lanes_store_up_to(c + j, end - j, one_term(g, a, xcvm_lanes_load_up_to(b + j, end - j)));
}

xcvm_status xcvm_gemm_outer_part(xcvm_poller *poller, const xcvm_gemm *g, size_t m0, size_t m1)
{
    enum { COLUMNS = 1 << 18 };
    for (size_t i = m0; i < m1; i++)
        for (size_t j = 0; j < g->n; j += COLUMNS) {
            const size_t count = xcvm_min(g->n - j, COLUMNS);
            XCVM_TRY(xcvm_poll_after(poller, 1 + count / XCVM_LANES));
            multiply_row(g, i, j, j + count);
        }
    return XCVM_OK;
}
