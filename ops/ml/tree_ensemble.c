/* TreeEnsemble: decision forests for classification and regression.
 *
 * A tree is evaluated for a block of rows before the next one, so that it stays in the cache. In a block several rows
 * descend in parallel, which hides memory latency. */
#include "ops/util/kernel.h"

#include <math.h>

enum {
    ROWS = 512,    /* rows of a block */
    ABREAST = 8,   /* rows that descend a tree in parallel */
    SUMS = 1 << 15 /* maximum sums of a block, unless a single row has more targets */
};

/* Bits of a node's first number, below its feature index. */
enum { NAN_TRUE = 1, LESS_TRUE = 2, EQUAL_TRUE = 4, FEATURE_SHIFT = 3, NODE_INTS = 3 };

static bool is_vector(const xcvm_value *v) { return v->rank < 0 || v->rank == 1; }

XCVM_SHAPE_RULE_OF(TreeEnsemble)
{
    const xcvm_value *x = a->x, *nodes = a->nodes;
    XCVM_CHECK(t->error, x->rank < 0 || x->rank == 2, SHAPE_MISMATCH, "x has the wrong rank (%d; expected 2)", x->rank);
    XCVM_CHECK(t->error, nodes->rank < 0 || (nodes->rank == 2 && !xcvm_dims_differ(nodes->dims[1], NODE_INTS)),
               SHAPE_MISMATCH, "nodes must be a matrix of %d columns", NODE_INTS);
    XCVM_CHECK(t->error,
               is_vector(a->splits) && is_vector(a->roots) && is_vector(a->leaf_starts) && is_vector(a->leaf_targets) &&
                   is_vector(a->leaf_weights),
               SHAPE_MISMATCH, "splits, roots, leaf_starts, leaf_targets and leaf_weights must have rank 1");
    if (nodes->rank == 2 && a->splits->rank == 1)
        XCVM_CHECK(t->error, !xcvm_dims_differ(nodes->dims[0], a->splits->dims[0]), SHAPE_MISMATCH,
                   "there are %lld nodes and %lld splits", (long long)nodes->dims[0], (long long)a->splits->dims[0]);
    if (a->leaf_targets->rank == 1 && a->leaf_weights->rank == 1)
        XCVM_CHECK(t->error, !xcvm_dims_differ(a->leaf_targets->dims[0], a->leaf_weights->dims[0]), SHAPE_MISMATCH,
                   "there are %lld leaf_targets and %lld leaf_weights", (long long)a->leaf_targets->dims[0],
                   (long long)a->leaf_weights->dims[0]);
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->y->dtype, 2,
                          (const int64_t[]){x->rank == 2 ? x->dims[0] : XCVM_ANY_DIM, a->n_targets});
    return XCVM_OK;
}

typedef struct forest {
    xcvm_kernel *k;
    const xcvm_TreeEnsemble_args *args;
    const int32_t *nodes;
    size_t node_count, features, leaf_count, weight_count, targets, tree_count;
    size_t block;       /* rows */
    bool wide;          /* x, splits and leaf_weights are f64 */
    double *sums;       /* for each worker, or each part of the trees: block x targets */
    size_t sums_stride; /* distance between those */
    uint32_t failed;    /* atomic; what failed, 0: nothing */
} forest;

/* For fewer than FEW_ROWS rows, the trees of a large forest are split between threads. The parts, and so the sums, do
 * not depend on the number of threads. */
enum { TREE_PARTS = 16, FEW_ROWS = 8, LARGE_FOREST = 8 * TREE_PARTS };

enum { SOUND, BAD_NODE, BAD_FEATURE, BAD_LEAF, STOPPED };

static void fail(forest *f, uint32_t what) { __atomic_store_n(&f->failed, what, __ATOMIC_RELAXED); }

