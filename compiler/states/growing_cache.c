/* Caches that are empty at first and grow with each run, as states of a fixed number of rows. */
#include "compiler/states/growing_cache.h"

#include "compiler/ir/compose.h"
#include "compiler/passes/rewrite.h"

#include <stdio.h>
#include <string.h>

bool xcc_is_growing_cache(const xcc_value *v)
{
    return v != NULL && v->kind == XCC_INPUT && v->type.dtype == XCVM_F32 && v->type.rank == 4 && v->type.dims[0] > 0 &&
           v->type.dims[1] >= 0 && v->type.dims[2] < 0 && v->type.dims[3] >= 0;
}

const char xcc_no_cache_rows[] = "the number of rows that it holds is not given";

xcc_value *xcc_count_rows(xcc_builder *b, xcc_value *past, xcc_value *fresh, xcc_rows_added *added)
{
    xcc_module *m = b->graph->module;
    const int64_t batch = past->type.dims[0], length = fresh->type.dims[2];
    if (added->state != NULL && added->batch == batch && added->length == length && length != XCVM_ANY_DIM)
        return added->state;
    const size_t room = sizeof "rows@" + strlen(past->name);
    char *name = xcc_alloc(m, room);
    if (name == NULL)
        return NULL;
    snprintf(name, room, "rows@%s", past->name);
    xcc_value *state = xcc_state(b->graph, name, XCVM_I64, 1, &batch, NULL, false);
    if (state == NULL)
        return NULL;
    xcc_value *next = xcc_build_add(b, state, xcc_build_dim_of(b, fresh, 2));
    if (next == NULL || xcc_graph_store(b->graph, state, next) != XCVM_OK)
        return NULL;
    *added = (xcc_rows_added){state, batch, length};
    return state;
}

void xcc_bound_cache(const xcc_module *m, xcc_value *past)
{
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, past->type.dims, sizeof dims);
    dims[2] = m->options->states.cache_rows;
    xcvm_value_set_tensor(&past->type, XCVM_F32, 4, dims);
}

xcc_value *xcc_extend_cache(xcc_builder *b, const xcc_value *past, const xcc_value *fresh, const xcc_value *before)
{
    return xcc_apply(b, TensorScatter, y, .past_cache = XCC_IN(past), .update = XCC_IN(fresh),
                     .write_indices = XCC_IN(before), .axis = -2);
}

bool xcc_is_read_by(const xcc_value *v, const xcc_node *reader, size_t outputs)
{
    size_t as_output = 0, by_reader = 0;
    for (const xcc_use *u = v->users; u != NULL; u = u->next) {
        as_output += u->node == NULL;
        by_reader += u->node == reader;
        if (u->graph != reader->graph || (u->node != NULL && u->node != reader && !xcc_is(u->node, XCVM_OP_Shape)))
            return false;
    }
    return as_output == outputs && by_reader <= 1;
}

static int64_t bounded(int64_t axis)
{
    axis += axis < 0 ? 4 : 0;
    return axis < 0 ? 0 : axis > 4 ? 4 : axis;
}

/* Shape data of [batch, heads, rows, width]; `before` has the shape [batch]. */
static xcvm_status replace_shape(xcc_node *n, const xcc_value *past, xcc_value *fresh, xcc_value *before)
{
    const xcvm_Shape_args *a = XCC_ARGS(Shape, n);
    const int64_t *d = past->type.dims, start = bounded(a->start), end = bounded(a->end);
    xcc_builder b = xcc_builder_before(n);
    xcc_value *parts[3] = {NULL};
    size_t count = 0;
    if (start < 2 && start < end)
        parts[count++] = xcc_build_ints(&b, (size_t)((end < 2 ? end : 2) - start), d + start);
    if (start <= 2 && end > 2) {
        xcc_value *rows = d[0] > 1 ? xcc_build_slice(&b, before, 0, 0, 1, 1) : before;
        parts[count++] = fresh != NULL ? xcc_build_add(&b, rows, xcc_build_dim_of(&b, fresh, 2)) : rows;
    }
    if (start <= 3 && end > 3)
        parts[count++] = xcc_build_ints(&b, 1, d + 3);
    xcc_value *shape = count == 0 ? xcc_build_ints(&b, 0, NULL) : xcc_build_concat(&b, count, parts, 0);
    if (shape == NULL)
        return n->graph->module->error->status;
    xcc_replace_uses(n->graph, xcc_node_output(n, 0), shape);
    xcc_node_remove(n);
    return XCVM_OK;
}

xcvm_status xcc_replace_cache_shapes(const xcc_value *of, const xcc_value *past, xcc_value *fresh, xcc_value *before)
{
    for (xcc_use *u = of->users, *next; u != NULL; u = next) {
        next = u->next;
        if (u->node != NULL && xcc_is(u->node, XCVM_OP_Shape))
            XCVM_TRY(replace_shape(u->node, past, fresh, before));
    }
    return XCVM_OK;
}
