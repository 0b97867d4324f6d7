/* LSTMCell and its gradient as other instructions: for what has none like them, and to be differentiated. */
#ifndef XCVM_COMPILER_IR_LSTM_CELL_H
#define XCVM_COMPILER_IR_LSTM_CELL_H

#include "compiler/ir/compose.h"

/* How its x lies: as the attributes say. */
typedef struct xcc_lstm_form {
    int64_t children;
    int layout;
} xcc_lstm_form;

/* h and c; false on failure. */
bool xcc_build_lstm_cell(xcc_builder *b, xcc_value *x, xcc_lstm_form form, xcc_value *const *c_prev, size_t count,
                         xcc_value **h, xcc_value **c);

/* What LSTMCellGradient computes: of its operands in order (absent ones NULL), of which `count` are c_prev, its results
 * in order; false on failure. */
bool xcc_build_lstm_cell_gradient(xcc_builder *b, xcc_value *const *operands, size_t count, xcc_lstm_form form,
                                  xcc_value **results);

#endif
