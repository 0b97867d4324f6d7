/* Few rows times weights that are quantised in blocks. */
#include "ops/matmul/simd/quantized_blocks_row.h"

#include <math.h>

enum { CODES_AHEAD = 8192, SCALES_AHEAD = 2048 };

/* ---- Rows ---- */

static void make_floats(const xcvm_qblocks *b, const float *a, xcvm_qblocks_row *row)
{
    const size_t blocks = xcvm_qblocks_count(b), of_line = xcvm_qblocks_rows(b);
    float inverse[8];
    for (size_t q = 0; q < of_line; q++)
        inverse[q] = 1.0f / xcvm_qblocks_multiple(b->bits, q);
    memset(row->x + b->k, 0, (blocks * b->block - b->k) * sizeof *a);
    for (size_t i = 0; i < blocks; i++) {
        float sum = 0.0f;
        for (size_t p = i * b->block; p < b->k && p < (i + 1) * b->block; p++) {
            sum += a[p];
            row->x[p] = a[p] * inverse[p % of_line];
        }
        row->x_sums[i] = sum;
    }
}

/* Integers from -127 to 127, as many for each block as it has rows. A block with a number that is not finite has a
 * scale that is NaN. */
static void make_integers(const xcvm_qblocks *b, const float *a, xcvm_qblocks_row *row)
{
    const size_t blocks = xcvm_qblocks_count(b);
    for (size_t i = 0; i < blocks; i++) {
        const float *from = a + i * b->block;
        const size_t count = b->k - i * b->block < b->block ? b->k - i * b->block : b->block;
        int32_t *pairs = row->pairs + i * b->block / 2;
        float greatest = 0.0f;
        bool finite = true;
        for (size_t p = 0; p < count; p++) {
            greatest = fmaxf(greatest, fabsf(from[p]));
            finite = finite && isfinite(from[p]);
        }
        const float inverse = finite && greatest >= 0x1p-120f ? 127.0f / greatest : 0.0f;
        int32_t sum = 0;
        for (size_t p = 0; p < b->block; p += 4) {
            int32_t q[4];
            for (size_t j = 0; j < 4; j++) {
                q[j] = finite && p + j < count ? (int32_t)rintf(from[p + j] * inverse) : 0;
                sum += q[j];
            }
            for (size_t j = 0; j < 2; j++)
                pairs[p / 2 + j] = (int32_t)((uint32_t)(q[j] & 0xffff) | (uint32_t)q[j + 2] << 16);
        }
        row->x_scales[i] = finite ? greatest / 127.0f : NAN;
        row->x_sums[i] = (float)sum;
    }
}

void xcvm_qblocks_row_make(const xcvm_qblocks *b, const float *a, bool integers, void *scratch, xcvm_qblocks_row *row)
{
    const size_t blocks = xcvm_qblocks_count(b), elements = blocks * b->block;
    *row = (xcvm_qblocks_row){.x = integers ? NULL : scratch, .pairs = integers ? scratch : NULL};
    row->x_scales = (float *)scratch + (integers ? elements / 2 : elements);
    row->x_sums = row->x_scales + blocks;
    if (integers)
        make_integers(b, a, row);
    else
        make_floats(b, a, row);
}

/* ---- In f32 ---- */

/* With constant arguments, rows * phases * XCVM_QBLOCKS_VECTORS sums stay in registers: a block is summed up by itself,
 * in as many chains as there are phases. */
