/* Blocks of random numbers, several counters at a time. */
#include "ops/random/simd/random_block.h"

#include "ops/random/random.h"
#include "ops/simd/math_f64.h"

void xcvm_random_uniforms(uint64_t *state, size_t count, double *to)
{
    const uint64_t first = *state;
    for (size_t i = 0; i < count; i++)
        to[i] = xcvm_random_unit(xcvm_random_scramble(first + (i + 1) * XCVM_RANDOM_STEP));
    *state = first + count * XCVM_RANDOM_STEP;
}

void xcvm_random_normals(uint64_t *state, size_t count, double *to)
{
    enum { BLOCK = 128 };
    double u[2 * BLOCK];
    for (size_t at = 0; at < count; at += BLOCK) {
        const size_t n = count - at < BLOCK ? count - at : BLOCK;
        xcvm_random_uniforms(state, 2 * n, u);
        XCVM_INDEPENDENT
        for (size_t i = 0; i < n; i++) {
            /* 1 - u is in (0, 1], so the logarithm is finite. */
            const double radius = sqrt(-1.3862943611198906 * xcvm_log2_f64(1.0 - u[2 * i]));
            to[at + i] = radius * xcvm_cos_f64(6.283185307179586 * u[2 * i + 1]);
        }
    }
}
