/* The activation that a matrix product or convolution applies to its result before storing it.
 *
 * `activation_params` of an instruction, with defaults in parentheses: Clip low (-inf), high (inf); LeakyRelu alpha
 * (0.01); HardSigmoid alpha (0.2), beta (0.5); Swish alpha (1); Gelu 1 for its tanh approximation (0). Others have
 * none.
 *
 * `affine` of an instruction is empty, or a scale and a shift that are applied after the activation. */
#ifndef XCVM_OPS_ELEMENTWISE_ACTIVATION_H
#define XCVM_OPS_ELEMENTWISE_ACTIVATION_H

#include "ops/op.h"

typedef struct xcvm_activation {
    int kind;        /* XCVM_ACTIVATION_...; without affine, Relu and Clip become none, because low and high suffice */
    float low, high; /* result = max(low, min(high, value)); NaN is kept */
    float alpha, beta;
    bool affine; /* multiply by scale and add shift afterwards; kind is not none */
    float scale, shift;
} xcvm_activation;

/* Returns the activation of an instruction's attributes, which xcvm_activation_check has accepted. */
xcvm_activation xcvm_activation_of(int choice, xcvm_floats params);
/* The same for an instruction with an attribute `affine`. */
xcvm_activation xcvm_activation_affine(int choice, xcvm_floats params, xcvm_floats affine);
/* For shape rules: checks that there are two numbers or none. */
xcvm_status xcvm_affine_check(xcvm_error *error, xcvm_floats affine);
/* For shape rules: checks the number of parameters. */
xcvm_status xcvm_activation_check(xcvm_error *error, int choice, xcvm_floats params);
/* Applies it to one value, for types without vector code. */
double xcvm_activate_f64(const xcvm_activation *f, double x);

#endif
