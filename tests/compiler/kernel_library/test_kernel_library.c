/* Tests of kernel libraries: the members of groups, and results compared with the plain instructions. */
/* Takes long. */
#include "tests/compiler/kernel_library/support.h"

#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned graph_seed; /* of the random graph at hand */

/* Rounding grows in long graphs; a wrong element is farther off. */
static void expect_close(const xcvm_value *a, const xcvm_value *b)
{
    ck_assert(xcvm_same_shape(a, b));
    for (size_t i = 0; i < xcvm_element_count(a); i++) {
        double x = xcvm_element_as_double(a, i), y = xcvm_element_as_double(b, i);
        ck_assert_msg((isnan(x) && isnan(y)) || x == y || fabs(x - y) <= 1e-4 + 1e-3 * fabs(y),
                      "graph %u: element %zu: %.9g, %.9g", graph_seed, i, x, y);
    }
}

static void compare(compiled_program *a, compiled_program *b)
{
    for (unsigned round = 0; round < 3; round++) {
        for (size_t i = 0; i < xcvm_program_input_count(a->program); i++) {
            compiled_fill_input(a, i, round * 100 + (unsigned)i);
            compiled_fill_input(b, i, round * 100 + (unsigned)i);
        }
        compiled_run(a);
        compiled_run(b);
        for (size_t i = 0; i < xcvm_program_output_count(a->program); i++)
            expect_close(xcvm_session_get_output(b->session, i), xcvm_session_get_output(a->session, i));
    }
}

/* Compiles what `make` makes plain and fused, into `groups` functions, and compares the results: with the library and
 * without it. */
static void check_fused(graph_function make, size_t groups)
{
    compilation unfused, fused;
    compiled_program expected, with, without;
    make_folder();
    begin(&unfused, -1);
    make(&unfused.b);
    passes(&unfused);
    open_program(&expected, &unfused, false);
    begin_fused(&fused);
    make(&fused.b);
    build_library(&fused);
    if (groups != 0)
        ck_assert_uint_eq(fused.m.group_count, groups);
    open_program(&with, &fused, false);
    open_program(&without, &fused, true);
    ck_assert_msg(notice(&with) == NULL, "%s", notice(&with));
    compare(&expected, &with);
    compare(&expected, &without);
    compiled_close(&expected);
    compiled_close(&with);
    compiled_close(&without);
    finish(&unfused);
    finish(&fused);
    remove_folder();
}

/* ---- Shapes ---- */

static void make_broadcast(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(2, 3, 5, 7)), *rows = input(b, "rows", XCVM_F32, 2, DIMS(5, 1));
    xcc_value *planes = input(b, "planes", XCVM_F32, 4, DIMS(2, 3, 1, 1)),
              *line = input(b, "line", XCVM_F32, 1, DIMS(7));
    xcc_value *y = APPLY(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(rows));
    y = APPLY(b, Mul, y, .a = XCC_IN(y), .b = XCC_IN(planes));
    xcc_value *middle = APPLY(b, Tanh, y, .x = XCC_IN(y));
    y = APPLY(b, Sub, y, .a = XCC_IN(line), .b = XCC_IN(middle));
    y = APPLY(b, Max, y, .a = XCC_IN(y), .b = XCC_IN(number(b, 0.25)));
    output(b, middle);
    output(b, APPLY(b, Softmax, y, .x = XCC_IN(y), .axis = 3));
    output(b, APPLY(b, LeakyRelu, y, .x = XCC_IN(y), .alpha = 0.5));
}

START_TEST(broadcasting_and_several_results) { check_fused(make_broadcast, 1); }
END_TEST

static void make_outer(xcc_builder *b)
{
    xcc_value *column = input(b, "column", XCVM_F32, 2, DIMS(33, 1)), *row = input(b, "row", XCVM_F32, 2, DIMS(1, 65));
    xcc_value *y = APPLY(b, Mul, y, .a = XCC_IN(column), .b = XCC_IN(row));
    y = APPLY(b, Sigmoid, y, .x = XCC_IN(y));
    output(b, APPLY(b, Clip, y, .x = XCC_IN(y), .min = XCC_IN(number(b, 0.25)), .max = XCC_IN(number(b, 0.75))));
}

