/* Gradients of optimizers that are given as factors. */
#ifndef XCVM_OPS_OPTIMIZER_FACTORS_H
#define XCVM_OPS_OPTIMIZER_FACTORS_H

#include "ops/op.h"

/* Whether each gradient is given as two factors, a and b: a is [terms, m] and b is [terms, n] for a parameter [m, n],
 * whose gradient is the product of a, transposed, and b. The list has them side by side, a before b, in the order of
 * the parameters, and so is twice as long as theirs. All of an instruction's gradients are given so, or none. */
static inline bool xcvm_gradients_are_factors(const xcvm_inputs *gradients, const xcvm_inputs *parameters)
{
    return parameters->count > 0 && gradients->count == 2 * parameters->count;
}

#endif
