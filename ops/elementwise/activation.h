/* The activation that a product or a convolution applies to its result before it is stored.
 *
 * `activation_params` of an instruction, where left out the value in parentheses: Clip low (-inf), high (inf);
 * LeakyRelu alpha (0.01); HardSigmoid alpha (0.2), beta (0.5); Swish alpha (1); Gelu 1 for its tanh approximation (0).
 * The others take none.
 *
 * `affine` of an instruction is empty, or a scale and a shift: the activation's result is multiplied by the one, and
 * the other added. */
#ifndef XCVM_OPS_ELEMENTWISE_ACTIVATION_H
#define XCVM_OPS_ELEMENTWISE_ACTIVATION_H

#include "ops/op.h"

typedef struct xcvm_activation {
    int kind;        /* XCVM_ACTIVATION_...; Relu and Clip become none, as low and high say it all, unless affine */
    float low, high; /* result = max(low, min(high, value)); NaN stays */
    float alpha, beta;
    bool affine; /* then the result is multiplied by scale, and shift added; kind is not none */
    float scale, shift;
} xcvm_activation;

/* The activation of a row's attributes, which xcvm_activation_check has taken. */
xcvm_activation xcvm_activation_of(int choice, xcvm_floats params);
/* The same of an instruction that has an attribute `affine`. */
xcvm_activation xcvm_activation_affine(int choice, xcvm_floats params, xcvm_floats affine);
/* Checks that there are two numbers or none; for shape rules. */
xcvm_status xcvm_affine_check(xcvm_error *error, xcvm_floats affine);
/* Checks the number of parameters; for shape rules. */
xcvm_status xcvm_activation_check(xcvm_error *error, int choice, xcvm_floats params);
/* One value, for the types that have no vector path. */
double xcvm_activate_f64(const xcvm_activation *f, double x);

#endif
