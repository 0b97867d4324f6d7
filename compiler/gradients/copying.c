/* Copies of nodes with some operands replaced. */
#include "compiler/gradients/copying.h"

#include "compiler/ir/compose.h"

#include <string.h>

xcc_value *xcc_copy_of(const xcc_copying *c, xcc_value *v)
{
    return v != NULL && v->id < c->values && c->copies[v->id] != NULL ? c->copies[v->id] : v;
}

static xcc_value *new_copy(xcc_copying *c, xcc_graph *to, const xcc_value *v)
{
    xcc_value *copy = v != NULL ? xcc_value_create(to, NULL) : NULL;
    if (copy != NULL)
        c->copies[v->id] = copy;
    return copy;
}

typedef struct copy_target {
    xcc_copying *c;
    xcc_graph *to;
} copy_target;

static xcvm_status copied(void *user, xcc_value *v, const xcvm_field *field, xcc_value **copy)
{
    const copy_target *p = user;
    *copy = field->role == XCVM_ROLE_OUT ? new_copy(p->c, p->to, v) : xcc_copy_of(p->c, v);
    return *copy != NULL ? XCVM_OK : p->c->m->error->status;
}

static xcvm_status copy_instruction(xcc_copying *c, const xcc_node *n, xcc_builder *b)
{
    copy_target p = {c, b->graph};
    return xcc_node_copy(b, n, copied, &p) != NULL ? XCVM_OK : c->m->error->status;
}

/* ---- Random nodes ---- */

xcc_value *xcc_result_made(xcc_node *n, size_t i)
{
    xcc_value *v = xcc_node_output(n, i);
    if (v != NULL || (v = xcc_value_create(n->graph, NULL)) == NULL)
        return v;
    for (size_t f = 0, result = 0; f < n->schema->field_count; f++) {
        const xcvm_field *field = &n->schema->fields[f];
        if (field->role == XCVM_ROLE_OUT && result++ == i)
            *(xcvm_value **)(void *)((char *)n->args + field->offset) = &v->type;
    }
    v->producer = n;
    return xcc_node_infer(n) == XCVM_OK ? v : NULL;
}

bool xcc_draws(const xcc_node *n) { return n->kind == XCC_INSTRUCTION && n->schema->effect == XCVM_RANDOM; }

bool xcc_bodies_draw(const xcc_node *n)
{
    for (size_t i = 0; i < n->body_count; i++)
        for (const xcc_node *inner = n->bodies[i]->first; inner != NULL; inner = inner->next)
            if (xcc_draws(inner) || xcc_bodies_draw(inner))
                return true;
    return false;
}

size_t xcc_drawn(xcc_node *n, xcc_value **values)
{
    size_t count = 0;
    if (xcc_is(n, XCVM_OP_Dropout)) {
        if (XCC_ARGS(Dropout, n)->training_mode != NULL)
            values[count++] = xcc_result_made(n, 1);
        return count;
    }
    for (size_t i = 0; i < xcc_node_output_count(n); i++)
        if (xcc_node_output(n, i) != NULL)
            values[count++] = xcc_node_output(n, i);
    return count;
}

/* Copies Dropout as the use of its drawn mask. Results of other random nodes are only read. */
static xcvm_status copy_drawing(xcc_copying *c, xcc_node *n, xcc_builder *b)
{
    if (!xcc_is(n, XCVM_OP_Dropout) || xcc_node_output(n, 0) == NULL)
        return XCVM_OK;
    const xcvm_Dropout_args *a = XCC_ARGS(Dropout, n);
    xcc_value *x = xcc_copy_of(c, xcc_value_of(a->x)), *ratio = xcc_copy_of(c, xcc_value_of(a->ratio));
    xcc_value *training = xcc_copy_of(c, xcc_value_of(a->training_mode)), *y = x;
    if (training != NULL) {
        const xcvm_dtype dtype = (xcvm_dtype)x->type.dtype;
        xcc_value *mask = xcc_copy_of(c, xcc_result_made(n, 1)), *one = xcc_build_number(b, x, 1);
        xcc_value *kept =
            ratio != NULL ? xcc_build_sub(b, one, xcc_build_cast(b, ratio, dtype)) : xcc_build_number(b, x, 0.5);
        kept = xcc_build_call(b, XCVM_OP_Where, 3, (xcc_value *[]){training, kept, one});
        y = xcc_build_call(b, XCVM_OP_Where, 3,
                           (xcc_value *[]){mask, xcc_build_div(b, x, kept), xcc_build_number(b, x, 0)});
    }
    c->copies[xcc_node_output(n, 0)->id] = y;
    return y != NULL ? XCVM_OK : c->m->error->status;
}

