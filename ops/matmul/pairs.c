/* Rounding of packed matrices to pairs of bf16. */
#include "ops/matmul/pairs.h"

#include <string.h>

/* Rounds to nearest even; NaN stays NaN. */
static uint16_t rounded(float x)
{
    enum { INFINITE = 0x7f80, QUIET = 0x40, LEAST_NORMAL = 0x80 };
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > (uint32_t)INFINITE << 16)
        return (uint16_t)(bits >> 16 | QUIET);
    if (magnitude < (uint32_t)LEAST_NORMAL << 16)
        return (uint16_t)sign;
    return (uint16_t)(sign | (magnitude + 0x7fffu + (magnitude >> 16 & 1u)) >> 16);
}

void xcvm_pairs_write(size_t lines, const float *from, uint16_t *to)
{
    enum { COLUMNS = XCVM_PACKED_COLUMNS };
    for (size_t line = 0; line < lines; line += XCVM_PAIR, from += XCVM_PAIR * COLUMNS)
        for (size_t j = 0; j < COLUMNS; j++, to += XCVM_PAIR) {
            to[0] = rounded(from[j]);
            to[1] = line + 1 < lines ? rounded(from[COLUMNS + j]) : 0;
        }
}
