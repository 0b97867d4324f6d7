/* Tree ensembles of ai.onnx.ml: nodes that attributes list in any order become the tables of one TreeEnsemble. */
#include "compiler/import_onnx/ml/trees.h"

#include <math.h>

/* ---- The tables ---- */

/* A comparison in the instruction's form: the outcomes that lead to the first child. */
enum { NAN_TRUE = 1, LESS_TRUE = 2, EQUAL_TRUE = 4, FEATURE_SHIFT = 3 };

static int flags_of(const xcc_tree_node *node)
{
    switch (node->mode) {
    case XCC_TREE_LEQ:
    case XCC_TREE_GT:
        return LESS_TRUE | EQUAL_TRUE;
    case XCC_TREE_LT:
    case XCC_TREE_GTE:
        return LESS_TRUE;
    default:
        return EQUAL_TRUE;
    }
}

static bool is_swapped(const xcc_tree_node *node)
{
    return node->mode == XCC_TREE_GT || node->mode == XCC_TREE_GTE || node->mode == XCC_TREE_NEQ;
}

/* NaN differs from everything; other comparisons with it fail, unless the node says that missing values succeed. */
static bool nan_leads_first(const xcc_tree_node *node)
{
    if (node->mode == XCC_TREE_NEQ)
        return false;
    return node->missing_true != is_swapped(node);
}

typedef struct tables {
    xcc_lowering *n;
    const xcc_forest *forest;
    int32_t *nodes;
    double *splits;
    size_t count; /* nodes written */
    bool *seen;
    struct pending {
        int64_t child;
        size_t first, count, place; /* the entries and which of their children it is */
    } * stack;
    size_t depth;
} tables;

static void push(tables *t, int64_t child, size_t first, size_t count, size_t place)
{
    t->stack[t->depth++] = (struct pending){child, first, count, place};
}

/* Writes one node, or for a test of set membership several nodes, each of which compares with one value. */
static xcvm_status write_node(tables *t, int64_t index)
{
    const xcc_tree_node *node = &t->forest->nodes[index];
    XCVM_CHECK(t->n->m->error, !t->seen[index], INVALID_MODEL, "node %lld of the trees has two parents",
               (long long)index);
    t->seen[index] = true;
    XCVM_CHECK(t->n->m->error, node->feature >= 0 && node->feature < (1 << 28), INVALID_MODEL,
               "a node asks for feature %lld", (long long)node->feature);
    const size_t first = t->count,
                 entries = node->mode == XCC_TREE_MEMBER && node->member_count > 1 ? node->member_count : 1;
    for (size_t i = 0; i < entries; i++) {
        int32_t *entry = t->nodes + 3 * t->count;
        entry[0] = (int32_t)(node->feature << FEATURE_SHIFT) | flags_of(node) | (nan_leads_first(node) ? NAN_TRUE : 0);
        entry[2] = (int32_t)(t->count + 1);
        if (node->mode != XCC_TREE_MEMBER)
            t->splits[t->count] = node->split;
        else
            t->splits[t->count] = node->member_count > 0 ? node->members[i] : (double)NAN;
        t->count++;
    }
    const bool swapped = is_swapped(node);
    push(t, swapped ? node->yes : node->no, t->count - 1, 1, 2);
    push(t, swapped ? node->no : node->yes, first, entries, 1);
    return XCVM_OK;
}

/* Children follow their parents as closely as possible, the first one directly. */
static xcvm_status write_tree(tables *t, int64_t root, int32_t *written)
{
    *written = root < 0 ? (int32_t)root : (int32_t)t->count;
    if (root < 0)
        return XCVM_OK;
    t->depth = 0;
    XCVM_TRY(write_node(t, root));
    while (t->depth > 0) {
        const struct pending p = t->stack[--t->depth];
        for (size_t i = p.first; i < p.first + p.count; i++)
            t->nodes[3 * i + p.place] = p.child < 0 ? (int32_t)p.child : (int32_t)t->count;
        if (p.child >= 0)
            XCVM_TRY(write_node(t, p.child));
    }
    return XCVM_OK;
}

