/* Batching by the tape, compared with single calls and with batches by hand: a tagger (a bidirectional LSTM over
 * sentences of 5 to 40 words) and a binary tree-LSTM (trees of 5 to 40 leaves), 64 examples per step, forward and
 * backward. Word vectors are constant. Prints a line per network and method for each width: milliseconds per step,
 * loss. */
#include "tape_tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 64, SHORTEST = 5, LONGEST = 40, WORDS = 1000, TAGS = 48, CLASSES = 5, DIRECTIONS = 2 };
static int64_t width = 256;

/* Milliseconds. */
static double now(void) { return bench_now() * 1e3; }

static xcvm_error error;

static void must(xcvm_status status)
{
    if (status == XCVM_OK)
        return;
    fprintf(stderr, "autobatch: %s: %s\n", error.instruction, error.message);
    exit(1);
}

static uint32_t random_state = 1;
static uint32_t draw(uint32_t below) { return (bench_draw(&random_state) >> 8) % below; }

static xcvm_var random_tensor(xcvm_tape *t, bool parameter, int rank, int64_t a, int64_t b)
{
    return bench_tensor(t, &random_state, parameter, rank, (const int64_t[]){a, b}, 0.2);
}

static xcvm_var ints(xcvm_tape *t, size_t count, const int64_t *at)
{
    const int64_t dim = (int64_t)count;
    return xcvm_tape_constant(t, XCVM_I64, 1, &dim, at);
}
static xcvm_var number(xcvm_tape *t, int64_t n) { return ints(t, 1, &n); }

/* ---- The tagger ---- */

typedef struct tagger {
    xcvm_var words, w[DIRECTIONS], u[DIRECTIONS], b[DIRECTIONS], w_out, b_out;
} tagger;

/* Sentences, the longest first. */
static int64_t lengths[BATCH], sentences[BATCH][LONGEST], tags[BATCH][LONGEST], total;

static int longer(const void *a, const void *b)
{
    return *(const int64_t *)a > *(const int64_t *)b ? -1 : *(const int64_t *)a < *(const int64_t *)b;
}

static void make_sentences(bool sorted)
{
    total = 0;
    for (int i = 0; i < BATCH; i++)
        total += lengths[i] = SHORTEST + draw(LONGEST - SHORTEST + 1);
    if (sorted)
        qsort(lengths, BATCH, sizeof *lengths, longer);
    for (int i = 0; i < BATCH; i++)
        for (int64_t k = 0; k < lengths[i]; k++) {
            sentences[i][k] = draw(WORDS);
            tags[i][k] = draw(TAGS);
        }
}

static tagger make_tagger(xcvm_tape *t)
{
    tagger m = {.words = random_tensor(t, false, 2, WORDS, width)};
    for (int d = 0; d < DIRECTIONS; d++) {
        m.w[d] = random_tensor(t, true, 2, width, 4 * width);
        m.u[d] = random_tensor(t, true, 2, width, 4 * width);
        m.b[d] = random_tensor(t, true, 1, 4 * width, 0);
    }
    m.w_out = random_tensor(t, true, 2, 2 * width, TAGS);
    m.b_out = random_tensor(t, true, 1, TAGS, 0);
    return m;
}

/* Computes h and c from the input and the previous state (absent: none). */
static void step(xcvm_tape *t, xcvm_var projected, xcvm_var u, xcvm_var *h, xcvm_var *c)
{
    const bool first = h->at == NULL;
    const xcvm_var sums = first ? projected : xcvm_Gemm(t, *h, u, projected), before = *c;
    *h = xcvm_LSTMCell(t, sums, {&before, first ? 0 : 1}, .out.c = c);
}

static xcvm_var tag_by_example(xcvm_tape *t, const void *model)
{
    const tagger *m = model;
    static xcvm_var losses[BATCH * LONGEST];
    size_t count = 0;
    for (int i = 0; i < BATCH; i++) {
        xcvm_var xs[LONGEST], hs[DIRECTIONS][LONGEST];
        for (int64_t k = 0; k < lengths[i]; k++)
            xs[k] = xcvm_Gather(t, m->words, number(t, sentences[i][k]));
        for (int d = 0; d < DIRECTIONS; d++) {
            xcvm_var h = XCVM_ABSENT, c = XCVM_ABSENT;
            for (int64_t k = 0; k < lengths[i]; k++) {
                const int64_t at = d == 0 ? k : lengths[i] - 1 - k;
                step(t, xcvm_Gemm(t, xs[at], m->w[d], m->b[d]), m->u[d], &h, &c);
                hs[d][at] = h;
            }
        }
        for (int64_t k = 0; k < lengths[i]; k++) {
            const xcvm_var both = xcvm_Concat(t, XCVM_VARS(hs[0][k], hs[1][k]), .axis = 1);
            const xcvm_var scores = xcvm_LogSoftmax(t, xcvm_Gemm(t, both, m->w_out, m->b_out));
            losses[count++] =
                xcvm_NegativeLogLikelihoodLoss(t, scores, number(t, tags[i][k]), .reduction = XCVM_LOSS_REDUCTION_none);
        }
    }
    return xcvm_ReduceSum(t, xcvm_Concat(t, (xcvm_var_list){losses, count}, .axis = 0), .keepdims = 0);
}

