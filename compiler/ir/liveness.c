/* Liveness analysis: groups of values that share memory, and their live ranges. */
#include "compiler/ir/liveness.h"

#include <string.h>

uint64_t xcc_value_bytes(const xcc_value *v, bool *open)
{
    const xcvm_value *t = &v->type;
    if (t->kind != XCVM_KIND_TENSOR || t->rank < 0 || t->dtype == XCVM_NO_DTYPE || t->dtype == XCVM_STRING) {
        *open = true;
        return 0;
    }
    int64_t dims[XCVM_MAX_RANK];
    for (int i = 0; i < t->rank; i++) {
        dims[i] = t->dims[i] < 0 ? 1 : t->dims[i];
        *open = *open || t->dims[i] < 0;
    }
    size_t count, bytes;
    if (xcvm_tensor_size(t->dtype, t->rank, dims, &count, &bytes))
        return bytes;
    *open = true;
    return 0;
}

/* The node of `g` that contains a use, directly or in a body; NULL for an output of g. */
static const xcc_node *using_node(const xcc_graph *g, const xcc_use *use)
{
    const xcc_graph *at = use->graph;
    const xcc_node *node = use->node;
    while (at != g) {
        node = at->owner;
        at = node->graph;
    }
    return node;
}

static void begin_range(const xcc_graph *g, xcc_liveness *l, const xcc_node *n, xcc_value *v)
{
    v->mark = (uint32_t)l->count;
    xcc_live_range *life = &l->at[l->count++];
    life->value = v;
    life->root = v->mark;
    life->start = life->end = n->order;
    life->bytes = xcc_value_bytes(v, &life->open);
    life->escapes = n->kind != XCC_INSTRUCTION;
    for (const xcc_use *use = v->users; use != NULL; use = use->next) {
        const xcc_node *user = using_node(g, use);
        uint32_t position = user != NULL ? xcc_last_needed(user, v)->order : l->positions;
        life->end = position > life->end ? position : life->end;
        if (user != NULL ? user->kind != XCC_INSTRUCTION : g->owner != NULL)
            life->escapes = true;
    }
}

static void join_group(xcc_liveness *l, const xcc_value *v, uint32_t root)
{
    xcc_live_range *life = &l->at[v->mark], *group = &l->at[root];
    life->root = root;
    group->end = life->end > group->end ? life->end : group->end;
    group->bytes = life->bytes > group->bytes ? life->bytes : group->bytes;
    group->open = group->open || life->open;
    group->escapes = group->escapes || life->escapes;
}

/* Returns true if an instruction's result may overwrite `operand`: it is the only value of its group that the
 * instruction reads, and only in fields with the role IN_PLACE. */
static bool only_in_place(const xcc_node *n, const xcc_liveness *l, const xcc_live_range *operand)
{
    for (size_t f = 0; f < n->schema->field_count; f++) {
        const xcvm_field *field = &n->schema->fields[f];
        size_t count = xcvm_field_is_input(field) ? xcvm_field_count(field, n->args) : 0;
        for (size_t i = 0; i < count; i++) {
            const xcc_live_range *life = xcc_live_range_of(l, xcc_value_of(xcvm_field_value(field, n->args, i)));
            if (life != NULL && life->root == operand->root && (life != operand || field->role != XCVM_ROLE_IN_PLACE))
                return false;
        }
    }
    /* Values that its group reads from outside are needed until the group's end. */
    for (size_t x = 0; n->group != NULL && x < n->group->x_count; x++) {
        const xcc_live_range *life = xcc_live_range_of(l, n->group->xs[x]);
        if (life != NULL && life->root == operand->root && life != operand)
            return false;
    }
    return true;
}

