/* LSTMCell as other instructions. */
#include "compiler/ir/lstm_cell.h"

#include "ops/recurrent/lstm_cell.h"

static size_t gates_of(xcc_lstm_form form) { return xcvm_lstm_gates((size_t)form.children); }

static bool by_unit(xcc_lstm_form form) { return form.layout == XCVM_LSTM_LAYOUT_chainer; }

/* The shape of x with its last axis as two, units and gates; or of a state. */
static xcc_value *shape_of(xcc_builder *b, xcc_value *x, xcc_lstm_form form, bool both)
{
    xcc_value *gates = XCC_BUILD_INTS(b, (int64_t)gates_of(form));
    xcc_value *rows = xcc_build_slice(b, xcc_build_shape_of(b, x), 0, 0, -1, 1);
    xcc_value *units = xcc_build_div(b, xcc_build_dim_of(b, x, -1), gates);
    return xcc_build_concat(b, both ? 3 : 2, (xcc_value *[]){rows, units, gates}, 0);
}

/* As many equal pieces along the last axis as there are gates. */
static bool cut(xcc_builder *b, xcc_value *x, size_t count, xcc_value **pieces)
{
    xcvm_value **outs = x != NULL ? xcc_alloc(b->graph->module, count * sizeof *outs) : NULL;
    for (size_t i = 0; i < count && outs != NULL; i++)
        if ((outs[i] = XCC_OUT(pieces[i] = xcc_value_create(b->graph, NULL))) == NULL)
            return false;
    return outs != NULL && xcc_emit(b, Split, .ys = {outs, count}, .x = XCC_IN(x), .axis = -1) != NULL;
}

xcc_value **xcc_lstm_cut(xcc_builder *b, xcc_value *x, xcc_lstm_form form)
{
    const size_t count = gates_of(form);
    xcc_value **columns = xcc_alloc(b->graph->module, 2 * count * sizeof *columns), **gates = columns + count;
    if (columns == NULL || x == NULL)
        return NULL;
    xcc_value *state = by_unit(form) ? shape_of(b, x, form, false) : NULL;
    if (!cut(b, by_unit(form) ? xcc_build_reshape_to(b, x, shape_of(b, x, form, true)) : x, count, columns))
        return NULL;
    for (size_t i = 0; i < count; i++) {
        gates[i] = columns[xcvm_lstm_column(by_unit(form), (size_t)form.children, i)];
        if (by_unit(form) && (gates[i] = xcc_build_reshape_to(b, gates[i], state)) == NULL)
            return NULL;
    }
    return gates;
}

xcc_value *xcc_lstm_join(xcc_builder *b, xcc_value *x, xcc_lstm_form form, xcc_value *const *gates)
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
    xcc_value **gates = xcc_lstm_cut(b, x, form);
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
