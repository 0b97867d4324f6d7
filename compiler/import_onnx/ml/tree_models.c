/* TreeEnsembleClassifier and TreeEnsembleRegressor: nodes named by tree and number. */
#include "compiler/import_onnx/ml/trees.h"

#include <stdlib.h>

/* One node by its name, and its place in the attributes. */
typedef struct node_name {
    int64_t tree, node;
    size_t place;
} node_name;

/* Nodes and votes as the attributes list them. */
typedef struct listing {
    xcvm_ints trees, ids, features, yes, no, missing;
    xcvm_floats splits;
    xcvm_texts modes;
    xcvm_ints vote_trees, vote_nodes, vote_targets;
    xcvm_floats vote_weights;
    node_name *names;  /* in order */
    int64_t *children; /* for each place: a node of the forest, or the leaf -1 - child */
} listing;

static int compare_names(const void *a, const void *b)
{
    const node_name *p = a, *q = b;
    if (p->tree != q->tree)
        return p->tree < q->tree ? -1 : 1;
    return (p->node > q->node) - (p->node < q->node);
}

static bool find_node(const listing *l, int64_t tree, int64_t node, size_t *place)
{
    const node_name key = {tree, node, 0};
    const node_name *found = bsearch(&key, l->names, l->ids.count, sizeof key, compare_names);
    if (found != NULL)
        *place = found->place;
    return found != NULL;
}

static xcvm_status read_listing(xcc_lowering *n, listing *l, const char *const votes[5])
{
    XCVM_TRY(xcc_attribute_ints(n, "nodes_treeids", &l->trees));
    XCVM_TRY(xcc_attribute_ints(n, "nodes_nodeids", &l->ids));
    XCVM_TRY(xcc_attribute_ints(n, "nodes_featureids", &l->features));
    XCVM_TRY(xcc_attribute_ints(n, "nodes_truenodeids", &l->yes));
    XCVM_TRY(xcc_attribute_ints(n, "nodes_falsenodeids", &l->no));
    XCVM_TRY(xcc_attribute_ints(n, "nodes_missing_value_tracks_true", &l->missing));
    XCVM_TRY(xcc_attribute_texts(n, "nodes_modes", &l->modes));
    XCVM_TRY(xcc_ml_reals(n, "nodes_values", "nodes_values_as_tensor", &l->splits));
    XCVM_TRY(xcc_attribute_ints(n, votes[0], &l->vote_trees));
    XCVM_TRY(xcc_attribute_ints(n, votes[1], &l->vote_nodes));
    XCVM_TRY(xcc_attribute_ints(n, votes[2], &l->vote_targets));
    XCVM_TRY(xcc_ml_reals(n, votes[3], votes[4], &l->vote_weights));
    xcc_attribute_ignore(n, "nodes_hitrates");
    if (n->version >= 3)
        xcc_attribute_ignore(n, "nodes_hitrates_as_tensor");
    const size_t count = l->ids.count;
    XCVM_CHECK(n->m->error,
               l->trees.count == count && l->features.count == count && l->yes.count == count && l->no.count == count &&
                   l->modes.count == count && l->splits.count == count &&
                   (l->missing.count == 0 || l->missing.count == count),
               INVALID_MODEL, "attributes of the nodes have different lengths; nodes_nodeids has %zu entries", count);
    XCVM_CHECK(n->m->error, count > 0, INVALID_MODEL, "the trees have no nodes");
    XCVM_CHECK(n->m->error,
               l->vote_nodes.count == l->vote_trees.count && l->vote_targets.count == l->vote_trees.count &&
                   l->vote_weights.count == l->vote_trees.count,
               INVALID_MODEL, "attributes of the votes have different lengths; '%s' has %zu entries", votes[0],
               l->vote_trees.count);
    return XCVM_OK;
}

