/* Gradient of LSTMCell: one instruction, whose own gradient is that of a formula. */
#include "compiler/gradients/rule.h"
#include "compiler/ir/lstm_cell.h"

XCC_GRADIENT(LSTMCell)
{
    const xcvm_LSTMCell_args *a = XCC_ARGS(LSTMCell, d->node);
    const size_t count = a->c_prev.count;
    xcc_graph *g = d->b->graph;
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
            xcc_set_gradient(d, i, given[i]);
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
    d->failed =
        !xcc_build_lstm_cell_gradient(d->b, f.operands, count, (xcc_lstm_form){a->children, a->layout}, results);
    xcc_formula_end(d, &f, results);
}
