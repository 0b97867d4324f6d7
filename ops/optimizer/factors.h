/* Gradients of optimizers (XCVM_CLASS_optimizer), which may be pairs of factors. */
#ifndef XCVM_OPS_OPTIMIZER_FACTORS_H
#define XCVM_OPS_OPTIMIZER_FACTORS_H

#include "ops/op.h"

/* Gradients in an optimizer's arguments: its first operand. */
static inline xcvm_inputs *xcvm_optimizer_gradients(const xcvm_schema *schema, const void *args)
{
    return (xcvm_inputs *)(void *)((char *)(uintptr_t)args + schema->fields[0].offset);
}

/* Parameters in an optimizer's arguments: its first state. */
static inline xcvm_inputs *xcvm_optimizer_parameters(const xcvm_schema *schema, const void *args)
{
    const xcvm_field *f = schema->fields;
    while (f->role != XCVM_ROLE_IN_STATE)
        f++;
    return (xcvm_inputs *)(void *)((char *)(uintptr_t)args + f->offset);
}

/* Returns true if each gradient is the product of two factors, a transposed and b: a is [terms, m] and b is [terms, n]
 * for a parameter [m, n]. The list then alternates a and b in the order of parameters, and is twice as long. An
 * instruction has only factors or none. */
static inline bool xcvm_gradients_are_factors(const xcvm_inputs *gradients, const xcvm_inputs *parameters)
{
    return parameters->count > 0 && gradients->count == 2 * parameters->count;
}

#endif
