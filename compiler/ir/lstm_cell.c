/* LSTMCell and its gradient as other instructions. */
#include "compiler/ir/lstm_cell.h"

#include "ops/recurrent/lstm_cell.h"

static size_t gates_of(xcc_lstm_form form) { return xcvm_lstm_gates((size_t)form.children); }

static bool by_unit(xcc_lstm_form form) { return form.layout == XCVM_LSTM_LAYOUT_chainer; }

/* The shape of x with its last axis split into units and gates; or of a state. */
static xcc_value *shape_of(xcc_builder *b, xcc_value *x, xcc_lstm_form form, bool both)
{
    xcc_value *gates = XCC_BUILD_INTS(b, (int64_t)gates_of(form));
    xcc_value *rows = xcc_build_slice(b, xcc_build_shape_of(b, x), 0, 0, -1, 1);
    xcc_value *units = xcc_build_div(b, xcc_build_dim_of(b, x, -1), gates);
    return xcc_build_concat(b, both ? 3 : 2, (xcc_value *[]){rows, units, gates}, 0);
}

/* Splits the last axis into `count` equal pieces. */
static bool cut_columns(xcc_builder *b, xcc_value *x, size_t count, xcc_value **pieces)
{
    xcvm_value **outs = x != NULL ? xcc_alloc(b->graph->module, count * sizeof *outs) : NULL;
    for (size_t i = 0; i < count && outs != NULL; i++)
        if ((outs[i] = XCC_OUT(pieces[i] = xcc_value_create(b->graph, NULL))) == NULL)
            return false;
    return outs != NULL && xcc_emit(b, Split, .ys = {outs, count}, .x = XCC_IN(x), .axis = -1) != NULL;
}

/* The gates of x, in the shape of the states and the order of ops/recurrent/lstm_cell.h. NULL on failure. */
static xcc_value **cut(xcc_builder *b, xcc_value *x, xcc_lstm_form form)
{
    const size_t count = gates_of(form);
    xcc_value **columns = xcc_alloc(b->graph->module, 2 * count * sizeof *columns),
              **gates = columns != NULL ? columns + count : NULL;
    if (columns == NULL || x == NULL)
        return NULL;
    xcc_value *state = by_unit(form) ? shape_of(b, x, form, false) : NULL;
    if (!cut_columns(b, by_unit(form) ? xcc_build_reshape_to(b, x, shape_of(b, x, form, true)) : x, count, columns))
        return NULL;
    for (size_t i = 0; i < count; i++) {
        gates[i] = columns[xcvm_lstm_column(by_unit(form), (size_t)form.children, i)];
        if (by_unit(form) && (gates[i] = xcc_build_reshape_to(b, gates[i], state)) == NULL)
            return NULL;
    }
    return gates;
}

/* A tensor of the shape of x with those gates. */
static xcc_value *join(xcc_builder *b, xcc_value *x, xcc_lstm_form form, xcc_value *const *gates)
{
    const size_t count = gates_of(form);
    xcc_value **columns = xcc_alloc(b->graph->module, count * sizeof *columns);
    for (size_t i = 0; i < count && columns != NULL; i++) {
        xcc_value *gate = gates[i];
        if (by_unit(form))
            gate = xcc_build_unsqueeze(b, gate, 1, (const int64_t[]){-1});
        columns[xcvm_lstm_column(by_unit(form), (size_t)form.children, i)] = gate;
    }
    xcc_value *all = columns != NULL ? xcc_build_concat(b, count, columns, -1) : NULL;
    return by_unit(form) ? xcc_build_reshape_to(b, all, xcc_build_shape_of(b, x)) : all;
}