static xcc_value *ints32(xcc_lowering *n, size_t rows, size_t columns, const int32_t *data)
{
    const int64_t dims[] = {(int64_t)rows, (int64_t)columns};
    return xcc_constant(n->b.graph, NULL, XCVM_I32, columns > 1 ? 2 : 1, dims, data, true);
}

static xcc_value *reals(xcc_lowering *n, xcvm_dtype dtype, size_t count, const double *data)
{
    return xcc_ml_numbers(n, dtype, 0, count, data);
}

xcvm_status xcc_forest_emit(xcc_lowering *n, const xcc_forest *f, xcc_value *x, xcc_value **y)
{
    tables t = {.n = n, .forest = f};
    size_t entries = 0;
    for (size_t i = 0; i < f->node_count; i++)
        entries += f->nodes[i].mode == XCC_TREE_MEMBER && f->nodes[i].member_count > 1 ? f->nodes[i].member_count : 1;
    XCVM_CHECK(n->m->error, entries < INT32_MAX / 4 && f->leaf_count < INT32_MAX && f->weight_count < INT32_MAX,
               UNSUPPORTED, "the trees have too many nodes");
    XCVM_CHECK(n->m->error, f->targets > 0 && f->targets <= INT32_MAX, INVALID_MODEL, "there are %lld targets",
               (long long)f->targets);
    t.nodes = xcc_alloc(n->m, (3 * entries + 1) * sizeof *t.nodes);
    t.splits = xcc_alloc(n->m, (entries + 1) * sizeof *t.splits);
    t.seen = xcc_alloc(n->m, f->node_count + 1);
    t.stack = xcc_alloc(n->m, (2 * f->node_count + 2) * sizeof *t.stack);
    int32_t *roots = xcc_alloc(n->m, (f->root_count + 1) * sizeof *roots);
    if (t.nodes == NULL || t.splits == NULL || t.seen == NULL || t.stack == NULL || roots == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < f->root_count; i++)
        XCVM_TRY(write_tree(&t, f->roots[i], &roots[i]));
    const xcvm_dtype dtype = (xcvm_dtype)x->type.dtype;
    const int64_t node_dims[] = {(int64_t)t.count, 3};
    xcc_value *nodes = xcc_constant(n->b.graph, NULL, XCVM_I32, 2, node_dims, t.nodes, true);
    xcc_value *splits = reals(n, dtype, t.count, t.splits), *tops = ints32(n, f->root_count, 1, roots);
    xcc_value *starts = ints32(n, f->leaf_count + 1, 1, f->leaf_starts);
    xcc_value *targets = ints32(n, f->weight_count, 1, f->leaf_targets);
    xcc_value *weights = reals(n, dtype, f->weight_count, f->leaf_weights);
    if (nodes == NULL || splits == NULL || tops == NULL || starts == NULL || targets == NULL || weights == NULL)
        return xcc_failure(n);
    *y = xcc_apply(&n->b, TreeEnsemble, y, .x = XCC_IN(x), .nodes = XCC_IN(nodes), .splits = XCC_IN(splits),
                   .roots = XCC_IN(tops), .leaf_starts = XCC_IN(starts), .leaf_targets = XCC_IN(targets),
                   .leaf_weights = XCC_IN(weights), .n_targets = f->targets,
                   .aggregate_function = f->aggregate_function);
    return *y != NULL ? XCVM_OK : xcc_failure(n);
}

/* ---- Version 5: positions instead of numbers of nodes ---- */

