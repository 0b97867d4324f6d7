/* Tolerances of results, by instruction and element type. */
#include "tests/case_tolerance.h"

#include "ops/util/shape.h"
#include "proto/image.h"

#include <math.h>

/* Instructions that round, besides optimizers and element-wise ones that cost as much as a transcendental function. An
 * omission is compared exactly, so its cases fail. */
static const xcvm_opcode rounding[] = {
    XCVM_OP_Softsign,
    XCVM_OP_HardSwish,
    XCVM_OP_HardSigmoid,
    XCVM_OP_Range,
    XCVM_OP_ReduceSum,
    XCVM_OP_ReduceMean,
    XCVM_OP_ReduceProd,
    XCVM_OP_ReduceL1,
    XCVM_OP_ReduceL2,
    XCVM_OP_ReduceSumSquare,
    XCVM_OP_ReduceLogSumExp,
    XCVM_OP_CumSum,
    XCVM_OP_CumProd,
    XCVM_OP_MatMul,
    XCVM_OP_Gemm,
    XCVM_OP_PackedGemm,
    XCVM_OP_Bf16Gemm,
    XCVM_OP_BlockQuantizedGemm,
    XCVM_OP_CachedAttention,
    XCVM_OP_CachedMatMul,
    XCVM_OP_Det,
    XCVM_OP_Conv,
    XCVM_OP_ConvTranspose,
    XCVM_OP_ConvFilterGradient,
    XCVM_OP_DeformConv,
    XCVM_OP_AveragePool,
    XCVM_OP_LpPool,
    XCVM_OP_RoiAlign,
    XCVM_OP_RoiPool,
    XCVM_OP_Resize,
    XCVM_OP_GridSample,
    XCVM_OP_Col2Im,
    XCVM_OP_BatchNormalization,
    XCVM_OP_BatchNormalizationGradient,
    XCVM_OP_SyncBatchNormalization,
    XCVM_OP_SyncBatchNormalizationGradient,
    XCVM_OP_InstanceNormalization,
    XCVM_OP_LayerNormalization,
    XCVM_OP_GroupNormalization,
    XCVM_OP_RMSNormalization,
    XCVM_OP_LRN,
    XCVM_OP_LpNormalization,
    XCVM_OP_Softmax,
    XCVM_OP_LogSoftmax,
    XCVM_OP_Dropout,
    XCVM_OP_DynamicQuantizeLinear,
    XCVM_OP_RNN,
    XCVM_OP_GRU,
    XCVM_OP_LSTM,
    XCVM_OP_LSTMCell,
    XCVM_OP_LSTMCellGradient,
    XCVM_OP_PackedRNN,
    XCVM_OP_PackedGRU,
    XCVM_OP_PackedLSTM,
    XCVM_OP_BlockQuantizedRNN,
    XCVM_OP_BlockQuantizedGRU,
    XCVM_OP_BlockQuantizedLSTM,
    XCVM_OP_QuantizedLSTM,
    XCVM_OP_RandomNormal,
    XCVM_OP_RandomUniform,
    XCVM_OP_NegativeLogLikelihoodLoss,
    XCVM_OP_DFT,
    XCVM_OP_STFT,
    XCVM_OP_MelWeightMatrix,
    XCVM_OP_Attention,
    XCVM_OP_RotaryEmbedding,
    XCVM_OP_LinearAttention,
    XCVM_OP_BlockedConv,
    XCVM_OP_BlockedConvTranspose,
    XCVM_OP_BlockedAffine,
    XCVM_OP_TreeEnsemble,
    XCVM_OP_PairwiseCoupling,
    XCVM_OP_GlobalNorm,
};

bool case_row_rounds(const xcvm_schema *schema)
{
    for (size_t i = 0; i < sizeof rounding / sizeof *rounding; i++)
        if (schema->opcode == rounding[i])
            return true;
    return (schema->effect == XCVM_UPDATE && schema->cost == xcvm_flops_optimizer) ||
           (xcvm_schema_has_class(schema, XCVM_CLASS_unary | XCVM_CLASS_binary) &&
            schema->cost == xcvm_flops_transcendental);
}

bool case_is_exact(const test_bytes *file)
{
    xcvm_arena arena = {0};
    xcvm_image image;
    xcvm_error error;
    bool exact = xcvm_image_decode(file->at, file->length, NULL, &arena, &image, &error) == XCVM_OK;
    for (size_t pc = 0; exact && pc < image.instruction_count; pc++)
        exact = !case_row_rounds(image.instructions[pc].schema);
    xcvm_arena_release(&arena);
    return exact;
}

case_tolerance case_tolerance_of(const case_expectation *e, xcvm_dtype dtype, bool exact)
{
    const bool wide = dtype == XCVM_F64 || dtype == XCVM_C128;
    const double usual = wide ? 1e-12 : dtype == XCVM_F16 ? 1e-3 : dtype == XCVM_BF16 ? 8e-3 : 1e-5;
    if (exact && e->rtol < 0 && e->atol < 0)
        return (case_tolerance){0, 0};
    return (case_tolerance){e->rtol >= 0 ? e->rtol : usual, e->atol >= 0 ? e->atol : wide ? 1e-15 : 1e-6};
}

bool case_is_close(double got, double expected, case_tolerance tolerance)
{
    if (isnan(got) || isnan(expected))
        return isnan(got) && isnan(expected);
    if (tolerance.rtol == 0 && tolerance.atol == 0)
        return got == expected && signbit(got) == signbit(expected);
    return got == expected || fabs(got - expected) <= tolerance.atol + tolerance.rtol * fabs(expected);
}
