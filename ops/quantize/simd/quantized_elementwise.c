/* QuantizedAdd, QuantizedMul and Lookup. */
#include "ops/util/broadcast.h"
#include "ops/util/kernel.h"
#include "ops/simd/sums.h"

enum { GRAIN = 1 << 14 };

typedef struct pair_loop {
    xcvm_broadcast plan;
    const uint8_t *a, *b;
    uint8_t *y;
    float a_scale, b_scale; /* for a product, only a_scale */
    int32_t a_zero, b_zero, y_zero;
    float low, high;
} pair_loop;

XCVM_INLINE xcvm_sums add(const pair_loop *t, xcvm_sums a, xcvm_sums b)
{
    const xcvm_lanes x = xcvm_sums_to_floats(a - t->a_zero) * t->a_scale;
    return xcvm_sums_round(x + xcvm_sums_to_floats(b - t->b_zero) * t->b_scale, t->low, t->high) + t->y_zero;
}

XCVM_INLINE xcvm_sums multiply(const pair_loop *t, xcvm_sums a, xcvm_sums b)
{
    return xcvm_sums_round(xcvm_sums_to_floats((a - t->a_zero) * (b - t->b_zero)) * t->a_scale, t->low, t->high) +
           t->y_zero;
}

/* A row in which an operand is constant has that element in all lanes. */
#define PAIR_ROW(name, formula)                                                                                        \
    static void name(void *context, size_t at, const size_t *offsets, size_t count)                                    \
    {                                                                                                                  \
        const pair_loop *t = context;                                                                                  \
        const size_t last = (size_t)t->plan.rank - 1;                                                                  \
        const bool a_same = t->plan.strides[0][last] == 0, b_same = t->plan.strides[1][last] == 0;                     \
        const uint8_t *a = t->a + offsets[0], *b = t->b + offsets[1];                                                  \
        for (size_t i = 0; i < count; i += XCVM_LANES) {                                                               \
            const size_t left = count - i;                                                                             \
            const xcvm_sums p = a_same ? (xcvm_sums){0} + (int32_t)*a : xcvm_sums_of_first(a + i, left);               \
            const xcvm_sums q = b_same ? (xcvm_sums){0} + (int32_t)*b : xcvm_sums_of_first(b + i, left);               \
            xcvm_sums_store_bytes(t->y + at + i, left, formula(t, p, q));                                              \
        }                                                                                                              \
    }                                                                                                                  \
    static void name##_range(void *context, size_t begin, size_t end, int worker)                                      \
    {                                                                                                                  \
        (void)worker;                                                                                                  \
        pair_loop *t = context;                                                                                        \
        xcvm_broadcast_rows(&t->plan, begin, end, name, t);                                                            \
    }
PAIR_ROW(add_row, add)
PAIR_ROW(multiply_row, multiply)

static xcvm_status run_pairs(const xcvm_kernel *k, const xcvm_value *y, const xcvm_value *a, const xcvm_value *b,
                             pair_loop *t, xcvm_range_body body)
{
    const xcvm_value *const in[] = {a, b};
    xcvm_broadcast_plan(&t->plan, y, in, 2);
    t->a = a->data;
    t->b = b->data;
    t->y = y->data;
    return xcvm_kernel_parallel(k, t->plan.count, GRAIN, body, t);
}

XCVM_KERNEL(QuantizedAdd)
{
    pair_loop t = {.a_scale = (float)a->a_scale,
                   .b_scale = (float)a->b_scale,
                   .a_zero = (int32_t)a->a_zero_point,
                   .b_zero = (int32_t)a->b_zero_point,
                   .y_zero = (int32_t)a->y_zero_point,
                   .low = (float)(a->low - a->y_zero_point),
                   .high = (float)(a->high - a->y_zero_point)};
    return run_pairs(k, a->y, a->a, a->b, &t, add_row_range);
}

XCVM_KERNEL(QuantizedMul)
{
    pair_loop t = {.a_scale = (float)a->scale,
                   .a_zero = (int32_t)a->a_zero_point,
                   .b_zero = (int32_t)a->b_zero_point,
                   .y_zero = (int32_t)a->y_zero_point,
                   .low = (float)(a->low - a->y_zero_point),
                   .high = (float)(a->high - a->y_zero_point)};
    return run_pairs(k, a->y, a->a, a->b, &t, multiply_row_range);
}

/* ---- Lookup tables ---- */

typedef struct lookup_loop {
    const uint8_t *x, *table;
    uint8_t *y;
} lookup_loop;

static void look_up(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const lookup_loop *t = context;
    for (size_t i = begin; i < end; i++)
        t->y[i] = t->table[t->x[i]];
}

#if XCVM_LANES == 16 && defined(__AVX512BW__)
/* Four registers have the table; two permutations look up in one half each. */
__attribute__((target("avx512vbmi"))) static void look_up_bytes(void *context, size_t begin, size_t end, int worker)
{
    const lookup_loop *t = context;
    const __m512i t0 = _mm512_loadu_si512(t->table), t1 = _mm512_loadu_si512(t->table + 64);
    const __m512i t2 = _mm512_loadu_si512(t->table + 128), t3 = _mm512_loadu_si512(t->table + 192);
    size_t i = begin;
    for (; i + 64 <= end; i += 64) {
        const __m512i x = _mm512_loadu_si512(t->x + i);
        const __m512i low = _mm512_permutex2var_epi8(t0, x, t1), high = _mm512_permutex2var_epi8(t2, x, t3);
        _mm512_storeu_si512(t->y + i, _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(x), high));
    }
    look_up(context, i, end, worker);
}
#endif

XCVM_KERNEL(Lookup)
{
    xcvm_range_body body = look_up;
#if XCVM_LANES == 16 && defined(__AVX512BW__)
    if (__builtin_cpu_supports("avx512vbmi"))
        body = look_up_bytes;
#endif
    lookup_loop t = {a->x->data, a->table->data, a->y->data};
    return xcvm_kernel_parallel(k, xcvm_element_count(a->x), GRAIN, body, &t);
}
