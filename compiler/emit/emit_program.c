/* Emits a module as a program: each value gets its own register, and control flow becomes jumps. The same registers are
 * set on all paths to an instruction. */
#include "compiler/emit/emitter.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/compilation.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define PRODUCER "xcvm " TEXT(XCVM_VERSION_MAJOR) "." TEXT(XCVM_VERSION_MINOR) "." TEXT(XCVM_VERSION_PATCH)

static xcvm_status find_last_uses(xcc_emitter *e, xcc_graph *g)
{
    xcc_graph_number(g);
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        size_t outputs = xcc_node_output_count(n);
        for (size_t i = 0; i < outputs; i++) {
            const xcc_value *v = xcc_node_output(n, i);
            if (v != NULL) {
                e->owner[v->id] = g;
                e->last[v->id] = 0;
            }
        }
        size_t inputs = xcc_node_input_count(n);
        for (size_t i = 0; i < inputs; i++)
            if (xcc_emit_owned(e, g, n->uses[i].value) && !xcc_writes_input(n, i))
                e->last[n->uses[i].value->id] = xcc_last_needed(n, n->uses[i].value)->order + 1;
        for (size_t i = 0; i < n->capture_count; i++)
            if (xcc_emit_owned(e, g, n->captures[i]))
                e->last[n->captures[i]->id] = n->order + 1;
    }
    for (size_t i = 0; i < g->output_count; i++)
        if (xcc_emit_owned(e, g, g->outputs[i]))
            e->last[g->outputs[i]->id] = XCC_KEPT;
    return XCVM_OK;
}

static xcvm_status emit_node(xcc_emitter *e, const xcc_node *n)
{
    XCVM_TRY(xcc_poll(e->code.m));
    if (n->group != NULL)
        return xcc_emit_kernel_call(e, n);
    size_t inputs = xcc_node_input_count(n), outputs = xcc_node_output_count(n);
    for (size_t i = 0; i < inputs; i++)
        if (!xcc_writes_input(n, i))
            XCVM_TRY(xcc_emit_fetch(e, n->uses[i].value));
    for (size_t i = 0; i < n->capture_count; i++)
        XCVM_TRY(xcc_emit_fetch(e, n->captures[i]));
    switch (n->kind) {
    case XCC_INSTRUCTION:
        XCVM_TRY(xcc_emit_instruction(e, n));
        break;
    case XCC_IF:
        XCVM_TRY(xcc_emit_if(e, n));
        break;
    case XCC_LOOP:
        XCVM_TRY(xcc_emit_loop(e, n));
        break;
    }
    for (size_t i = 0; i < inputs; i++)
        if (!xcc_writes_input(n, i))
            XCVM_TRY(xcc_emit_free_if_last(e, n, n->uses[i].value));
    for (size_t i = 0; i < n->capture_count; i++)
        XCVM_TRY(xcc_emit_free_if_last(e, n, n->captures[i]));
    for (size_t i = 0; i < outputs; i++) {
        const xcc_value *v = xcc_node_output(n, i);
        if (v != NULL && e->last[v->id] == 0)
            XCVM_TRY(xcc_emit_free_value(e, v));
    }
    return XCVM_OK;
}

xcvm_status xcc_emit_graph(xcc_emitter *e, xcc_graph *g, xcc_value *const *inherited, size_t inherited_count)
{
    for (size_t i = 0; i < inherited_count; i++) {
        e->owner[inherited[i]->id] = g;
        e->last[inherited[i]->id] = 0;
    }
    XCVM_TRY(find_last_uses(e, g));
    for (size_t i = 0; i < inherited_count; i++)
        if (e->last[inherited[i]->id] == 0)
            XCVM_TRY(xcc_emit_free_value(e, inherited[i]));
    for (const xcc_node *n = g->first; n != NULL && !xcc_updates(n); n = n->next)
        XCVM_TRY(emit_node(e, n));
    return XCVM_OK;
}

/* Declares states that are used or stored, with an initial constant if there are elements. */
static xcvm_status declare_states(xcc_emitter *e)
{
    xcc_module *m = e->code.m;
    const xcc_graph *g = m->graph;
    size_t count = 0;
    for (const xcc_value *v = m->variables; v != NULL; v = v->next_owned)
        count += v->kind == XCC_STATE;
    xcvm_state_declaration *states = xcc_alloc(m, count * sizeof *states);
    bool *stored = states != NULL ? xcc_alloc(m, m->value_count * sizeof *stored) : NULL;
    if (stored == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->output_count; i++)
        if (xcc_graph_output_state(g, i) != NULL)
            stored[xcc_graph_output_state(g, i)->id] = true;
    xcvm_image *image = &e->code.image;
    for (xcc_value *v = m->variables; v != NULL; v = v->next_owned) {
        if (v->kind != XCC_STATE || (v->uses == 0 && !stored[v->id]))
            continue;
        xcvm_state_declaration *state = &states[image->state_count++];
        state->declared = (xcvm_value_info){v->name, xcc_value_type(m, v)};
        if (v->initial != NULL)
            XCVM_TRY(xcc_code_initial(&e->code, v, &state->initial));
    }
    image->states = states;
    return XCVM_OK;
}

