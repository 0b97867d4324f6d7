/* LSTMCell and its gradient, a gate at a time. */
#ifndef XC_LSTM_CELL_H
#define XC_LSTM_CELL_H

#include "compiler/export_c/c_runtime/numbers.h"

/* Rows of x have `columns` elements. The gates of a unit are `between` elements apart. */
typedef struct xc_lstm {
    size_t rows, units, columns, between;
} xc_lstm;

#define XC_LSTM_EACH(q, row, u)                                                                                        \
    for (size_t row = 0; row < (q)->rows; row++)                                                                       \
        for (size_t u = 0; u < (q)->units; u++)

/* Gates are pointers to where those of the first unit are. */
static void xc_lstm_enter_value(const xc_lstm *q, const value_t *in, const value_t *g, value_t *c)
{
    XC_LSTM_EACH(q, row, u)
    {
        const size_t at = row * q->columns + u * q->between;
        c[row * q->units + u] = xc_sigmoid_value(in[at]) * xc_tanh_value(g[at]);
    }
}

static void xc_lstm_keep_value(const xc_lstm *q, const value_t *forget, const value_t *before, value_t *c)
{
    XC_LSTM_EACH(q, row, u)
    {
        const size_t i = row * q->units + u;
        c[i] += xc_sigmoid_value(forget[row * q->columns + u * q->between]) * before[i];
    }
}

static void xc_lstm_leave_value(const xc_lstm *q, const value_t *out, const value_t *c, value_t *h)
{
    XC_LSTM_EACH(q, row, u)
    {
        const size_t i = row * q->units + u;
        h[i] = xc_sigmoid_value(out[row * q->columns + u * q->between]) * xc_tanh_value(c[i]);
    }
}

/* dh and dc may be NULL, which means zeros. `sum` receives the gradient of the summands of c. Gradients of gates may
 * overwrite the gates. */
static void xc_lstm_leave_gradient_value(const xc_lstm *q, const value_t *out, const value_t *c, const value_t *dh,
                                         const value_t *dc, value_t *dout, value_t *sum)
{
    XC_LSTM_EACH(q, row, u)
    {
        const size_t i = row * q->units + u, at = row * q->columns + u * q->between;
        const value_t s = xc_sigmoid_value(out[at]), t = xc_tanh_value(c[i]);
        sum[i] = dc != NULL ? dc[i] : 0;
        if (dh != NULL)
            sum[i] += dh[i] * s * (1 - t * t);
        dout[at] = dh != NULL ? dh[i] * t * s * (1 - s) : 0;
    }
}

/* A child without a state before (NULL) has a gradient of zeros. */
static void xc_lstm_keep_gradient_value(const xc_lstm *q, const value_t *forget, const value_t *before,
                                        const value_t *sum, value_t *dforget, value_t *dbefore)
{
    XC_LSTM_EACH(q, row, u)
    {
        const size_t i = row * q->units + u, at = row * q->columns + u * q->between;
        const value_t s = xc_sigmoid_value(forget[at]);
        dforget[at] = before != NULL ? sum[i] * before[i] * s * (1 - s) : 0;
        if (before != NULL)
            dbefore[i] = sum[i] * s;
    }
}

static void xc_lstm_enter_gradient_value(const xc_lstm *q, const value_t *in, const value_t *g, const value_t *sum,
                                         value_t *din, value_t *dg)
{
    XC_LSTM_EACH(q, row, u)
    {
        const size_t i = row * q->units + u, at = row * q->columns + u * q->between;
        const value_t s = xc_sigmoid_value(in[at]), t = xc_tanh_value(g[at]);
        din[at] = sum[i] * t * s * (1 - s);
        dg[at] = sum[i] * s * (1 - t * t);
    }
}

#endif