bool xcc_build_lstm_cell(xcc_builder *b, xcc_value *x, xcc_lstm_form form, xcc_value *const *c_prev, size_t count,
                         xcc_value **h, xcc_value **c)
{
    xcc_value **gates = cut(b, x, form);
    if (gates == NULL)
        return false;
    xcc_value *g = gates[xcvm_lstm_candidate((size_t)form.children)];
    *c =
        xcc_build_mul(b, xcc_build_unary(b, XCVM_OP_Sigmoid, gates[XCVM_LSTM_IN]), xcc_build_unary(b, XCVM_OP_Tanh, g));
    for (size_t i = 0; i < count; i++) {
        xcc_value *forget = xcc_build_unary(b, XCVM_OP_Sigmoid, gates[XCVM_LSTM_FORGET + i]);
        *c = xcc_build_add(b, *c, xcc_build_mul(b, forget, c_prev[i]));
    }
    *h = xcc_build_mul(b, xcc_build_unary(b, XCVM_OP_Sigmoid, gates[XCVM_LSTM_OUT]),
                       xcc_build_unary(b, XCVM_OP_Tanh, *c));
    return *h != NULL;
}

/* 1 - v */
static xcc_value *complement(xcc_builder *b, xcc_value *v)
{
    return xcc_build_sub(b, v != NULL ? xcc_build_number(b, v, 1) : NULL, v);
}

/* Derivatives through a sigmoid s, d * s * (1 - s), and through a tanh t, d * (1 - t * t). */
static xcc_value *through_sigmoid(xcc_builder *b, xcc_value *d, xcc_value *s)
{
    return xcc_build_mul(b, d, xcc_build_mul(b, s, complement(b, s)));
}

static xcc_value *through_tanh(xcc_builder *b, xcc_value *d, xcc_value *t)
{
    return xcc_build_mul(b, d, complement(b, xcc_build_mul(b, t, t)));
}

bool xcc_build_lstm_cell_gradient(xcc_builder *b, xcc_value *const *operands, size_t count, xcc_lstm_form form,
                                  xcc_value **results)
{
    enum { DH, DC, X, C, C_PREV };
    const size_t children = (size_t)form.children, candidate = xcvm_lstm_candidate(children);
    xcc_value **gates = cut(b, operands[X], form);
    xcc_value *zero = xcc_build_expand(b, xcc_build_number(b, operands[C], 0), xcc_build_shape_of(b, operands[C]));
    if (gates == NULL || zero == NULL)
        return false;
    xcc_value *dc = operands[DC] != NULL ? operands[DC] : zero, *dh = operands[DH] != NULL ? operands[DH] : zero;
    xcc_value *out = xcc_build_unary(b, XCVM_OP_Sigmoid, gates[XCVM_LSTM_OUT]),
              *enters = xcc_build_unary(b, XCVM_OP_Sigmoid, gates[XCVM_LSTM_IN]),
              *g = xcc_build_unary(b, XCVM_OP_Tanh, gates[candidate]),
              *t = xcc_build_unary(b, XCVM_OP_Tanh, operands[C]);
    dc = xcc_build_add(b, dc, through_tanh(b, xcc_build_mul(b, dh, out), t));
    gates[XCVM_LSTM_OUT] = through_sigmoid(b, xcc_build_mul(b, dh, t), out);
    gates[XCVM_LSTM_IN] = through_sigmoid(b, xcc_build_mul(b, dc, g), enters);
    gates[candidate] = through_tanh(b, xcc_build_mul(b, dc, enters), g);
    for (size_t i = 0; i < children; i++) {
        xcc_value **gate = &gates[XCVM_LSTM_FORGET + i];
        xcc_value *forget = i < count ? xcc_build_unary(b, XCVM_OP_Sigmoid, *gate) : NULL;
        *gate = i < count ? through_sigmoid(b, xcc_build_mul(b, dc, operands[C_PREV + i]), forget) : zero;
        if (i < count && (results[1 + i] = xcc_build_mul(b, dc, forget)) == NULL)
            return false;
    }
    results[0] = join(b, operands[X], form, gates);
    return results[0] != NULL;
}