static xcvm_status sort_names(xcc_lowering *n, listing *l)
{
    const size_t count = l->ids.count;
    l->names = xcc_alloc(n->m, count * sizeof *l->names);
    if (l->names == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        l->names[i] = (node_name){l->trees.at[i], l->ids.at[i], i};
    qsort(l->names, count, sizeof *l->names, compare_names);
    for (size_t i = 1; i < count; i++)
        XCVM_CHECK(n->m->error, compare_names(&l->names[i - 1], &l->names[i]) != 0, INVALID_MODEL,
                   "node %lld of tree %lld is listed more than once", (long long)l->names[i].node,
                   (long long)l->names[i].tree);
    return XCVM_OK;
}

static xcvm_status mode_of(xcc_lowering *n, xcvm_text text, bool *leaf, xcc_tree_mode *mode)
{
    static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                        "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
    *leaf = xcc_text_is(text, "LEAF");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (xcc_text_is(text, names[i])) {
            *mode = (xcc_tree_mode)i;
            return XCVM_OK;
        }
    XCVM_CHECK(n->m->error, *leaf, INVALID_MODEL, "a node has mode '%.40s'; BRANCH_LEQ and so on, or LEAF, is expected",
               text.at);
    return XCVM_OK;
}

/* Numbers leaves and other nodes; the latter get their comparisons. */
static xcvm_status number_nodes(xcc_lowering *n, listing *l, xcc_forest *f)
{
    const size_t count = l->ids.count;
    l->children = xcc_alloc(n->m, count * sizeof *l->children);
    f->nodes = xcc_alloc(n->m, count * sizeof *f->nodes);
    if (l->children == NULL || f->nodes == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        bool leaf;
        xcc_tree_node *node = &f->nodes[f->node_count];
        XCVM_TRY(mode_of(n, l->modes.at[i], &leaf, &node->mode));
        l->children[i] = leaf ? -1 - (int64_t)f->leaf_count++ : (int64_t)f->node_count++;
        if (leaf)
            continue;
        node->feature = l->features.at[i];
        node->split = l->splits.at[i];
        node->missing_true = l->missing.count > 0 && l->missing.at[i] != 0;
    }
    return XCVM_OK;
}

/* Links nodes to their children. Nodes that are no child are roots. */
static xcvm_status link_nodes(xcc_lowering *n, const listing *l, xcc_forest *f)
{
    const size_t count = l->ids.count;
    bool *is_child = xcc_alloc(n->m, count);
    f->roots = xcc_alloc(n->m, count * sizeof *f->roots);
    if (is_child == NULL || f->roots == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (l->children[i] < 0)
            continue;
        size_t yes, no;
        const int64_t tree = l->trees.at[i];
        XCVM_CHECK(n->m->error, find_node(l, tree, l->yes.at[i], &yes) && find_node(l, tree, l->no.at[i], &no),
                   INVALID_MODEL, "node %lld of tree %lld has a child that is not there", (long long)l->ids.at[i],
                   (long long)tree);
        f->nodes[l->children[i]].yes = l->children[yes];
        f->nodes[l->children[i]].no = l->children[no];
        is_child[yes] = is_child[no] = true;
    }
    for (size_t i = 0; i < count; i++)
        if (!is_child[i])
            f->roots[f->root_count++] = l->children[i];
    XCVM_CHECK(n->m->error, f->root_count > 0, INVALID_MODEL, "the trees have no root");
    return XCVM_OK;
}

/* Sorts the votes by leaf, those of one leaf in their order. Votes of nodes that are no leaves count for nothing. */
static xcvm_status sort_votes(xcc_lowering *n, const listing *l, xcc_forest *f)
{
    const size_t count = l->vote_trees.count;
    int64_t *leaves = xcc_alloc(n->m, (count + 1) * sizeof *leaves);
    double *weights = xcc_alloc(n->m, (count + 1) * sizeof *weights);
    f->leaf_starts = xcc_alloc(n->m, (f->leaf_count + 2) * sizeof *f->leaf_starts);
    f->leaf_targets = xcc_alloc(n->m, (count + 1) * sizeof *f->leaf_targets);
    if (leaves == NULL || weights == NULL || f->leaf_starts == NULL || f->leaf_targets == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_CHECK(n->m->error, count < INT32_MAX, UNSUPPORTED, "the trees have too many votes");
    for (size_t i = 0; i < count; i++) {
        size_t place;
        XCVM_CHECK(n->m->error, find_node(l, l->vote_trees.at[i], l->vote_nodes.at[i], &place), INVALID_MODEL,
                   "a vote belongs to node %lld of tree %lld, which does not exist", (long long)l->vote_nodes.at[i],
                   (long long)l->vote_trees.at[i]);
        XCVM_CHECK(n->m->error, l->vote_targets.at[i] >= 0 && l->vote_targets.at[i] < f->targets, INVALID_MODEL,
                   "a vote is for target %lld, of %lld", (long long)l->vote_targets.at[i], (long long)f->targets);
        leaves[i] = -1 - l->children[place];
        if (leaves[i] >= 0)
            f->leaf_starts[leaves[i] + 2]++;
    }
    /* Starts one place further on: they move back as the votes are put in. */
    for (size_t i = 1; i < f->leaf_count + 2; i++)
        f->leaf_starts[i] += f->leaf_starts[i - 1];
    for (size_t i = 0; i < count; i++) {
        if (leaves[i] < 0)
            continue;
        const int32_t at = f->leaf_starts[leaves[i] + 1]++;
        f->leaf_targets[at] = (int32_t)l->vote_targets.at[i];
        weights[at] = l->vote_weights.at[i];
        f->weight_count++;
    }
    f->leaf_weights = weights;
    return XCVM_OK;
}

static xcvm_status read_forest(xcc_lowering *n, const char *const votes[5], listing *l, xcc_forest *f)
{
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(read_listing(n, l, votes));
    XCVM_TRY(sort_names(n, l));
    XCVM_TRY(number_nodes(n, l, f));
    XCVM_TRY(link_nodes(n, l, f));
    return sort_votes(n, l, f);
}

static xcvm_status emit(xcc_lowering *n, const xcc_forest *f, xcc_value **y)
{
    xcc_value *x;
    const bool wide = n->inputs[0]->type.dtype == XCVM_F64;
    XCVM_TRY(xcc_ml_matrix(n, n->inputs[0], wide ? XCVM_F64 : XCVM_F32, &x));
    return xcc_forest_emit(n, f, x, y);
}

/* scores + base, whose missing entries are 0. */
static xcc_value *with_base(xcc_lowering *n, xcc_value *scores, xcvm_floats base, size_t columns)
{
    double *numbers = xcc_alloc(n->m, (columns + 1) * sizeof *numbers);
    if (numbers == NULL || scores == NULL || base.count == 0)
        return numbers != NULL ? scores : NULL;
    for (size_t i = 0; i < columns && i < base.count; i++)
        numbers[i] = base.at[i];
    return xcc_build_add(&n->b, scores, xcc_ml_numbers(n, (xcvm_dtype)scores->type.dtype, 0, columns, numbers));
}

xcvm_status xcc_lower_ml_tree_ensemble_regressor(xcc_lowering *n)
{
    static const char *const votes[] = {"target_treeids", "target_nodeids", "target_ids", "target_weights",
                                        "target_weights_as_tensor"};
    static const struct {
        const char *name;
        int function;
    } functions[] = {{"SUM", XCVM_AGGREGATE_SUM},
                     {"AVERAGE", XCVM_AGGREGATE_AVERAGE},
                     {"MIN", XCVM_AGGREGATE_MIN},
                     {"MAX", XCVM_AGGREGATE_MAX}};
    listing l;
    xcc_forest f = {.aggregate_function = -1};
    xcvm_floats base;
    xcvm_text function;
    xcc_ml_transform transform;
    xcc_value *y;
    XCVM_TRY(xcc_attribute_int(n, "n_targets", 1, &f.targets));
    XCVM_TRY(xcc_attribute_text(n, "aggregate_function", "SUM", &function));
    XCVM_TRY(xcc_ml_reals(n, "base_values", "base_values_as_tensor", &base));
    XCVM_TRY(xcc_ml_read_transform(n, &transform));
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (xcc_text_is(function, functions[i].name))
            f.aggregate_function = functions[i].function;
    XCVM_CHECK(n->m->error, f.aggregate_function >= 0, INVALID_MODEL,
               "attribute 'aggregate_function' is '%.40s'; SUM, AVERAGE, MIN or MAX is expected", function.at);
    XCVM_TRY(read_forest(n, votes, &l, &f));
    XCVM_CHECK(n->m->error, base.count == 0 || base.count == (size_t)f.targets, INVALID_MODEL,
               "base_values has %zu entries for %lld targets", base.count, (long long)f.targets);
    XCVM_TRY(emit(n, &f, &y));
    y = xcc_ml_transformed(n, with_base(n, y, base, (size_t)f.targets), transform);
    return xcc_bind(n, 0, xcc_build_cast(&n->b, y, XCVM_F32));
}

/* Two classes, with all votes for the first one listed: the score belongs to the second class, as exporters of binary
 * models write them. The label depends on whether scores are probabilities or margins. */
static xcvm_status one_score(xcc_lowering *n, const listing *l, xcc_value *labels, xcc_value *scores, xcvm_floats base,
                             int64_t column, xcc_ml_transform transform)
{
    bool mixed = false;
    for (size_t i = 0; i < l->vote_weights.count; i++)
        mixed = mixed || l->vote_weights.at[i] < 0;
    xcc_value *score = xcc_build_gather(&n->b, scores, XCC_BUILD_INTS(&n->b, column), 1);
    if (score == NULL)
        return xcc_failure(n);
    const double bound = mixed ? 0 : 0.5;
    if (column == 0 && base.count < 2)
        score = with_base(n, score, base, 1);
    if (score == NULL)
        return xcc_failure(n);
    xcc_value *both = with_base(n, scores, base, 2);
    if (column == 0 && base.count >= 2)
        score = xcc_build_gather(&n->b, both, XCC_BUILD_INTS(&n->b, 0), 1);
    xcc_value *positive =
        score != NULL ? xcc_build_binary(&n->b, XCVM_OP_Greater, score, xcc_build_number(&n->b, score, bound)) : NULL;
    XCVM_TRY(xcc_ml_bind_labels(n, labels, xcc_ml_choice(n, positive)));
    xcc_value *y = column == 0 && base.count < 2 ? xcc_ml_two_scores(n, score, mixed, transform)
                                                 : xcc_ml_transformed(n, both, transform);
    return xcc_bind(n, 1, xcc_build_cast(&n->b, y, XCVM_F32));
}

/* The class that all votes are for, or -1. */
static int64_t only_target(const listing *l)
{
    for (size_t i = 1; i < l->vote_targets.count; i++)
        if (l->vote_targets.at[i] != l->vote_targets.at[0])
            return -1;
    return l->vote_targets.count > 0 ? l->vote_targets.at[0] : -1;
}

xcvm_status xcc_lower_ml_tree_ensemble_classifier(xcc_lowering *n)
{
    static const char *const votes[] = {"class_treeids", "class_nodeids", "class_ids", "class_weights",
                                        "class_weights_as_tensor"};
    listing l;
    xcc_forest f = {.aggregate_function = XCVM_AGGREGATE_SUM};
    xcvm_floats base;
    xcc_ml_transform transform;
    xcc_value *labels, *y;
    size_t classes;
    XCVM_TRY(xcc_ml_labels(n, "classlabels_int64s", "classlabels_strings", &labels, &classes));
    XCVM_TRY(xcc_ml_reals(n, "base_values", "base_values_as_tensor", &base));
    XCVM_TRY(xcc_ml_read_transform(n, &transform));
    f.targets = (int64_t)classes;
    XCVM_TRY(read_forest(n, votes, &l, &f));
    XCVM_CHECK(n->m->error, base.count <= classes, INVALID_MODEL, "base_values has %zu entries for %zu classes",
               base.count, classes);
    XCVM_TRY(emit(n, &f, &y));
    const int64_t only = only_target(&l);
    if (classes == 2 && only >= 0)
        return one_score(n, &l, labels, y, base, only, transform);
    y = with_base(n, y, base, classes);
    XCVM_TRY(xcc_ml_bind_labels(n, labels, xcc_ml_best(n, y)));
    return xcc_bind(n, 1, xcc_build_cast(&n->b, xcc_ml_transformed(n, y, transform), XCVM_F32));
}
