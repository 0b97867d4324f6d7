/* 8-bit rows times block-quantized weights. A group of rows is stored block by block. For each four rows of weights,
 * each row has a word with its four bytes, or two words with 16-bit numbers, elements 0 and 2, then 1 and 3. They are
 * followed by each row's initial sum, its scale and the sum of its integers. */
#include "ops/matmul/simd/quantized_blocks_integers.h"
#include "ops/util/quads.h"
#include "ops/simd/sums.h"

#include <math.h>

enum {
    CODES_AHEAD = 8192,
    SCALES_AHEAD = 2048,
    GROUP = XCVM_QBLOCKS_GROUP,
    STARTS = 0,
    SCALES = 1,
    SUMS = 2,
    TAIL = 3
};

typedef float number __attribute__((may_alias));

/* ---- Instruction variants ---- */

/* In each 32-bit lane: sum plus the products of the 16-bit halves of codes and x. */
XCVM_INLINE xcvm_sums add_pairs(xcvm_sums sum, xcvm_lanes_bits codes, int32_t x)
{
    return xcvm_sums_add_pairs(sum, (xcvm_sums)codes, x - (xcvm_sums){0});
}

/* ADD(sum, quad, x, rows): sum plus the products of four codes with those of a row, whose words are at x and, if there
 * are two, `rows` words further. */
#define ADD_PAIRS(sum, quad, x, rows)                                                                                  \
    add_pairs(add_pairs(sum, (quad)&UINT32_C(0x00ff00ff), (x)[0]), (quad) >> 8 & UINT32_C(0x00ff00ff), (x)[rows])
#if XCVM_LANES == 16 && defined(__AVX512BW__)
#define QUADS __attribute__((target("avx512vnni")))
#define ADD_QUADS(sum, quad, x, rows)                                                                                  \
    ((xcvm_sums)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(quad), _mm512_set1_epi32((x)[0])))
static bool has_quads(void) { return xcvm_quads_of_64(); }
#elif XCVM_LANES == 8 && defined(__AVX2__)
#define QUADS __attribute__((target("avxvnni")))
#define ADD_QUADS(sum, quad, x, rows)                                                                                  \
    ((xcvm_sums)_mm256_dpbusd_avx_epi32((__m256i)(sum), (__m256i)(quad), _mm256_set1_epi32((x)[0])))
static bool has_quads(void) { return xcvm_quads_of_32(); }
#else
static bool has_quads(void) { return false; }
#endif

size_t xcvm_qblocks_quad_words(void) { return has_quads() ? 1 : 2; }

size_t xcvm_qblocks_row_words(const xcvm_qblocks *b, size_t quad_words)
{
    return xcvm_qblocks_count(b) * (b->block / 4 * quad_words + TAIL);
}

size_t xcvm_qblocks_group(size_t rows)
{
    if (rows >= GROUP)
        return GROUP;
    if (GROUP > 8 && rows >= 8)
        return 8;
    return rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
}

/* ---- Rounding ---- */

/* Largest magnitude of `count` numbers; NaN if one is not finite. */
static float greatest_of(const float *a, size_t count)
{
    xcvm_lanes greatest = {0}, odd = {0};
    size_t p = 0;
    for (; p + XCVM_LANES <= count; p += XCVM_LANES) {
        const xcvm_lanes v = xcvm_lanes_load(a + p);
        greatest = xcvm_lanes_max(xcvm_lanes_max(v, -v), greatest);
        odd += v - v; /* zero if v is finite */
    }
    float lanes[XCVM_LANES], most = 0.0f, rest = xcvm_lanes_sum(odd);
    xcvm_lanes_store(lanes, greatest);
    for (size_t i = 0; i < XCVM_LANES; i++)
        most = lanes[i] > most ? lanes[i] : most;
    for (; p < count; p++) {
        most = fmaxf(most, fabsf(a[p]));
        rest += a[p] - a[p];
    }
    return rest == 0.0f ? most : NAN;
}

/* Stores four integers from -127 to 127 as a row's words, `rows` words apart. */
XCVM_INLINE void put_quad(const int32_t *q, size_t words, size_t rows, int32_t *to)
{
    if (words == 1) {
        to[0] = (int32_t)((uint32_t)(q[0] & 0xff) | (uint32_t)(q[1] & 0xff) << 8 | (uint32_t)(q[2] & 0xff) << 16 |
                          (uint32_t)(q[3] & 0xff) << 24);
        return;
    }
    for (size_t j = 0; j < 2; j++)
        to[j * rows] = (int32_t)((uint32_t)(q[j] & 0xffff) | (uint32_t)q[j + 2] << 16);
}