/* Computes everything before the states for all words at once. Then computes the sentences that are long enough, step
 * by step. */
static xcvm_var tag_by_hand(xcvm_tape *t, const void *model)
{
    const tagger *m = model;
    static int64_t words[BATCH * LONGEST], targets[BATCH * LONGEST], aligned[BATCH * LONGEST];
    static int64_t offsets[LONGEST + 1], active[LONGEST];
    xcvm_var joined[DIRECTIONS];
    for (int64_t k = 0; k < LONGEST; k++) {
        active[k] = 0;
        while (active[k] < BATCH && lengths[active[k]] > k)
            active[k]++;
        offsets[k + 1] = offsets[k] + active[k];
    }
    const int64_t steps = lengths[0];
    for (int d = 0; d < DIRECTIONS; d++) {
        for (int64_t k = 0; k < steps; k++)
            for (int64_t i = 0; i < active[k]; i++) {
                words[offsets[k] + i] = sentences[i][d == 0 ? k : lengths[i] - 1 - k];
                if (d == 0)
                    targets[offsets[k] + i] = tags[i][k];
                else
                    aligned[offsets[k] + i] = offsets[lengths[i] - 1 - k] + i;
            }
        const xcvm_var x = xcvm_Gather(t, m->words, ints(t, (size_t)total, words));
        xcvm_var pieces[LONGEST], hs[LONGEST], h = XCVM_ABSENT, c = XCVM_ABSENT;
        xcvm_Split(t, xcvm_Gemm(t, x, m->w[d], m->b[d]), ints(t, (size_t)steps, active), .axis = 0,
                   .out = {{pieces, (size_t)steps}});
        for (int64_t k = 0; k < steps; k++) {
            if (k > 0 && active[k] < active[k - 1]) {
                const xcvm_var sizes = ints(t, 2, (const int64_t[]){active[k], active[k - 1] - active[k]});
                xcvm_var left[2];
                h = xcvm_Split(t, h, sizes, .axis = 0, .out = {{left, 2}});
                c = xcvm_Split(t, c, sizes, .axis = 0, .out = {{left, 2}});
            }
            step(t, pieces[k], m->u[d], &h, &c);
            hs[k] = h;
        }
        joined[d] = xcvm_Concat(t, (xcvm_var_list){hs, (size_t)steps}, .axis = 0);
    }
    joined[1] = xcvm_Gather(t, joined[1], ints(t, (size_t)total, aligned));
    const xcvm_var both = xcvm_Concat(t, (xcvm_var_list){joined, 2}, .axis = 1);
    return xcvm_NegativeLogLikelihoodLoss(t, xcvm_LogSoftmax(t, xcvm_Gemm(t, both, m->w_out, m->b_out)),
                                          ints(t, (size_t)total, targets), .reduction = XCVM_LOSS_REDUCTION_sum);
}

/* ---- Trees ---- */

typedef struct tree_model {
    xcvm_var words, w_leaf, b_leaf, u, b, w_out, b_out;
} tree_model;

typedef struct node {
    int left, right; /* -1: a leaf */
    int64_t word;
    int height, place; /* among those of its height */
} node;
static node nodes[BATCH * 2 * LONGEST];
static int node_count, roots[BATCH];
static int64_t classes[BATCH];

static int make_tree(uint32_t leaves)
{
    node n = {.left = -1, .right = -1, .word = draw(WORDS)};
    if (leaves > 1) {
        const uint32_t left = 1 + draw(leaves - 1);
        n.left = make_tree(left);
        n.right = make_tree(leaves - left);
        const int a = nodes[n.left].height, b = nodes[n.right].height;
        n.height = 1 + (a > b ? a : b);
    }
    nodes[node_count] = n;
    return node_count++;
}

