/* Few rows times block-quantized weights. */
#include "ops/matmul/simd/quantized_blocks_row.h"

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

void xcvm_qblocks_row_make(const xcvm_qblocks *b, const float *a, void *scratch, xcvm_qblocks_row *row)
{
    *row = xcvm_qblocks_row_at(b, scratch);
    make_floats(b, a, row);
}

/* ---- Products ---- */

/* The usual blocks: default size, no offsets. With a constant scale type, scales are read without a branch, which saves
 * a tenth of the time of one row. */
static bool is_usual(const xcvm_qblocks_matrix *w, xcvm_dtype scale_dtype)
{
    return w->scale_dtype == scale_dtype && w->offsets == NULL && w->layout.block == XCVM_QBLOCKS_USUAL;
}
XCVM_INLINE xcvm_qblocks_matrix usual(const xcvm_qblocks_matrix *w, const xcvm_dtype scale_dtype)
{
    xcvm_qblocks_matrix known = {
        .layout = w->layout, .codes = w->codes, .scales = w->scales, .scale_dtype = scale_dtype};
    known.layout.block = XCVM_QBLOCKS_USUAL;
    return known;
}

/* With constant arguments, rows * phases * XCVM_QBLOCKS_VECTORS sums stay in registers. A block is summed separately,
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
        const size_t numbers = (panel * blocks + i) * XCVM_PACKED_COLUMNS;
        __builtin_prefetch((const char *)w->scales + numbers * xcvm_qblocks_scale_bytes(w) + SCALES_AHEAD);
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

/* Chains that hide the latency of additions and fit in registers. */
#define PHASES(rows) (XCVM_LANES == 16 ? ((rows) == 1 ? 4 : 2) : XCVM_LANES == 8 && (rows) == 1 ? 2 : 1)

XCVM_INLINE void one_row(const unsigned bits, const xcvm_qblocks_matrix *w, size_t panel, const xcvm_qblocks_row *row,
                         float y[][XCVM_PACKED_COLUMNS])
{
    if (is_usual(w, XCVM_F16)) {
        const xcvm_qblocks_matrix known = usual(w, XCVM_F16);
        panel_f32(&known, panel, row, bits, 1, PHASES(1), y);
    } else if (is_usual(w, XCVM_F32)) {
        const xcvm_qblocks_matrix known = usual(w, XCVM_F32);
        panel_f32(&known, panel, row, bits, 1, PHASES(1), y);
    } else
        panel_f32(w, panel, row, bits, 1, PHASES(1), y);
}

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
        one_row(bits, w, panel, row, y);
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