/* ---- Nodes ---- */

void xcc_copy_type(xcc_value *v, const xcc_value *from)
{
    v->type.kind = from->type.kind;
    v->type.dtype = from->type.dtype;
    v->type.rank = from->type.rank;
    memcpy(v->type.dims, from->type.dims, sizeof v->type.dims);
}

static xcvm_status copy_control(xcc_copying *c, const xcc_node *n, xcc_builder *b)
{
    xcc_value **inputs = xcc_alloc(c->m, n->input_count * sizeof *inputs);
    xcc_value **outputs = xcc_alloc(c->m, n->output_count * sizeof *outputs);
    if (inputs == NULL || outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < n->input_count; i++)
        inputs[i] = xcc_copy_of(c, n->inputs[i]);
    for (size_t i = 0; i < n->output_count; i++)
        if (n->outputs[i] != NULL && (outputs[i] = new_copy(c, b->graph, n->outputs[i])) == NULL)
            return c->m->error->status;
    xcc_node *copy = xcc_append_control(b, n->kind, n->input_count, inputs, n->output_count, outputs, n->body_count);
    if (copy == NULL)
        return c->m->error->status;
    for (size_t i = 0; i < n->body_count; i++) {
        const xcc_graph *from = n->bodies[i];
        xcc_graph *to = copy->bodies[i];
        xcc_value **ends = xcc_alloc(c->m, (from->input_count + from->output_count) * sizeof *ends);
        if (ends == NULL)
            return XCVM_OUT_OF_MEMORY;
        for (size_t k = 0; k < from->input_count; k++) {
            if ((ends[k] = new_copy(c, to, from->inputs[k])) == NULL)
                return c->m->error->status;
            xcc_copy_type(ends[k], from->inputs[k]);
        }
        XCVM_TRY(xcc_graph_set_inputs(to, from->input_count, ends));
        XCVM_TRY(xcc_copy_nodes(c, from, to));
        for (size_t k = 0; k < from->output_count; k++)
            ends[k] = xcc_copy_of(c, from->outputs[k]);
        XCVM_TRY(xcc_graph_set_outputs(to, from->output_count, ends));
    }
    if (n->kind == XCC_LOOP)
        XCVM_TRY(xcc_loop_infer_body(copy));
    return xcc_node_infer(copy);
}

xcvm_status xcc_copy_node(xcc_copying *c, xcc_node *n, xcc_graph *to)
{
    xcc_builder b = {.graph = to, .name = n->name, .origin = n->origin};
    if (xcc_draws(n))
        return copy_drawing(c, n, &b);
    return n->kind == XCC_INSTRUCTION ? copy_instruction(c, n, &b) : copy_control(c, n, &b);
}

xcvm_status xcc_copy_nodes(xcc_copying *c, const xcc_graph *from, xcc_graph *to)
{
    for (xcc_node *n = from->first; n != NULL; n = n->next) {
        XCVM_TRY(xcc_poll(c->m));
        XCVM_TRY(xcc_copy_node(c, n, to));
    }
    return XCVM_OK;
}

xcvm_status xcc_copying_begin(xcc_copying *c, xcc_module *m)
{
    *c = (xcc_copying){.m = m, .values = m->value_count};
    c->copies = xcvm_allocate_zeroed(m->allocator, c->values * sizeof *c->copies);
    return c->copies != NULL ? XCVM_OK : xcc_out_of_memory(m);
}

void xcc_copying_end(xcc_copying *c)
{
    if (c->copies != NULL)
        xcvm_deallocate(c->m->allocator, c->copies, c->values * sizeof *c->copies);
}
