/* Packing of filters for convolutions of blocked channels, at compile time. */
#include "ops/conv/blocked.h"
#include "ops/matmul/pairs.h"

#include <math.h>

enum { BLOCK = XCVM_CHANNEL_BLOCK };

/* Number of window positions. */
static int64_t taps_of(int rank, const int64_t *dims)
{
    int64_t taps = 1;
    for (int i = 2; i < rank; i++)
        taps *= dims[i];
    return taps;
}

void xcvm_blocked_pack_direct(const float *w, int rank, const int64_t *dims, float *packed)
{
    const int64_t outputs = dims[0], channels = dims[1], taps = taps_of(rank, dims);
    for (int64_t block = 0; block < outputs; block += BLOCK)
        for (int64_t first = 0; first < channels; first += BLOCK) {
            const int64_t last = channels - first < BLOCK ? channels : first + BLOCK;
            for (int64_t tap = 0; tap < taps; tap++)
                for (int64_t c = first; c < last; c++, packed += BLOCK)
                    for (int64_t k = 0; k < BLOCK; k++)
                        packed[k] = block + k < outputs ? w[((block + k) * channels + c) * taps + tap] : 0.0f;
        }
}

void xcvm_blocked_pack_pairs(const float *direct, int rank, const int64_t *dims, uint16_t *packed)
{
    int64_t taps = 1;
    for (int i = 2; i < rank - 1; i++)
        taps *= dims[i];
    for (int64_t block = 0; block < dims[0]; block++)
        for (int64_t first = 0; first < dims[1]; first += BLOCK) {
            const int64_t channels = dims[1] - first < BLOCK ? dims[1] - first : BLOCK;
            for (int64_t tap = 0; tap < taps; tap++, direct += channels * BLOCK) {
                xcvm_pairs_write((size_t)channels, direct, packed);
                packed += xcvm_pairs_of((size_t)channels) * XCVM_PAIR * BLOCK;
            }
        }
}

/* Packs the window positions (k, l) of one phase for input channels [first, last). Returns the end in `packed`. */
static float *pack_phase(const float *w, const int64_t dims[4], const int64_t strides[2], const int64_t phase[2],
                         int64_t block, int64_t first, int64_t last, float *packed)
{
    const int64_t outputs = dims[1], taps = dims[2] * dims[3];
    for (int64_t k = phase[0]; k < dims[2]; k += strides[0])
        for (int64_t l = phase[1]; l < dims[3]; l += strides[1])
            for (int64_t c = first; c < last; c++, packed += BLOCK)
                for (int64_t i = 0; i < BLOCK; i++)
                    packed[i] = block + i < outputs ? w[(c * outputs + block + i) * taps + k * dims[3] + l] : 0.0f;
    return packed;
}

void xcvm_blocked_pack_transposed(const float *w, const int64_t dims[4], const int64_t strides[2], float *packed)
{
    const int64_t channels = dims[0], outputs = dims[1];
    for (int64_t block = 0; block < outputs; block += BLOCK)
        for (int64_t i = 0; i < strides[0] && i < dims[2]; i++)
            for (int64_t j = 0; j < strides[1] && j < dims[3]; j++)
                for (int64_t first = 0; first < channels; first += BLOCK)
                    packed = pack_phase(w, dims, strides, (const int64_t[]){i, j}, block, first,
                                        channels - first < BLOCK ? channels : first + BLOCK, packed);
}

void xcvm_blocked_pack_depthwise(const float *w, int rank, const int64_t *dims, float *packed)
{
    const int64_t channels = dims[0], taps = taps_of(rank, dims);
    for (int64_t block = 0; block < channels; block += BLOCK)
        for (int64_t tap = 0; tap < taps; tap++, packed += BLOCK)
            for (int64_t c = 0; c < BLOCK; c++)
                packed[c] = block + c < channels ? w[(block + c) * taps + tap] : 0.0f;
}

void xcvm_blocked_pack_grouped(const float *w, int rank, const int64_t *dims, float *packed)
{
    const int64_t outputs = dims[0], channels = dims[1], taps = taps_of(rank, dims);
    for (int64_t block = 0; block < outputs; block += BLOCK)
        for (int64_t tap = 0; tap < taps; tap++)
            for (int64_t c = 0; c < channels; c++, packed += BLOCK)
                for (int64_t k = 0; k < BLOCK; k++)
                    packed[k] = block + k < outputs ? w[((block + k) * channels + c) * taps + tap] : 0.0f;
}

/* Winograd filter transform of three taps: F(2, 3) with points 0, 1, -1 and infinity; F(4, 3) with the points of
 * ops/conv/simd/blocked_winograd.c. */
