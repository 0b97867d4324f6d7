/* Key/value caches of attention that is written as matrix products: Concat appends rows to an input, and MatMul
 * multiplies the result by queries or weights. These products become CachedMatMul, which reads the rows in place, so
 * nothing reads the stored values. Operations on the scores do not change. */
#include "compiler/ir/compose.h"
#include "compiler/ir/shape_data.h"
#include "compiler/passes/rewrite.h"
#include "compiler/states/growing_cache.h"
#include "compiler/states/states.h"

#include <string.h>

/* A cache and the node that appends to it. */
typedef struct extension {
    xcc_node *concat;
    xcc_value *past, *fresh, *present, *before;
} extension;

/* Rows in the layout that products read. */
typedef struct reading {
    xcc_value *rows;
    bool transposed;
    int64_t heads; /* layout of the other operand */
} reading;

static const int64_t last_two[] = {0, 1, 3, 2};

static bool is_transposition(const xcc_node *n)
{
    if (!xcc_is(n, XCVM_OP_Transpose))
        return false;
    const xcvm_ints perm = XCC_ARGS(Transpose, n)->perm;
    return perm.count == 4 && memcmp(perm.at, last_two, sizeof last_two) == 0;
}

/* Returns the layout after a Transpose, if the use is a Transpose. */
static bool transposes(const reading *r, const xcc_use *u, reading *of)
{
    if (r->transposed || !is_transposition(u->node))
        return false;
    *of = (reading){xcc_node_output(u->node, 0), true, r->heads};
    return true;
}

/* Returns true if v is the number of rows of the extended cache. */
static bool is_row_count(const xcc_value *v, const xcc_value *present)
{
    const xcc_node *n = v->producer;
    while (xcc_is(n, XCVM_OP_Unsqueeze) || xcc_is(n, XCVM_OP_Squeeze) || xcc_is(n, XCVM_OP_Reshape))
        n = xcc_node_input(n, 0)->producer;
    int64_t index;
    if (!xcc_is(n, XCVM_OP_Gather) || xcc_integers(xcc_value_of(XCC_ARGS(Gather, n)->indices), &index, 1) != 1)
        return false;
    const xcc_node *shape = xcc_producer(xcc_value_of(XCC_ARGS(Gather, n)->x), XCVM_OP_Shape);
    return shape != NULL && xcc_node_input(shape, 0) == present && XCC_ARGS(Shape, shape)->start == 0 &&
           XCC_ARGS(Shape, shape)->end >= 4 && (index == 2 || index == -2);
}

/* Returns true if element `index` of a shape that Concat builds is the number of rows. */
static bool has_row_count(const xcc_value *shape, int64_t index, const xcc_value *present)
{
    const xcc_node *concat = xcc_producer(shape, XCVM_OP_Concat);
    for (size_t i = 0; concat != NULL && i < xcc_node_input_count(concat); i++) {
        const xcc_value *part = xcc_node_input(concat, i);
        const int64_t count = xcc_dim_of(part, 0);
        if (count < 0)
            return false;
        if (index < count)
            return count == 1 && is_row_count(part, present);
        index -= count;
    }
    return false;
}

/* Returns the only reader of the result of n if it is this instruction and reads it as its first operand. */
static const xcc_node *sole_reader(const xcc_node *n, xcvm_opcode opcode)
{
    const xcc_value *v = xcc_node_output(n, 0);
    return xcc_used_once(v) && v->users->index == 0 && xcc_is(v->users->node, opcode) ? v->users->node : NULL;
}

static bool is_size_or_1(xcc_shape_datum size, int64_t dim)
{
    return size.kind == XCC_SIZE_NUMBER && (size.value == dim || size.value == 1);
}

/* Returns the layout after Unsqueeze, Expand and Reshape repeat each head for several query heads, if the use is the
 * first of these nodes. */
