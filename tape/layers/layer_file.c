/* Loading, saving and copying layers. */
#include "tape/layers/layers.h"

#include <string.h>

/* ---- Files ---- */

typedef struct gathering {
    tape_entries entries;
    xcvm_tape *tape;
    bool writing; /* to the tensors */
    xcvm_error *error;
} gathering;

static xcvm_status gather_tensor(void *user, const char *path, xcvm_var v, bool learned)
{
    gathering *g = user;
    (void)learned;
    tape_variable *variable = tape_resolve(g->tape, v, path);
    if (variable == NULL || tape_evaluate(variable) != XCVM_OK ||
        (g->writing && tape_latch_failure(g->tape, tape_variable_own_elements(g->tape, variable)) != XCVM_OK))
        return tape_report(g->tape, g->error);
    return tape_entries_add(&g->entries, path, &variable->value.type, g->error);
}

static xcvm_status begin_gathering(gathering *g, const xcvm_layer *layer, bool writing, xcvm_error *error)
{
    *g = (gathering){.entries = {.arena = {.allocator = layer->tape->allocator}},
                     .tape = layer->tape,
                     .writing = writing,
                     .error = error};
    const xcvm_status status = xcvm_layer_visit(layer, (xcvm_layer_visitor){gather_tensor, g});
    if (status != XCVM_OK)
        tape_entries_release(&g->entries);
    return status;
}

xcvm_status xcvm_layer_save(const xcvm_layer *layer, xcvm_tensor_format format, xcvm_sink sink, xcvm_error *error)
{
    gathering g;
    XCVM_CHECK(error, layer != NULL, INVALID_ARGUMENT, "layer is NULL");
    TAPE_BEGIN(layer->tape, xcvm_layer_save, error);
    XCVM_TRY(begin_gathering(&g, layer, false, error));
    const xcvm_status status = tape_entries_write(&g.entries, format, sink, error);
    tape_entries_release(&g.entries);
    return status;
}

xcvm_status xcvm_layer_load(xcvm_layer *layer, const void *bytes, size_t count, xcvm_error *error)
{
    gathering g;
    XCVM_CHECK(error, layer != NULL, INVALID_ARGUMENT, "layer is NULL");
    TAPE_BEGIN(layer->tape, xcvm_layer_load, error);
    XCVM_TRY(begin_gathering(&g, layer, true, error));
    const xcvm_status status = tape_entries_read(&g.entries, bytes, count, true, error);
    for (size_t i = 0; status == XCVM_OK && i < g.entries.count; i++)
        tape_mark_overwritten(g.entries.at[i].value, layer->tape->calls);
    layer->tape->calls += status == XCVM_OK;
    tape_entries_release(&g.entries);
    return status;
}

/* ---- Copies ---- */

static void copy_tensor(xcvm_layer *to, const layer_tensor *from)
{
    if (tape_evaluate(from->variable) != XCVM_OK)
        return;
    const xcvm_value *type = &from->variable->value.type;
    const xcvm_initializer data = {.kind = XCVM_INIT_DATA, .data = type->data};
    layer_add_tensor(to, from->name, (xcvm_dtype)type->dtype, type->rank, type->dims, &data, data, from->learned);
    if (!to->tape->failed) {
        tape_variable *copy = to->tensors[to->tensor_count - 1].variable;
        copy->sparse = from->variable->sparse;
        if (from->learned)
            tape_variable_require(copy, from->variable->requires);
    }
}

static xcvm_layer *copy_layer(const xcvm_layer *from, bool share)
{
    xcvm_tape *t = from->tape;
    xcvm_layer *to = layer_make(t, from->kind);
    if (to == NULL)
        return NULL;
    to->settings = from->settings;
    to->training = from->training;
    for (size_t i = 0; i < from->tensor_count && !t->failed; i++) {
        if (share)
            layer_share_tensor(to, &from->tensors[i]);
        else
            copy_tensor(to, &from->tensors[i]);
    }
    for (size_t i = 0; i < from->child_count && !t->failed; i++)
        xcvm_layer_add(to, from->children[i].name, copy_layer(from->children[i].layer, share));
    return layer_made(to);
}

xcvm_layer *xcvm_layer_copy(const xcvm_layer *layer, bool share)
{
    return TAPE_ENTER(TAPE_OF(layer), xcvm_layer_copy) ? copy_layer(layer, share) : NULL;
}
