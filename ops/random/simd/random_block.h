/* Random numbers (ops/random/random.h) in a row. */
#ifndef XCVM_OPS_RANDOM_SIMD_RANDOM_BLOCK_H
#define XCVM_OPS_RANDOM_SIMD_RANDOM_BLOCK_H

#include "ops/util/kernel.h"

/* `count` numbers as xcvm_random_uniform returns them. */
#define xcvm_random_uniforms XCVM_PER_ISA(xcvm_random_uniforms)
void xcvm_random_uniforms(uint64_t *state, size_t count, double *to);
/* `count` numbers that are normally distributed with mean 0 and deviation 1 (Box and Muller's transform, of which one
 * half is used, so that each number takes two of the generator's). */
#define xcvm_random_normals XCVM_PER_ISA(xcvm_random_normals)
void xcvm_random_normals(uint64_t *state, size_t count, double *to);

#endif
