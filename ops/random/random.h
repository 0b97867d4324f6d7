/* Reproducible random numbers: splitmix64, whose state is one counter (Steele, Lea and Flood, "Fast splittable
 * pseudorandom number generators", 2014). */
#ifndef XCVM_OPS_RANDOM_RANDOM_H
#define XCVM_OPS_RANDOM_RANDOM_H

#include <stdint.h>

/* The state is incremented by this; numbers are its scrambled values. */
#define XCVM_RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15)
static inline uint64_t xcvm_random_scramble(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
/* The highest 53 of 64 bits as a fraction. */
static inline double xcvm_random_unit(uint64_t bits) { return (double)(int64_t)(bits >> 11) * 0x1p-53; }

/* Returns 64 bits and advances the state. Any state is valid. */
uint64_t xcvm_random_next(uint64_t *state);
/* Uniform in [0, 1), a multiple of 2^-53. */
double xcvm_random_uniform(uint64_t *state);
/* Returns the initial state for an instruction: from its own seed, or, for seed -1, from the session's state. */
uint64_t xcvm_random_start(int64_t seed, uint64_t *session);

#endif
