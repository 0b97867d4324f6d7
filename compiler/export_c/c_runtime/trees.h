/* Ensembles of trees. */
#ifndef XC_TREES_H
#define XC_TREES_H

#include "compiler/export_c/c_runtime/numbers.h"

/* aggregate 0: sum, 1: mean, 2: minimum, 3: maximum. */
typedef struct xc_forest {
    size_t rows, features, trees, node_count, leaves, weights, targets;
    int aggregate;
    const int32_t *nodes, *roots, *starts, *leaf_targets;
} xc_forest;

/* Finds the leaf of a row. Returns 1 for an invalid tree. Children follow their parents, so each traversal ends. Leaf
 * number k is -1 - k. */
static int xc_traverse_value(const xc_forest *f, const value_t *splits, const value_t *row, int32_t *at)
{
    while (*at >= 0) {
        if ((size_t)*at >= f->node_count)
            return 1;
        const int32_t *const node = f->nodes + 3 * (size_t)*at;
        const size_t feature = (uint32_t)node[0] >> 3;
        if (feature >= f->features)
            return 1;
        const value_t v = row[feature], split = splits[*at];
        const int is = (v < split ? 2 : v == split ? 4 : 0) | (v != v ? 1 : 0);
        const int32_t next = node[(node[0] & is) != 0 ? 1 : 2];
        if (next >= 0 && next <= *at)
            return 1;
        *at = next;
    }
    return 0;
}

/* The votes of each tree for each row; `sums` has space for those of a row. */
static int xc_vote_value(const xc_forest *f, const value_t *x, const value_t *splits, const value_t *weights,
                         value_t *y, double *sums)
{
    for (size_t r = 0; r < f->rows; r++, x += f->features, y += f->targets) {
        for (size_t t = 0; t < f->targets; t++)
            sums[t] = f->aggregate >= 2 ? (double)NAN : 0;
        for (size_t tree = 0; tree < f->trees; tree++) {
            int32_t at = f->roots[tree];
            if (xc_traverse_value(f, splits, x, &at))
                return 1;
            const size_t leaf = (size_t)(-1 - (int64_t)at);
            if (leaf >= f->leaves || f->starts[leaf] < 0 || f->starts[leaf + 1] < f->starts[leaf] ||
                (size_t)f->starts[leaf + 1] > f->weights)
                return 1;
            for (int32_t i = f->starts[leaf]; i < f->starts[leaf + 1]; i++) {
                const int32_t target = f->leaf_targets[i];
                if (target < 0 || (size_t)target >= f->targets)
                    return 1;
                const double weight = (double)weights[i], sum = sums[target];
                if (f->aggregate < 2)
                    sums[target] = sum + weight;
                else if (sum != sum || (f->aggregate == 2 ? weight < sum : weight > sum))
                    sums[target] = weight;
            }
        }
        for (size_t t = 0; t < f->targets; t++) {
            const double mean = f->aggregate == 1 && f->trees > 0 ? sums[t] / (double)f->trees : sums[t];
            y[t] = (value_t)(f->aggregate >= 2 && mean != mean ? 0 : mean);
        }
    }
    return 0;
}

#endif
