/* Which elements a rule does not read. Who records calls one by one needs to know that before the rule is run: elements
 * that no rule will read need not be retained. */
#include "compiler/gradients/gradients.h"

enum { OPERANDS = XCC_SPARES_OPERANDS, RESULTS = XCC_SPARES_RESULTS, ALL = OPERANDS | RESULTS };

unsigned xcc_gradient_spares(xcvm_opcode opcode)
{
    /* An instruction that is left out spares nothing. Shapes and types are known of what is spared, too; and what
     * cannot have a gradient, as indices and axes, is never spared. */
    static const uint8_t spares[XCVM_OPCODE_LIMIT] = {
#define SPARES(name, what) [XCVM_OP_##name] = what,
        /* Sums, and what moves elements, have a gradient that is the same wherever they are. */
        /* clang-format off */
        SPARES(Add, ALL) SPARES(Sub, ALL) SPARES(Neg, ALL) SPARES(Where, ALL)
        SPARES(ReduceSum, ALL) SPARES(ReduceMean, ALL) SPARES(CumSum, ALL)
        SPARES(Identity, ALL) SPARES(Cast, ALL) SPARES(Reshape, ALL) SPARES(Flatten, ALL) SPARES(Squeeze, ALL)
        SPARES(Unsqueeze, ALL) SPARES(Expand, ALL) SPARES(Transpose, ALL) SPARES(Concat, ALL) SPARES(Split, ALL)
        SPARES(Slice, ALL) SPARES(Pad, ALL) SPARES(Tile, ALL) SPARES(Trilu, ALL) SPARES(Gather, ALL)
        SPARES(GatherElements, ALL) SPARES(GatherND, ALL) SPARES(ReverseSequence, ALL) SPARES(DepthToSpace, ALL)
        SPARES(SpaceToDepth, ALL)
        /* From the result alone. */
        SPARES(Sqrt, OPERANDS) SPARES(Reciprocal, OPERANDS) SPARES(Exp, OPERANDS) SPARES(Tan, OPERANDS)
        SPARES(Tanh, OPERANDS) SPARES(Sigmoid, OPERANDS) SPARES(Relu, OPERANDS) SPARES(Softmax, OPERANDS)
        SPARES(LogSoftmax, OPERANDS)
        /* From the operands alone. */
        SPARES(Abs, RESULTS) SPARES(Log, RESULTS) SPARES(Sin, RESULTS) SPARES(Cos, RESULTS) SPARES(Asin, RESULTS)
        SPARES(Acos, RESULTS) SPARES(Atan, RESULTS) SPARES(Sinh, RESULTS) SPARES(Cosh, RESULTS) SPARES(Asinh, RESULTS)
        SPARES(Acosh, RESULTS) SPARES(Atanh, RESULTS) SPARES(Erf, RESULTS) SPARES(Softplus, RESULTS)
        SPARES(Softsign, RESULTS) SPARES(Mish, RESULTS) SPARES(HardSwish, RESULTS) SPARES(LeakyRelu, RESULTS)
        SPARES(Elu, RESULTS) SPARES(Selu, RESULTS) SPARES(Celu, RESULTS) SPARES(ThresholdedRelu, RESULTS)
        SPARES(HardSigmoid, OPERANDS) SPARES(Shrink, RESULTS) SPARES(Gelu, RESULTS) SPARES(Swish, RESULTS)
        SPARES(Clip, RESULTS) SPARES(Mul, RESULTS) SPARES(Max, RESULTS) SPARES(Min, RESULTS) SPARES(PRelu, RESULTS)
        SPARES(ReduceSumSquare, RESULTS) SPARES(ReduceL1, RESULTS) SPARES(MatMul, RESULTS) SPARES(Gemm, RESULTS)
        SPARES(Conv, RESULTS) SPARES(ConvTranspose, RESULTS) SPARES(BatchNormalization, RESULTS) SPARES(AveragePool, RESULTS)
    /* clang-format on */
#undef SPARES
    };
    return opcode > 0 && (int)opcode < XCVM_OPCODE_LIMIT ? spares[opcode] : 0;
}
