/* The element-wise instructions on the element types that have no vector loops of their own. */
#ifndef XCVM_OPS_UNARY_H
#define XCVM_OPS_UNARY_H

#include "ops/kernel.h"

/* y[i] = f(x[i]); x and y may be equal. `p` are the instruction's FLOAT attributes in row order. */
typedef void (*xcvm_unary_f64)(const double *x, double *y, size_t count, const double *p);
/* The f64 loop of a unary instruction whose result has its operand's type; Clip takes its bounds as p. */
xcvm_unary_f64 xcvm_unary_f64_of(xcvm_opcode opcode);

/* y = f(x) on tensors of integers, for Abs, Neg, Sign and Relu. */
#define xcvm_unary_int XCVM_PER_ISA(xcvm_unary_int)
xcvm_status xcvm_unary_int(xcvm_kernel *k, xcvm_opcode opcode, xcvm_value *y, const xcvm_value *x);
/* y = x, not below min and not above max, tensors of one integer each, or NULL. */
#define xcvm_clip_int XCVM_PER_ISA(xcvm_clip_int)
xcvm_status xcvm_clip_int(const xcvm_kernel *k, xcvm_value *y, const xcvm_value *x, const xcvm_value *min,
                          const xcvm_value *max);

#endif
