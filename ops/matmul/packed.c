/* Packing of matrices into panels. */
#include "ops/matmul/packed.h"

#include <stdbool.h>

enum { SQUARE = XCVM_PACKED_COLUMNS };

void xcvm_packed_write(size_t k, size_t n, const float *w, size_t row, size_t column, float factor, float *panels)
{
    for (size_t j = 0; j < n; j += XCVM_PACKED_COLUMNS, panels += k * XCVM_PACKED_COLUMNS) {
        const size_t columns = n - j < XCVM_PACKED_COLUMNS ? n - j : XCVM_PACKED_COLUMNS;
        /* Square blocks, so that column reads and row writes both stay in the cache. */
        for (size_t p = 0; p < k; p += SQUARE) {
            const size_t rows = k - p < SQUARE ? k - p : SQUARE;
            const float *from = w + p * row + j * column;
            float *to = panels + p * XCVM_PACKED_COLUMNS;
            for (size_t i = 0; i < columns; i++)
                for (size_t q = 0; q < rows; q++)
                    to[q * XCVM_PACKED_COLUMNS + i] = factor * from[q * row + i * column];
            for (size_t i = columns; i < XCVM_PACKED_COLUMNS; i++)
                for (size_t q = 0; q < rows; q++)
                    to[q * XCVM_PACKED_COLUMNS + i] = 0.0f;
        }
    }
}

void xcvm_packed_write_gates(size_t k, size_t gates, size_t hidden, const float *w, float *panels)
{
    for (size_t unit = 0; unit < hidden; unit += XCVM_PACKED_COLUMNS) {
        const size_t units = hidden - unit < XCVM_PACKED_COLUMNS ? hidden - unit : XCVM_PACKED_COLUMNS;
        for (size_t g = 0; g < gates; g++, panels += k * XCVM_PACKED_COLUMNS)
            xcvm_packed_write(k, units, w + (g * hidden + unit) * k, 1, k, 1.0f, panels);
    }
}

void xcvm_packed_write_biases(size_t gates, size_t hidden, const float *b, float *sums, float *reset)
{
    const float *state = b + gates * hidden;
    for (size_t unit = 0; unit < hidden; unit += XCVM_PACKED_COLUMNS)
        for (size_t g = 0; g < gates; g++)
            for (size_t i = 0; i < XCVM_PACKED_COLUMNS; i++, sums++) {
                const bool within = reset != NULL && g == gates - 1;
                const size_t at = g * hidden + unit + i;
                *sums = unit + i >= hidden ? 0.0f : within ? b[at] : b[at] + state[at];
            }
    for (size_t i = 0; reset != NULL && i < hidden; i++)
        reset[i] = state[(gates - 1) * hidden + i];
}