static void transform(int64_t tile, const double g[3], double u[6])
{
    const double root2 = sqrt(2.0);
    if (tile == 2) {
        u[0] = g[0];
        u[1] = 0.5 * (g[0] + g[1] + g[2]);
        u[2] = 0.5 * (g[0] - g[1] + g[2]);
        u[3] = g[2];
        return;
    }
    const double p = -2.0 / 3.0 * g[0] - 1.0 / 3.0 * g[2], q = root2 / 3.0 * g[1];
    const double r = 1.0 / 6.0 * g[0] + 1.0 / 3.0 * g[2], s = root2 / 6.0 * g[1];
    u[0] = g[0];
    u[1] = p - q;
    u[2] = p + q;
    u[3] = r + s;
    u[4] = r - s;
    u[5] = g[2];
}

void xcvm_blocked_pack_winograd(const float *w, int rank, const int64_t *dims, int64_t tile, float *packed)
{
    const int64_t outputs = dims[0], channels = dims[1], depth = rank > 4 ? dims[2] : 1, span = tile + 2;
    const int64_t stride = xcvm_blocks_of(outputs) * depth * channels * BLOCK; /* distance between points */
    for (int64_t block = 0; block < outputs; block += BLOCK)
        for (int64_t i = 0; i < depth * channels; i++, packed += BLOCK)
            for (int64_t k = 0; k < BLOCK; k++) {
                double rows[3][6], columns[6];
                const int64_t slice = i / channels, c = i % channels;
                const float *g = w + (((block + k) * channels + c) * depth + slice) * 9;
                for (int row = 0; row < 3 && block + k < outputs; row++) {
                    const double taps[3] = {(double)g[3 * row], (double)g[3 * row + 1], (double)g[3 * row + 2]};
                    transform(tile, taps, rows[row]);
                }
                for (int64_t j = 0; j < span; j++) {
                    if (block + k < outputs) {
                        const double taps[3] = {rows[0][j], rows[1][j], rows[2][j]};
                        transform(tile, taps, columns);
                    }
                    for (int64_t row = 0; row < span; row++)
                        packed[(row * span + j) * stride + k] = block + k < outputs ? (float)columns[row] : 0.0f;
                }
            }
}

/* Filter transform of F(3, 4) with the points of F(4, 3). */
static void transform_strided(const double g[4], double u[6])
{
    const double root2 = sqrt(2.0), points[] = {root2 / 2, -root2 / 2, root2, -root2};
    const double scales[] = {-2.0 / 3.0, -2.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0};
    u[0] = g[0];
    for (int i = 0; i < 4; i++)
        u[1 + i] = scales[i] * (g[0] + points[i] * (g[1] + points[i] * (g[2] + points[i] * g[3])));
    u[5] = g[3];
}

/* The 6 x 6 transformed numbers of one phase of a window. */
static void transform_phase(const float *window, int64_t row_phase, int64_t column_phase, double points[36])
{
    enum { SIZE = XCVM_BLOCKED_STRIDED_WINDOW };
    double rows[4][6];
    for (int64_t i = 0; i < 4; i++) {
        double taps[4];
        for (int64_t j = 0; j < 4; j++) {
            const int64_t row = 2 * i + row_phase, column = 2 * j + column_phase;
            taps[j] = row < SIZE && column < SIZE ? (double)window[row * SIZE + column] : 0.0;
        }
        transform_strided(taps, rows[i]);
    }
    for (int64_t j = 0; j < 6; j++) {
        const double taps[] = {rows[0][j], rows[1][j], rows[2][j], rows[3][j]};
        double column[6];
        transform_strided(taps, column);
        for (int64_t i = 0; i < 6; i++)
            points[6 * i + j] = column[i];
    }
}

void xcvm_blocked_pack_strided(const float *w, const int64_t dims[4], float *packed)
{
    const int64_t outputs = dims[0], channels = dims[1], taps = dims[2] * dims[3];
    const int64_t stride = xcvm_blocks_of(outputs) * 4 * channels * BLOCK; /* distance between points */
    for (int64_t block = 0; block < outputs; block += BLOCK)
        for (int64_t i = 0; i < 4 * channels; i++, packed += BLOCK)
            for (int64_t k = 0; k < BLOCK; k++) {
                double points[36] = {0};
                if (block + k < outputs)
                    transform_phase(w + ((block + k) * channels + i / 4) * taps, i / 2 % 2, i % 2, points);
                for (int64_t point = 0; point < 36; point++)
                    packed[point * stride + k] = (float)points[point];
            }
}

void xcvm_blocked_pack_bias(const float *b, int64_t outputs, float *packed)
{
    for (int64_t k = 0; k < xcvm_blocks_of(outputs) * BLOCK; k++)
        packed[k] = k < outputs ? b[k] : 0.0f;
}