/* A tensor attribute of real numbers, or integers, as doubles. */
static xcvm_status read_numbers(xcc_lowering *n, const char *name, xcvm_floats *numbers)
{
    xcc_tensor tensor;
    bool given;
    *numbers = (xcvm_floats){NULL, 0};
    XCVM_TRY(xcc_build_tensor(n, name, &tensor, &given));
    if (!given)
        return XCVM_OK;
    XCVM_CHECK(n->m->error, xcvm_dtype_in(tensor.dtype, XCVM_TYPES_REAL), INVALID_MODEL,
               "attribute '%s' has element type %s", name, xcvm_dtype_name(tensor.dtype));
    double *values = xcc_alloc(n->m, (tensor.count + 1) * sizeof *values);
    if (values == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcvm_value view = {.data = (void *)(uintptr_t)tensor.data};
    xcvm_value_set_tensor(&view, tensor.dtype, 1, &(int64_t){(int64_t)tensor.count});
    for (size_t i = 0; i < tensor.count; i++)
        values[i] = xcvm_element_as_double(&view, i);
    *numbers = (xcvm_floats){values, tensor.count};
    return XCVM_OK;
}

xcvm_status xcc_ml_reals(xcc_lowering *n, const char *name, const char *as_tensor, xcvm_floats *numbers)
{
    XCVM_TRY(xcc_attribute_floats(n, name, numbers));
    if (numbers->count > 0 || n->version < 3)
        return XCVM_OK;
    return read_numbers(n, as_tensor, numbers);
}

typedef struct listing {
    xcvm_floats splits, modes, members, weights;
    xcvm_ints features, missing, yes, no, yes_leaf, no_leaf, leaf_targets, roots;
} listing;

static xcvm_status read_listing(xcc_lowering *n, listing *l)
{
    XCVM_TRY(read_numbers(n, "nodes_splits", &l->splits));
    XCVM_TRY(read_numbers(n, "nodes_modes", &l->modes));
    XCVM_TRY(read_numbers(n, "membership_values", &l->members));
    XCVM_TRY(read_numbers(n, "leaf_weights", &l->weights));
    XCVM_TRY(xcc_attribute_ints(n, "nodes_featureids", &l->features));
    XCVM_TRY(xcc_attribute_ints(n, "nodes_missing_value_tracks_true", &l->missing));
    XCVM_TRY(xcc_attribute_ints(n, "nodes_truenodeids", &l->yes));
    XCVM_TRY(xcc_attribute_ints(n, "nodes_falsenodeids", &l->no));
    XCVM_TRY(xcc_attribute_ints(n, "nodes_trueleafs", &l->yes_leaf));
    XCVM_TRY(xcc_attribute_ints(n, "nodes_falseleafs", &l->no_leaf));
    XCVM_TRY(xcc_attribute_ints(n, "leaf_targetids", &l->leaf_targets));
    XCVM_TRY(xcc_attribute_ints(n, "tree_roots", &l->roots));
    xcc_attribute_ignore(n, "nodes_hitrates");
    const size_t count = l->features.count;
    XCVM_CHECK(n->m->error,
               l->splits.count == count && l->modes.count == count && l->yes.count == count && l->no.count == count &&
                   l->yes_leaf.count == count && l->no_leaf.count == count &&
                   (l->missing.count == 0 || l->missing.count == count),
               INVALID_MODEL, "attributes of the nodes have different lengths; nodes_featureids has %zu entries",
               count);
    XCVM_CHECK(n->m->error, l->weights.count == l->leaf_targets.count, INVALID_MODEL,
               "leaf_weights has %zu entries, and leaf_targetids has %zu", l->weights.count, l->leaf_targets.count);
    return XCVM_OK;
}

static xcvm_status read_child(xcc_lowering *n, const listing *l, int64_t index, bool leaf, int64_t *child)
{
    const size_t limit = leaf ? l->weights.count : l->features.count;
    XCVM_CHECK(n->m->error, index >= 0 && (size_t)index < limit, INVALID_MODEL, "a node has %s %lld of %zu as a child",
               leaf ? "leaf" : "node", (long long)index, limit);
    *child = leaf ? -1 - index : index;
    return XCVM_OK;
}

/* The values of a set, which ends with NaN. */
static xcvm_status take_members(xcc_lowering *n, const listing *l, size_t *at, xcc_tree_node *node)
{
    node->members = l->members.at + *at;
    while (*at < l->members.count && !isnan(l->members.at[*at])) {
        node->member_count++;
        ++*at;
    }
    XCVM_CHECK(n->m->error, *at < l->members.count, INVALID_MODEL,
               "membership_values end before the sets of all nodes do");
    ++*at;
    return XCVM_OK;
}

static xcvm_status make_nodes(xcc_lowering *n, const listing *l, xcc_forest *f)
{
    size_t member = 0;
    for (size_t i = 0; i < f->node_count; i++) {
        xcc_tree_node *node = &f->nodes[i];
        XCVM_CHECK(n->m->error, l->modes.at[i] >= 0 && l->modes.at[i] <= XCC_TREE_MEMBER, INVALID_MODEL,
                   "nodes_modes[%zu] is %g", i, l->modes.at[i]);
        *node = (xcc_tree_node){.feature = l->features.at[i],
                                .mode = (xcc_tree_mode)l->modes.at[i],
                                .split = l->splits.at[i],
                                .missing_true = l->missing.count > 0 && l->missing.at[i] != 0};
        XCVM_TRY(read_child(n, l, l->yes.at[i], l->yes_leaf.at[i] != 0, &node->yes));
        XCVM_TRY(read_child(n, l, l->no.at[i], l->no_leaf.at[i] != 0, &node->no));
        if (node->mode == XCC_TREE_MEMBER)
            XCVM_TRY(take_members(n, l, &member, node));
    }
    return XCVM_OK;
}

xcvm_status xcc_lower_ml_tree_ensemble(xcc_lowering *n)
{
    static const int functions[] = {XCVM_AGGREGATE_AVERAGE, XCVM_AGGREGATE_SUM, XCVM_AGGREGATE_MIN, XCVM_AGGREGATE_MAX};
    listing l;
    int64_t function, transform;
    xcc_forest f = {.targets = 0};
    xcc_value *x, *y;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(read_listing(n, &l));
    XCVM_TRY(xcc_attribute_int(n, "aggregate_function", 1, &function));
    XCVM_TRY(xcc_attribute_int(n, "post_transform", 0, &transform));
    XCVM_TRY(xcc_attribute_int(n, "n_targets", 1, &f.targets));
    XCVM_CHECK(n->m->error, function >= 0 && function < 4, INVALID_MODEL, "attribute 'aggregate_function' is %lld",
               (long long)function);
    XCVM_CHECK(n->m->error, transform >= 0 && transform <= XCC_ML_PROBIT, INVALID_MODEL,
               "attribute 'post_transform' is %lld", (long long)transform);
    f.aggregate_function = functions[function];
    f.node_count = l.features.count;
    f.leaf_count = f.weight_count = l.weights.count;
    f.leaf_weights = l.weights.at;
    f.root_count = l.roots.count;
    f.nodes = xcc_alloc(n->m, (f.node_count + 1) * sizeof *f.nodes);
    f.roots = xcc_alloc(n->m, (f.root_count + 1) * sizeof *f.roots);
    f.leaf_starts = xcc_alloc(n->m, (f.leaf_count + 1) * sizeof *f.leaf_starts);
    f.leaf_targets = xcc_alloc(n->m, (f.leaf_count + 1) * sizeof *f.leaf_targets);
    if (f.nodes == NULL || f.roots == NULL || f.leaf_starts == NULL || f.leaf_targets == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(make_nodes(n, &l, &f));
    for (size_t i = 0; i <= f.leaf_count; i++)
        f.leaf_starts[i] = (int32_t)i;
    for (size_t i = 0; i < f.leaf_count; i++) {
        XCVM_CHECK(n->m->error, l.leaf_targets.at[i] >= 0 && l.leaf_targets.at[i] < f.targets, INVALID_MODEL,
                   "leaf_targetids[%zu] is %lld", i, (long long)l.leaf_targets.at[i]);
        f.leaf_targets[i] = (int32_t)l.leaf_targets.at[i];
    }
    for (size_t i = 0; i < f.root_count; i++) {
        XCVM_TRY(read_child(n, &l, l.roots.at[i], false, &f.roots[i]));
        /* A tree that is one leaf has a node all the same, with that leaf on both sides. */
        const xcc_tree_node *root = &f.nodes[f.roots[i]];
        if (root->yes < 0 && root->yes == root->no)
            f.roots[i] = root->yes;
    }
    const xcvm_dtype dtype = (xcvm_dtype)n->inputs[0]->type.dtype;
    XCVM_TRY(xcc_ml_matrix(n, n->inputs[0], dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32, &x));
    XCVM_TRY(xcc_forest_emit(n, &f, x, &y));
    return xcc_bind(n, 0, xcc_build_cast(&n->b, xcc_ml_transformed(n, y, (xcc_ml_transform)transform), dtype));
}