static bool repeats(const reading *r, const xcc_use *u, const xcc_value *present, reading *of)
{
    if (r->rows != present || !xcc_is(u->node, XCVM_OP_Unsqueeze))
        return false;
    const xcc_node *expand = sole_reader(u->node, XCVM_OP_Expand);
    const xcc_node *reshape = expand != NULL ? sole_reader(expand, XCVM_OP_Reshape) : NULL;
    if (reshape == NULL)
        return false;
    xcc_shape_datum to[XCC_SHAPE_DATA_LIMIT];
    const xcc_value *shape = xcc_node_input(expand, 1);
    const xcvm_value *apart = &xcc_node_output(u->node, 0)->type, *together = &xcc_node_output(reshape, 0)->type;
    const int64_t *d = present->type.dims;
    if (apart->rank != 5 || apart->dims[1] != d[1] || apart->dims[2] != 1 || xcc_shape_data(shape, to) != 5 ||
        !is_size_or_1(to[0], d[0]) || !is_size_or_1(to[1], d[1]) || to[2].kind != XCC_SIZE_NUMBER ||
        !has_row_count(shape, 3, present) || !is_size_or_1(to[4], d[3]))
        return false;
    if (together->rank != 4 || together->dims[0] != d[0] || together->dims[3] != d[3] || to[2].value <= 0 ||
        d[1] > INT32_MAX || to[2].value > INT32_MAX || together->dims[1] != d[1] * to[2].value)
        return false;
    *of = (reading){xcc_node_output(reshape, 0), false, together->dims[1]};
    return true;
}

/* Returns true if the use is a product with the same number of heads. */
static bool is_product(const reading *r, const xcc_use *u)
{
    if (!xcc_is(u->node, XCVM_OP_MatMul) || u->index != 1)
        return false;
    const xcvm_value *a = XCC_ARGS(MatMul, u->node)->a;
    return a->dtype == XCVM_F32 && a->rank == 4 && a->dims[1] == r->heads;
}

/* Returns true if only products, and Shape nodes if `shapes`, read the rows in this graph. */
static bool are_read_by_products(const xcc_graph *g, const reading *r, const xcc_value *present)
{
    for (const xcc_use *u = r->rows->users; u != NULL; u = u->next) {
        reading next;
        const bool is_output = u->node == NULL && r->rows == present;
        if (u->graph != g)
            return false;
        if (is_output || is_product(r, u) || (r->rows == present && xcc_is(u->node, XCVM_OP_Shape)))
            continue;
        if (!(transposes(r, u, &next) || repeats(r, u, present, &next)) || !are_read_by_products(g, &next, present))
            return false;
    }
    return true;
}

static reading reading_of(xcc_value *present) { return (reading){present, false, present->type.dims[1]}; }

/* Number of outputs of the graph that are v. */
static size_t output_uses(const xcc_value *v)
{
    size_t count = 0;
    for (const xcc_use *u = v->users; u != NULL; u = u->next)
        count += u->node == NULL;
    return count;
}

/* Returns why the cache cannot be read in place; NULL: it can. */
static const char *why_not(const xcc_module *m, const extension *e)
{
    const xcvm_value *past = &e->past->type, *fresh = &e->fresh->type;
    if (m->options->states.cache_rows == 0)
        return xcc_no_cache_rows;
    if (!xcc_is_growing_cache(e->past) || past->dims[0] == 0)
        return "Concat extends it, but it is not f32, or more dimensions than its number of rows are open";
    if (fresh->rank != 4 || fresh->dims[0] != past->dims[0] || fresh->dims[1] != past->dims[1] ||
        fresh->dims[3] != past->dims[3])
        return "Concat extends it with rows of unknown dimensions";
    if (!xcc_is_read_by(e->past, e->concat, 0))
        return "an operator other than Concat reads it";
    /* Another output or state would have the size of the whole cache. */
    if (output_uses(e->present) != 1)
        return "it is also another output, with the rows that Concat appends";
    const reading all = reading_of(e->present);
    return are_read_by_products(m->graph, &all, e->present)
               ? NULL
               : "an operator other than a product reads it, with the rows that Concat appends";
}

