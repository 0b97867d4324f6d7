/* Gradients of optimizers (XCVM_CLASS_optimizer), which may be given as factors. */
#ifndef XCVM_OPS_OPTIMIZER_FACTORS_H
#define XCVM_OPS_OPTIMIZER_FACTORS_H

#include "ops/op.h"

/* The gradients that an optimizer's arguments list: its first operand. */
static inline xcvm_inputs *xcvm_optimizer_gradients(const xcvm_schema *schema, const void *args)
{
    return (xcvm_inputs *)(void *)((char *)(uintptr_t)args + schema->fields[0].offset);
}

/* The parameters that they list: its first state. */
static inline xcvm_inputs *xcvm_optimizer_parameters(const xcvm_schema *schema, const void *args)
{
    const xcvm_field *f = schema->fields;
    while (f->role != XCVM_ROLE_IN_STATE)
        f++;
    return (xcvm_inputs *)(void *)((char *)(uintptr_t)args + f->offset);
}

/* Whether each gradient is given as two factors, a and b: a is [terms, m] and b is [terms, n] for a parameter [m, n],
 * whose gradient is the product of a, transposed, and b. The list has them side by side, a before b, in the order of
 * the parameters, and so is twice as long as theirs. All of an instruction's gradients are given so, or none. */
static inline bool xcvm_gradients_are_factors(const xcvm_inputs *gradients, const xcvm_inputs *parameters)
{
    return parameters->count > 0 && gradients->count == 2 * parameters->count;
}

#endif