START_TEST(outer_product) { check_fused(make_outer, 1); }
END_TEST

static void make_outer_tangent(xcc_builder *b)
{
    xcc_value *column = input(b, "column", XCVM_F32, 2, DIMS(33, 1)), *row = input(b, "row", XCVM_F32, 2, DIMS(1, 65));
    xcc_value *y = APPLY(b, Add, y, .a = XCC_IN(column), .b = XCC_IN(row));
    y = APPLY(b, Tanh, y, .x = XCC_IN(y));
    output(b, APPLY(b, Clip, y, .x = XCC_IN(y), .min = XCC_IN(number(b, -0.5)), .max = XCC_IN(number(b, 0.5))));
}

/* The source is C, in which numbers have a point, whatever the process' locale. */
START_TEST(other_locale)
{
    ck_assert(test_comma_locale());
    check_fused(make_outer, 1);
    setlocale(LC_ALL, "C");
}
END_TEST

START_TEST(host_that_ignores_its_children)
{
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    check_fused(make_outer, 1);
    signal(SIGCHLD, before);
}
END_TEST

/* The second library comes through the same descriptor as the first, which is still loaded, and has a function of the
 * same operands. */
START_TEST(two_programs_at_once)
{
    static const graph_function functions[2] = {make_outer, make_outer_tangent};
    compilation unfused[2], fused[2];
    compiled_program expected[2], with[2];
    make_folder();
    for (int i = 0; i < 2; i++) {
        begin(&unfused[i], -1);
        functions[i](&unfused[i].b);
        passes(&unfused[i]);
        open_program(&expected[i], &unfused[i], false);
        begin_fused(&fused[i]);
        functions[i](&fused[i].b);
        build_library(&fused[i]);
        open_program(&with[i], &fused[i], false);
        ck_assert_msg(notice(&with[i]) == NULL, "%s", notice(&with[i]));
    }
    for (int i = 0; i < 2; i++)
        compare(&expected[i], &with[i]);
    for (int i = 0; i < 2; i++) {
        compiled_close(&expected[i]);
        compiled_close(&with[i]);
        finish(&unfused[i]);
        finish(&fused[i]);
    }
    remove_folder();
}
END_TEST

static void make_large(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(301, 1007));
    xcc_value *y = APPLY(b, Neg, y, .x = XCC_IN(APPLY(b, Abs, y, .x = XCC_IN(x))));
    y = APPLY(b, Gelu, y, .x = XCC_IN(y), .approximate = XCVM_GELU_tanh);
    output(b, APPLY(b, Div, y, .a = XCC_IN(y), .b = XCC_IN(number(b, 3))));
}

START_TEST(split_over_threads) { check_fused(make_large, 1); }
END_TEST

/* ---- Reductions ---- */

#define LAST_AXIS(b) XCC_IN(must(b, xcc_constant_i64((b)->graph, 1, DIMS(-1))))
#define MEAN(b, v) APPLY(b, ReduceMean, y, .x = XCC_IN(v), .axes = LAST_AXIS(b), .keepdims = 1)

/* With a residual before, a scale and a bias after, and another reader of the sum. */
static void make_layer_norm(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(3, 7, 100)), *y = input(b, "y", XCVM_F32, 3, DIMS(3, 7, 100));
    xcc_value *sum = APPLY(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(y));
    xcc_value *less = APPLY(b, Sub, y, .a = XCC_IN(sum), .b = XCC_IN(MEAN(b, sum)));
    xcc_value *square = MEAN(b, APPLY(b, Mul, y, .a = XCC_IN(less), .b = XCC_IN(less)));
    xcc_value *root =
        APPLY(b, Sqrt, y, .x = XCC_IN(APPLY(b, Add, y, .a = XCC_IN(square), .b = XCC_IN(number(b, 1e-5)))));
    xcc_value *z = APPLY(b, Div, y, .a = XCC_IN(less), .b = XCC_IN(root));
    z = APPLY(b, Mul, y, .a = XCC_IN(z), .b = XCC_IN(weights(b, 1, DIMS(100))));
    z = APPLY(b, Add, y, .a = XCC_IN(z), .b = XCC_IN(weights(b, 1, DIMS(100))));
    output(b, sum);
    output(b, APPLY(b, Gelu, y, .x = XCC_IN(z)));
}

