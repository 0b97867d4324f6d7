/* Tests of the pass simplify on windows and padding. */
#include "tests/compiler/support.h"

#define APPLY(Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

/* A filter of `spatial` sizes, and what stays of it. */
typedef struct window {
    int rank;
    int64_t group, in[5], w[5], strides[3], pads[6], dilations[3];
    int64_t left[3], left_pads[6], left_dilations[3];
} window;

static const window windows[] = {
    /* DeepLab's at 14 x 14: none but the middle one is inside; farther than the map; some are. */
    {4, 1, {2, 3, 14, 14}, {4, 3, 3, 3}, {1, 1}, {36, 36, 36, 36}, {36, 36}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
    {4, 1, {1, 3, 14, 14}, {4, 3, 3, 3}, {1, 1}, {14, 14, 14, 14}, {14, 14}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
    {4, 1, {1, 3, 14, 14}, {4, 3, 3, 3}, {1, 1}, {13, 13, 13, 13}, {13, 13}, {3, 3}, {13, 13, 13, 13}, {13, 13}},
    /* One axis; a large window; groups, and each channel by itself. */
    {4, 1, {1, 2, 30, 4}, {3, 2, 3, 3}, {1, 1}, {5, 5, 5, 5}, {5, 5}, {3, 1}, {5, 0, 5, 0}, {5, 1}},
    {4, 2, {1, 4, 5, 6}, {6, 2, 7, 5}, {1, 1}, {9, 8, 9, 8}, {3, 4}, {3, 3}, {3, 4, 3, 4}, {3, 4}},
    {4, 6, {1, 6, 7, 7}, {6, 1, 5, 5}, {1, 1}, {8, 8, 8, 8}, {4, 4}, {3, 3}, {4, 4, 4, 4}, {4, 4}},
    /* Strides: of the first positions, outputs 0 and 3 of the first axis meet -4 and -1, 0 and 3, 4 and 7. */
    {4, 1, {1, 1, 6, 6}, {1, 1, 3, 1}, {3, 2}, {4, 0, 3, 0}, {4, 1}, {2, 1}, {0, 0, 3, 0}, {4, 1}},
    /* One side alone, as of causal convolutions; the other. */
    {3, 1, {1, 2, 5}, {3, 2, 3}, {1}, {8, 0}, {4}, {2}, {4, 0}, {4}},
    {3, 1, {1, 2, 5}, {3, 2, 3}, {1}, {0, 8}, {4}, {2}, {0, 4}, {4}},
    {5,
     1,
     {1, 1, 3, 4, 5},
     {2, 1, 3, 3, 3},
     {1, 1, 1},
     {3, 3, 3, 3, 3, 3},
     {3, 3, 3},
     {1, 3, 3},
     {0, 3, 3, 0, 3, 3},
     {1, 3, 3}},
    /* No position is inside: one stays. Padding that would be below zero. */
    {3, 1, {1, 2, 1}, {3, 2, 2}, {30}, {10, 10}, {2}, {1}, {8, 10}, {1}},
    {3, 1, {1, 2, 14}, {3, 2, 3}, {1}, {6, 6}, {12}, {3}, {6, 6}, {12}},
    {4, 1, {1, 2, 5, 5}, {3, 2, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, {3, 3}, {1, 1, 1, 1}, {1, 1}},
};
enum { WINDOWS = sizeof windows / sizeof *windows };

static int current;

static xcc_value *apply(xcc_builder *b, xcc_value *x, xcc_value *w, const window *c)
{
    const size_t axes = (size_t)c->rank - 2;
    return APPLY(Conv, y, .x = XCC_IN(x), .w = XCC_IN(w), .b = XCC_IN(weights(b, 1, c->w)),
                 .strides = {c->strides, axes}, .pads = {c->pads, 2 * axes}, .dilations = {c->dilations, axes},
                 .group = c->group);
}

static void make_window(xcc_builder *b)
{
    const window *c = &windows[current];
    output(b, apply(b, input(b, "x", XCVM_F32, c->rank, c->in), weights(b, c->rank, c->w), c));
}

START_TEST(cut)
{
    const window *c = &windows[current = _i];
    compilation compiled;
    begin(&compiled, 0);
    compiled.options.debug.plain_layout = true;
    check_results(make_window, &compiled);
    CHECK_COUNT(&compiled, Conv, 1);
    const xcvm_Conv_args *a = XCC_ARGS(Conv, compiled.m.graph->last);
    for (int i = 0; i < c->rank - 2; i++) {
        ck_assert_int_eq(a->w->dims[2 + i], c->left[i]);
        ck_assert_int_eq(a->dilations.at[i], c->left_dilations[i]);
        ck_assert_int_eq(a->strides.at[i], c->strides[i]);
    }
    for (int i = 0; i < 2 * (c->rank - 2); i++)
        ck_assert_int_eq(a->pads.at[i], c->left_pads[i]);
    finish(&compiled);
}
END_TEST

/* Weights that are no numbers where they meet padding, open sizes, and filters that are not known yet. */
static void make_uncut(xcc_builder *b)
{
    const window *c = &windows[0];
    xcc_value *x = input(b, "x", XCVM_F32, 4, c->in), *open = input(b, "open", XCVM_F32, 4, DIMS(1, 3, -1, -2));
    xcc_value *w = weights(b, 4, c->w), *infinite = weights(b, 4, c->w), *nan = weights(b, 4, c->w);
    XCVM_DATA(float, &infinite->type)[7] = -INFINITY;
    XCVM_DATA(float, &nan->type)[107] = NAN;
    output(b, apply(b, x, infinite, c));
    output(b, apply(b, x, nan, c));
    output(b, apply(b, open, w, c));
    output(b, apply(b, x, input(b, "w", XCVM_F32, 4, c->w), c));
}

START_TEST(uncut)
{
    compilation c;
    begin(&c, 0);
    c.options.debug.plain_layout = true;
    check_results(make_uncut, &c);
    size_t seen = 0;
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next)
        if (xcc_is(n, XCVM_OP_Conv)) {
            ck_assert_int_eq(XCC_ARGS(Conv, n)->w->dims[2], 3);
            ck_assert_int_eq(XCC_ARGS(Conv, n)->w->dims[3], 3);
            seen++;
        }
    ck_assert_uint_eq(seen, 4);
    finish(&c);
}
END_TEST

/* Non-finite values inside the image do not move. */
static void make_middle(xcc_builder *b)
{
    const window *c = &windows[0];
    xcc_value *w = weights(b, 4, c->w);
    XCVM_DATA(float, &w->type)[4] = NAN;
    output(b, apply(b, input(b, "x", XCVM_F32, 4, c->in), w, c));
}

START_TEST(no_number_inside)
{
    compilation c;
    begin(&c, 0);
    c.options.debug.plain_layout = true;
    check_results(make_middle, &c);
    ck_assert_int_eq(XCC_ARGS(Conv, c.m.graph->last)->w->dims[2], 1);
    ck_assert(isnan(XCVM_CDATA(float, XCC_ARGS(Conv, c.m.graph->last)->w)[0]));
    finish(&c);
}
END_TEST

Suite *suite_compiler_simplify_windows(void);
Suite *suite_compiler_simplify_windows(void)
{
    Suite *s = suite_create("compiler_simplify_windows");
    TCase *c = tcase_create("windows");
    tcase_add_loop_test(c, cut, 0, WINDOWS);
    tcase_add_test(c, uncut);
    tcase_add_test(c, no_number_inside);
    suite_add_tcase(s, c);
    return s;
}
