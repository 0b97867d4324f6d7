/* Weight compression: stores constant weights in narrower types if requested, where the instructions that read them
 * support it. Products of few rows are limited by memory bandwidth, and half as many bytes take half the time. For half
 * precision, tables that only Gather reads are also compressed, and the gathered rows are cast. compress_blocks.c
 * handles blocks of 4 or 8 bits. */
#include "compiler/passes/compress.h"
#include "compiler/ir/compilation.h"

#include "base/element.h"
#include "ops/conv/blocked.h"
#include "ops/util/convert.h"

#include <math.h>

enum {
    /* Minimum bytes of a table that justify another instruction. */
    TABLE = 1 << 16
};

static bool is_weight(const xcc_use *u)
{
    const xcvm_field *field = u->node != NULL ? xcc_node_input_field(u->node, u->index) : NULL;
    return field != NULL && field->types == XCVM_TYPES_WEIGHT &&
           !(xcc_is(u->node, XCVM_OP_BlockedConv) &&
             !xcvm_blocked_takes_narrow(XCC_ARGS(BlockedConv, u->node)->algorithm));
}

/* Visits every constant once: at its first use as a weight. */
static bool is_first(const xcc_value *v, const xcc_use *use)
{
    const xcc_use *u = v->users;
    while (u != NULL && !is_weight(u))
        u = u->next;
    return u == use;
}

/* Returns true if only Gather reads a constant, and `use` is its first use. */
static bool is_table(const xcc_value *v, const xcc_use *use)
{
    bool table = use == v->users && v->type.rank > 1 && v->type.bytes >= TABLE;
    for (const xcc_use *u = v->users; table && u != NULL; u = u->next)
        table = xcc_is(u->node, XCVM_OP_Gather) && u->index == 0;
    return table;
}

/* Returns true if all readers of a table gather rows. */
static bool rows_are_read(const xcc_value *v)
{
    bool rows = true;
    for (const xcc_use *u = v->users; u != NULL; u = u->next)
        rows = rows && (XCC_ARGS(Gather, u->node)->axis == 0 || XCC_ARGS(Gather, u->node)->axis == -v->type.rank);
    return rows;
}

bool xcc_in_range(const xcc_value *v, xcvm_dtype dtype)
{
    const xcvm_float_format *format = xcvm_float_format_of(dtype);
    const float greatest = (float)xcvm_float_decode(format, format->greatest);
    const float *w = v->type.data;
    const size_t count = xcvm_element_count(&v->type);
    bool inside = true;
    for (size_t i = 0; i < count; i++)
        inside = inside && (fabsf(w[i]) <= greatest || !isfinite(w[i]));
    return inside;
}

/* Makes Gather read `halves` and casts its result. The old constant becomes unused and is removed. */
static xcvm_status gather_halves(xcc_module *m, xcc_node *gather, xcc_value *halves)
{
    const xcvm_Gather_args *a = XCC_ARGS(Gather, gather);
    xcc_rewrite r = {.m = m};
    xcc_builder b = xcc_builder_before(gather);
    xcc_value *y = xcc_apply(&b, Gather, y, .x = XCC_IN(halves), .indices = a->indices, .axis = a->axis);
    if (y != NULL)
        y = xcc_apply(&b, Cast, y, .x = XCC_IN(y), .to = XCVM_F32, .saturate = 1);
    (void)xcc_rewrite_replace(&r, xcc_node_output(gather, 0), y);
    return r.status;
}

/* The type for a constant. `table`: only Gather reads it. */
static xcvm_dtype choose(const xcc_module *m, bool table)
{
    const xcvm_dtype asked = m->options->weights.dtype != XCVM_NO_DTYPE ? m->options->weights.dtype : XCVM_F32;
    return table && asked == XCVM_F24 ? XCVM_F32 : asked;
}

static xcvm_status compress(xcc_module *m, const xcc_use *use, bool table)
{
    xcc_value *v = use->value;
    const xcvm_dtype dtype = choose(m, table);
    m->compilation->weight_bytes_before += v->type.bytes;
    if (dtype == XCVM_F32) {
        m->compilation->weight_bytes_after += v->type.bytes;
        return XCVM_OK;
    }
    if (!xcc_in_range(v, dtype)) {
        m->compilation->weight_bytes_after += v->type.bytes;
        m->compilation->uncompressed++;
        return XCVM_OK;
    }
    xcc_value *halves = xcc_constant_blank(v->graph, dtype, v->type.rank, v->type.dims);
    if (halves == NULL)
        return m->error->status;
    xcvm_store_f32(dtype, halves->type.data, 0, xcvm_element_count(&v->type), v->type.data);
    m->compilation->weight_bytes_after += halves->type.bytes;
    for (xcc_use *u = v->users, *next; u != NULL; u = next) {
        next = u->next;
        if (is_weight(u))
            xcc_node_set_input(u->node, u->index, halves);
        else if (table)
            XCVM_TRY(gather_halves(m, u->node, halves));
    }
    xcc_constant_release(v);
    return XCVM_OK;
}

static xcvm_status compress_graph(xcc_graph *g)
{
    for (xcc_node *n = g->first; n != NULL; n = n->next) {
        XCVM_TRY(xcc_poll(g->module));
        for (size_t i = 0; n->kind == XCC_INSTRUCTION && i < xcc_node_input_count(n); i++) {
            const xcc_use *u = &n->uses[i];
            const xcc_value *v = u->value;
            if (!xcc_is_constant(v) || v->type.dtype != XCVM_F32)
                continue;
            const bool table = is_table(v, u);
            if (table || (is_weight(u) && is_first(v, u)))
                XCVM_TRY(compress(g->module, u, table));
        }
        for (size_t i = 0; i < n->body_count; i++)
            XCVM_TRY(compress_graph(n->bodies[i]));
    }
    return XCVM_OK;
}

static xcvm_status compress_graph_in_blocks(xcc_rewrite *r, xcc_graph *g, xcc_compressed_panels **known)
{
    for (xcc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        XCVM_TRY(xcc_poll(g->module));
        if (xcc_is(n, XCVM_OP_PackedGemm)) {
            XCVM_TRY(xcc_compress_product(r, n, known));
            continue;
        }
        if (xcc_is(n, XCVM_OP_PackedRNN) || xcc_is(n, XCVM_OP_PackedGRU) || xcc_is(n, XCVM_OP_PackedLSTM)) {
            XCVM_TRY(xcc_compress_recurrence(r, n, known));
            continue;
        }
        xcc_value *v = xcc_is(n, XCVM_OP_Gather) ? xcc_node_input(n, 0) : NULL;
        if (xcc_is_constant(v) && v->type.dtype == XCVM_F32 && is_table(v, &n->uses[0]) && rows_are_read(v) &&
            xcc_compresses_table(v)) {
            XCVM_TRY(xcc_compress_table(g->module, v));
            continue;
        }
        for (size_t i = 0; i < n->body_count; i++)
            XCVM_TRY(compress_graph_in_blocks(r, n->bodies[i], known));
    }
    return XCVM_OK;
}

xcvm_status xcc_pass_compress_weights(xcc_module *m)
{
    xcc_rewrite r = {.m = m};
    xcc_compressed_panels *known = NULL;
    return m->options->weights.blocks == XCC_WEIGHTS_PLAIN ? compress_graph(m->graph)
                                                           : compress_graph_in_blocks(&r, m->graph, &known);
}
