/* The forward pass of a differentiated graph: its nodes as items, their inputs, and the uses of their results. */
#include "compiler/ir/liveness.h"
#include "compiler/ir/compilation.h"
#include "compiler/recompute/recompute.h"

double xcc_forward_time_of(const xcc_node *n)
{
    enum { BYTES_PER_NS = 15, FLOPS_PER_NS = 200 };
    const size_t inputs = xcc_node_input_count(n), outputs = xcc_node_output_count(n);
    double bytes = 0;
    bool open = false;
    if (n->kind == XCC_INSTRUCTION && xcvm_schema_has_class(n->schema, XCVM_CLASS_view))
        return 0;
    for (size_t i = 0; i < inputs; i++)
        if (xcc_node_input(n, i) != NULL)
            bytes += (double)xcc_value_bytes(xcc_node_input(n, i), &open);
    for (size_t i = 0; i < outputs; i++)
        if (xcc_node_output(n, i) != NULL)
            bytes += (double)xcc_value_bytes(xcc_node_output(n, i), &open);
    return bytes / BYTES_PER_NS + (double)xcc_node_flops(n) / FLOPS_PER_NS;
}

uint32_t xcc_forward_item_of(const xcc_forward *f, const xcc_value *v)
{
    const xcc_node *n = v != NULL ? v->producer : NULL;
    return n != NULL && n->graph == f->g && n->order < f->positions && f->nodes[n->order] == n ? f->item_of[n->order]
                                                                                               : 0;
}

static xcvm_status mark_producer(xcc_forward *f, const xcc_value *v, xcc_node **stack, size_t *count)
{
    if (v == NULL || v->producer == NULL || v->producer->graph != f->g || f->item_of[v->producer->order] != 0)
        return XCVM_OK;
    f->item_of[v->producer->order] = 1;
    stack[(*count)++] = v->producer;
    return xcc_poll(f->m);
}

/* Sets item_of to 1 for nodes that the model's own outputs depend on. */
static xcvm_status find_forward(xcc_forward *f, xcc_node **stack)
{
    size_t count = 0;
    for (size_t i = 0; i < f->m->compilation->forward_outputs; i++)
        XCVM_TRY(mark_producer(f, f->g->outputs[i], stack, &count));
    while (count > 0) {
        const xcc_node *n = stack[--count];
        const size_t inputs = xcc_node_input_count(n);
        for (size_t i = 0; i < inputs; i++)
            XCVM_TRY(mark_producer(f, xcc_node_input(n, i), stack, &count));
        for (size_t i = 0; i < n->capture_count; i++)
            XCVM_TRY(mark_producer(f, n->captures[i], stack, &count));
    }
    return XCVM_OK;
}

/* Records the consequences of a use for the item that produces the value. */
static void note_use(const xcc_forward *f, xcc_forward_item *item, const xcc_use *use)
{
    if (use->node == NULL || use->graph != f->g)
        item->stays = true;
    else if (f->item_of[use->node->order] == 0)
        item->read = true;
}

static void note_results(const xcc_forward *f, const xcc_node *n, xcc_forward_item *item, bool is_view)
{
    const size_t outputs = xcc_node_output_count(n);
    bool open = false;
    for (size_t i = 0; i < outputs; i++) {
        const xcc_value *v = xcc_node_output(n, i);
        bool in_nodes = false;
        for (const xcc_use *use = v != NULL ? v->users : NULL; use != NULL; use = use->next)
            in_nodes = in_nodes || use->node != NULL;
        if (!in_nodes)
            continue;
        const uint64_t bytes = xcc_value_bytes(v, &open);
        if (!is_view && __builtin_add_overflow(item->bytes, bytes, &item->bytes))
            item->bytes = UINT64_MAX;
        for (const xcc_use *use = v->users; use != NULL; use = use->next)
            note_use(f, item, use);
    }
    item->stays = item->stays || open || n->kind != XCC_INSTRUCTION || n->schema->effect != XCVM_PURE;
}

/* The only item that a view reads; UINT32_MAX if n is not a view or reads several. */
static uint32_t viewed_item(const xcc_forward *f, const xcc_node *n)
{
    uint32_t item = UINT32_MAX;
    if (n->kind != XCC_INSTRUCTION || !xcvm_schema_has_class(n->schema, XCVM_CLASS_view))
        return UINT32_MAX;
    for (size_t i = 0; i < xcc_node_input_count(n); i++) {
        const uint32_t of = xcc_forward_item_of(f, xcc_node_input(n, i));
        if (of != 0 && item != UINT32_MAX && item != of - 1)
            return UINT32_MAX;
        item = of != 0 ? of - 1 : item;
    }
    return item;
}

static xcvm_status add_inputs(xcc_forward *f, const xcc_node *n, xcc_forward_item *item, size_t *count,
                              size_t *capacity)
{
    const size_t own = xcc_node_input_count(n);
    for (size_t i = 0; i < own + n->capture_count; i++) {
        const uint32_t of = xcc_forward_item_of(f, i < own ? xcc_node_input(n, i) : n->captures[i - own]);
        if (of == 0)
            continue;
        f->inputs = xcc_grow(f->m, f->inputs, *count, capacity, sizeof *f->inputs);
        if (f->inputs == NULL)
            return XCVM_OUT_OF_MEMORY;
        f->inputs[(*count)++] = of - 1;
        item->input_count++;
    }
    return XCVM_OK;
}

/* Items in the order of their first nodes. Inputs of one item are contiguous, so views, whose only input is the item
 * itself, add none. */
static xcvm_status make_items(xcc_forward *f)
{
    size_t inputs = 0, capacity = 0;
    for (uint32_t p = 0; p < f->positions; p++) {
        xcc_node *n = f->nodes[p];
        f->time += xcc_forward_time_of(n);
        if (f->item_of[p] == 0)
            continue;
        const uint32_t viewed = viewed_item(f, n);
        const bool is_view = viewed != UINT32_MAX;
        const uint32_t at = is_view ? viewed : f->count++;
        xcc_forward_item *item = &f->items[at];
        f->item_of[p] = at + 1;
        if (!is_view) {
            item->first_input = (uint32_t)inputs;
            item->time = xcc_forward_time_of(n);
            XCVM_TRY(add_inputs(f, n, item, &inputs, &capacity));
        }
        note_results(f, n, item, is_view);
    }
    return XCVM_OK;
}

xcvm_status xcc_forward_find(xcc_forward *f)
{
    f->g = f->m->graph;
    xcc_graph_number(f->g);
    f->positions = f->g->last != NULL ? f->g->last->order + 1 : 0;
    f->nodes = xcc_alloc(f->m, f->positions * sizeof *f->nodes);
    f->item_of = xcc_alloc(f->m, f->positions * sizeof *f->item_of);
    f->items = xcc_alloc(f->m, f->positions * sizeof *f->items);
    xcc_node **stack = xcc_alloc(f->m, f->positions * sizeof *stack);
    if (f->nodes == NULL || f->item_of == NULL || f->items == NULL || stack == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (xcc_node *n = f->g->first; n != NULL; n = n->next)
        f->nodes[n->order] = n;
    XCVM_TRY(find_forward(f, stack));
    return make_items(f);
}
