/* Random numbers to begin with: what weights are drawn from. */
#ifndef XCVM_OPS_RANDOM_DRAW_H
#define XCVM_OPS_RANDOM_DRAW_H

#include <stddef.h>
#include <stdint.h>

/* Normally distributed, of mean 0 and deviation 1; moves the state on (ops/random/random.h). */
double xcvm_draw_normal(uint64_t *state);
/* Evenly distributed in [-bound, bound). */
double xcvm_draw_uniform(uint64_t *state, double bound);
/* Makes the rows of a matrix orthonormal, or its columns where there are fewer of them (Saxe, McClelland and Ganguli,
 * 2013). */
void xcvm_orthogonalize(double *matrix, size_t rows, size_t columns);

#endif
