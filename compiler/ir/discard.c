/* Discarding of removed objects: values, their names, and the memory of nodes. */
#include "compiler/ir/builder.h"

#include <string.h>

/* ---- Values ---- */

void xcc_value_own(xcc_value **list, xcc_value *v)
{
    v->next_owned = *list;
    v->owned_link = list;
    if (*list != NULL)
        (*list)->owned_link = &v->next_owned;
    *list = v;
}

void xcc_value_disown(xcc_value *v)
{
    xcc_module *m = v->graph->module;
    if (v->owned_link == NULL)
        return;
    if (m->last_variable == &v->next_owned)
        m->last_variable = v->owned_link;
    *v->owned_link = v->next_owned;
    if (v->next_owned != NULL)
        v->next_owned->owned_link = v->owned_link;
    v->next_owned = NULL;
    v->owned_link = NULL;
}

/* Names borrowed from the model are in no table, or with another pointer. */
static void release_name(xcc_module *m, const char *name)
{
    const struct xcc_table_entry *entry = xcc_table_lookup(&m->value_names, name);
    if (entry == NULL || entry->name != name)
        return;
    xcc_table_remove(&m->value_names, name);
    xcc_free(m, name, strlen(name) + 1);
}

void xcc_value_discard(xcc_value *v)
{
    xcc_module *m = v->graph->module;
    if (v->uses != 0 || v->producer != NULL)
        return;
    xcc_value_disown(v);
    xcvm_value_clear(&v->type);
    if (v->initial_copied)
        xcc_free(m, (const char *)v->initial - v->initial_lead, xcc_elements_room(v->initial_bytes));
    release_name(m, v->name);
    v->name = "";
    xcc_value_own(&m->spare_values, v);
}

/* ---- Nodes ---- */

static void release_text(xcc_module *m, const xcvm_text *text) { xcc_free(m, text->at, text->length + 1); }

/* Releases data that a node's arguments own. */
static void release_field(xcc_module *m, const xcvm_field *f, const void *at)
{
    if (xcvm_field_is_operand(f)) {
        const xcvm_inputs *list = at; /* outputs have the same layout */
        if (xcvm_field_is_list(f))
            xcc_free(m, list->at, list->count * sizeof *list->at);
    } else if (f->kind == XCVM_FIELD_INTS) {
        const xcvm_ints *ints = at;
        xcc_free(m, ints->at, ints->count * sizeof *ints->at);
    } else if (f->kind == XCVM_FIELD_FLOATS) {
        const xcvm_floats *floats = at;
        xcc_free(m, floats->at, floats->count * sizeof *floats->at);
    } else if (f->kind == XCVM_FIELD_TEXT) {
        release_text(m, at);
    } else if (f->kind == XCVM_FIELD_TEXTS) {
        const xcvm_texts *texts = at;
        for (size_t i = 0; i < texts->count; i++)
            release_text(m, &texts->at[i]);
        xcc_free(m, texts->at, texts->count * sizeof *texts->at);
    }
}

void xcc_node_discard(xcc_node *n)
{
    xcc_module *m = n->graph->module;
    xcc_node_remove(n);
    if (n->kind != XCC_INSTRUCTION)
        return;
    const size_t inputs = xcc_node_input_count(n), outputs = xcc_node_output_count(n);
    for (size_t i = 0; i < outputs; i++) {
        xcc_value *v = xcc_node_output(n, i);
        if (v == NULL)
            continue;
        v->producer = NULL;
        xcc_value_discard(v);
    }
    for (size_t f = 0; f < n->schema->field_count; f++)
        release_field(m, &n->schema->fields[f], (const char *)n->args + n->schema->fields[f].offset);
    xcc_free(m, n->uses, inputs * sizeof *n->uses);
    xcc_free(m, n->args, n->schema->args_size);
    xcc_free(m, n, sizeof *n);
}
