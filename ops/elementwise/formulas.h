/* Formulas of element-wise instructions, one line each. Loops for every element type, kernels, and functions of kernel
 * libraries are generated from them.
 *
 * A formula is a branch-free expression of the element v (or u and v) in its type. alpha and beta are the instruction's
 * FLOAT attributes in definition order, or values that its kernel provides. The columns are
 *
 * - kernel: PLAIN, generated from this line; OWN, handwritten next to the loops; VARIANT, not an instruction, but a
 * case of one for certain attributes. - grain: CHEAP or COSTLY, which determines the minimum elements per thread. -
 * f32: EACH(formula), a loop and a function of kernel libraries; PERIODIC(function, general), vectorized, but with libm
 * for large arguments. - f64: EACH(formula) as for f32; FUNCTION(name) and PERIODIC(name, general), vectorized, and
 * compiled for each
 *   instruction set; SCALAR(formula), compiled once, such as calls of libm. - integers: INTEGER(formula), for all
 * integer types, where `negated` is -v with wraparound, and low and high are bounds; THROUGH_F64, the rounded f64
 * formula; NONE.
 *
 * It is a compile-time error if an op definition allows integers and its line has no formula for them
 * (ops/elementwise/formulas.c). */
#ifndef XCVM_OPS_ELEMENTWISE_FORMULAS_H
#define XCVM_OPS_ELEMENTWISE_FORMULAS_H

/* clang-format off */
#define XCVM_UNARY_FORMULAS(UNARY) \
    UNARY(Abs, PLAIN, CHEAP, EACH(xcvm_absolute_f32(v)), EACH(xcvm_absolute_f64(v)), INTEGER(v > 0 ? v : negated)) \
    UNARY(Neg, PLAIN, CHEAP, EACH(-v), EACH(-v), INTEGER(negated)) \
    UNARY(Sign, PLAIN, CHEAP, EACH(xcvm_sign_f32(v)), SCALAR(sign_of(v)), INTEGER(v > 0 ? 1 : -(v != 0))) \
    UNARY(Ceil, PLAIN, CHEAP, EACH(ceilf(v)), EACH(ceil(v)), NONE) \
    UNARY(Floor, PLAIN, CHEAP, EACH(floorf(v)), EACH(floor(v)), NONE) \
    UNARY(Round, PLAIN, CHEAP, EACH(rintf(v)), EACH(rint(v)), NONE) \
    UNARY(Sqrt, PLAIN, CHEAP, EACH(sqrtf(v)), EACH(sqrt(v)), NONE) \
    UNARY(Reciprocal, PLAIN, CHEAP, EACH(1.0f / v), EACH(1.0 / v), NONE) \
    UNARY(Exp, OWN, COSTLY, EACH(xcvm_exp_f32(v)), FUNCTION(xcvm_exp_f64), NONE) \
    UNARY(Log, PLAIN, COSTLY, EACH(xcvm_log_f32(v)), SCALAR(log(v)), NONE) \
    UNARY(Sin, PLAIN, COSTLY, PERIODIC(xcvm_sin_f32, sinf), PERIODIC(xcvm_sin_f64, sin), NONE) \
    UNARY(Cos, PLAIN, COSTLY, PERIODIC(xcvm_cos_f32, cosf), PERIODIC(xcvm_cos_f64, cos), NONE) \
    UNARY(Tan, PLAIN, COSTLY, PERIODIC(xcvm_tan_f32, tanf), SCALAR(tan(v)), NONE) \
    UNARY(Asin, PLAIN, COSTLY, EACH(xcvm_asin_f32(v)), SCALAR(asin(v)), NONE) \
    UNARY(Acos, PLAIN, COSTLY, EACH(xcvm_acos_f32(v)), SCALAR(acos(v)), NONE) \
    UNARY(Atan, PLAIN, COSTLY, EACH(xcvm_atan_f32(v)), SCALAR(atan(v)), NONE) \
    UNARY(Sinh, PLAIN, COSTLY, EACH(xcvm_sinh_f32(v)), SCALAR(sinh(v)), NONE) \
    UNARY(Cosh, PLAIN, COSTLY, EACH(xcvm_cosh_f32(v)), SCALAR(cosh(v)), NONE) \
    UNARY(Tanh, PLAIN, COSTLY, EACH(xcvm_tanh_f32(v)), FUNCTION(xcvm_tanh_f64), NONE) \
    UNARY(Asinh, PLAIN, COSTLY, EACH(xcvm_asinh_f32(v)), SCALAR(asinh(v)), NONE) \
    UNARY(Acosh, PLAIN, COSTLY, EACH(xcvm_acosh_f32(v)), SCALAR(acosh(v)), NONE) \
    UNARY(Atanh, PLAIN, COSTLY, EACH(xcvm_atanh_f32(v)), SCALAR(atanh(v)), NONE) \
    UNARY(Erf, PLAIN, COSTLY, EACH(xcvm_erf_f32(v)), SCALAR(erf(v)), NONE) \
    UNARY(Sigmoid, PLAIN, COSTLY, EACH(xcvm_sigmoid_f32(v)), FUNCTION(xcvm_sigmoid_f64), NONE) \
    UNARY(Softplus, PLAIN, COSTLY, EACH(xcvm_softplus_f32(v)), SCALAR(softplus_of(v)), NONE) \
    UNARY(Softsign, PLAIN, CHEAP, EACH(v / (1.0f + xcvm_absolute_f32(v))), SCALAR(v / (1.0 + fabs(v))), NONE) \
    UNARY(Mish, PLAIN, COSTLY, EACH(xcvm_mish_f32(v)), SCALAR(v * tanh(softplus_of(v))), NONE) \
    UNARY(HardSwish, PLAIN, CHEAP, EACH(v * xcvm_clamp_f32(v * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f)), \
          SCALAR(v * xcvm_clamp_f64(v / 6.0 + 0.5, 0.0, 1.0)), NONE) \
    UNARY(Relu, PLAIN, CHEAP, EACH(v < 0.0f ? 0.0f : v), EACH(v < 0.0 ? 0.0 : v), INTEGER(v > 0 ? v : 0)) \
    UNARY(LeakyRelu, PLAIN, CHEAP, EACH(v < 0.0f ? alpha * v : v), SCALAR(v < 0.0 ? alpha * v : v), NONE) \
    UNARY(Elu, PLAIN, COSTLY, EACH(xcvm_elu_f32(v, alpha)), SCALAR(v < 0.0 ? alpha * expm1(v) : v), NONE) \
    UNARY(Selu, PLAIN, COSTLY, EACH(beta * xcvm_elu_f32(v, alpha)), \
          SCALAR(beta * (v > 0.0 ? v : alpha * expm1(v))), NONE) \
    UNARY(Celu, PLAIN, COSTLY, EACH(v < 0.0f ? xcvm_elu_f32(v / alpha, alpha) : v), \
          SCALAR(v >= 0.0 ? v : alpha * expm1(v / alpha)), NONE) \
    UNARY(ThresholdedRelu, PLAIN, CHEAP, EACH(v > alpha ? v : 0.0f), SCALAR(v > alpha ? v : 0.0), NONE) \
    UNARY(HardSigmoid, PLAIN, CHEAP, EACH(xcvm_clamp_f32(alpha * v + beta, 0.0f, 1.0f)), \
          SCALAR(xcvm_clamp_f64(alpha * v + beta, 0.0, 1.0)), NONE) \
    UNARY(Shrink, PLAIN, CHEAP, EACH(v < -beta ? v + alpha : v > beta ? v - alpha : 0.0f), \
          SCALAR(v < -beta ? v + alpha : v > beta ? v - alpha : 0.0), THROUGH_F64) \
    UNARY(Gelu, OWN, COSTLY, EACH(xcvm_gelu_f32(v)), SCALAR(gelu_of(v)), NONE) \
    UNARY(GeluTanh, VARIANT, COSTLY, EACH(xcvm_gelu_tanh_f32(v)), SCALAR(gelu_tanh_of(v)), NONE) \
    UNARY(Swish, PLAIN, COSTLY, EACH(v * xcvm_sigmoid_f32(alpha * v)), SCALAR(v * sigmoid_of(alpha * v)), NONE) \
    UNARY(Clip, OWN, CHEAP, EACH(xcvm_clamp_f32(v, alpha, beta)), EACH(xcvm_clamp_f64(v, alpha, beta)), \
          INTEGER((v < low ? low : v) > high ? high : v < low ? low : v))
