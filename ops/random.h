/* Random numbers that repeat: splitmix64, whose state is one counter (Steele, Lea and Flood, "Fast splittable
 * pseudorandom number generators", 2014). */
#ifndef XCVM_OPS_RANDOM_H
#define XCVM_OPS_RANDOM_H

#include <stdint.h>

/* 64 bits; moves the state on. Any state is a good one. */
uint64_t xcvm_random_next(uint64_t *state);
/* Evenly distributed in [0, 1), a multiple of 2^-53. */
double xcvm_random_uniform(uint64_t *state);
/* Normally distributed with mean 0 and deviation 1 (Box and Muller's transform, of which one half is used, so that each
 * number takes two of the generator's). */
double xcvm_random_normal(uint64_t *state);
/* The state to start from for an instruction: that of its own seed, or, for seed -1, one taken from the session's. */
uint64_t xcvm_random_start(int64_t seed, uint64_t *session);

#endif