static xcvm_status replace_product(xcc_node *n, const extension *e, bool transposed)
{
    xcc_builder b = xcc_builder_before(n);
    xcc_value *y = xcc_apply(&b, CachedMatMul, y, .a = XCC_ARGS(MatMul, n)->a, .past = XCC_IN(e->past),
                             .fresh = XCC_IN(e->fresh), .before = XCC_IN(e->before), .transB = transposed);
    if (y == NULL)
        return n->graph->module->error->status;
    xcc_replace_uses(n->graph, xcc_node_output(n, 0), y);
    xcc_node_remove(n);
    return XCVM_OK;
}

/* Replaces all products that read the rows. */
static xcvm_status replace_products(const extension *e, const reading *r)
{
    for (xcc_use *u = r->rows->users, *next; u != NULL; u = next) {
        xcc_node *n = u->node;
        reading of;
        next = u->next;
        if (n == NULL || xcc_is(n, XCVM_OP_Shape))
            continue;
        if (transposes(r, u, &of) || repeats(r, u, e->present, &of)) {
            XCVM_TRY(replace_products(e, &of));
            for (xcc_node *last = of.rows->producer, *before; last != NULL; last = before) {
                before = last != n ? xcc_node_input(last, 0)->producer : NULL;
                xcc_node_remove(last);
            }
        } else {
            XCVM_TRY(replace_product(n, e, r->transposed));
        }
    }
    return XCVM_OK;
}

static xcvm_status replace(xcc_module *m, extension *e, xcc_rows_added *added)
{
    xcc_builder b = xcc_builder_before(e->concat);
    xcc_bound_cache(m, e->past);
    e->before = xcc_count_rows(&b, e->past, e->fresh, added);
    if (e->before == NULL)
        return m->error->status;
    const reading all = reading_of(e->present);
    /* Products come first, because the shapes do not show which heads are repeated. */
    XCVM_TRY(replace_products(e, &all));
    XCVM_TRY(xcc_replace_cache_shapes(e->past, e->past, NULL, e->before));
    XCVM_TRY(xcc_replace_cache_shapes(e->present, e->past, e->fresh, e->before));
    xcc_value *stored = xcc_extend_cache(&b, e->past, e->fresh, e->before);
    if (stored == NULL)
        return m->error->status;
    xcc_replace_uses(m->graph, e->present, stored);
    xcc_node_remove(e->concat);
    return XCVM_OK;
}

/* Returns the Concat that computes the paired output from the input. */
static bool find(const xcc_module *m, const xcc_state_pairs *pairs, size_t pair, xcc_value *past, extension *e)
{
    const struct xcc_table_entry *output = xcc_table_lookup(&pairs->outputs, pairs->at[pair].output);
    xcc_value *present = output != NULL ? m->graph->outputs[output->value] : NULL;
    xcc_node *concat = present != NULL ? xcc_producer(present, XCVM_OP_Concat) : NULL;
    if (concat == NULL || concat->graph != m->graph)
        return false;
    const xcvm_Concat_args *a = XCC_ARGS(Concat, concat);
    if (a->xs.count != 2 || xcc_value_of(a->xs.at[0]) != past || (a->axis != -2 && a->axis != 2))
        return false;
    *e = (extension){.concat = concat, .past = past, .fresh = xcc_value_of(a->xs.at[1]), .present = present};
    return e->fresh != past;
}

xcvm_status xcc_pair_products(xcc_module *m, xcc_state_pairs *pairs, xcc_rows_added *added)
{
    for (size_t i = 0; i < m->graph->input_count; i++) {
        xcc_value *past = m->graph->inputs[i];
        const struct xcc_table_entry *pair = xcc_table_lookup(&pairs->inputs, past->name);
        extension e;
        XCVM_TRY(xcc_poll(m));
        if (pair == NULL || !find(m, pairs, (size_t)pair->value, past, &e))
            continue;
        const char *why = why_not(m, &e);
        if (why != NULL)
            pairs->why[pair->value] = why;
        else
            XCVM_TRY(replace(m, &e, added));
        pairs->bounded += why == NULL;
    }
    return XCVM_OK;
}
