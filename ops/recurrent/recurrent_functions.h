/* Functions of recurrent cells, with ONNX's names. */
#ifndef XCVM_OPS_RECURRENT_RECURRENT_FUNCTIONS_H
#define XCVM_OPS_RECURRENT_RECURRENT_FUNCTIONS_H

#include "ops/op.h"

typedef enum xcvm_recurrent_kind {
    XCVM_RECURRENT_AFFINE,
    XCVM_RECURRENT_ELU,
    XCVM_RECURRENT_HARD_SIGMOID,
    XCVM_RECURRENT_LEAKY_RELU,
    XCVM_RECURRENT_RELU,
    XCVM_RECURRENT_SCALED_TANH,
    XCVM_RECURRENT_SIGMOID,
    XCVM_RECURRENT_SOFTPLUS,
    XCVM_RECURRENT_SOFTSIGN,
    XCVM_RECURRENT_TANH,
    XCVM_RECURRENT_THRESHOLDED_RELU
} xcvm_recurrent_kind;

typedef struct xcvm_recurrent_function {
    xcvm_recurrent_kind kind;
    double alpha, beta; /* 0 if the function has none */
} xcvm_recurrent_function;

/* Maximum functions of a cell of one direction, and of two. */
enum { XCVM_RECURRENT_OF_CELL = 3, XCVM_RECURRENT_FUNCTIONS = 2 * XCVM_RECURRENT_OF_CELL };

/* Number of functions of a cell: RNN, GRU or LSTM. */
static inline size_t xcvm_recurrent_functions_of(xcvm_opcode cell)
{
    return cell == XCVM_OP_LSTM ? 3 : cell == XCVM_OP_GRU ? 2 : 1;
}

/* Reads the functions of all directions in order. Names ignore case; without names, gates use Sigmoid and the rest
 * Tanh. alphas and betas are assigned in order to the functions that have such a parameter; missing ones are ONNX's
 * defaults. */
xcvm_status xcvm_recurrent_functions_read(xcvm_error *error, xcvm_opcode cell, size_t directions, xcvm_texts names,
                                          xcvm_floats alphas, xcvm_floats betas,
                                          xcvm_recurrent_function f[XCVM_RECURRENT_FUNCTIONS]);

#endif