START_TEST(layer_normalization) { check_fused(make_layer_norm, 1); }
END_TEST

static void make_softmax(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(2, 9, 33)), *mask = input(b, "mask", XCVM_F32, 3, DIMS(2, 1, 33));
    x = APPLY(b, Mul, y, .a = XCC_IN(x), .b = XCC_IN(number(b, 0.125)));
    x = APPLY(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(mask));
    xcc_value *most = APPLY(b, ReduceMax, y, .x = XCC_IN(x), .axes = LAST_AXIS(b), .keepdims = 1);
    xcc_value *e = APPLY(b, Exp, y, .x = XCC_IN(APPLY(b, Sub, y, .a = XCC_IN(x), .b = XCC_IN(most))));
    xcc_value *sum = APPLY(b, ReduceSum, y, .x = XCC_IN(e), .axes = LAST_AXIS(b), .keepdims = 1);
    output(b, APPLY(b, Div, y, .a = XCC_IN(e), .b = XCC_IN(sum)));
    output(b, sum);
    x = APPLY(b, LogSoftmax, y, .x = XCC_IN(APPLY(b, Neg, y, .x = XCC_IN(x))), .axis = -1);
    output(b, APPLY(b, Abs, y, .x = XCC_IN(x)));
}

START_TEST(softmax) { check_fused(make_softmax, 1); }
END_TEST

/* Several axes at once, an element for each row with and without them, and one of them broadcast. */
static void make_rows(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(2, 5, 3, 7)), *z = input(b, "z", XCVM_F32, 2, DIMS(2, 5));
    xcc_value *axes = must(b, xcc_constant_i64(b->graph, 2, DIMS(2, 3)));
    x = APPLY(b, Tanh, y, .x = XCC_IN(x));
    xcc_value *l1 = APPLY(b, ReduceL1, y, .x = XCC_IN(x), .axes = XCC_IN(axes), .keepdims = 0);
    xcc_value *l2 = APPLY(b, ReduceL2, y, .x = XCC_IN(x), .axes = XCC_IN(axes), .keepdims = 0);
    l1 = APPLY(b, Add, y, .a = XCC_IN(l1), .b = XCC_IN(z));
    l1 = APPLY(b, Sigmoid, y, .x = XCC_IN(APPLY(b, Mul, y, .a = XCC_IN(l1), .b = XCC_IN(l2))));
    output(b, l1);
    xcc_value *wide = APPLY(b, Unsqueeze, y, .x = XCC_IN(l1), .axes = XCC_IN(axes));
    output(b, APPLY(b, Mul, y, .a = XCC_IN(x), .b = XCC_IN(wide)));
    xcc_value *least = APPLY(b, ReduceMin, y, .x = XCC_IN(x), .axes = XCC_IN(axes), .keepdims = 1);
    output(b, APPLY(b, Sub, y, .a = XCC_IN(x), .b = XCC_IN(least)));
}

START_TEST(rows) { check_fused(make_rows, 1); }
END_TEST

/* Rows that are summed up in stretches, too long to be kept. */
/* The axes are known without being a constant, and the function reads none of their elements. */
static void make_empty_axes(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(3, 40)), *axes = input(b, "axes", XCVM_I64, 1, DIMS(0));
    xcc_value *y = APPLY(b, Tanh, y, .x = XCC_IN(x));
    y = APPLY(b, ReduceSum, y, .x = XCC_IN(y), .axes = XCC_IN(axes), .keepdims = 1);
    output(b, APPLY(b, Relu, y, .x = XCC_IN(y)));
    output(b, APPLY(b, Size, y, .x = XCC_IN(axes)));
}

START_TEST(empty_axes) { check_fused(make_empty_axes, 1); }
END_TEST

static void make_long_rows(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(9, 70001));
    xcc_value *e = APPLY(b, Erf, y, .x = XCC_IN(APPLY(b, Exp, y, .x = XCC_IN(x))));
    xcc_value *y = APPLY(b, Sub, y, .a = XCC_IN(e), .b = XCC_IN(MEAN(b, e)));
    output(b, APPLY(b, Mul, y, .a = XCC_IN(y), .b = XCC_IN(MEAN(b, y))));
}

