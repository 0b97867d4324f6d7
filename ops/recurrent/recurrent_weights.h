/* Instructions of recurrent networks: one per cell and form of its weights. */
#ifndef XCVM_OPS_RECURRENT_RECURRENT_WEIGHTS_H
#define XCVM_OPS_RECURRENT_RECURRENT_WEIGHTS_H

#include "ops/op.h"

/* Form of the recurrence weights. */
typedef enum xcvm_recurrent_weights {
    XCVM_RECURRENT_ROWS,   /* as in ONNX */
    XCVM_RECURRENT_PANELS, /* ops/matmul/packed.h */
    XCVM_RECURRENT_BLOCKS, /* blocks, ops/matmul/quantized_blocks.h */
    XCVM_RECURRENT_BYTES   /* s8, ops/quantize/quantized_panels.h */
} xcvm_recurrent_weights;

typedef struct xcvm_recurrent_form {
    xcvm_opcode cell; /* RNN, GRU or LSTM */
    int gates;
    xcvm_recurrent_weights weights;
} xcvm_recurrent_form;

static inline xcvm_recurrent_form xcvm_recurrent_form_of(xcvm_opcode opcode)
{
    switch (opcode) {
    case XCVM_OP_PackedRNN:
        return (xcvm_recurrent_form){XCVM_OP_RNN, 1, XCVM_RECURRENT_PANELS};
    case XCVM_OP_PackedGRU:
        return (xcvm_recurrent_form){XCVM_OP_GRU, 3, XCVM_RECURRENT_PANELS};
    case XCVM_OP_PackedLSTM:
        return (xcvm_recurrent_form){XCVM_OP_LSTM, 4, XCVM_RECURRENT_PANELS};
    case XCVM_OP_BlockQuantizedRNN:
        return (xcvm_recurrent_form){XCVM_OP_RNN, 1, XCVM_RECURRENT_BLOCKS};
    case XCVM_OP_BlockQuantizedGRU:
        return (xcvm_recurrent_form){XCVM_OP_GRU, 3, XCVM_RECURRENT_BLOCKS};
    case XCVM_OP_BlockQuantizedLSTM:
        return (xcvm_recurrent_form){XCVM_OP_LSTM, 4, XCVM_RECURRENT_BLOCKS};
    case XCVM_OP_QuantizedLSTM:
        return (xcvm_recurrent_form){XCVM_OP_LSTM, 4, XCVM_RECURRENT_BYTES};
    case XCVM_OP_GRU:
        return (xcvm_recurrent_form){XCVM_OP_GRU, 3, XCVM_RECURRENT_ROWS};
    case XCVM_OP_LSTM:
        return (xcvm_recurrent_form){XCVM_OP_LSTM, 4, XCVM_RECURRENT_ROWS};
    default:
        return (xcvm_recurrent_form){XCVM_OP_RNN, 1, XCVM_RECURRENT_ROWS};
    }
}

#endif