/* Rounds a block of a row with `count` numbers, padded with zeros. */
static void round_block(const xcvm_qblocks *b, const float *a, size_t count, size_t words, size_t rows, int32_t *to)
{
    const float greatest = greatest_of(a, count);
    const float inverse = greatest >= 0x1p-120f ? 127.0f / greatest : 0.0f;
    xcvm_sums sum = {0};
    for (size_t p = 0; p < b->block; p += XCVM_LANES) {
        float some[XCVM_LANES] = {0};
        const float *from = a + p;
        if (p + XCVM_LANES > count) {
            if (p < count)
                memcpy(some, a + p, (count - p) * sizeof *a);
            from = some;
        }
        /* Adding this constant leaves no fraction bits, so it rounds to nearest even. */
        const xcvm_lanes scaled = xcvm_lanes_load(from) * inverse;
        const xcvm_sums whole =
            inverse != 0.0f ? __builtin_convertvector((scaled + 12582912.0f) - 12582912.0f, xcvm_sums) : (xcvm_sums){0};
        sum += whole;
        int32_t q[XCVM_LANES];
        memcpy(q, &whole, sizeof q);
#pragma GCC unroll 4
        for (size_t j = 0; j < XCVM_LANES; j += 4, to += words * rows)
            put_quad(q + j, words, rows, to);
    }
    int32_t all = 0;
    for (size_t j = 0; j < XCVM_LANES; j++)
        all += sum[j];
    /* The middle of the codes is subtracted as an integer. */
    to[STARTS * rows] = -(1 << (b->bits - 1)) * all;
    ((number *)to)[SCALES * rows] = greatest / 127.0f;
    ((number *)to)[SUMS * rows] = (float)all;
}

void xcvm_qblocks_round_rows(const xcvm_qblocks *b, const float *a, size_t rows, size_t quad_words, int32_t *group)
{
    const size_t blocks = xcvm_qblocks_count(b), block = (b->block / 4 * quad_words + TAIL) * rows;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < blocks; i++) {
            const size_t first = i * b->block;
            round_block(b, a + r * b->k + first, xcvm_min(b->k - first, b->block), quad_words, rows,
                        group + i * block + r);
        }
}

/* ---- Products ---- */

/* Without offsets, sums start with the correction for the middle code. */
XCVM_INLINE void start_sums(const xcvm_qblocks_matrix *w, const int32_t *tail, const size_t rows, xcvm_sums *sum)
{
#pragma GCC unroll 12
    for (size_t r = 0; r < rows; r++)
        sum[r] = (w->offsets == NULL ? tail[STARTS * rows + r] : 0) - (xcvm_sums){0};
}

/* Adds the sums of a block, times its scales, to the totals. */
XCVM_INLINE void add_sums(const xcvm_qblocks_matrix *w, size_t numbers, const int32_t *tail, const unsigned bits,
                          const size_t rows, const xcvm_sums *sum, xcvm_lanes *total)
{
    const number *scales = (const number *)tail + SCALES * rows, *x_sums = (const number *)tail + SUMS * rows;
    const xcvm_lanes scale = xcvm_qblocks_scales(w, numbers);
    if (w->offsets == NULL) {
#pragma GCC unroll 12
        for (size_t r = 0; r < rows; r++)
            total[r] += scale * xcvm_lanes_all(scales[r]) * __builtin_convertvector(sum[r], xcvm_lanes);
        return;
    }
    const xcvm_lanes offset = xcvm_qblocks_offsets(w, bits, numbers);
#pragma GCC unroll 12
    for (size_t r = 0; r < rows; r++) {
        const xcvm_lanes products = __builtin_convertvector(sum[r], xcvm_lanes);
        total[r] += scale * xcvm_lanes_all(scales[r]) * (products - offset * xcvm_lanes_all(x_sums[r]));
    }
}