START_TEST(long_rows) { check_fused(make_long_rows, 0); }
END_TEST

static void make_moved(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(2, 5, 3, 16)), *z = input(b, "z", XCVM_F32, 4, DIMS(2, 3, 5, 16));
    xcc_value *y = APPLY(b, Transpose, y, .x = XCC_IN(x), .perm = XCC_INTS(0, 2, 1, 3));
    y = APPLY(b, Tanh, y, .x = XCC_IN(APPLY(b, Add, y, .a = XCC_IN(y), .b = XCC_IN(z))));
    output(b, APPLY(b, Softmax, y, .x = XCC_IN(y), .axis = 3));
    output(b, y);
}

START_TEST(transposed_operand) { check_fused(make_moved, 1); }
END_TEST

/* One operand is read along and across, and the last result could take its memory. */
static void make_square(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(24));
    x = APPLY(b, CumSum, y, .x = XCC_IN(x), .axis = XCC_IN(must(b, xcc_scalar_i64(b->graph, 0))));
    xcc_value *row =
        APPLY(b, Reshape, y, .x = XCC_IN(x), .shape = XCC_IN(must(b, xcc_constant_i64(b->graph, 2, DIMS(1, 24)))));
    xcc_value *column =
        APPLY(b, Reshape, y, .x = XCC_IN(x), .shape = XCC_IN(must(b, xcc_constant_i64(b->graph, 2, DIMS(24, 1)))));
    xcc_value *all = APPLY(b, Mul, y, .a = XCC_IN(row), .b = XCC_IN(input(b, "m", XCVM_F32, 2, DIMS(24, 24))));
    xcc_value *sum = APPLY(b, ReduceSum, y, .x = XCC_IN(all), .axes = LAST_AXIS(b), .keepdims = 1);
    output(b, APPLY(b, Add, y, .a = XCC_IN(column), .b = XCC_IN(sum)));
}

START_TEST(operands_that_share_memory) { check_fused(make_square, 1); }
END_TEST

/* The last result overwrites an operand that two loops read. */
static void make_in_place(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(12, 40));
    x = APPLY(b, CumSum, y, .x = XCC_IN(x), .axis = XCC_IN(must(b, xcc_scalar_i64(b->graph, 1))));
    xcc_value *y = APPLY(b, Tanh, y, .x = XCC_IN(x));
    output(b, y);
    output(b, APPLY(b, Mul, y, .a = XCC_IN(x), .b = XCC_IN(MEAN(b, y))));
}

START_TEST(result_in_place) { check_fused(make_in_place, 1); }
END_TEST

/* So many groups that they are compiled in several parts. */
static void make_many(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(50));
    for (int i = 0; i < 35; i++) {
        x = APPLY(b, Neg, y, .x = XCC_IN(APPLY(b, Sigmoid, y, .x = XCC_IN(x))));
        x = APPLY(b, CumSum, y, .x = XCC_IN(x), .axis = XCC_IN(must(b, xcc_scalar_i64(b->graph, 0))));
    }
    output(b, x);
}

START_TEST(parts) { check_fused(make_many, 35); }
END_TEST

/* ---- What stays apart ---- */

/* The sum in between reads one result and makes an operand of another: they cannot be one group. */
static void make_interrupted(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(4, 8));
    xcc_value *y = APPLY(b, Exp, y, .x = XCC_IN(APPLY(b, Neg, y, .x = XCC_IN(x))));
    xcc_value *sum = APPLY(b, CumSum, y, .x = XCC_IN(y), .axis = XCC_IN(must(b, xcc_scalar_i64(b->graph, 1))));
    xcc_value *z = APPLY(b, Mul, y, .a = XCC_IN(sum), .b = XCC_IN(y));
    output(b, APPLY(b, Sqrt, y, .x = XCC_IN(z)));
}

START_TEST(no_cycles) { check_fused(make_interrupted, 2); }
END_TEST