/* clang-format on */

/* Formulas of two elements u and v, broadcast to each other. In addition to the above:
 *
 *   result    SAME as the operands' type, or BOOL.
 *   f32       SMALL(formula): as EACH, with half the code. PADDED(formula): pads the last elements, so that all use
 *             the same vector code. REMAINDER(formula): of the exact remainder r of u / v with the sign of u.
 *   f64       REMAINDER as for f32.
 *   integers  MODULAR(formula): same bits for signed and unsigned, computed unsigned. ORDERED(formula): for each type.
 *             WIDE(signed, unsigned): in 64 bits. UNSIGNED(formula): in unsigned 64 bits. NONE.
 *   booleans  TRUTH(formula): of bytes, nonzero is true. NONE. */
/* clang-format off */
#define XCVM_BINARY_FORMULAS(BINARY) \
    BINARY(Add, PLAIN, CHEAP, SAME, EACH(u + v), EACH(u + v), MODULAR(u + v), NONE) \
    BINARY(Sub, PLAIN, CHEAP, SAME, EACH(u - v), EACH(u - v), MODULAR(u - v), NONE) \
    BINARY(Mul, PLAIN, CHEAP, SAME, EACH(u * v), EACH(u * v), MODULAR(u * v), NONE) \
    BINARY(Div, OWN, CHEAP, SAME, EACH(u / v), EACH(u / v), WIDE(div_i64(u, v), u / v), NONE) \
    BINARY(Max, PLAIN, CHEAP, SAME, SMALL(((u > v) | (u != u)) ? u : v), EACH(((u > v) | (u != u)) ? u : v), \
           ORDERED(u > v ? u : v), NONE) \
    BINARY(Min, PLAIN, CHEAP, SAME, SMALL(((u < v) | (u != u)) ? u : v), EACH(((u < v) | (u != u)) ? u : v), \
           ORDERED(u < v ? u : v), NONE) \
    BINARY(And, PLAIN, CHEAP, SAME, NONE, NONE, NONE, TRUTH((u != 0) & (v != 0))) \
    BINARY(Or, PLAIN, CHEAP, SAME, NONE, NONE, NONE, TRUTH((u | v) != 0)) \
    BINARY(Xor, PLAIN, CHEAP, SAME, NONE, NONE, NONE, TRUTH((u != 0) != (v != 0))) \
    BINARY(BitwiseAnd, PLAIN, CHEAP, SAME, NONE, NONE, MODULAR(u & v), NONE) \
    BINARY(BitwiseOr, PLAIN, CHEAP, SAME, NONE, NONE, MODULAR(u | v), NONE) \
    BINARY(BitwiseXor, PLAIN, CHEAP, SAME, NONE, NONE, MODULAR(u ^ v), NONE) \
    BINARY(Equal, OWN, CHEAP, BOOL, SMALL(u == v), EACH(u == v), MODULAR(u == v), TRUTH((u != 0) == (v != 0))) \
    BINARY(Greater, PLAIN, CHEAP, BOOL, SMALL(u > v), EACH(u > v), ORDERED(u > v), NONE) \
    BINARY(GreaterOrEqual, PLAIN, CHEAP, BOOL, SMALL(u >= v), EACH(u >= v), ORDERED(u >= v), NONE) \
    BINARY(Pow, OWN, COSTLY, SAME, PADDED(xcvm_pow_f32(u, v)), SCALAR(pow(u, v)), \
           WIDE(pow_i64(u, v), pow_u64(u, v)), NONE) \
    BINARY(Mod, OWN, COSTLY, SAME, REMAINDER(r == 0.0f ? xcvm_copysign_f32(0.0f, v) : (r < 0.0f) != (v < 0.0f) ? r + v : r), \
           SCALAR(mod_f64(u, v)), WIDE(mod_i64(u, v), u % v), NONE) \
    BINARY(Fmod, VARIANT, COSTLY, SAME, REMAINDER(r), REMAINDER(r), WIDE(rem_i64(u, v), u % v), NONE) \
    BINARY(ShiftLeft, VARIANT, CHEAP, SAME, NONE, NONE, UNSIGNED(v < 64 ? u << v : 0), NONE) \
    BINARY(ShiftRight, VARIANT, CHEAP, SAME, NONE, NONE, UNSIGNED(v < 64 ? u >> v : 0), NONE) \
    BINARY(PRelu, OWN, CHEAP, SAME, SMALL(u < 0.0f ? u * v : u), SCALAR(u < 0.0 ? u * v : u), \
           WIDE(u < 0 ? (int64_t)((uint64_t)u * (uint64_t)v) : u, u), NONE)
