/* LSTMCell and its gradient as other instructions, for targets without them and for differentiation. */
#ifndef XCVM_COMPILER_IR_LSTM_CELL_H
#define XCVM_COMPILER_IR_LSTM_CELL_H

#include "compiler/ir/compose.h"

/* Layout of its x, from the attributes. */
typedef struct xcc_lstm_form {
    int64_t children;
    int layout;
} xcc_lstm_form;

/* Builds h and c. Returns false on failure. */
bool xcc_build_lstm_cell(xcc_builder *b, xcc_value *x, xcc_lstm_form form, xcc_value *const *c_prev, size_t count,
                         xcc_value **h, xcc_value **c);

/* Builds the results of LSTMCellGradient, in order, from its operands in order (NULL if absent), of which `count` are
 * c_prev. Returns false on failure. */
bool xcc_build_lstm_cell_gradient(xcc_builder *b, xcc_value *const *operands, size_t count, xcc_lstm_form form,
                                  xcc_value **results);

#endif