static void make_loop_body(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(19)), *out = must(b, xcc_value_create(b->graph, NULL));
    xcc_value *in[] = {must(b, xcc_scalar_i64(b->graph, 5)), NULL, x};
    xcc_node *n = xcc_append_control(b, XCC_LOOP, 3, in, 1, &out, 1);
    ck_assert_ptr_nonnull(n);
    xcc_builder body = {.graph = n->bodies[0]};
    input(&body, "i", XCVM_I64, 0, NULL);
    xcc_value *go = input(&body, "go", XCVM_BOOL, 0, NULL), *s = input(&body, "s", XCVM_F32, 1, DIMS(19));
    output(&body, go);
    xcc_value *y = APPLY(&body, Add, y, .a = XCC_IN(s), .b = XCC_IN(x));
    output(&body, APPLY(&body, Tanh, y, .x = XCC_IN(y)));
    ok(b->graph->module, xcc_node_infer(n));
    output(b, out);
}

START_TEST(in_a_loop) { check_fused(make_loop_body, 1); }
END_TEST

/* ---- Random graphs ---- */

/* Reduces z over its last axis or its last two, if it has them, and the results of these. */
static xcc_value *random_reduction(xcc_builder *b, unsigned *state, xcc_value *z)
{
    if (z->type.rank != 3)
        return APPLY(b, Neg, y, .x = XCC_IN(z));
    bool both = test_random_below(state, 4) == 0, keep = test_random_below(state, 4) != 0;
    xcc_value *axes = both ? ints(b, 2, DIMS(-1, 1)) : ints(b, 1, DIMS(2)), *y;
    switch (test_random_below(state, 6)) {
    case 0:
        y = APPLY(b, ReduceMean, y, .x = XCC_IN(z), .axes = XCC_IN(axes), .keepdims = keep);
        break;
    case 1:
        y = APPLY(b, ReduceMax, y, .x = XCC_IN(z), .axes = XCC_IN(axes), .keepdims = keep);
        break;
    case 2:
        y = APPLY(b, ReduceMin, y, .x = XCC_IN(z), .axes = XCC_IN(axes), .keepdims = keep);
        break;
    case 3:
        y = APPLY(b, ReduceL2, y, .x = XCC_IN(z), .axes = XCC_IN(axes), .keepdims = keep);
        break;
    case 4:
        y = APPLY(b, ReduceSumSquare, y, .x = XCC_IN(z), .axes = XCC_IN(axes), .keepdims = keep);
        break;
    default:
        y = APPLY(b, ReduceL1, y, .x = XCC_IN(z), .axes = XCC_IN(axes), .keepdims = keep);
        break;
    }
    y = APPLY(b, Tanh, y, .x = XCC_IN(y));
    return keep ? y : APPLY(b, Unsqueeze, y, .x = XCC_IN(y), .axes = XCC_IN(axes));
}

/* A constant of the length of x's last axis. */
static xcc_value *number_like(xcc_builder *b, const xcc_value *x)
{
    return weights(b, 1, &x->type.dims[x->type.rank - 1]);
}

/* Values stay in a range where rounding does not grow. */
static xcc_value *random_node(xcc_builder *b, unsigned *state, xcc_value *x, xcc_value *z)
{
    switch (test_random_below(state, 18)) {
    case 0:
        return APPLY(b, Tanh, y, .x = XCC_IN(APPLY(b, Mul, y, .a = XCC_IN(x), .b = XCC_IN(z))));
    case 1:
        return APPLY(b, Sigmoid, y, .x = XCC_IN(APPLY(b, Sub, y, .a = XCC_IN(z), .b = XCC_IN(x))));
    case 2:
        return APPLY(b, Max, y, .a = XCC_IN(x), .b = XCC_IN(z));
    case 3:
        return APPLY(b, Min, y, .a = XCC_IN(x), .b = XCC_IN(z));
    case 4:
        return APPLY(b, Erf, y, .x = XCC_IN(APPLY(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(z))));
    case 5:
        return APPLY(b, Softsign, y, .x = XCC_IN(APPLY(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(number(b, 0.5)))));
    case 6:
        return APPLY(b, HardSigmoid, y, .x = XCC_IN(x), .alpha = 0.3, .beta = 0.4);
    case 7:
        return APPLY(b, Abs, y, .x = XCC_IN(APPLY(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(x))));
    case 8:
        return APPLY(b, Clip, y, .x = XCC_IN(APPLY(b, Sub, y, .a = XCC_IN(x), .b = XCC_IN(z))),
                     .min = XCC_IN(number(b, -0.75)), .max = XCC_IN(number(b, 0.75)));
    case 9:
        return APPLY(b, Neg, y, .x = XCC_IN(APPLY(b, Relu, y, .x = XCC_IN(x))));
    case 10:
        return APPLY(b, Div, y, .a = XCC_IN(x), .b = XCC_IN(number(b, 2)));
    case 11:
        return APPLY(b, Softmax, y, .x = XCC_IN(x), .axis = 2);
    case 12:
        return APPLY(b, LayerNormalization, y, .x = XCC_IN(x), .scale = XCC_IN(number_like(b, x)), .axis = -1,
                     .epsilon = 0.1, .stash_type = XCVM_F32);
    case 13:
        return APPLY(b, RMSNormalization, y, .x = XCC_IN(x), .scale = XCC_IN(number_like(b, x)), .axis = 1,
                     .epsilon = 0.1, .stash_type = XCVM_F32);
    case 14:
    case 15:
    case 16:
        return APPLY(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(random_reduction(b, state, z)));
    default:
        /* Not element-wise, and along an axis that is no row. */
        return APPLY(b, LogSoftmax, y, .x = XCC_IN(x), .axis = 1);
    }
}

