/* Order of the gates of an LSTMCell on the last axis of its x, for kernels and exported C. */
#ifndef XCVM_OPS_RECURRENT_LSTM_CELL_H
#define XCVM_OPS_RECURRENT_LSTM_CELL_H

#include <stddef.h>

/* Gates: one forget gate per child from XCVM_LSTM_FORGET, followed by the candidate. */
enum { XCVM_LSTM_IN, XCVM_LSTM_OUT, XCVM_LSTM_FORGET, XCVM_LSTM_OTHERS = 3 };

/* The gate of unit u is element first + u * between of a row. */
typedef struct xcvm_lstm_gate {
    size_t first, between;
} xcvm_lstm_gate;

static inline size_t xcvm_lstm_gates(size_t children) { return children + XCVM_LSTM_OTHERS; }
static inline size_t xcvm_lstm_candidate(size_t children) { return children + XCVM_LSTM_FORGET; }

/* Index of the gate among the columns, or blocks of columns, of a row. With interleaved units it is Chainer's order. */
static inline size_t xcvm_lstm_column(int by_unit, size_t children, size_t gate)
{
    if (!by_unit || (gate >= XCVM_LSTM_FORGET && gate < xcvm_lstm_candidate(children)))
        return gate;
    return gate == XCVM_LSTM_IN ? 1 : gate == XCVM_LSTM_OUT ? xcvm_lstm_candidate(children) : 0;
}

static inline xcvm_lstm_gate xcvm_lstm_gate_of(int by_unit, size_t children, size_t units, size_t gate)
{
    const size_t column = xcvm_lstm_column(by_unit, children, gate);
    const xcvm_lstm_gate blocks = {column * units, 1}, columns = {column, xcvm_lstm_gates(children)};
    return by_unit ? columns : blocks;
}

#endif
