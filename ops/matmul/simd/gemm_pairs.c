/* Bf16Gemm, and tiles of products of pairs: like those of f32, but each step uses a word of two numbers. */
#include "ops/matmul/simd/gemm_tile.h"
#include "ops/matmul/simd/pair_lanes.h"

enum {
    AHEAD = 64, /* rows of b that are prefetched */
    /* Minimum numbers of a per portion of the rounding loop. */
    PORTION = 16 * 1024
};

/* With constant arguments, all loops over rows and vectors unroll and the sums stay in registers. */
#define TILE(name, attribute, add)                                                                                     \
    attribute XCVM_INLINE void name##_tile(const xcvm_gemm_tile *t, const int rows, const int vectors)                 \
    {                                                                                                                  \
        xcvm_lanes sum[XCVM_GEMM_TALL][XCVM_GEMM_VECTORS];                                                             \
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)                                                        \
            _Pragma("GCC unroll 4") for (int j = 0; j < vectors; j++) sum[i][j] = (xcvm_lanes){0};                     \
        const float *a = t->a, *b = t->b;                                                                              \
        const size_t row = t->a_stride, stride = t->b_stride, vector = t->b_vector;                                    \
        for (size_t p = t->depth; p > 0; p--, a++, b += stride) {                                                      \
            xcvm_lanes_bits v[XCVM_GEMM_VECTORS];                                                                      \
            _Pragma("GCC unroll 4") for (int j = 0; j < vectors; j++)                                                  \
            {                                                                                                          \
                v[j] = xcvm_pairs_load(b + (size_t)j * vector);                                                        \
                __builtin_prefetch(b + AHEAD * stride + (size_t)j * vector);                                           \
            }                                                                                                          \
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)                                                    \
            {                                                                                                          \
                const xcvm_lanes_bits x = xcvm_pairs_all(a + (size_t)i * row);                                         \
                _Pragma("GCC unroll 4") for (int j = 0; j < vectors; j++) sum[i][j] = add(sum[i][j], x, v[j]);         \
            }                                                                                                          \
        }                                                                                                              \
        xcvm_gemm_tile_store(t, sum[0], rows, vectors);                                                                \
    }

#define IN_STEPS(rows, vectors)                                                                                        \
    static void in_steps_##rows##x##vectors(const xcvm_gemm_tile *t) { in_steps_tile(t, rows, vectors); }
TILE(in_steps, , xcvm_pairs_add)
XCVM_GEMM_TILE_SIZES(IN_STEPS)
#if XCVM_HAS_PAIRS
#define AT_ONCE(rows, vectors)                                                                                         \
    XCVM_PAIRS_ATTRIBUTE static void at_once_##rows##x##vectors(const xcvm_gemm_tile *t)                               \
    {                                                                                                                  \
        at_once_tile(t, rows, vectors);                                                                                \
    }
TILE(at_once, XCVM_PAIRS_ATTRIBUTE, XCVM_PAIRS_AT_ONCE)
XCVM_GEMM_TILE_SIZES(AT_ONCE)
#endif

typedef void (*tile_function)(const xcvm_gemm_tile *t);

void xcvm_gemm_tile_pairs(const xcvm_gemm_tile *t, size_t rows, size_t vectors)
{
#define IN_STEPS_ENTRY(rows, vectors) [rows][vectors] = in_steps_##rows##x##vectors,
    static const tile_function in_steps[XCVM_GEMM_TALL + 1][XCVM_GEMM_VECTORS + 1] = {
        XCVM_GEMM_TILE_SIZES(IN_STEPS_ENTRY)};
#if XCVM_HAS_PAIRS
#define AT_ONCE_ENTRY(rows, vectors) [rows][vectors] = at_once_##rows##x##vectors,
    static const tile_function at_once[XCVM_GEMM_TALL + 1][XCVM_GEMM_VECTORS + 1] = {
        XCVM_GEMM_TILE_SIZES(AT_ONCE_ENTRY)};
    if (xcvm_has_pairs()) {
        at_once[rows][vectors](t);
        return;
    }
#endif
    in_steps[rows][vectors](t);
}

typedef struct rounding_loop {
    const float *from;
    size_t depth, words;
    uint32_t *to;
} rounding_loop;

static void round_rows(void *context, size_t begin, size_t end, int worker)
{
    const rounding_loop *l = context;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        xcvm_pairs_of_row(l->from + i * l->depth, l->depth, l->to + i * l->words);
}

XCVM_KERNEL(Bf16Gemm)
{
    const xcvm_value *x = a->a;
    const size_t depth = (size_t)x->dims[x->rank - 1], words = xcvm_pairs_of(depth);
    const size_t rows = xcvm_element_count(a->y) / (size_t)a->columns;
    const xcvm_activation f = xcvm_activation_of(a->activation, a->activation_params);
    size_t bytes;
    XCVM_CHECK(k->error, xcvm_size_mul(rows, words, &bytes) && xcvm_size_mul(bytes, sizeof(uint32_t), &bytes),
               OUT_OF_MEMORY, "the matrix is too large");
    uint32_t *pairs = xcvm_kernel_scratch(k, bytes);
    if (pairs == NULL)
        return XCVM_OUT_OF_MEMORY;
    rounding_loop rounding = {.from = x->data, .depth = depth, .words = words, .to = pairs};
    XCVM_TRY(xcvm_kernel_parallel(k, rows, PORTION / (depth + 1) + 1, round_rows, &rounding));
    xcvm_gemm g = xcvm_gemm_of_rows(pairs, words, a->c, a->z, a->y, a->activation != XCVM_ACTIVATION_none ? &f : NULL);
    g.pairs = true;
    g.b = a->w->data;
    g.b_ahead = true;
    const xcvm_gemm_batch batch = {.shape = g, .count = 1};
    return xcvm_gemm_run(k, &batch, NULL);
}