static void make_trees(void)
{
    node_count = 0;
    for (int i = 0; i < BATCH; i++) {
        roots[i] = make_tree(SHORTEST + draw(LONGEST - SHORTEST + 1));
        classes[i] = draw(CLASSES);
    }
}

static tree_model make_tree_model(xcvm_tape *t)
{
    return (tree_model){random_tensor(t, false, 2, WORDS, width), random_tensor(t, true, 2, width, 3 * width),
                        random_tensor(t, true, 1, 3 * width, 0),  random_tensor(t, true, 2, 2 * width, 5 * width),
                        random_tensor(t, true, 1, 5 * width, 0),  random_tensor(t, true, 2, width, CLASSES),
                        random_tensor(t, true, 1, CLASSES, 0)};
}

static void leaf(xcvm_tape *t, const tree_model *m, xcvm_var words, xcvm_var *h, xcvm_var *c)
{
    const xcvm_var sums = xcvm_Gemm(t, xcvm_Gather(t, m->words, words), m->w_leaf, m->b_leaf);
    *h = xcvm_LSTMCell(t, sums, {NULL, 0}, .children = 0, .out.c = c);
}

static void inner(xcvm_tape *t, const tree_model *m, const xcvm_var *hs, const xcvm_var *cs, xcvm_var *h, xcvm_var *c)
{
    const xcvm_var both = xcvm_Concat(t, (xcvm_var_list){hs, 2}, .axis = 1);
    *h = xcvm_LSTMCell(t, xcvm_Gemm(t, both, m->u, m->b), {cs, 2}, .children = 2, .out.c = c);
}

static xcvm_var trees_by_example(xcvm_tape *t, const void *model)
{
    const tree_model *m = model;
    static xcvm_var h[BATCH * 2 * LONGEST], c[BATCH * 2 * LONGEST];
    xcvm_var losses[BATCH];
    for (int i = 0; i < node_count; i++) {
        const node *n = &nodes[i];
        if (n->left < 0)
            leaf(t, m, number(t, n->word), &h[i], &c[i]);
        else
            inner(t, m, (const xcvm_var[]){h[n->left], h[n->right]}, (const xcvm_var[]){c[n->left], c[n->right]}, &h[i],
                  &c[i]);
    }
    for (int i = 0; i < BATCH; i++)
        losses[i] = xcvm_NegativeLogLikelihoodLoss(t, xcvm_LogSoftmax(t, xcvm_Gemm(t, h[roots[i]], m->w_out, m->b_out)),
                                                   number(t, classes[i]), .reduction = XCVM_LOSS_REDUCTION_none);
    return xcvm_ReduceSum(t, xcvm_Concat(t, (xcvm_var_list){losses, BATCH}, .axis = 0), .keepdims = 0);
}

/* Nodes of one height at once; children are rows of all that is below. */
static xcvm_var trees_by_hand(xcvm_tape *t, const void *model)
{
    const tree_model *m = model;
    static int64_t rows[BATCH * 2 * LONGEST], left[BATCH * 2 * LONGEST], right[BATCH * 2 * LONGEST];
    xcvm_var h = XCVM_ABSENT, c = XCVM_ABSENT;
    int64_t below = 0;
    for (int height = 0;; height++) {
        int64_t count = 0;
        for (int i = 0; i < node_count; i++) {
            if (nodes[i].height != height)
                continue;
            rows[i] = below + count;
            left[count] = height == 0 ? nodes[i].word : rows[nodes[i].left];
            right[count++] = height == 0 ? 0 : rows[nodes[i].right];
        }
        if (count == 0)
            break;
        xcvm_var new_h, new_c;
        if (height == 0) {
            leaf(t, m, ints(t, (size_t)count, left), &h, &c);
        } else {
            const xcvm_var l = ints(t, (size_t)count, left), r = ints(t, (size_t)count, right);
            const xcvm_var hs[] = {xcvm_Gather(t, h, l), xcvm_Gather(t, h, r)},
                           cs[] = {xcvm_Gather(t, c, l), xcvm_Gather(t, c, r)};
            inner(t, m, hs, cs, &new_h, &new_c);
            h = xcvm_Concat(t, XCVM_VARS(h, new_h), .axis = 0);
            c = xcvm_Concat(t, XCVM_VARS(c, new_c), .axis = 0);
        }
        below += count;
    }
    int64_t tops[BATCH];
    for (int i = 0; i < BATCH; i++)
        tops[i] = rows[roots[i]];
    const xcvm_var top = xcvm_Gather(t, h, ints(t, BATCH, tops));
    return xcvm_NegativeLogLikelihoodLoss(t, xcvm_LogSoftmax(t, xcvm_Gemm(t, top, m->w_out, m->b_out)),
                                          ints(t, BATCH, classes), .reduction = XCVM_LOSS_REDUCTION_sum);
}

