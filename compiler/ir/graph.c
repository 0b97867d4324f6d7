/* Values, and the links between values, nodes and graphs. */
#include "compiler/ir/graph.h"
#include "compiler/ir/compilation.h"

#include <stdio.h>
#include <string.h>

/* ---- Values ---- */

/* Maximum characters of an existing name that are kept in a name derived from it. */
enum { MADE_FROM = 200 };

/* `number`: suffix of a derived name, unless that is also taken. */
static const char *unique_name(xcc_module *m, const char *name, uint64_t number)
{
    if (!xcc_table_reserve(m, &m->value_names))
        return NULL;
    struct xcc_table_entry *entry = NULL;
    const char *copy = NULL;
    if (name != NULL && name[0] != '\0') {
        entry = xcc_table_find(&m->value_names, name);
        if (entry->name == NULL && (copy = xcc_string(m, name, strlen(name))) == NULL)
            return NULL;
    }
    if (copy == NULL) {
        char made[MADE_FROM + 24];
        const size_t length = name != NULL ? strnlen(name, MADE_FROM) : 0;
        do { /* repeats only if the model itself uses such names */
            snprintf(made, sizeof made, "%.*s_%llu", (int)length, length > 0 ? name : "", (unsigned long long)number);
            entry = xcc_table_find(&m->value_names, made);
            number += UINT64_C(1) << 32;
        } while (entry->name != NULL);
        copy = xcc_string(m, made, strlen(made));
        if (copy == NULL)
            return NULL;
    }
    *entry = (struct xcc_table_entry){copy, 0};
    m->value_names.count++;
    return copy;
}

xcc_value *xcc_value_create(xcc_graph *g, const char *name)
{
    xcc_module *m = g->module;
    if (m->recorder != NULL)
        return m->recorder->value(m->recorder);
    xcc_value *v = m->spare_values;
    uint32_t id = m->value_count;
    if (v != NULL) {
        id = v->id;
        xcc_value_disown(v);
        *v = (xcc_value){.id = id};
    } else if (id == UINT32_MAX) {
        xcc_out_of_memory(m);
    } else {
        v = xcc_alloc(m, sizeof *v);
    }
    if (v == NULL || (v->name = unique_name(m, name, id)) == NULL)
        return NULL;
    m->value_count += id == m->value_count;
    v->type.rank = -1;
    v->graph = g;
    v->id = id;
    return v;
}

xcvm_status xcc_value_rename(xcc_value *v, const char *name)
{
    const char *unique = unique_name(v->graph->module, name, v->graph->module->value_count);
    if (unique == NULL)
        return XCVM_OUT_OF_MEMORY;
    v->name = unique;
    return XCVM_OK;
}

xcvm_type xcc_value_type(const xcc_module *m, const xcc_value *v)
{
    xcvm_type type = {.kind = (xcvm_kind)v->type.kind, .dtype = (xcvm_dtype)v->type.dtype, .rank = -1};
    if (type.kind == XCVM_KIND_TENSOR)
        type.rank = v->type.rank;
    for (int i = 0; i < type.rank; i++) {
        type.dims[i] = v->type.dims[i] < 0 ? XCVM_ANY_DIM : v->type.dims[i];
        type.dim_names[i] = xcc_symbol_name(m, v->type.dims[i]);
    }
    return type;
}

/* ---- Uses ---- */

static void use_link(xcc_use *use, xcc_value *v)
{
    use->value = v;
    use->previous = use->next = NULL;
    if (v == NULL)
        return;
    use->next = v->users;
    if (v->users != NULL)
        v->users->previous = use;
    v->users = use;
    v->uses++;
}

static void use_unlink(xcc_use *use)
{
    xcc_value *v = use->value;
    if (v == NULL)
        return;
    if (use->previous != NULL)
        use->previous->next = use->next;
    else
        v->users = use->next;
    if (use->next != NULL)
        use->next->previous = use->previous;
    use->previous = use->next = NULL;
    use->value = NULL;
    v->uses--;
}

