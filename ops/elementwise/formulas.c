/* Compile-time checks that op definitions and formulas of element-wise instructions agree on element types. */
#include "ops/elementwise/formulas.h"
#include "ops/op.h"

#define TYPE(variable, set) | XCVM_TYPES_##set
#define XCVM_OP(Name, number, operands, ...)                                                                           \
    enum {                                                                                                             \
        FLOATS_OF_##Name = ((0u operands) & XCVM_TYPES_FLOAT) != 0,                                                    \
        INTEGERS_OF_##Name = ((0u operands) & XCVM_TYPES_INT) != 0,                                                    \
        BOOLEANS_OF_##Name = ((0u operands) & XCVM_TYPES_BOOL) != 0                                                    \
    };
#include "ops/instructions.def"

#define THERE_NONE(Name, nothing) 0
#define THERE_EACH(Name, formula) 1
#define THERE_SMALL(Name, formula) 1
#define THERE_PADDED(Name, formula) 1
#define THERE_REMAINDER(Name, formula) 1
#define THERE_SCALAR(Name, formula) 1
#define THERE_FUNCTION(Name, function) 1
#define THERE_PERIODIC(Name, function, general) 1
#define THERE_INTEGER(Name, formula) 1
#define THERE_THROUGH_F64(Name, nothing) 1
#define THERE_MODULAR(Name, formula) 1
#define THERE_ORDERED(Name, formula) 1
#define THERE_WIDE(Name, with_sign, without) 1
#define THERE_UNSIGNED(Name, formula) 1
#define THERE_TRUTH(Name, formula) 1
#define CHECK(Name, types, part)                                                                                       \
    _Static_assert(types##_OF_##Name == XCVM_BY_KIND(THERE_, Name, XCVM_TAKEN_##part),                                 \
                   "the row of " #Name " and its formulas differ in whether there are " #types);

#define UNARY_PLAIN(Name, f32, f64, integers)                                                                          \
    CHECK(Name, FLOATS, f32) CHECK(Name, FLOATS, f64) CHECK(Name, INTEGERS, integers)
#define UNARY_OWN(Name, f32, f64, integers) UNARY_PLAIN(Name, f32, f64, integers)
#define UNARY_VARIANT(Name, f32, f64, integers)
#define UNARY(Name, kernel, grain, f32, f64, integers) UNARY_##kernel(Name, f32, f64, integers)
XCVM_UNARY_FORMULAS(UNARY)

#define BINARY_PLAIN(Name, f32, f64, integers, booleans)                                                               \
    UNARY_PLAIN(Name, f32, f64, integers) CHECK(Name, BOOLEANS, booleans)
#define BINARY_OWN(Name, f32, f64, integers, booleans) BINARY_PLAIN(Name, f32, f64, integers, booleans)
#define BINARY_VARIANT(Name, f32, f64, integers, booleans)
#define BINARY(Name, kernel, grain, result, f32, f64, integers, booleans)                                              \
    BINARY_##kernel(Name, f32, f64, integers, booleans)
XCVM_BINARY_FORMULAS(BINARY)