/* ---- Measuring ---- */

typedef xcvm_var (*network)(xcvm_tape *t, const void *model);

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double measure(const char *name, xcvm_tape_mode mode, xcvm_batching batching, network f, bool trees, int rounds)
{
    const xcvm_tape_options options = {.size = sizeof options, .threads = 1, .mode = mode, .batching = batching};
    xcvm_tape *t;
    double times[32], forward[32], recording[32], loss = 0;
    must(xcvm_tape_create(&options, &t, &error));
    random_state = 7;
    tagger tags_model;
    tree_model tree;
    if (trees)
        tree = make_tree_model(t);
    else
        tags_model = make_tagger(t);
    const void *model = trees ? (const void *)&tree : (const void *)&tags_model;
    /* The first rounds warm up. */
    for (int i = -2; i < rounds; i++) {
        const double begun = now();
        const xcvm_var l = f(t, model);
        const double recorded = now();
        loss = xcvm_var_get_number(t, l);
        const double evaluated = now();
        must(xcvm_tape_backward(t, l, NULL, &error));
        if (i >= 0) {
            times[i] = now() - begun;
            forward[i] = evaluated - recorded;
            recording[i] = recorded - begun;
        }
        const xcvm_var parameters[] = {tags_model.w[0], tags_model.w[1], tags_model.u[0],  tags_model.u[1],
                                       tags_model.b[0], tags_model.b[1], tags_model.w_out, tags_model.b_out};
        const xcvm_var of_trees[] = {tree.w_leaf, tree.b_leaf, tree.u, tree.b, tree.w_out, tree.b_out};
        for (size_t k = 0; !trees && k < sizeof parameters / sizeof *parameters; k++)
            xcvm_var_clear_gradient(t, parameters[k]);
        for (size_t k = 0; trees && k < sizeof of_trees / sizeof *of_trees; k++)
            xcvm_var_clear_gradient(t, of_trees[k]);
        xcvm_tape_reset(t);
    }
    must(xcvm_tape_status(t, &error));
    qsort(times, (size_t)rounds, sizeof *times, compare);
    qsort(forward, (size_t)rounds, sizeof *times, compare);
    qsort(recording, (size_t)rounds, sizeof *times, compare);
    printf("%-28s %10.2f %10.2f %10.2f   %.4f\n", name, times[rounds / 2], recording[rounds / 2], forward[rounds / 2],
           loss);
    fflush(stdout);
    xcvm_tape_destroy(t);
    return times[rounds / 2];
}

static void print_width(void)
{
    printf("width %d: milliseconds for a step, of it the calls, of it the evaluation; loss\n", (int)width);
    random_state = 3;
    make_sentences(true);
    make_trees();
    for (int trees = 0; trees < 2; trees++) {
        const char *name = trees ? "tree" : "tagger";
        const network single = trees ? trees_by_example : tag_by_example, hand = trees ? trees_by_hand : tag_by_hand;
        char label[64];
        snprintf(label, sizeof label, "%s_unbatched", name);
        const double one = measure(label, XCVM_TAPE_EAGER, XCVM_BATCHING_NONE, single, trees, 3);
        snprintf(label, sizeof label, "%s_agenda", name);
        const double agenda = measure(label, XCVM_TAPE_LAZY, XCVM_BATCHING_AGENDA, single, trees, 11);
        snprintf(label, sizeof label, "%s_depth", name);
        const double depth = measure(label, XCVM_TAPE_LAZY, XCVM_BATCHING_DEPTH, single, trees, 11);
        snprintf(label, sizeof label, "%s_by_hand", name);
        const double by_hand = measure(label, XCVM_TAPE_EAGER, XCVM_BATCHING_NONE, hand, trees, 11);
        const double best = agenda < depth ? agenda : depth;
        printf("%s: %.1f times unbatched, %.2f of batches by hand, which are %.1f times unbatched\n", name, one / best,
               best / by_hand, one / by_hand);
    }
}

/* Widths are arguments; those of taggers and parsers as they are published are 50 to 256. */
int main(int count, char **arguments)
{
    static const int64_t widths[] = {64, 128, 256, 512};
    for (int i = 1; i < count; i++) {
        width = atoi(arguments[i]);
        print_width();
    }
    for (size_t i = 0; i < sizeof widths / sizeof *widths && count < 2; i++) {
        width = widths[i];
        print_width();
    }
    return 0;
}
