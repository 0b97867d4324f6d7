/* The activation that a product or a convolution applies to its result before it is stored.
 *
 * `activation_params` of an instruction, where left out the value in parentheses: Clip low (-inf), high (inf);
 * LeakyRelu alpha (0.01); HardSigmoid alpha (0.2), beta (0.5); Swish alpha (1); Gelu 1 for its tanh approximation (0).
 * The others take none. */
#ifndef XCVM_OPS_ACTIVATION_H
#define XCVM_OPS_ACTIVATION_H

#include "ops/op.h"

typedef struct xcvm_activation {
    int kind;        /* XCVM_ACTIVATION_...; Relu and Clip become none, as low and high say it all */
    float low, high; /* result = max(low, min(high, value)); NaN stays */
    float alpha, beta;
} xcvm_activation;

/* The activation of a row's attributes, which xcvm_activation_check has taken. */
xcvm_activation xcvm_activation_of(int choice, xcvm_floats params);
/* Checks the number of parameters; for shape rules. */
xcvm_status xcvm_activation_check(xcvm_error *error, int choice, xcvm_floats params);
/* One value, for the types that have no vector path. */
double xcvm_activate_f64(const xcvm_activation *f, double x);

#endif