/* clang-format on */

/* Decomposition of a line. XCVM_BY_KIND(LOOP_, Neg, XCVM_TAKEN_EACH(-v)) is LOOP_EACH(Neg, (-v)): the word before the
 * parentheses selects the macro. */
#define XCVM_TAKEN_EACH(...) EACH, (__VA_ARGS__)
#define XCVM_TAKEN_SMALL(...) SMALL, (__VA_ARGS__)
#define XCVM_TAKEN_PADDED(...) PADDED, (__VA_ARGS__)
#define XCVM_TAKEN_REMAINDER(...) REMAINDER, (__VA_ARGS__)
#define XCVM_TAKEN_SCALAR(...) SCALAR, (__VA_ARGS__)
#define XCVM_TAKEN_PERIODIC(function, general) PERIODIC, function, general
#define XCVM_TAKEN_FUNCTION(function) FUNCTION, function
#define XCVM_TAKEN_INTEGER(...) INTEGER, (__VA_ARGS__)
#define XCVM_TAKEN_MODULAR(...) MODULAR, (__VA_ARGS__)
#define XCVM_TAKEN_ORDERED(...) ORDERED, (__VA_ARGS__)
#define XCVM_TAKEN_WIDE(with_sign, without) WIDE, with_sign, without
#define XCVM_TAKEN_UNSIGNED(...) UNSIGNED, (__VA_ARGS__)
#define XCVM_TAKEN_TRUTH(...) TRUTH, (__VA_ARGS__)
#define XCVM_TAKEN_THROUGH_F64 THROUGH_F64, 0
#define XCVM_TAKEN_NONE NONE, 0
#define XCVM_BY_KIND(...) XCVM_BY_KIND_(__VA_ARGS__)
#define XCVM_BY_KIND_(prefix, Name, kind, ...) prefix##kind(Name, __VA_ARGS__)

#endif
