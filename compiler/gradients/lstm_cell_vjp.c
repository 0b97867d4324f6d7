/* LSTMCell: its gradient is one instruction, whose own gradient is that of a formula. */
#include "compiler/ir/lstm_cell.h"
#include "compiler/gradients/rule.h"
#include "ops/recurrent/lstm_cell.h"

/* As a formula: for ONNX, which has no such operators. */
static void give_formula(xcc_vjp *d, xcc_lstm_form form)
{
    xcc_formula f;
    xcc_value *results[2];
    if (!xcc_formula_begin(d, &f))
        return;
    d->failed = !xcc_build_lstm_cell(d->b, f.operands[0], form, f.operands + 1, f.count - 1, &results[0], &results[1]);
    xcc_formula_end(d, &f, results);
}

XCC_GRADIENT(LSTMCell)
{
    const xcvm_LSTMCell_args *a = XCC_ARGS(LSTMCell, d->node);
    const size_t count = a->c_prev.count;
    xcc_graph *g = d->b->graph;
    if (!xcc_may_build_own(d)) {
        give_formula(d, (xcc_lstm_form){a->children, a->layout});
        return;
    }
    xcvm_value **outs = xcc_alloc(g->module, (count + 1) * sizeof *outs);
    xcc_value **given = xcc_alloc(g->module, (count + 1) * sizeof *given);
    d->failed = outs == NULL || given == NULL;
    for (size_t i = 0; i <= count && !d->failed; i++) {
        outs[i] = XCC_OUT(given[i] = xcc_value_create(g, NULL));
        d->failed = outs[i] == NULL;
    }
    d->failed = d->failed || xcc_emit(d->b, LSTMCellGradient, .dx = outs[0], .dc_prev = {outs + 1, count},
                                      .dh = XCC_IN(d->results[0]), .dc = XCC_IN(d->results[1]), .x = a->x, .c = a->c,
                                      .c_prev = a->c_prev, .children = a->children, .layout = a->layout) == NULL;
    for (size_t i = 0; i <= count && !d->failed; i++)
        if (xcc_wanted(d, i))
            xcc_give(d, i, given[i]);
}

/* ---- The gradient's gradient ---- */

/* s * (1 - s), of s */
static xcc_value *slope_of_sigmoid(xcc_vjp *d, xcc_value *s) { return xcc_mul(d, s, xcc_sub(d, xcc_num(d, s, 1), s)); }

/* 1 - t * t, of t */
static xcc_value *slope_of_tanh(xcc_vjp *d, xcc_value *t) { return xcc_sub(d, xcc_num(d, t, 1), xcc_square(d, t)); }

/* What the instruction computes, from its operands in order: results[0] is dx, those of dc_prev stand behind. */
static void build(xcc_vjp *d, xcc_value *const *in, size_t count, xcc_lstm_form form, xcc_value **results)
{
    enum { DH, DC, X, C, C_PREV };
    const size_t children = (size_t)form.children, candidate = xcvm_lstm_candidate(children);
    xcc_value **gates = xcc_lstm_cut(d->b, in[X], form), *zero = xcc_zeros_like(d->b, in[C]);
    if ((d->failed = gates == NULL || zero == NULL))
        return;
    xcc_value *dc = in[DC] != NULL ? in[DC] : zero, *dh = in[DH] != NULL ? in[DH] : zero;
    xcc_value *out = xcc_op1(d, XCVM_OP_Sigmoid, gates[XCVM_LSTM_OUT]), *t = xcc_op1(d, XCVM_OP_Tanh, in[C]);
    xcc_value *enters = xcc_op1(d, XCVM_OP_Sigmoid, gates[XCVM_LSTM_IN]),
              *g = xcc_op1(d, XCVM_OP_Tanh, gates[candidate]);
    dc = xcc_add(d, dc, xcc_mul(d, xcc_mul(d, dh, out), slope_of_tanh(d, t)));
    gates[XCVM_LSTM_OUT] = xcc_mul(d, xcc_mul(d, dh, t), slope_of_sigmoid(d, out));
    gates[XCVM_LSTM_IN] = xcc_mul(d, xcc_mul(d, dc, g), slope_of_sigmoid(d, enters));
    gates[candidate] = xcc_mul(d, xcc_mul(d, dc, enters), slope_of_tanh(d, g));
    for (size_t i = 0; i < children; i++) {
        xcc_value **gate = &gates[XCVM_LSTM_FORGET + i];
        if (i >= count) {
            *gate = zero;
            continue;
        }
        xcc_value *forget = xcc_op1(d, XCVM_OP_Sigmoid, *gate);
        *gate = xcc_mul(d, xcc_mul(d, dc, in[C_PREV + i]), slope_of_sigmoid(d, forget));
        results[1 + i] = xcc_mul(d, dc, forget);
    }
    results[0] = xcc_lstm_join(d->b, in[X], form, gates);
}

XCC_GRADIENT(LSTMCellGradient)
{
    const xcvm_LSTMCellGradient_args *a = XCC_ARGS(LSTMCellGradient, d->node);
    const size_t count = a->c_prev.count;
    xcc_value **results = xcc_alloc(d->b->graph->module, (count + 1) * sizeof *results);
    xcc_formula f;
    d->failed = results == NULL;
    if (d->failed || !xcc_formula_begin(d, &f))
        return;
    build(d, f.operands, count, (xcc_lstm_form){a->children, a->layout}, results);
    xcc_formula_end(d, &f, results);
}
