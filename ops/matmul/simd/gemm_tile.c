/* Product tiles: for each size a function whose sums stay in registers. */
#include "ops/matmul/simd/gemm_tile.h"
#include "ops/matmul/packed.h"
#include "ops/simd/half_lanes.h"

enum {
    LINE = 16, /* floats of a cache line */
    AHEAD = 64 /* rows of b that are prefetched: a panel is in no cache when its first tile begins */
};

/* With constant arguments, all loops over rows and vectors unroll and the sums stay in registers. */
XCVM_INLINE void multiply_tile(const xcvm_gemm_tile *t, const int rows, const int vectors, const bool a_by_column,
                               const xcvm_dtype b_dtype)
{
    xcvm_lanes sum[XCVM_GEMM_TALL][XCVM_GEMM_VECTORS];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            sum[i][j] = (xcvm_lanes){0};
    const char *b = t->b;
    const size_t row = a_by_column ? 1 : t->a_stride, column = a_by_column ? t->a_stride : 1;
    const size_t element = xcvm_packed_element(b_dtype), b_stride = t->b_stride * element;
    const size_t b_vector = t->b_vector * element;
    /* Prefetches the lines of the result before the sums are complete, because a store waits for its line. */
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j += LINE / XCVM_LANES)
            __builtin_prefetch(t->c + (size_t)i * t->c_stride + j * XCVM_LANES, 1);
    const float *a[XCVM_GEMM_TALL / 4];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i += 4)
        a[i / 4] = t->a + (size_t)i * row;
    const bool own = t->fetched == NULL;
    const char *fetched = own ? b + AHEAD * b_stride : t->fetched;
    const size_t fetched_stride = own ? b_stride : t->fetched_stride,
                 fetched_vector = own ? b_vector : t->fetched_vector;
    for (size_t p = t->depth; p > 0; p--) {
        xcvm_lanes v[XCVM_GEMM_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            v[j] = xcvm_lanes_load_as(b_dtype, b + (size_t)j * b_vector);
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j += LINE / XCVM_LANES)
            __builtin_prefetch(fetched + (size_t)j * fetched_vector);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const xcvm_lanes x = xcvm_lanes_all(a[i / 4][(size_t)(i % 4) * row]);
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++)
                sum[i][j] = xcvm_lanes_add_product(sum[i][j], x, v[j]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < rows; i += 4)
            a[i / 4] += column;
        b += b_stride;
        fetched += fetched_stride;
    }

    xcvm_gemm_tile_store(t, sum[0], rows, vectors);
}

/* Layouts of operands: a by rows or by columns with b of f32; or a by rows with b of another type. */
enum { BY_ROW, BY_COLUMN, F16_BY_ROW, BF16_BY_ROW, F24_BY_ROW, KINDS };

#define TILE_FUNCTION(kind, rows, vectors, ...)                                                                        \
    static void kind##_##rows##x##vectors(const xcvm_gemm_tile *t) { multiply_tile(t, rows, vectors, __VA_ARGS__); }
#define TILE_FUNCTIONS(rows, vectors)                                                                                  \
    TILE_FUNCTION(by_row, rows, vectors, false, XCVM_F32)                                                              \
    TILE_FUNCTION(by_column, rows, vectors, true, XCVM_F32)                                                            \
    TILE_FUNCTION(f16_by_row, rows, vectors, false, XCVM_F16)                                                          \
    TILE_FUNCTION(bf16_by_row, rows, vectors, false, XCVM_BF16)                                                        \
    TILE_FUNCTION(f24_by_row, rows, vectors, false, XCVM_F24)
XCVM_GEMM_TILE_SIZES(TILE_FUNCTIONS)

size_t xcvm_gemm_tile_rows(size_t rows, size_t vectors)
{
    if (vectors == 1 && rows >= XCVM_GEMM_TALL)
        return XCVM_GEMM_TALL;
    /* Two tiles of four instead of six and two, because two have too few sums to hide their latency. */
    if (XCVM_GEMM_ROWS == 6 && rows == 8)
        return 4;
    return rows >= XCVM_GEMM_ROWS ? XCVM_GEMM_ROWS : rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
}

void xcvm_gemm_tile_run(const xcvm_gemm_tile *t, size_t rows, size_t vectors, bool a_by_column)
{
    static void (*const functions[XCVM_GEMM_TALL + 1][XCVM_GEMM_VECTORS + 1][KINDS])(const xcvm_gemm_tile *t) = {
#define TILE_ENTRY(rows, vectors)                                                                                      \
    [rows][vectors] = {[BY_ROW] = by_row_##rows##x##vectors,                                                           \
                       [BY_COLUMN] = by_column_##rows##x##vectors,                                                     \
                       [F16_BY_ROW] = f16_by_row_##rows##x##vectors,                                                   \
                       [BF16_BY_ROW] = bf16_by_row_##rows##x##vectors,                                                 \
                       [F24_BY_ROW] = f24_by_row_##rows##x##vectors},
        XCVM_GEMM_TILE_SIZES(TILE_ENTRY)};
    const int kind = t->b_dtype == XCVM_F16    ? F16_BY_ROW
                     : t->b_dtype == XCVM_BF16 ? BF16_BY_ROW
                     : t->b_dtype == XCVM_F24  ? F24_BY_ROW
                     : a_by_column             ? BY_COLUMN
                                               : BY_ROW;
    functions[rows][vectors][kind](t);
}