/* Next node of a descent from node `at`. Children have higher indices than parents, so every descent ends. */
#define DEFINE_TRAVERSAL(name, type)                                                                                   \
    static inline int32_t name##_step(const forest *f, const type *splits, const type *row, int32_t at,                \
                                      uint32_t *what)                                                                  \
    {                                                                                                                  \
        const int32_t *node = f->nodes + (size_t)at * NODE_INTS;                                                       \
        const int32_t first = node[0];                                                                                 \
        const size_t feature = (uint32_t)first >> FEATURE_SHIFT;                                                       \
        if (feature >= f->features) {                                                                                  \
            *what = BAD_FEATURE;                                                                                       \
            return -1;                                                                                                 \
        }                                                                                                              \
        const type x = row[feature], split = splits[at];                                                               \
        const int less = x < split, not_above = x <= split;                                                            \
        const int is = (not_above ? EQUAL_TRUE >> less : 0) | (x != x ? NAN_TRUE : 0);                                 \
        const int32_t next = node[2 - ((first & is) != 0)];                                                            \
        if (next >= 0 && (next <= at || (size_t)next >= f->node_count)) {                                              \
            *what = BAD_NODE;                                                                                          \
            return -1;                                                                                                 \
        }                                                                                                              \
        return next;                                                                                                   \
    }                                                                                                                  \
                                                                                                                       \
    /* leaves[i] = the leaf of row i, negative. */                                                                     \
    static void name(const forest *f, const void *rows, size_t count, int32_t root, int32_t *leaves, uint32_t *what,   \
                     xcvm_poller *poller)                                                                              \
    {                                                                                                                  \
        const type *x = rows, *splits = f->args->splits->data;                                                         \
        for (size_t first = 0; first < count; first += ABREAST) {                                                      \
            const size_t abreast = count - first < ABREAST ? count - first : ABREAST;                                  \
            bool under_way = root >= 0;                                                                                \
            for (size_t i = 0; i < abreast; i++)                                                                       \
                leaves[first + i] = root;                                                                              \
            while (under_way) {                                                                                        \
                under_way = false;                                                                                     \
                if (xcvm_poll_after(poller, abreast) != XCVM_OK) {                                                     \
                    *what = STOPPED;                                                                                   \
                    return;                                                                                            \
                }                                                                                                      \
                for (size_t i = first; i < first + abreast; i++)                                                       \
                    if (leaves[i] >= 0) {                                                                              \
                        leaves[i] = name##_step(f, splits, x + i * f->features, leaves[i], what);                      \
                        under_way = under_way || leaves[i] >= 0;                                                       \
                    }                                                                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    /* leaves[i] = the leaf of one row in tree i. Also inlined for a constant number of trees. */                      \
    static inline __attribute__((always_inline)) void name##_down(                                                     \
        const forest *f, const type *row, size_t trees, int32_t *leaves, uint32_t *what, xcvm_poller *poller)          \
    {                                                                                                                  \
        const type *splits = f->args->splits->data;                                                                    \
        bool under_way = true;                                                                                         \
        while (under_way) {                                                                                            \
            under_way = false;                                                                                         \
            if (xcvm_poll_after(poller, trees) != XCVM_OK) {                                                           \
                *what = STOPPED;                                                                                       \
                return;                                                                                                \
            }                                                                                                          \
            for (size_t i = 0; i < trees; i++)                                                                         \
                if (leaves[i] >= 0) {                                                                                  \
                    leaves[i] = name##_step(f, splits, row, leaves[i], what);                                          \
                    under_way |= leaves[i] >= 0;                                                                       \
                }                                                                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    static void name##_abreast(const forest *f, const void *row, size_t trees, const int32_t *roots, int32_t *leaves,  \
                               uint32_t *what, xcvm_poller *poller)                                                    \
    {                                                                                                                  \
        for (size_t i = 0; i < trees; i++)                                                                             \
            leaves[i] = roots[i];                                                                                      \
        if (trees == ABREAST)                                                                                          \
            name##_down(f, row, ABREAST, leaves, what, poller);                                                        \
        else                                                                                                           \
            name##_down(f, row, trees, leaves, what, poller);                                                          \
    }

DEFINE_TRAVERSAL(traverse_f32, float)
DEFINE_TRAVERSAL(traverse_f64, double)

/* For minimum and maximum, a target without votes has NaN. */
static double aggregate(int function, double sum, double weight)
{
    switch (function) {
    case XCVM_AGGREGATE_MIN:
        return isnan(sum) || weight < sum ? weight : sum;
    case XCVM_AGGREGATE_MAX:
        return isnan(sum) || weight > sum ? weight : sum;
    default:
        return sum + weight;
    }
}

static bool keeps_extremes(const forest *f)
{
    return f->args->aggregate_function == XCVM_AGGREGATE_MIN || f->args->aggregate_function == XCVM_AGGREGATE_MAX;
}

/* Adds a leaf's votes to the sums of a row. */
static bool vote(const forest *f, int32_t leaf, double *sums, xcvm_poller *poller)
{
    const int32_t *starts = f->args->leaf_starts->data, *targets = f->args->leaf_targets->data;
    const size_t number = (size_t)(-1 - (int64_t)leaf);
    if (number >= f->leaf_count)
        return false;
    const int32_t begin = starts[number], end = starts[number + 1];
    if (begin < 0 || end < begin || (size_t)end > f->weight_count)
        return false;
    const int function = f->args->aggregate_function;
    for (int32_t i = begin; i < end && xcvm_poll_after(poller, 1) == XCVM_OK; i++) {
        const double weight = f->wide ? XCVM_CDATA(double, f->args->leaf_weights)[i]
                                      : (double)XCVM_CDATA(float, f->args->leaf_weights)[i];
        if (targets[i] < 0 || (size_t)targets[i] >= f->targets)
            return false;
        sums[targets[i]] = aggregate(function, sums[targets[i]], weight);
    }
    return true;
}

static void start_sums(const forest *f, double *sums, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sums[i] = keeps_extremes(f) ? NAN : 0;
}

static bool has_root(const forest *f, size_t tree)
{
    const int32_t root = XCVM_CDATA(int32_t, f->args->roots)[tree];
    return root < 0 || (size_t)root < f->node_count;
}

/* Evaluates trees [first, last) for a block of `count` rows, one tree after another. */
static uint32_t evaluate_rows(const forest *f, const char *rows, size_t count, size_t first, size_t last, double *sums,
                              xcvm_poller *poller)
{
    const int32_t *roots = f->args->roots->data;
    int32_t leaves[ROWS];
    uint32_t what = SOUND;
    for (size_t tree = first; tree < last && what == SOUND; tree++) {
        if (!has_root(f, tree))
            return BAD_NODE;
        if (f->wide)
            traverse_f64(f, rows, count, roots[tree], leaves, &what, poller);
        else
            traverse_f32(f, rows, count, roots[tree], leaves, &what, poller);
        for (size_t i = 0; i < count && what == SOUND; i++)
            if (!vote(f, leaves[i], sums + i * f->targets, poller))
                what = BAD_LEAF;
        if (what == SOUND && xcvm_poll_after(poller, count) != XCVM_OK)
            what = STOPPED;
    }
    return what;
}

/* The same for one row, which descends several trees in parallel. */
static uint32_t evaluate_row(const forest *f, const char *row, size_t first, size_t last, double *sums,
                             xcvm_poller *poller)
{
    const int32_t *roots = f->args->roots->data;
    int32_t leaves[ABREAST];
    uint32_t what = SOUND;
    for (size_t tree = first; tree < last && what == SOUND; tree += ABREAST) {
        const size_t trees = last - tree < ABREAST ? last - tree : ABREAST;
        for (size_t i = 0; i < trees; i++)
            if (!has_root(f, tree + i))
                return BAD_NODE;
        if (f->wide)
            traverse_f64_abreast(f, row, trees, roots + tree, leaves, &what, poller);
        else
            traverse_f32_abreast(f, row, trees, roots + tree, leaves, &what, poller);
        for (size_t i = 0; i < trees && what == SOUND; i++)
            if (!vote(f, leaves[i], sums, poller))
                what = BAD_LEAF;
        if (what == SOUND && xcvm_poll_after(poller, trees) != XCVM_OK)
            what = STOPPED;
    }
    return what;
}

/* Evaluates trees [first, last) for rows [begin, begin + count). The terms of a row's sums and their order are the same
 * either way. */
static void evaluate_block(forest *f, size_t begin, size_t count, size_t first, size_t last, double *sums)
{
    const size_t row_bytes = f->features * (f->wide ? sizeof(double) : sizeof(float));
    const char *rows = (const char *)f->args->x->data + begin * row_bytes;
    uint32_t what = SOUND;
    xcvm_poller poller = xcvm_poller_of(f->k);
    if (count >= ABREAST)
        what = evaluate_rows(f, rows, count, first, last, sums, &poller);
    else
        for (size_t i = 0; i < count && what == SOUND; i++)
            what = evaluate_row(f, rows + i * row_bytes, first, last, sums + i * f->targets, &poller);
    if (what != SOUND)
        fail(f, what);
}

static void finish(const forest *f, size_t begin, size_t count, const double *sums)
{
    const double factor =
        f->args->aggregate_function == XCVM_AGGREGATE_AVERAGE && f->tree_count > 0 ? 1 / (double)f->tree_count : 1;
    for (size_t i = 0; i < count * f->targets; i++) {
        const double value = keeps_extremes(f) && isnan(sums[i]) ? 0 : sums[i] * factor;
        if (f->wide)
            XCVM_DATA(double, f->args->y)[begin * f->targets + i] = value;
        else
            XCVM_DATA(float, f->args->y)[begin * f->targets + i] = (float)value;
    }
}

static void run_rows(void *context, size_t begin, size_t end, int worker)
{
    forest *f = context;
    double *sums = f->sums + (size_t)worker * f->sums_stride;
    for (size_t row = begin; row < end && __atomic_load_n(&f->failed, __ATOMIC_RELAXED) == SOUND; row += f->block) {
        const size_t count = end - row < f->block ? end - row : f->block;
        start_sums(f, sums, count * f->targets);
        evaluate_block(f, row, count, 0, f->tree_count, sums);
        finish(f, row, count, sums);
        if (xcvm_kernel_poll(f->k) != XCVM_OK)
            fail(f, STOPPED);
    }
}

static void run_parts(void *context, size_t begin, size_t end, int worker)
{
    forest *f = context;
    (void)worker;
    for (size_t part = begin; part < end && __atomic_load_n(&f->failed, __ATOMIC_RELAXED) == SOUND; part++) {
        evaluate_block(f, 0, (size_t)f->args->x->dims[0], part * f->tree_count / TREE_PARTS,
                       (part + 1) * f->tree_count / TREE_PARTS, f->sums + part * f->sums_stride);
        if (xcvm_kernel_poll(f->k) != XCVM_OK)
            fail(f, STOPPED);
    }
}

/* Evaluates one block of rows with the trees split between threads. */
static void run_few_rows(forest *f, size_t rows)
{
    const size_t count = rows * f->targets;
    start_sums(f, f->sums, TREE_PARTS * f->sums_stride);
    xcvm_parallel(f->k->threads, TREE_PARTS, 1, run_parts, f);
    for (size_t part = 1; part < TREE_PARTS; part++)
        for (size_t i = 0; i < count; i++) {
            const double other = f->sums[part * f->sums_stride + i];
            if (!keeps_extremes(f) || !isnan(other))
                f->sums[i] = aggregate(f->args->aggregate_function, f->sums[i], other);
        }
    finish(f, 0, rows, f->sums);
}

XCVM_KERNEL(TreeEnsemble)
{
    forest f = {.k = k,
                .args = a,
                .nodes = a->nodes->data,
                .node_count = (size_t)a->nodes->dims[0],
                .features = (size_t)a->x->dims[1],
                .weight_count = (size_t)a->leaf_weights->dims[0],
                .targets = (size_t)a->n_targets,
                .tree_count = (size_t)a->roots->dims[0],
                .wide = a->x->dtype == XCVM_F64};
    XCVM_CHECK(k->error, a->leaf_starts->dims[0] > 0, SHAPE_MISMATCH, "leaf_starts is empty, it ends with a last one");
    f.leaf_count = (size_t)a->leaf_starts->dims[0] - 1;
    const size_t rows = (size_t)a->x->dims[0];
    f.block = f.targets > SUMS / ROWS ? SUMS / f.targets : ROWS;
    f.block = f.block == 0 ? 1 : f.block;
    const bool by_tree = rows <= f.block && rows < FEW_ROWS && f.tree_count >= LARGE_FOREST;
    const size_t sums = by_tree ? TREE_PARTS : (size_t)xcvm_threads_count(k->threads);
    size_t bytes;
    XCVM_CHECK(k->error,
               xcvm_size_mul(f.block, f.targets, &f.sums_stride) &&
                   xcvm_size_mul(f.sums_stride, sums * sizeof(double), &bytes),
               OUT_OF_RANGE, "%lld targets are too many", (long long)a->n_targets);
    f.sums = xcvm_kernel_scratch(k, bytes);
    if (f.sums == NULL)
        return XCVM_OUT_OF_MEMORY;
    if (by_tree) {
        run_few_rows(&f, rows);
    } else {
        /* A step of a descent takes nanoseconds; a range should have about ten thousand of them. */
        const size_t grain = 1 + 2048 / (f.tree_count + 1);
        xcvm_parallel(k->threads, rows, grain, run_rows, &f);
    }
    XCVM_CHECK(k->error, f.failed != BAD_NODE, OUT_OF_RANGE,
               "a node has a child that does not follow it in the list of %zu nodes", f.node_count);
    XCVM_CHECK(k->error, f.failed != BAD_FEATURE, OUT_OF_RANGE, "a node asks for a feature beyond the %zu of x",
               f.features);
    XCVM_CHECK(k->error, f.failed != BAD_LEAF, OUT_OF_RANGE,
               "a leaf is none of the %zu, or has votes for none of the %zu targets", f.leaf_count, f.targets);
    return f.failed == STOPPED ? xcvm_kernel_poll(k) : XCVM_OK;
}
