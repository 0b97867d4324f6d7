/* Activations of a row of f32, for the stores of products and convolutions. */
#ifndef XCVM_OPS_ELEMENTWISE_SIMD_ACTIVATION_ROWS_H
#define XCVM_OPS_ELEMENTWISE_SIMD_ACTIVATION_ROWS_H

#include "ops/elementwise/activation.h"
#include "ops/util/kernel.h"

#include "ops/simd/math.h"

/* x[i] = f(x[i]), without clamping to f->low and f->high, which the stores have already done. */
#define xcvm_activate_row XCVM_PER_ISA(xcvm_activate_row)
void xcvm_activate_row(const xcvm_activation *f, float *x, size_t count);

#endif
