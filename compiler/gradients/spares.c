/* Saved-for-backward analysis: elements that a rule does not read. A recorder of single calls must know them before the
 * rule runs, because such elements need not be retained. */
#include "compiler/gradients/gradients.h"

enum { OPERANDS = XCC_SPARES_OPERANDS, RESULTS = XCC_SPARES_RESULTS, ALL = OPERANDS | RESULTS };

unsigned xcc_gradient_spares(xcvm_opcode opcode)
{
    /* Instructions without an entry read everything. Shapes and types of unread values are still known. Operands that
     * cannot have a gradient, such as indices and axes, are always read. */
    static const uint8_t spares[XCVM_OPCODE_LIMIT] = {
#define SPARES(name, what) [XCVM_OP_##name] = what,
        /* The gradients of sums and data movement do not depend on elements. */
        /* clang-format off */
        SPARES(Add, ALL) SPARES(Sub, ALL) SPARES(Neg, ALL) SPARES(Where, ALL)
        SPARES(ReduceSum, ALL) SPARES(ReduceMean, ALL) SPARES(CumSum, ALL)
        SPARES(Identity, ALL) SPARES(Cast, ALL) SPARES(Reshape, ALL) SPARES(Flatten, ALL) SPARES(Squeeze, ALL)
        SPARES(Unsqueeze, ALL) SPARES(Expand, ALL) SPARES(Transpose, ALL) SPARES(Concat, ALL) SPARES(Split, ALL)
        SPARES(Slice, ALL) SPARES(Pad, ALL) SPARES(Tile, ALL) SPARES(Trilu, ALL) SPARES(Gather, ALL)
        SPARES(GatherElements, ALL) SPARES(GatherND, ALL) SPARES(ReverseSequence, ALL) SPARES(DepthToSpace, ALL)
        SPARES(SpaceToDepth, ALL)
        /* From the result only. */
        SPARES(Sqrt, OPERANDS) SPARES(Reciprocal, OPERANDS) SPARES(Exp, OPERANDS) SPARES(Tan, OPERANDS)
        SPARES(Tanh, OPERANDS) SPARES(Sigmoid, OPERANDS) SPARES(Relu, OPERANDS) SPARES(Softmax, OPERANDS)
        SPARES(LogSoftmax, OPERANDS)
        /* From the operands only. */
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