XCVM_INLINE void panel_f32(const xcvm_qblocks_matrix *w, size_t panel, const xcvm_qblocks_row *row, const unsigned bits,
                           const size_t rows, const size_t phases, float y[][XCVM_PACKED_COLUMNS])
{
    const xcvm_qblocks *b = &w->layout;
    const size_t blocks = xcvm_qblocks_count(b), of_line = 32 / bits, lines = b->block / of_line;
    const uint8_t *at = w->codes + panel * blocks * lines * XCVM_QBLOCKS_LINE;
    xcvm_lanes total[XCVM_QBLOCKS_TALL][XCVM_QBLOCKS_VECTORS];
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (size_t v = 0; v < XCVM_QBLOCKS_VECTORS; v++)
            total[r][v] = (xcvm_lanes){0};
    for (size_t i = 0, p = 0; i < blocks; i++) {
        xcvm_lanes sum[XCVM_QBLOCKS_TALL][4][XCVM_QBLOCKS_VECTORS];
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (size_t f = 0; f < phases; f++)
#pragma GCC unroll 4
                for (size_t v = 0; v < XCVM_QBLOCKS_VECTORS; v++)
                    sum[r][f][v] = (xcvm_lanes){0};
        __builtin_prefetch((const char *)w->scales + (panel * blocks + i) * 32 + SCALES_AHEAD);
        for (size_t line = 0; line < lines; line++, at += XCVM_QBLOCKS_LINE, p += of_line) {
            __builtin_prefetch(at + CODES_AHEAD);
#pragma GCC unroll 4
            for (size_t v = 0; v < XCVM_QBLOCKS_VECTORS; v++) {
                const xcvm_lanes_bits codes = xcvm_qblocks_line(at + v * sizeof(xcvm_lanes));
#pragma GCC unroll 8
                for (size_t q = 0; q < of_line; q++) {
                    const xcvm_lanes by = xcvm_qblocks_numbers(bits, codes, q);
#pragma GCC unroll 4
                    for (size_t r = 0; r < rows; r++)
                        sum[r][q % phases][v] += xcvm_lanes_all(row[r].x[p + q]) * by;
                }
            }
        }
        const size_t numbers = (panel * blocks + i) * XCVM_PACKED_COLUMNS;
#pragma GCC unroll 4
        for (size_t v = 0; v < XCVM_QBLOCKS_VECTORS; v++) {
            const xcvm_lanes scale = xcvm_qblocks_scales(w, numbers + v * XCVM_LANES);
            const xcvm_lanes offset =
                xcvm_qblocks_offsets(w, bits, numbers + v * XCVM_LANES) - xcvm_lanes_all(xcvm_qblocks_origin(bits));
#pragma GCC unroll 4
            for (size_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
                for (size_t f = 1; f < phases; f++)
                    sum[r][0][v] += sum[r][f][v];
                if (bits == 4 || w->offsets != NULL)
                    sum[r][0][v] -= offset * xcvm_lanes_all(row[r].x_sums[i]);
                total[r][v] += scale * sum[r][0][v];
            }
        }
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (size_t v = 0; v < XCVM_QBLOCKS_VECTORS; v++)
            xcvm_lanes_store(y[r] + v * XCVM_LANES, total[r][v]);
}

/* Chains that give every addition time, and fit into the registers. */
#define PHASES(rows) (XCVM_LANES == 16 ? ((rows) == 1 ? 4 : 2) : XCVM_LANES == 8 && (rows) == 1 ? 2 : 1)

XCVM_INLINE void panel_of(const unsigned bits, const xcvm_qblocks_matrix *w, size_t panel, const xcvm_qblocks_row *row,
                          size_t count, float y[][XCVM_PACKED_COLUMNS])
{
    switch (count) {
    case 4:
        panel_f32(w, panel, row, bits, 4, PHASES(4), y);
        break;
    case 3:
        panel_f32(w, panel, row, bits, 3, PHASES(3), y);
        break;
    case 2:
        panel_f32(w, panel, row, bits, 2, PHASES(2), y);
        break;
    default:
        panel_f32(w, panel, row, bits, 1, PHASES(1), y);
        break;
    }
}

void xcvm_qblocks_panel_f32(const xcvm_qblocks_matrix *w, size_t panel, const xcvm_qblocks_row *rows, size_t count,
                            float y[][XCVM_PACKED_COLUMNS])
{
    if (w->layout.bits == 4)
        panel_of(4, w, panel, rows, count, y);
    else
        panel_of(8, w, panel, rows, count, y);
}

/* ---- As integers ---- */

/* Of halves of lanes: the sum of both products. Exact: neither is above 255 * 127. */
XCVM_INLINE xcvm_lanes_mask pair_products(xcvm_lanes_bits a, xcvm_lanes_bits b)
{
#if defined(__AVX512BW__)
    return (xcvm_lanes_mask)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (xcvm_lanes_mask)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif XCVM_LANES == 4 && defined(__SSE2__)
    return (xcvm_lanes_mask)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
    const xcvm_lanes_mask high = ((xcvm_lanes_mask)a >> 16) * ((xcvm_lanes_mask)b >> 16);
    return high + ((xcvm_lanes_mask)(a << 16) >> 16) * ((xcvm_lanes_mask)(b << 16) >> 16);
#endif
}

XCVM_INLINE void panel_integers(const xcvm_qblocks_matrix *w, size_t panel, const xcvm_qblocks_row *row,
                                const unsigned bits, float y[XCVM_PACKED_COLUMNS])
{
    const xcvm_qblocks *b = &w->layout;
    const size_t blocks = xcvm_qblocks_count(b), of_line = 32 / bits, lines = b->block / of_line;
    const uint8_t *at = w->codes + panel * blocks * lines * XCVM_QBLOCKS_LINE;
    const int32_t *pairs = row->pairs;
    xcvm_lanes total[XCVM_QBLOCKS_VECTORS];
    for (size_t v = 0; v < XCVM_QBLOCKS_VECTORS; v++)
        total[v] = (xcvm_lanes){0};
    for (size_t i = 0; i < blocks; i++) {
        xcvm_lanes_mask sum[2][XCVM_QBLOCKS_VECTORS];
#pragma GCC unroll 4
        for (size_t v = 0; v < XCVM_QBLOCKS_VECTORS; v++)
            sum[0][v] = sum[1][v] = (xcvm_lanes_mask){0};
        __builtin_prefetch((const char *)w->scales + (panel * blocks + i) * 32 + SCALES_AHEAD);
        for (size_t line = 0; line < lines; line++, at += XCVM_QBLOCKS_LINE, pairs += of_line / 2) {
            __builtin_prefetch(at + CODES_AHEAD);
#pragma GCC unroll 4
            for (size_t v = 0; v < XCVM_QBLOCKS_VECTORS; v++) {
                const xcvm_lanes_bits codes = xcvm_qblocks_line(at + v * sizeof(xcvm_lanes));
                const xcvm_lanes_bits mask = ((xcvm_lanes_bits){0} + (bits == 4 ? 0x000f000fu : 0x00ff00ffu));
                const xcvm_lanes_bits none = {0};
#pragma GCC unroll 2
                for (unsigned half = 0; half < 8 / bits; half++) {
                    const xcvm_lanes_bits even = (codes >> (4 * half)) & mask, odd = (codes >> (4 * half + 8)) & mask;
                    sum[0][v] += pair_products(even, none + (uint32_t)pairs[2 * half]);
                    sum[1][v] += pair_products(odd, none + (uint32_t)pairs[2 * half + 1]);
                }
            }
        }
        const size_t numbers = (panel * blocks + i) * XCVM_PACKED_COLUMNS;
#pragma GCC unroll 4
        for (size_t v = 0; v < XCVM_QBLOCKS_VECTORS; v++) {
            const xcvm_lanes scale = xcvm_qblocks_scales(w, numbers + v * XCVM_LANES);
            const xcvm_lanes offset = xcvm_qblocks_offsets(w, bits, numbers + v * XCVM_LANES);
            const xcvm_lanes products = __builtin_convertvector(sum[0][v] + sum[1][v], xcvm_lanes);
            total[v] += scale * xcvm_lanes_all(row->x_scales[i]) * (products - offset * xcvm_lanes_all(row->x_sums[i]));
        }
    }
    for (size_t v = 0; v < XCVM_QBLOCKS_VECTORS; v++)
        xcvm_lanes_store(y + v * XCVM_LANES, total[v]);
}

void xcvm_qblocks_panel_integers(const xcvm_qblocks_matrix *w, size_t panel, const xcvm_qblocks_row *row,
                                 float y[XCVM_PACKED_COLUMNS])
{
    if (w->layout.bits == 4)
        panel_integers(w, panel, row, 4, y);
    else
        panel_integers(w, panel, row, 8, y);
}
