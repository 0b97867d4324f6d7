/* Ensembles of trees as C. */
#include "compiler/export_c/export_c.h"

static bool write_forest(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_TreeEnsemble_args *a = step->args;
    static const int aggregates[XCVM_AGGREGATE_COUNT] = {
        [XCVM_AGGREGATE_SUM] = 0, [XCVM_AGGREGATE_AVERAGE] = 1, [XCVM_AGGREGATE_MIN] = 2, [XCVM_AGGREGATE_MAX] = 3};
    if (a->leaf_starts->dims[0] == 0)
        return xcc_c_refuse(x, "leaf_starts is empty, it ends with a last one");
    x->fails = true;
    xcc_c_line(
        x,
        "        xc_forest forest = {.rows = %lld, .features = %lld, .trees = %zu, .node_count = %lld, .leaves = "
        "%lld, .weights = %zu, .targets = %lld, .aggregate = %d};\n",
        (long long)a->x->dims[0], (long long)a->x->dims[1], xcvm_element_count(a->roots), (long long)a->nodes->dims[0],
        (long long)a->leaf_starts->dims[0] - 1, xcvm_element_count(a->leaf_weights), (long long)a->n_targets,
        aggregates[a->aggregate_function]);
    xcc_c_line(x,
               "        forest.nodes = %s;\n        forest.roots = %s;\n        forest.starts = %s;\n"
               "        forest.leaf_targets = %s;\n",
               xcc_c_read(x, a->nodes), xcc_c_read(x, a->roots), xcc_c_read(x, a->leaf_starts),
               xcc_c_read(x, a->leaf_targets));
    xcc_c_line(x, "        if (xc_vote_%s(&forest, %s, %s, %s, %s, (double *)(void *)(%s)))\n            return %zu;\n",
               xcc_c_suffix((xcvm_dtype)a->x->dtype), xcc_c_read(x, a->x), xcc_c_read(x, a->splits),
               xcc_c_read(x, a->leaf_weights), xcc_c_write(x, a->y),
               xcc_c_scratch(x, (uint64_t)a->n_targets * sizeof(double)), x->pc + 1);
    return true;
}

static const xcc_c_row rows[] = {{XCVM_OP_TreeEnsemble, write_forest}};
const xcc_c_rows xcc_c_tree_rows = {rows, sizeof rows / sizeof *rows};