static void make_random(xcc_builder *b)
{
    enum { NODES = 60, FIRST = 4 };
    unsigned state = graph_seed;
    const int64_t size = 1 + test_random_below(&state, 40), count = 1 + test_random_below(&state, 5),
                  height = 1 + test_random_below(&state, 4);
    xcc_value *values[FIRST + NODES] = {
        input(b, "x", XCVM_F32, 3, DIMS(count, height, size)), input(b, "column", XCVM_F32, 3, DIMS(count, 1, 1)),
        input(b, "row", XCVM_F32, 1, DIMS(size)), input(b, "plane", XCVM_F32, 2, DIMS(height, 1))};
    size_t full = 0; /* the last value of the whole shape */
    for (size_t i = FIRST; i < FIRST + NODES; i++) {
        size_t near = test_random_below(&state, 4) != 0 && i > FIRST
                          ? i - 1 - test_random_below(&state, (unsigned)(i - FIRST < 6 ? i - FIRST : 6))
                          : full;
        values[i] = random_node(b, &state, values[near], values[test_random_below(&state, (unsigned)i)]);
        full = i;
    }
    for (size_t i = 0; i < 3; i++)
        output(b, values[FIRST + NODES - 1 - i * 7]);
}

START_TEST(random_graphs)
{
    const char *wanted = getenv("XCVM_FUSE_GRAPHS"), *first = getenv("XCVM_FUSE_FIRST");
    unsigned count = wanted != NULL ? (unsigned)atoi(wanted) : 8;
    unsigned start = first != NULL ? (unsigned)atoi(first) : 1000;
    for (unsigned i = 0; i < count; i++) {
        graph_seed = start + i;
        check_fused(make_random, 0);
    }
}
END_TEST

Suite *suite_compiler_kernel_library(void)
{
    Suite *s = suite_create("compiler_kernel_library");
    TCase *t = tcase_create("kernel_library");
    tcase_set_timeout(t, getenv("XCVM_FUSE_GRAPHS") != NULL ? 7200 : 600);
    tcase_add_test(t, broadcasting_and_several_results);
    tcase_add_test(t, outer_product);
    tcase_add_test(t, other_locale);
    tcase_add_test(t, host_that_ignores_its_children);
    tcase_add_test(t, two_programs_at_once);
    tcase_add_test(t, split_over_threads);
    tcase_add_test(t, layer_normalization);
    tcase_add_test(t, softmax);
    tcase_add_test(t, rows);
    tcase_add_test(t, empty_axes);
    tcase_add_test(t, long_rows);
    tcase_add_test(t, transposed_operand);
    tcase_add_test(t, operands_that_share_memory);
    tcase_add_test(t, result_in_place);
    tcase_add_test(t, parts);
    tcase_add_test(t, no_cycles);
    tcase_add_test(t, in_a_loop);
    tcase_add_test(t, random_graphs);
    suite_add_tcase(s, t);
    return s;
}
