/* Sequences of random numbers (ops/random/random.h). */
#ifndef XCVM_OPS_RANDOM_SIMD_RANDOM_BLOCK_H
#define XCVM_OPS_RANDOM_SIMD_RANDOM_BLOCK_H

#include "ops/util/kernel.h"

/* Writes `count` numbers of xcvm_random_uniform. */
#define xcvm_random_uniforms XCVM_PER_ISA(xcvm_random_uniforms)
void xcvm_random_uniforms(uint64_t *state, size_t count, double *to);
/* Writes `count` standard normal numbers (Box-Muller transform; only one of each pair is used, so each number takes two
 * uniform ones). */
#define xcvm_random_normals XCVM_PER_ISA(xcvm_random_normals)
void xcvm_random_normals(uint64_t *state, size_t count, double *to);

#endif