/* Gives the first result of a node the memory of an operand, if the instruction supports it. */
static void share_memory(const xcc_node *n, xcc_liveness *l)
{
    xcc_value *result = xcc_node_output_count(n) > 0 ? xcc_node_output(n, 0) : NULL;
    if (result == NULL)
        return;
    for (size_t f = 0; f < n->schema->field_count; f++) {
        const xcvm_field *field = &n->schema->fields[f];
        if ((field->role != XCVM_ROLE_IN_PLACE && field->role != XCVM_ROLE_IN_VIEW) || xcvm_field_is_list(field))
            continue;
        const xcc_value *v = xcc_value_of(xcvm_field_value(field, n->args, 0));
        const xcc_live_range *operand = xcc_live_range_of(l, v);
        if (operand == NULL && v != NULL && field->role == XCVM_ROLE_IN_VIEW) {
            /* A view of memory that does not belong to this graph. */
            l->at[result->mark].bytes = 0;
            l->at[result->mark].escapes = true;
        }
        if (operand == NULL)
            continue;
        const xcc_live_range *group = &l->at[operand->root], *life = &l->at[result->mark];
        bool fits = !group->open && !life->open && group->bytes == life->bytes && group->escapes == life->escapes &&
                    operand->value->type.dtype == result->type.dtype;
        if (field->role == XCVM_ROLE_IN_VIEW || (fits && group->end == n->order && only_in_place(n, l, operand))) {
            join_group(l, result, operand->root);
            return;
        }
    }
}

xcvm_status xcc_liveness_analyze(xcc_graph *g, xcc_liveness *l)
{
    xcc_module *m = g->module;
    xcc_graph_number(g);
    l->positions = g->last != NULL ? g->last->order + 1 : 0;
    l->count = l->capacity = 0;
    for (const xcc_node *n = g->first; n != NULL; n = n->next)
        l->capacity += xcc_node_output_count(n);
    l->at = xcvm_allocate_zeroed(m->allocator, l->capacity * sizeof *l->at);
    if (l->at == NULL)
        return xcc_out_of_memory(m);
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        xcvm_status status = xcc_poll(m);
        if (status != XCVM_OK) {
            xcc_liveness_release(m, l);
            return status;
        }
        size_t outputs = xcc_node_output_count(n);
        for (size_t i = 0; i < outputs; i++) {
            xcc_value *v = xcc_node_output(n, i);
            if (v != NULL)
                begin_range(g, l, n, v);
        }
        if (n->kind == XCC_INSTRUCTION)
            share_memory(n, l);
    }
    return XCVM_OK;
}

void xcc_liveness_release(xcc_module *m, xcc_liveness *l)
{
    if (l->at != NULL)
        xcvm_deallocate(m->allocator, l->at, l->capacity * sizeof *l->at);
    l->at = NULL;
}

static uint64_t saturating_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

xcvm_status xcc_graph_peak(xcc_graph *g, uint64_t *peak, bool *open)
{
    xcc_module *m = g->module;
    xcc_liveness l;
    XCVM_TRY(xcc_liveness_analyze(g, &l));
    size_t bytes = ((size_t)l.positions + 2) * 2 * sizeof(uint64_t);
    uint64_t *taken = xcvm_allocate_zeroed(m->allocator, bytes);
    if (taken == NULL) {
        xcc_liveness_release(m, &l);
        return xcc_out_of_memory(m);
    }
    uint64_t *freed = taken + l.positions + 2;
    for (size_t i = 0; i < l.count; i++) {
        const xcc_live_range *life = &l.at[i];
        if (life->root != i)
            continue;
        *open = *open || life->open;
        taken[life->start] = saturating_add(taken[life->start], life->bytes);
        freed[life->end + 1] = saturating_add(freed[life->end + 1], life->bytes);
    }
    xcc_liveness_release(m, &l);
    xcvm_status status = XCVM_OK;
    uint64_t live = 0;
    const xcc_node *n = g->first;
    *peak = 0;
    for (uint32_t i = 0; i <= l.positions && status == XCVM_OK; i++) {
        live = saturating_add(live, taken[i]);
        live = live > freed[i] ? live - freed[i] : 0;
        uint64_t inside = 0;
        for (size_t b = 0; n != NULL && b < n->body_count && status == XCVM_OK; b++) {
            uint64_t body = 0;
            status = xcc_graph_peak(n->bodies[b], &body, open);
            inside = body > inside ? body : inside;
        }
        uint64_t now = saturating_add(live, inside);
        *peak = now > *peak ? now : *peak;
        n = n != NULL ? n->next : NULL;
    }
    xcvm_deallocate(m->allocator, taken, bytes);
    return status;
}
