/* Constant folding: evaluates nodes that depend only on constants. */
#include "compiler/ir/evaluate.h"
#include "compiler/passes/passes.h"

/* Maximum bytes of all results; more if the model's constants are large. */
#define LARGE_RESULTS ((size_t)64 << 20)

/* Memory limit of the heap. If memory is limited, other passes also need some. */
static size_t heap_limit(const xcc_module *m)
{
    size_t limit = SIZE_MAX;
    if (!xcvm_size_mul(m->constant_bytes, XCC_LARGE_RATIO, &limit) || !xcvm_size_add(limit, LARGE_RESULTS, &limit))
        limit = SIZE_MAX;
    const xcvm_budget *budget = &m->budget;
    if (budget->limit == 0)
        return limit;
    const size_t half = xcvm_heap_reserved(m->heap) + (budget->limit - xcvm_min(budget->held, budget->limit)) / 2;
    return xcvm_min(limit, half);
}

static xcvm_status fold_graph(xcc_evaluator *e, xcc_graph *g)
{
    for (xcc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        XCVM_TRY(xcc_poll(e->m));
        if (n->kind == XCC_INSTRUCTION)
            xcc_evaluate_node(e, n);
        for (size_t i = 0; i < n->body_count; i++)
            XCVM_TRY(fold_graph(e, n->bodies[i]));
    }
    return XCVM_OK;
}

xcvm_status xcc_pass_fold(xcc_module *m)
{
    xcc_evaluator e;
    xcc_evaluator_begin(&e, m, false);
    const size_t before = xcvm_heap_set_limit(m->heap, heap_limit(m));
    const xcvm_status status = fold_graph(&e, m->graph);
    xcvm_heap_set_limit(m->heap, before);
    xcc_evaluator_end(&e);
    return status;
}
