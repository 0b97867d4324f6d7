/* LSTMCell as other instructions: for what has none like it, and for its gradient's own gradient. */
#ifndef XCVM_COMPILER_IR_LSTM_CELL_H
#define XCVM_COMPILER_IR_LSTM_CELL_H

#include "compiler/ir/compose.h"

/* How its x lies: as the attributes say. */
typedef struct xcc_lstm_form {
    int64_t children;
    int layout;
} xcc_lstm_form;

/* The gates of x, of the shape of the states, in the order of ops/recurrent/lstm_cell.h. NULL on failure. */
xcc_value **xcc_lstm_cut(xcc_builder *b, xcc_value *x, xcc_lstm_form form);
/* A tensor of the shape of x, of which those are the gates. */
xcc_value *xcc_lstm_join(xcc_builder *b, xcc_value *x, xcc_lstm_form form, xcc_value *const *gates);
/* h and c; false on failure. */
bool xcc_build_lstm_cell(xcc_builder *b, xcc_value *x, xcc_lstm_form form, xcc_value *const *c_prev, size_t count,
                         xcc_value **h, xcc_value **c);

#endif
