/* Unary element-wise instructions for element types without vector loops. */
#ifndef XCVM_OPS_ELEMENTWISE_UNARY_GENERIC_H
#define XCVM_OPS_ELEMENTWISE_UNARY_GENERIC_H

#include "ops/elementwise/formulas.h"
#include "ops/util/kernel.h"

/* y[i] = f(x[i]); x and y may be equal. `p` has alpha and beta of ops/elementwise/formulas.h. */
typedef void (*xcvm_unary_f64)(const double *x, double *y, size_t count, const double *p);
/* The loops of SCALAR formulas: xcvm_unary_f64_Log. */
#define XCVM_UNARY_F64_SCALAR(Name, formula)                                                                           \
    void xcvm_unary_f64_##Name(const double *x, double *y, size_t count, const double *p);
#define XCVM_UNARY_F64_EACH(Name, formula)
#define XCVM_UNARY_F64_FUNCTION(Name, function)
#define XCVM_UNARY_F64_PERIODIC(Name, function, general)
#define XCVM_UNARY_F64(Name, kernel, grain, f32, f64, integers) XCVM_BY_KIND(XCVM_UNARY_F64_, Name, XCVM_TAKEN_##f64)
XCVM_UNARY_FORMULAS(XCVM_UNARY_F64)

/* Instructions with an INTEGER formula. */
typedef enum xcvm_unary_integer {
#define XCVM_UNARY_INTEGER_ENTRY_INTEGER(Name, formula) XCVM_UNARY_INTEGER_##Name,
#define XCVM_UNARY_INTEGER_ENTRY_THROUGH_F64(Name, nothing)
#define XCVM_UNARY_INTEGER_ENTRY_NONE(Name, nothing)
#define XCVM_UNARY_INTEGER_ENTRY(Name, kernel, grain, f32, f64, integers)                                              \
    XCVM_BY_KIND(XCVM_UNARY_INTEGER_ENTRY_, Name, XCVM_TAKEN_##integers)
    XCVM_UNARY_FORMULAS(XCVM_UNARY_INTEGER_ENTRY)
} xcvm_unary_integer;

/* y = f(x) for integer tensors. */
#define xcvm_unary_int XCVM_PER_ISA(xcvm_unary_int)
xcvm_status xcvm_unary_int(xcvm_kernel *k, xcvm_unary_integer op, xcvm_value *y, const xcvm_value *x);
/* y = x clamped to [min, max], which are integer tensors of one element, or NULL. */
#define xcvm_clip_int XCVM_PER_ISA(xcvm_clip_int)
xcvm_status xcvm_clip_int(const xcvm_kernel *k, xcvm_value *y, const xcvm_value *x, const xcvm_value *min,
                          const xcvm_value *max);

#endif