/* ---- Graphs ---- */

xcc_graph *xcc_graph_create(xcc_module *m, xcc_node *owner, const char *name)
{
    xcc_graph *g = xcc_alloc(m, sizeof *g);
    if (g == NULL || (g->name = xcc_string(m, name, strlen(name))) == NULL)
        return NULL;
    g->module = m;
    g->owner = owner;
    g->depth = owner != NULL ? owner->graph->depth + 1 : 0;
    return g;
}

static xcc_value **copy_values(xcc_module *m, size_t count, xcc_value *const *values)
{
    xcc_value **copy = count < SIZE_MAX / sizeof *copy ? xcc_alloc(m, count * sizeof *copy) : NULL;
    if (copy != NULL && count > 0)
        memcpy(copy, values, count * sizeof *copy);
    return copy;
}

xcvm_status xcc_module_init(xcc_module *m, const xcc_options *options, xcvm_error *error)
{
    static const xcc_options defaults = {.size = sizeof defaults};
    memset(m, 0, sizeof *m);
    m->options = options != NULL ? options : &defaults;
    xcvm_budget_begin(&m->budget, m->options->allocator, m->options->limits.memory_bytes);
    m->allocator = &m->budget.allocator;
    m->arena.allocator = m->allocator;
    m->deadline_ns = m->options->limits.timeout_ns != 0 ? xcc_deadline_within(m, m->options->limits.timeout_ns) : 0;
    m->cancelled = m->options->cancelled;
    m->key = xcvm_hash_key_make();
    m->error = error;
    m->compilation = xcc_alloc(m, sizeof *m->compilation);
    if (m->compilation == NULL)
        return XCVM_OUT_OF_MEMORY;
    m->compilation->producer = "";
    XCVM_TRY(xcvm_heap_create(m->allocator, 0, &m->heap, error));
    m->graph = xcc_graph_create(m, NULL, "main");
    return m->graph != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

void xcc_module_release(xcc_module *m)
{
    for (xcc_value *v = m->owned; v != NULL; v = v->next_owned)
        xcvm_value_clear(&v->type);
    m->owned = NULL;
    xcvm_heap_destroy(m->heap);
    m->heap = NULL;
    xcvm_arena_release(&m->arena);
}

xcvm_status xcc_graph_set_inputs(xcc_graph *g, size_t count, xcc_value *const *values)
{
    xcc_value **copy = copy_values(g->module, count, values);
    if (copy == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        copy[i]->kind = XCC_INPUT;
    g->inputs = copy;
    g->input_count = count;
    return XCVM_OK;
}

xcvm_status xcc_graph_set_outputs(xcc_graph *g, size_t count, xcc_value *const *values)
{
    xcc_value **copy = copy_values(g->module, count, values);
    xcc_use *uses = copy != NULL ? xcc_alloc(g->module, count * sizeof *uses) : NULL;
    const char **names = uses != NULL ? xcc_alloc(g->module, count * sizeof *names) : NULL;
    if (names == NULL)
        return XCVM_OUT_OF_MEMORY;
    if (g->output_states != NULL) {
        xcc_value **states = xcc_alloc(g->module, count * sizeof *states);
        if (states == NULL)
            return XCVM_OUT_OF_MEMORY;
        memcpy(states, g->output_states, xcvm_min(count, g->output_count) * sizeof *states);
        g->output_states = states;
    }
    if (g->uses != NULL)
        for (size_t i = 0; i < g->output_count; i++)
            use_unlink(&g->uses[i]);
    for (size_t i = 0; i < count; i++) {
        uses[i].graph = g;
        uses[i].index = (uint32_t)i;
        use_link(&uses[i], copy[i]);
        const xcc_value *state = xcc_graph_output_state(g, i);
        names[i] = state != NULL ? state->name : copy[i]->name;
    }
    g->output_names = names;
    g->outputs = copy;
    g->output_count = g->output_capacity = count;
    g->uses = uses;
    return XCVM_OK;
}

/* Ensures room for `total` outputs, or for twice the current number, so that appending takes linear time and memory. */
static xcvm_status reserve_outputs(xcc_graph *g, size_t total)
{
    xcc_module *m = g->module;
    const size_t own = g->output_count, room = total / 2 < own ? 2 * own : total;
    if (total <= g->output_capacity && g->output_states != NULL)
        return XCVM_OK;
    xcc_value **outputs = xcc_alloc(m, room * sizeof *outputs), **states = xcc_alloc(m, room * sizeof *states);
    const char **names = xcc_alloc(m, room * sizeof *names);
    xcc_use *uses = xcc_alloc(m, room * sizeof *uses);
    if (outputs == NULL || states == NULL || names == NULL || uses == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < own; i++) {
        outputs[i] = g->outputs[i];
        names[i] = g->output_names[i];
        states[i] = xcc_graph_output_state(g, i);
        use_unlink(&g->uses[i]);
        uses[i] = (xcc_use){.graph = g, .index = (uint32_t)i};
        use_link(&uses[i], outputs[i]);
    }
    g->outputs = outputs;
    g->output_names = names;
    g->output_states = states;
    g->uses = uses;
    g->output_capacity = room;
    return XCVM_OK;
}

xcvm_status xcc_graph_add_outputs(xcc_graph *g, size_t count, xcc_value *const *values, const char *const *names,
                                  xcc_value *const *states)
{
    const size_t own = g->output_count;
    XCVM_TRY(reserve_outputs(g, own + count));
    for (size_t i = 0; i < count; i++) {
        g->outputs[own + i] = values[i];
        g->output_names[own + i] = names[i];
        g->output_states[own + i] = states != NULL ? states[i] : NULL;
        g->uses[own + i] = (xcc_use){.graph = g, .index = (uint32_t)(own + i)};
        use_link(&g->uses[own + i], values[i]);
    }
    g->output_count = own + count;
    return XCVM_OK;
}

xcvm_status xcc_graph_store(xcc_graph *g, xcc_value *state, xcc_value *value)
{
    return xcc_graph_add_outputs(g, 1, &value, &state->name, &state);
}

xcvm_status xcc_graph_remove_outputs(xcc_graph *g, const bool *removed)
{
    xcc_module *m = g->module;
    const size_t most = g->output_count;
    xcc_value **outputs = xcc_alloc(m, most * sizeof *outputs);
    const char **names = outputs != NULL ? xcc_alloc(m, most * sizeof *names) : NULL;
    xcc_value **states = names != NULL ? xcc_alloc(m, most * sizeof *states) : NULL;
    if (states == NULL)
        return XCVM_OUT_OF_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < most; i++) {
        if (removed[i])
            continue;
        outputs[count] = g->outputs[i];
        names[count] = g->output_names[i];
        states[count++] = xcc_graph_output_state(g, i);
    }
    XCVM_TRY(xcc_graph_set_outputs(g, count, outputs));
    g->output_names = names;
    g->output_states = states;
    return XCVM_OK;
}

bool xcc_writes_input(const xcc_node *n, size_t i)
{
    const xcvm_field *field = xcc_updates(n) ? xcc_node_input_field(n, i) : NULL;
    return field != NULL && field->role == XCVM_ROLE_IN_STATE;
}

const xcc_node *xcc_last_needed(const xcc_node *user, const xcc_value *v)
{
    const xcc_group *group = user->group;
    bool from_outside = group != NULL && (v->producer == NULL || v->producer->group != group);
    return from_outside ? group->nodes[group->node_count - 1] : user;
}

void xcc_graph_number(xcc_graph *g)
{
    uint32_t order = 0;
    for (xcc_node *n = g->first; n != NULL; n = n->next)
        n->order = order++;
}

/* ---- Operands of nodes ---- */

size_t xcc_node_input_count(const xcc_node *n)
{
    if (n->kind != XCC_INSTRUCTION)
        return n->input_count;
    size_t count = 0;
    for (size_t i = 0; i < n->schema->field_count; i++)
        if (xcvm_field_is_input(&n->schema->fields[i]))
            count += xcvm_field_count(&n->schema->fields[i], n->args);
    return count;
}

size_t xcc_node_output_count(const xcc_node *n)
{
    if (n->kind != XCC_INSTRUCTION)
        return n->output_count;
    size_t count = 0;
    for (size_t i = 0; i < n->schema->field_count; i++)
        if (n->schema->fields[i].role == XCVM_ROLE_OUT)
            count += xcvm_field_count(&n->schema->fields[i], n->args);
    return count;
}

/* The operand field of input (or output) `*i`; *i becomes the position in the field. NULL past the end. */
static const xcvm_field *operand_field(const xcc_node *n, bool output, size_t *i)
{
    for (size_t f = 0; f < n->schema->field_count; f++) {
        const xcvm_field *field = &n->schema->fields[f];
        if (output ? field->role != XCVM_ROLE_OUT : !xcvm_field_is_input(field))
            continue;
        size_t count = xcvm_field_count(field, n->args);
        if (*i < count)
            return field;
        *i -= count;
    }
    return NULL;
}

const xcvm_field *xcc_node_input_field(const xcc_node *n, size_t i)
{
    return n->kind == XCC_INSTRUCTION ? operand_field(n, false, &i) : NULL;
}

xcc_value *xcc_node_input(const xcc_node *n, size_t i)
{
    if (n->kind != XCC_INSTRUCTION)
        return i < n->input_count ? n->inputs[i] : NULL;
    const xcvm_field *field = operand_field(n, false, &i);
    return field != NULL ? xcc_value_of(xcvm_field_value(field, n->args, i)) : NULL;
}

xcc_value *xcc_node_output(const xcc_node *n, size_t i)
{
    if (n->kind != XCC_INSTRUCTION)
        return i < n->output_count ? n->outputs[i] : NULL;
    const xcvm_field *field = operand_field(n, true, &i);
    return field != NULL ? xcc_value_of(xcvm_field_value(field, n->args, i)) : NULL;
}

static void write_operand(xcc_node *n, size_t i, xcc_value *v)
{
    if (n->kind != XCC_INSTRUCTION) {
        n->inputs[i] = v;
        return;
    }
    const xcvm_field *field = operand_field(n, false, &i);
    char *at = (char *)n->args + field->offset;
    if (xcvm_field_is_list(field)) {
        /* The array was copied to the arena for this node, so it may be modified. */
        const xcvm_value **list = (const xcvm_value **)((xcvm_inputs *)(void *)at)->at;
        list[i] = XCC_IN(v);
    } else {
        *(const xcvm_value **)(void *)at = XCC_IN(v);
    }
}

void xcc_node_set_input(xcc_node *n, size_t i, xcc_value *v)
{
    write_operand(n, i, v);
    use_unlink(&n->uses[i]);
    use_link(&n->uses[i], v);
}

xcvm_status xcc_node_link_uses(xcc_node *n)
{
    size_t count = xcc_node_input_count(n);
    n->uses = count < UINT32_MAX ? xcc_alloc(n->graph->module, count * sizeof *n->uses) : NULL;
    if (n->uses == NULL)
        return xcc_out_of_memory(n->graph->module);
    size_t i = 0;
    if (n->kind != XCC_INSTRUCTION) {
        for (; i < count; i++)
            use_link(&n->uses[i], n->inputs[i]);
    } else {
        for (size_t f = 0; f < n->schema->field_count; f++) {
            const xcvm_field *field = &n->schema->fields[f];
            size_t values = xcvm_field_is_input(field) ? xcvm_field_count(field, n->args) : 0;
            for (size_t k = 0; k < values; k++)
                use_link(&n->uses[i++], xcc_value_of(xcvm_field_value(field, n->args, k)));
        }
    }
    for (i = 0; i < count; i++) {
        n->uses[i].node = n;
        n->uses[i].graph = n->graph;
        n->uses[i].index = (uint32_t)i;
    }
    return XCVM_OK;
}

/* ---- Modification ---- */

void xcc_use_set(xcc_use *use, xcc_value *v)
{
    if (use->node != NULL) {
        xcc_node_set_input(use->node, use->index, v);
        return;
    }
    use->graph->outputs[use->index] = v;
    use_unlink(use);
    use_link(use, v);
}

void xcc_replace_uses(xcc_graph *g, xcc_value *old, xcc_value *new_value)
{
    (void)g;
    if (old == new_value)
        return;
    while (old->users != NULL)
        xcc_use_set(old->users, new_value);
}

static void list_insert(xcc_graph *g, xcc_node *n, xcc_node *before)
{
    n->next = before;
    n->previous = before != NULL ? before->previous : g->last;
    if (n->previous != NULL)
        n->previous->next = n;
    else
        g->first = n;
    if (before != NULL)
        before->previous = n;
    else
        g->last = n;
}

static void list_remove(xcc_node *n)
{
    xcc_graph *g = n->graph;
    if (n->previous != NULL)
        n->previous->next = n->next;
    else
        g->first = n->next;
    if (n->next != NULL)
        n->next->previous = n->previous;
    else
        g->last = n->previous;
    n->previous = n->next = NULL;
}

void xcc_node_insert(xcc_graph *g, xcc_node *n, xcc_node *before) { list_insert(g, n, before); }

/* Decrements the depth of a graph and of its bodies. */
static void raise_graph(xcc_graph *g)
{
    g->depth--;
    for (xcc_node *n = g->first; n != NULL; n = n->next)
        for (size_t i = 0; i < n->body_count; i++)
            raise_graph(n->bodies[i]);
}

static void drop_uses(xcc_node *n)
{
    size_t count = xcc_node_input_count(n);
    for (size_t i = 0; i < count; i++)
        use_unlink(&n->uses[i]);
    for (size_t b = 0; b < n->body_count; b++) {
        xcc_graph *body = n->bodies[b];
        for (size_t i = 0; body->uses != NULL && i < body->output_count; i++)
            use_unlink(&body->uses[i]);
        for (xcc_node *inner = body->first; inner != NULL; inner = inner->next)
            drop_uses(inner);
    }
}

void xcc_node_remove(xcc_node *n)
{
    drop_uses(n);
    list_remove(n);
    n->removed = true;
}

void xcc_graph_inline(xcc_graph *body, xcc_node *before)
{
    xcc_graph *g = before->graph;
    for (size_t i = 0; i < body->output_count; i++)
        use_unlink(&body->uses[i]);
    body->output_count = 0;
    for (xcc_node *n = body->first, *next; n != NULL; n = next) {
        next = n->next;
        list_remove(n);
        n->graph = g;
        size_t inputs = xcc_node_input_count(n), outputs = xcc_node_output_count(n);
        for (size_t i = 0; i < inputs; i++)
            n->uses[i].graph = g;
        for (size_t i = 0; i < outputs; i++) {
            xcc_value *v = xcc_node_output(n, i);
            if (v != NULL)
                v->graph = g;
        }
        for (size_t i = 0; i < n->body_count; i++)
            raise_graph(n->bodies[i]);
        list_insert(g, n, before);
    }
}

void xcc_node_move_before(xcc_node *n, xcc_node *before)
{
    if (n == before)
        return;
    list_remove(n);
    list_insert(n->graph, n, before);
}
