/* Tensors in two layouts: inserts missing conversions between them. */
#include "compiler/layout/layout_values.h"

xcc_value *xcc_layout_new_blocked(xcc_layout *s, const xcc_value *v)
{
    xcc_value *blocked = xcc_value_create(s->g, v->name);
    if (blocked != NULL) {
        int64_t dims[XCC_BLOCKED_RANK];
        const int rank = v->type.rank;
        for (int i = 0; i < rank; i++)
            dims[i] = v->type.dims[i];
        dims[1] = xcc_layout_blocks_of(v);
        dims[rank] = XCVM_CHANNEL_BLOCK;
        xcvm_value_set_tensor(&blocked->type, XCVM_F32, rank + 1, dims);
    }
    return blocked;
}

/* With one element per channel and whole blocks, a view suffices. */
static bool is_view(const xcc_value *v) { return xcc_layout_is_point(v) && v->type.dims[1] % XCVM_CHANNEL_BLOCK == 0; }

/* Reshapes such a value to the known type of `result`. */
static xcc_value *view(xcc_builder *b, xcc_value *v, xcc_value *result)
{
    int64_t dims[XCC_BLOCKED_RANK] = {0};
    for (int i = 1; i < result->type.rank; i++)
        dims[i] = result->type.dims[i];
    const xcc_value *shape = xcc_constant_i64(b->graph, (size_t)result->type.rank, dims);
    if (shape == NULL)
        return NULL;
    return xcc_emit(b, Reshape, .y = XCC_OUT(result), .x = XCC_IN(v), .shape = XCC_IN(shape)) != NULL ? result : NULL;
}

xcc_value *xcc_layout_blocked(xcc_layout *s, xcc_node *n, xcc_value *v)
{
    xcc_layout_value *entry = &s->values[v->id];
    /* Each body has its own conversion of a value of an enclosing graph. */
    if (entry->blocked != NULL && entry->blocked->graph == s->g)
        return entry->blocked;
    xcc_builder b = xcc_builder_before(n);
    xcc_value *result = xcc_layout_new_blocked(s, v);
    if (result == NULL)
        return NULL;
    if (is_view(v))
        result = view(&b, v, result);
    else if (xcc_emit(&b, BlockChannels, .y = XCC_OUT(result), .x = XCC_IN(v)) == NULL)
        result = NULL;
    entry->blocked = result;
    return result;
}

xcc_value *xcc_layout_unblocked(xcc_node *n, const xcc_value *v, xcc_value *from)
{
    xcc_builder b = xcc_builder_before(n);
    int64_t channels = v->type.dims[1];
    xcc_value *result = xcc_value_create(n->graph, NULL);
    if (result == NULL)
        return NULL;
    xcvm_value_set_tensor(&result->type, XCVM_F32, v->type.rank, v->type.dims);
    if (is_view(v))
        return view(&b, from, result);
    const xcc_node *made = xcc_emit(&b, UnblockChannels, .y = XCC_OUT(result), .x = XCC_IN(from), .channels = channels);
    return made != NULL ? result : NULL;
}

xcvm_status xcc_layout_emit(xcc_layout *s, const xcc_layout_candidate *c, xcvm_opcode opcode, void *args,
                            size_t result_offset)
{
    xcc_builder b = xcc_builder_before(c->node);
    xcc_value *y = xcc_node_output(c->node, 0), *result = xcc_layout_new_blocked(s, y);
    if (result == NULL)
        return XCVM_OUT_OF_MEMORY;
    *(xcvm_value **)(void *)((char *)args + result_offset) = &result->type;
    if (xcc_append(&b, opcode, args) == NULL)
        return s->m->error->status;
    s->values[y->id].blocked = result;
    return XCVM_OK;
}