/* A function for a group and a panel. With constant arguments, sums and totals of a vector stay in registers. */
#define WAY(name, attribute, words, ADD)                                                                               \
    attribute static inline __attribute__((always_inline)) void name##_rows(                                           \
        const xcvm_qblocks_matrix *w, size_t panel, const int32_t *x, const unsigned bits, const size_t rows,          \
        size_t v, float y[][XCVM_PACKED_COLUMNS])                                                                      \
    {                                                                                                                  \
        const xcvm_qblocks *b = &w->layout;                                                                            \
        const size_t blocks = xcvm_qblocks_count(b), lines = b->block * bits / 32;                                     \
        const uint8_t *at = w->codes + panel * blocks * lines * XCVM_QBLOCKS_LINE + v * sizeof(xcvm_lanes);            \
        xcvm_lanes total[GROUP] = {{0}};                                                                               \
        for (size_t i = 0; i < blocks; i++) {                                                                          \
            const int32_t *tail = x + b->block / 4 * (words)*rows;                                                     \
            const size_t numbers = (panel * blocks + i) * XCVM_PACKED_COLUMNS + v * XCVM_LANES;                        \
            xcvm_sums sum[GROUP];                                                                                      \
            start_sums(w, tail, rows, sum);                                                                            \
            __builtin_prefetch((const char *)w->scales + numbers * xcvm_qblocks_scale_bytes(w) + SCALES_AHEAD);        \
            for (size_t line = 0; line < lines; line++, at += XCVM_QBLOCKS_LINE) {                                     \
                __builtin_prefetch(at + CODES_AHEAD);                                                                  \
                const xcvm_lanes_bits codes = xcvm_qblocks_line(at);                                                   \
                _Pragma("GCC unroll 2") for (unsigned q = 0; q < 8; q += bits, x += (words)*rows)                      \
                {                                                                                                      \
                    const xcvm_lanes_bits quad = bits == 8 ? codes : codes >> q & UINT32_C(0x0f0f0f0f);                \
                    _Pragma("GCC unroll 12") for (size_t r = 0; r < rows; r++) sum[r] =                                \
                        ADD(sum[r], quad, x + r, rows);                                                                \
                }                                                                                                      \
            }                                                                                                          \
            add_sums(w, numbers, tail, bits, rows, sum, total);                                                        \
            x = tail + TAIL * rows;                                                                                    \
        }                                                                                                              \
        _Pragma("GCC unroll 12") for (size_t r = 0; r < rows; r++) xcvm_lanes_store(y[r] + v * XCVM_LANES, total[r]);  \
    }                                                                                                                  \
    attribute static void name(const xcvm_qblocks_matrix *w, size_t panel, const int32_t *x, size_t rows, size_t v,    \
                               float y[][XCVM_PACKED_COLUMNS])                                                         \
    {                                                                                                                  \
        switch (rows * 16 + w->layout.bits) {                                                                          \
            WAY_OF(name, 4, GROUP)                                                                                     \
            WAY_OF(name, 8, GROUP)                                                                                     \
            WAYS_OF_8(name)                                                                                            \
            WAY_OF(name, 4, 4)                                                                                         \
            WAY_OF(name, 8, 4)                                                                                         \
            WAY_OF(name, 4, 2)                                                                                         \
            WAY_OF(name, 8, 2)                                                                                         \
            WAY_OF(name, 4, 1)                                                                                         \
            WAY_OF(name, 8, 1)                                                                                         \
        default:                                                                                                       \
            break;                                                                                                     \
        }                                                                                                              \
    }
#define WAY_OF(name, bits, rows)                                                                                       \
    case (rows)*16 + (bits):                                                                                           \
        name##_rows(w, panel, x, bits, rows, v, y);                                                                    \
        break;
#if XCVM_LANES == 16
#define WAYS_OF_8(name) WAY_OF(name, 4, 8) WAY_OF(name, 8, 8)
#else
#define WAYS_OF_8(name)
#endif

WAY(by_pairs, , 2, ADD_PAIRS)
#if defined(ADD_QUADS)
WAY(by_quads, QUADS, 1, ADD_QUADS)
#endif

void xcvm_qblocks_panel_integers(const xcvm_qblocks_matrix *w, size_t panel, const int32_t *group, size_t rows,
                                 size_t quad_words, float y[][XCVM_PACKED_COLUMNS])
{
    for (size_t v = 0; v < XCVM_QBLOCKS_VECTORS; v++)
        if (quad_words == 2)
            by_pairs(w, panel, group, rows, v, y);
#if defined(ADD_QUADS)
        else
            by_quads(w, panel, group, rows, v, y);
#endif
}