static xcvm_status describe_parameters(xcc_module *m, xcvm_image *image)
{
    const xcc_graph *g = m->graph;
    image->inputs = xcc_alloc(m, g->input_count * sizeof *image->inputs);
    image->outputs = xcc_alloc(m, g->output_count * sizeof *image->outputs);
    image->metadata = xcc_alloc(m, 4 * sizeof *image->metadata);
    if (image->inputs == NULL || image->outputs == NULL || image->metadata == NULL)
        return XCVM_OUT_OF_MEMORY;
    image->input_count = g->input_count;
    for (size_t i = 0; i < g->input_count; i++)
        image->inputs[i] = (xcvm_value_info){g->inputs[i]->name, xcc_value_type(m, g->inputs[i])};
    for (size_t i = 0; i < g->output_count; i++)
        if (xcc_graph_output_state(g, i) == NULL)
            image->outputs[image->output_count++] =
                (xcvm_value_info){g->output_names[i], xcc_value_type(m, g->outputs[i])};
    if (m->compilation->producer[0] != '\0')
        image->metadata[image->metadata_count++] = (xcvm_metadata){"model", m->compilation->producer};
    if (m->compilation->optimizer != NULL)
        image->metadata[image->metadata_count++] = (xcvm_metadata){"train", m->compilation->optimizer};
    if (m->compilation->class_names != NULL)
        image->metadata[image->metadata_count++] = (xcvm_metadata){XCC_CLASS_NAMES, m->compilation->class_names};
    if (m->compilation->class_names != NULL && m->compilation->class_output != NULL)
        image->metadata[image->metadata_count++] = (xcvm_metadata){XCC_CLASS_OUTPUT, m->compilation->class_output};
    return XCVM_OK;
}

/* Emits nodes that update states in place, which scheduling has put last, after all outputs and Stores. */
static xcvm_status emit_tail(xcc_emitter *e, const xcc_graph *g)
{
    const xcc_node *first = g->last;
    while (first != NULL && xcc_updates(first) && first->previous != NULL && xcc_updates(first->previous))
        first = first->previous;
    /* After the first of them nothing may be fetched. */
    for (const xcc_node *n = first; n != NULL && xcc_updates(n); n = n->next)
        for (size_t i = 0; i < xcc_node_input_count(n); i++)
            if (!xcc_writes_input(n, i))
                XCVM_TRY(xcc_emit_fetch(e, n->uses[i].value));
    for (const xcc_node *n = first; n != NULL && xcc_updates(n); n = n->next)
        XCVM_TRY(emit_node(e, n));
    return XCVM_OK;
}

static xcvm_status emit_program(xcc_emitter *e)
{
    xcc_graph *g = e->code.m->graph;
    for (size_t i = 0; i < g->input_count; i++)
        e->owner[g->inputs[i]->id] = g;
    for (const xcc_value *v = e->code.m->variables; v != NULL; v = v->next_owned)
        if (v->kind == XCC_STATE)
            e->owner[v->id] = g;
    XCVM_TRY(xcc_emit_graph(e, g, NULL, 0));
    for (size_t i = 0; i < g->output_count; i++) {
        int32_t operand;
        XCVM_TRY(xcc_emit_fetch(e, g->outputs[i]));
        XCVM_TRY(xcc_code_operand(&e->code, g->outputs[i], &operand));
        const xcvm_opcode opcode = xcc_graph_output_state(g, i) != NULL ? XCVM_OP_Store : XCVM_OP_Out;
        XCVM_TRY(xcc_emit_named(e, opcode, g->output_names[i], operand, 0, NULL));
    }
    XCVM_TRY(emit_tail(e, g));
    XCVM_TRY(xcc_emit_free_outputs(e, g));
    XCVM_TRY(declare_states(e));
    XCVM_TRY(xcc_emit_library(e));
    return describe_parameters(e->code.m, &e->code.image);
}

/* The caller's sink with a deadline. */
typedef struct timed_sink {
    xcc_module *m;
    xcvm_sink sink;
    xcvm_status status;
} timed_sink;

static bool pass_on(void *user, const void *bytes, size_t count)
{
    timed_sink *timed = user;
    timed->status = xcc_poll(timed->m);
    return timed->status == XCVM_OK && timed->sink.call(timed->sink.user, bytes, count);
}

/* Programs have constants and states. Earlier stages must have replaced parameters. */
static xcvm_status refuse_parameters(const xcc_module *m)
{
    for (const xcc_value *v = m->variables; v != NULL; v = v->next_owned)
        XCVM_CHECK(m->error, v->kind != XCC_PARAMETER || v->uses == 0, UNSUPPORTED,
                   "%s is a parameter, which a program cannot have; a constant or a state is needed", v->name);
    return XCVM_OK;
}

xcvm_status xcc_emit_program(xcc_module *m, const xcc_plan *plan, xcvm_sink sink)
{
    XCVM_TRY(refuse_parameters(m));
    xcc_emitter e = {.zero = xcc_scalar_i64(m->graph, 0)};
    e.one = xcc_scalar_i64(m->graph, 1);
    e.yes = xcc_scalar(m->graph, XCVM_BOOL, 1);
    if (e.zero == NULL || e.one == NULL || e.yes == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcc_code_begin(&e.code, m, plan));
    e.owner = xcc_alloc(m, m->value_count * sizeof *e.owner);
    e.last = xcc_alloc(m, m->value_count * sizeof *e.last);
    if (e.owner == NULL || e.last == NULL)
        return XCVM_OUT_OF_MEMORY;
    e.code.image.format = XCVM_FORMAT;
    e.code.image.producer = PRODUCER;
    e.code.image.arena_bytes = plan->arena_bytes;
    XCVM_TRY(emit_program(&e));
    XCVM_TRY(xcc_emit_verify(m, &e.code.image));
    timed_sink timed = {m, sink, XCVM_OK};
    xcvm_status status = xcvm_image_encode(&e.code.image, m->allocator, (xcvm_sink){pass_on, &timed}, m->error);
    xcc_name_limit(m, timed.status);
    return timed.status != XCVM_OK ? timed.status : status;
}
