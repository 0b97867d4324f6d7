/* Gradient of HostCall: another host function computes it. */
#include "compiler/gradients/rule.h"

#include <string.h>

#define G xcc_g(d)

static const char *vjp_of(const xcc_options *options, xcvm_text function)
{
    for (size_t i = 0; i < options->gradients.vjp_count; i++)
        if (strcmp(options->gradients.vjps[i].function, function.at) == 0)
            return options->gradients.vjps[i].vjp;
    return NULL;
}

/* Calls the function's vector-Jacobian product with the operands, the results, and the gradients of float results. It
 * returns the gradients of all float operands, wanted or not. */
XCC_GRADIENT(HostCall)
{
    const xcvm_HostCall_args *a = XCC_ARGS(HostCall, d->node);
    xcc_builder *b = d->b;
    xcc_module *m = b->graph->module;
    const char *name = vjp_of(m->options, a->function);
    if (name == NULL) {
        xcc_refuse(d, "calls \"%.100s\", which has no vector-Jacobian product", a->function.at);
        return;
    }
    const size_t most = a->xs.count + 2 * a->ys.count;
    xcvm_value **operands = xcc_alloc(m, most * sizeof *operands),
               **results = xcc_alloc(m, a->xs.count * sizeof *results);
    int64_t *dtypes = xcc_alloc(m, 2 * a->xs.count * sizeof *dtypes),
            *ranks = dtypes != NULL ? dtypes + a->xs.count : NULL;
    if (operands == NULL || results == NULL || dtypes == NULL) {
        d->failed = true;
        return;
    }
    size_t count = 0, outs = 0;
    for (size_t i = 0; i < a->xs.count; i++)
        operands[count++] = XCC_IN(xcc_in(d, i));
    for (size_t i = 0; i < a->ys.count; i++)
        operands[count++] = XCC_IN(xcc_extra_result(d, i));
    for (size_t i = 0; i < a->ys.count; i++) {
        xcc_value *y = xcc_out(d, i);
        if (!xcc_is_differentiable(y))
            continue;
        operands[count++] = XCC_IN(d->results[i] != NULL ? d->results[i] : xcc_zeros_like(b, y));
    }
    for (size_t i = 0; i < count; i++)
        d->failed = d->failed || (operands[i] == NULL && i >= a->xs.count);
    for (size_t i = 0; i < a->xs.count && !d->failed; i++) {
        const xcc_value *x = xcc_in(d, i);
        if (!xcc_is_differentiable(x))
            continue;
        dtypes[outs] = x->type.dtype;
        ranks[outs] = x->type.rank;
        results[outs] = XCC_OUT(xcc_value_create(b->graph, NULL));
        d->failed = results[outs++] == NULL;
    }
    if (d->failed ||
        (d->failed =
             xcc_emit(b, HostCall, .ys = {results, outs}, .xs = {(const xcvm_value *const *)operands, count},
                      .function = {name, strlen(name)}, .dtypes = {dtypes, outs}, .ranks = {ranks, outs}) == NULL))
        return;
    outs = 0;
    for (size_t i = 0; i < a->xs.count; i++)
        if (xcc_is_differentiable(xcc_in(d, i))) {
            xcc_value *g = xcc_value_of(results[outs++]);
            if (xcc_wanted(d, i)) /* with the operand's shape, which is known more precisely */
                xcc_set_gradient(d, i, xcc_reshape_like(b, g, xcc_in(d, i)));
        }
}
