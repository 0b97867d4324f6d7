/* Tests of the backward pass: accumulation, order, released memory, and refusals. */
#include "tests/tape/support.h"

static const xcvm_backward_options retain = {.size = sizeof retain, .retain_graph = true};
static const xcvm_backward_options create = {.size = sizeof create, .create_graph = true};

/* PyTorch's example: z.backward(ones(5, 5)) gives dz/dx = 2x + 2 + y and dz/dy = x + 1. A root of several elements
 * needs a seed. */
START_TEST(c3_2_non_scalar_with_a_seed)
{
    xcvm_tape *t = open_tape();
    float xs[25], ys[25], ones[25];
    for (int i = 0; i < 25; i++) {
        xs[i] = (float)i / 7 - 1;
        ys[i] = 2 - (float)i / 5;
        ones[i] = 1;
    }
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(5, 5), xs);
    const xcvm_var y = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(5, 5), ys);
    const xcvm_var two = constant(t, 2);
    const xcvm_var z =
        xcvm_Add(t, xcvm_Add(t, xcvm_Add(t, xcvm_Pow(t, x, two), xcvm_Mul(t, x, two)), xcvm_Mul(t, x, y)), y);
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_backward(t, z, NULL, &error), XCVM_SHAPE_MISMATCH);
    ck_assert_str_eq(error.message, "the root is f32[5x5], not one number; its gradient has to be given (seed)");
    const xcvm_backward_options small = {.size = sizeof small, .seed = two};
    ck_assert_int_eq(xcvm_tape_backward(t, z, &small, &error), XCVM_SHAPE_MISMATCH);
    ck_assert_str_eq(error.message, "the seed is f32[], the root f32[5x5]");
    const xcvm_backward_options seeded = {.size = sizeof seeded,
                                          .seed = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(5, 5), ones)};
    backward_with(t, z, &seeded);
    float dx[25], dy[25];
    for (int i = 0; i < 25; i++) {
        dx[i] = 2 * xs[i] + 2 + ys[i];
        dy[i] = xs[i] + 1;
    }
    check_f32(t, xcvm_var_get_gradient(t, x), 25, dx);
    check_f32(t, xcvm_var_get_gradient(t, y), 25, dy);
    close_tape(t);
}
END_TEST

/* Gradients of leaves accumulate over passes until they are cleared. A value that is used twice has the sum. */
START_TEST(c2_3_gradients_add_up_until_cleared)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = parameter(t, 3);
    ck_assert_ptr_null(xcvm_var_get_gradient(t, x).at);
    backward(t, xcvm_Mul(t, x, x));
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 6);
    backward(t, xcvm_Add(t, xcvm_Add(t, x, x), x));
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 9);
    xcvm_var_clear_gradient(t, x);
    ck_assert_ptr_null(xcvm_var_get_gradient(t, x).at);
    backward(t, xcvm_Neg(t, x));
    CHECK_F32(t, xcvm_var_get_gradient(t, x), -1);
    close_tape(t);
}
END_TEST

/* Two leaves with one gradient tensor are cleared separately. */
START_TEST(shared_gradients_are_apart)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = parameter(t, 3), y = parameter(t, 4);
    backward(t, xcvm_Add(t, x, y));
    const xcvm_var gradient = xcvm_var_get_gradient(t, y);
    xcvm_var_clear_gradient(t, x);
    CHECK_F32(t, gradient, 1);
    backward(t, xcvm_Add(t, x, y));
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 1);
    CHECK_F32(t, xcvm_var_get_gradient(t, y), 2);
    close_tape(t);
}
END_TEST

/* A second pass over consumed ops is refused, unless the graph was retained. */
START_TEST(c3_4_second_backward)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    const xcvm_var x = parameter(t, 3), y = xcvm_Exp(t, x), z = xcvm_Mul(t, y, x), u = xcvm_Sin(t, z);
    xcvm_var_keep(t, y);
    backward_with(t, z, &retain);
    backward(t, z);
    ck_assert_int_eq(xcvm_tape_backward(t, z, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "were consumed by an earlier backward pass"));
    /* A path through them is refused before any gradient changes. */
    const float before = 2 * 4 * expf(3);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), before);
    ck_assert_int_eq(xcvm_tape_backward(t, u, NULL, &error), XCVM_INVALID_ARGUMENT);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), before);
    CHECK_F32(t, y, expf(3));
    close_tape(t);
}
END_TEST

/* Memory is freed during the pass, except the root and kept variables. */
START_TEST(c3_4_buffers_are_freed)
{
    enum { COUNT = 64, ELEMENTS = 1024 };
    xcvm_tape *t = open_tape();
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(ELEMENTS), NULL);
    xcvm_var y = x, middle = x;
    for (int i = 0; i < COUNT; i++) {
        y = xcvm_Sin(t, y);
        if (i == COUNT / 2)
            middle = xcvm_var_keep(t, y);
    }
    const xcvm_var loss = xcvm_ReduceSum(t, y);
    const size_t full = stats_of(t).live_bytes;
    ck_assert_uint_ge(full, COUNT * ELEMENTS * sizeof(float));
    backward(t, loss);
    /* The pass needed a few more tensors, not COUNT. */
    ck_assert_uint_le(stats_of(t).peak_bytes, full + 8 * ELEMENTS * sizeof(float));
    ck_assert_uint_le(stats_of(t).live_bytes, 4 * ELEMENTS * sizeof(float));
    ck_assert_uint_eq(stats_of(t).recorded, 0);
    value_of(t, loss);
    value_of(t, middle);
    xcvm_error error;
    const xcvm_value *value;
    ck_assert_int_eq(xcvm_var_get_value(t, y, &value, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "is stale"));
    close_tape(t);
}
END_TEST

/* Values computed without recording are constant, and so are detached ones. */
START_TEST(c3_5_no_grad_and_detach)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    const xcvm_var x = parameter(t, 3);
    ck_assert(xcvm_tape_set_recording(t, false));
    const xcvm_var y = xcvm_Mul(t, x, x);
    ck_assert(!xcvm_tape_set_recording(t, true));
    ck_assert(!xcvm_var_requires_gradient(t, y));
    ck_assert_uint_eq(stats_of(t).recorded, 0);
    ck_assert_int_eq(xcvm_tape_backward(t, y, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "depends on nothing that requires a gradient"));
    backward(t, xcvm_Mul(t, y, x));
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 9);
    const xcvm_var z = xcvm_Mul(t, x, x), detached = xcvm_var_detach(t, z);
    ck_assert(xcvm_var_requires_gradient(t, z));
    ck_assert(!xcvm_var_requires_gradient(t, detached));
    xcvm_var_clear_gradient(t, x);
    backward(t, xcvm_Mul(t, detached, x));
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 9);
    ck_assert_int_eq(xcvm_var_set_requires_gradient(t, z, false, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_var_set_requires_gradient(t, x, false, &error), XCVM_OK);
    ck_assert(!xcvm_var_requires_gradient(t, xcvm_Sin(t, x)));
    close_tape(t);
}
END_TEST

/* Ops that are not on the path are not visited, and stay recorded. One without a rule is no obstacle there. */
START_TEST(c3_4_only_what_is_on_the_way)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = parameter(t, 3), big = xcvm_Exp(t, x), small = xcvm_Sin(t, x);
    const xcvm_var deeper = xcvm_Exp(t, big);
    ck_assert_uint_eq(stats_of(t).recorded, 3);
    backward(t, small);
    ck_assert_uint_eq(stats_of(t).recorded, 2);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), cosf(3));
    xcvm_var_release(t, deeper);
    ck_assert_uint_eq(stats_of(t).recorded, 1);
    xcvm_var_release(t, big);
    ck_assert_uint_eq(stats_of(t).recorded, 0);
    close_tape(t);
}
END_TEST

/* Second and third derivatives by create_graph: x^3. */
START_TEST(c2_4_gradients_of_gradients)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    const xcvm_var x = parameter_f64(t, 2), y = xcvm_Mul(t, xcvm_Mul(t, x, x), x);
    xcvm_var order = y;
    const double expected[] = {12, 12, 6};
    for (int i = 0; i < 3; i++) {
        xcvm_var next;
        ck_assert_int_eq(xcvm_tape_gradients(t, 1, &order, NULL, 1, &x, &create, &next, &error), XCVM_OK);
        ck_assert_double_eq_tol(xcvm_var_get_number(t, next), expected[i], 1e-12);
        order = next;
    }
    ck_assert_ptr_null(xcvm_var_get_gradient(t, x).at);
    /* The fourth is a structural zero: no path leads to x. */
    xcvm_var zero;
    ck_assert_int_eq(xcvm_tape_gradients(t, 1, &order, NULL, 1, &x, &create, &zero, &error), XCVM_OK);
    ck_assert_ptr_null(zero.at);
    close_tape(t);
}
END_TEST

/* Gradients of several roots with respect to inner variables visit only the ops in between, and are not
 * accumulated. */
START_TEST(c2_4_gradients_by_any_variable)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    const xcvm_var x = parameter(t, 3), y = xcvm_Mul(t, x, x), a = xcvm_Mul(t, y, x), b = xcvm_Exp(t, y),
                   other = parameter(t, 1);
    const xcvm_var wrt[] = {y, other, x}, roots[] = {a, y}, seeds[] = {XCVM_ABSENT, constant(t, 10)};
    xcvm_var gradients[3];
    ck_assert_int_eq(xcvm_tape_gradients(t, 2, roots, seeds, 3, wrt, &retain, gradients, &error), XCVM_OK);
    CHECK_F32(t, gradients[0], 3 + 10);
    ck_assert_ptr_null(gradients[1].at);
    CHECK_F32(t, gradients[2], 9 + (3 + 10) * 2 * 3);
    ck_assert_ptr_null(xcvm_var_get_gradient(t, x).at);
    ck_assert_ptr_null(xcvm_var_get_gradient(t, y).at);
    value_of(t, b);
    /* With respect to y alone, x is constant, and the ops before y stay. */
    ck_assert_int_eq(xcvm_tape_gradients(t, 1, &a, NULL, 1, &y, NULL, gradients, &error), XCVM_OK);
    CHECK_F32(t, gradients[0], 3);
    backward(t, y);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 6);
    close_tape(t);
}
END_TEST

/* A gradient that equals the seed is a variable of its own. */
START_TEST(a_gradient_is_not_the_seed)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    const xcvm_var x = parameter(t, 3), y = xcvm_Add(t, x, constant(t, 1)), seed = constant(t, 5);
    xcvm_var gradient;
    ck_assert_int_eq(xcvm_tape_gradients(t, 1, &y, &seed, 1, &x, NULL, &gradient, &error), XCVM_OK);
    xcvm_var_release(t, seed);
    CHECK_F32(t, gradient, 5);
    close_tape(t);
}
END_TEST

/* A leaf never keeps the seed, a view of it, or another leaf's tensor. */
START_TEST(gradients_have_elements_of_their_own)
{
    xcvm_tape *t = open_tape();
    const float numbers[2] = {3, 4};
    float fives[2] = {5, 5};
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), numbers);
    const xcvm_var y = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), numbers);
    const xcvm_var seed = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(1, 2), fives);
    const xcvm_var z = xcvm_Reshape(t, xcvm_Add(t, x, y), xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(1, 2)));
    backward_with(t, z, &(xcvm_backward_options){.size = sizeof(xcvm_backward_options), .seed = seed});
    const void *of_x = value_of(t, xcvm_var_get_gradient(t, x))->data,
               *of_y = value_of(t, xcvm_var_get_gradient(t, y))->data;
    ck_assert_ptr_ne(of_x, of_y);
    ck_assert_ptr_ne(of_x, value_of(t, seed)->data);
    ck_assert_ptr_ne(of_y, value_of(t, seed)->data);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 5, 5);
    CHECK_F32(t, xcvm_var_get_gradient(t, y), 5, 5);
    close_tape(t);
}
END_TEST

typedef struct hooked {
    float seen[4];
    int count;
    float factor; /* 0: the gradient stays */
    xcvm_var release;
    bool fail;
} hooked;

static xcvm_var hook(void *user, xcvm_tape *t, xcvm_var gradient)
{
    hooked *h = user;
    h->seen[h->count++] = (float)xcvm_var_get_number(t, gradient);
    if (h->release.at != NULL)
        xcvm_var_release(t, h->release);
    if (h->fail)
        return xcvm_Add(t, gradient, xcvm_tape_constant(t, XCVM_F64, 0, NULL, NULL));
    return h->factor != 0 ? xcvm_Mul(t, gradient, constant(t, h->factor)) : XCVM_ABSENT;
}

/* Hooks receive the complete gradient and may replace it. They may release anything. */
START_TEST(c3_5_hooks)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    const xcvm_var x = parameter(t, 3), y = xcvm_Mul(t, x, x), z = xcvm_Add(t, xcvm_Mul(t, y, y), y);
    hooked of_y = {.factor = 10, .release = y}, of_x = {.factor = 0}, last = {.factor = 0.5f};
    ck_assert_int_eq(xcvm_var_add_hook(t, y, (xcvm_gradient_hook){hook, &of_y}, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_var_add_hook(t, x, (xcvm_gradient_hook){hook, &of_x}, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_var_add_hook(t, x, (xcvm_gradient_hook){hook, &last}, &error), XCVM_OK);
    backward(t, z);
    ck_assert_int_eq(of_y.count, 1);
    ck_assert_float_eq(of_y.seen[0], 2 * 9 + 1);
    ck_assert_int_eq(of_x.count, 1);
    ck_assert_float_eq(of_x.seen[0], 190 * 6);
    ck_assert_float_eq(last.seen[0], 190 * 6);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 190 * 3);
    close_tape(t);
}
END_TEST

/* A failing hook leaves every gradient unchanged, and the tape usable. */
START_TEST(failing_hooks)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    const xcvm_var x = parameter(t, 3), y = xcvm_Mul(t, x, x), z = xcvm_Sin(t, y), w = xcvm_Exp(t, x);
    hooked bad = {.fail = true};
    ck_assert_int_eq(xcvm_var_add_hook(t, y, (xcvm_gradient_hook){hook, &bad}, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_tape_backward(t, z, NULL, &error), XCVM_TYPE_MISMATCH);
    ck_assert_str_eq(error.instruction, "Add");
    ck_assert_ptr_null(xcvm_var_get_gradient(t, x).at);
    backward(t, w);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), expf(3));
    close_tape(t);
}
END_TEST

static xcvm_var hook_back(void *user, xcvm_tape *t, xcvm_var gradient)
{
    (void)gradient;
    xcvm_error error;
    *(xcvm_status *)user = xcvm_tape_backward(t, gradient, NULL, &error);
    return XCVM_ABSENT;
}

static xcvm_var hook_reset(void *user, xcvm_tape *t, xcvm_var gradient)
{
    (void)user;
    (void)gradient;
    xcvm_tape_reset(t);
    return XCVM_ABSENT;
}

START_TEST(hooks_do_not_go_back_or_reset)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    xcvm_status status = XCVM_OK;
    const xcvm_var x = parameter(t, 3);
    ck_assert_int_eq(xcvm_var_add_hook(t, x, (xcvm_gradient_hook){hook_back, &status}, &error), XCVM_OK);
    backward(t, xcvm_Sin(t, x));
    ck_assert_int_eq(status, XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_var_add_hook(t, x, (xcvm_gradient_hook){hook_reset, NULL}, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_tape_backward(t, xcvm_Sin(t, x), NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "xcvm_tape_reset is called while a backward pass runs");
    close_tape(t);
}
END_TEST

/* retain_grad on an op's result. */
START_TEST(c2_3_retained_gradients)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = parameter(t, 3), y = xcvm_var_keep(t, xcvm_Mul(t, x, x));
    xcvm_var_retain_gradient(t, y);
    backward(t, xcvm_Mul(t, y, y));
    CHECK_F32(t, xcvm_var_get_gradient(t, y), 18);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 108);
    close_tape(t);
}
END_TEST

/* An op without a rule on the path is refused before any change, by name and number. A zero gradient ends the
 * path. */
START_TEST(c1_3_without_a_rule)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(1, 3), F32S(1, 2, 3));
    const xcvm_var kept = xcvm_Sin(t, x);
    const xcvm_var y = xcvm_UnblockChannels(
        t, xcvm_BlockChannels(t, xcvm_Reshape(t, kept, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(4), DIMS(1, 3, 1, 1)))),
        .channels = 3);
    ck_assert_int_eq(xcvm_tape_backward(t, xcvm_ReduceSum(t, y), NULL, &error), XCVM_UNSUPPORTED);
    ck_assert_str_eq(error.instruction, "UnblockChannels");
    ck_assert_int_eq(error.pc, 3);
    ck_assert_str_eq(error.message, "UnblockChannels cannot be differentiated");
    ck_assert_ptr_null(xcvm_var_get_gradient(t, x).at);
    ck_assert_uint_eq(stats_of(t).recorded, 5);
    ck_assert(!xcvm_var_requires_gradient(t, xcvm_Floor(t, x)));
    backward(t, xcvm_ReduceSum(t, kept));
    close_tape(t);
}
END_TEST

/* Masks of rules: elements that Where drops have gradient zero despite an infinite slope, also in second order. */
START_TEST(structural_zeros)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), F32S(0, 4));
    const xcvm_var positive = xcvm_Greater(t, x, constant(t, 0));
    backward_with(t, xcvm_ReduceSum(t, xcvm_Where(t, positive, xcvm_Sqrt(t, x), x)), &create);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 1, 0.25f);
    close_tape(t);
}
END_TEST

/* A rule that needs a result that was not requested computes it again. A random op has recorded it. */
START_TEST(results_for_rules_alone)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(4), F32S(3, 1, 2, 5));
    const xcvm_var k = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(2));
    const xcvm_var y = xcvm_TopK(t, x, k);
    backward(t, xcvm_ReduceSum(t, y));
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 1, 0, 0, 1);
    float ones[1000];
    for (int i = 0; i < 1000; i++)
        ones[i] = 1;
    const xcvm_var long_x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(1000), ones);
    const xcvm_var z = xcvm_var_keep(t, xcvm_Dropout(t, long_x, constant(t, 0.5f), xcvm_tape_scalar(t, XCVM_BOOL, 1)));
    backward(t, xcvm_ReduceSum(t, z));
    /* Dropped elements have no gradient, and the others the scale. */
    const float *kept = xcvm_value_data(value_of(t, z)),
                *gradient = xcvm_value_data(value_of(t, xcvm_var_get_gradient(t, long_x)));
    size_t dropped = 0;
    for (int i = 0; i < 1000; i++) {
        ck_assert_float_eq(kept[i], gradient[i]);
        dropped += kept[i] == 0;
    }
    ck_assert_uint_gt(dropped, 400);
    ck_assert_uint_lt(dropped, 600);
    close_tape(t);
}
END_TEST

/* Chains of any length are visited and freed without recursion. */
START_TEST(long_chains)
{
    enum { COUNT = 300000 };
    xcvm_tape *t = open_tape();
    const xcvm_var x = parameter(t, 0), one = constant(t, 1);
    xcvm_var y = x;
    for (int i = 0; i < COUNT; i++) {
        const xcvm_var next = xcvm_Add(t, y, one);
        xcvm_var_release(t, y);
        y = next;
    }
    ck_assert_uint_eq(stats_of(t).recorded, COUNT);
    ck_assert_double_eq(xcvm_var_get_number(t, y), COUNT);
    xcvm_var_release(t, y);
    ck_assert_uint_eq(stats_of(t).recorded, 0);
    y = parameter(t, 0);
    const xcvm_var begin = y;
    for (int i = 0; i < COUNT; i++)
        y = xcvm_Add(t, y, one);
    backward(t, y);
    CHECK_F32(t, xcvm_var_get_gradient(t, begin), 1);
    close_tape(t);
}
END_TEST

/* A result overwrites a variable; views and detached variables see it. */
START_TEST(c3_3_in_place)
{
    xcvm_tape *t = open_tape();
    const xcvm_var w = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2, 2), F32S(1, 2, 3, 4));
    const xcvm_var view = xcvm_var_detach(t, w), two = constant(t, 2);
    xcvm_tape_set_recording(t, false);
    const void *memory = xcvm_value_data(value_of(t, w));
    const xcvm_var same = xcvm_Mul(t, w, two, .into = w);
    ck_assert_ptr_eq(same.at, w.at);
    ck_assert_ptr_eq(xcvm_value_data(value_of(t, w)), memory);
    CHECK_F32(t, view, 2, 4, 6, 8);
    /* A product reads operands after it has written, so it needs other memory. */
    xcvm_MatMul(t, w, w, .into = w);
    CHECK_F32(t, w, 28, 40, 60, 88);
    xcvm_Add(t, view, view, .into = view);
    CHECK_F32(t, w, 56, 80, 120, 176);
    const size_t variables = stats_of(t).variables;
    xcvm_Add(t, w, two, .into = two);
    check_failed(t, XCVM_SHAPE_MISMATCH, "the result is f32[2x2], what it goes into f32[]");
    xcvm_Add(t, w, two, .into = TAPE_FAILED);
    check_failed(t, XCVM_INVALID_ARGUMENT, "the variable to write into is the result of a call that failed");
    ck_assert_uint_eq(stats_of(t).variables, variables);
    xcvm_tape_set_recording(t, true);
    ck_assert(xcvm_var_requires_gradient(t, w));
    /* It is refused for a leaf that requires a gradient, and where one would flow. */
    xcvm_Add(t, w, two, .into = w);
    check_failed(t, XCVM_INVALID_ARGUMENT, "a gradient would have to flow through the overwritten variable");
    xcvm_Add(t, w, two, .into = view);
    check_failed(t, XCVM_INVALID_ARGUMENT, "a gradient would have to flow through the overwritten variable");
    backward(t, xcvm_ReduceSum(t, w));
    xcvm_Neg(t, xcvm_var_get_gradient(t, w), .into = xcvm_var_get_gradient(t, w));
    check_failed(t, XCVM_INVALID_ARGUMENT, "an accumulated gradient may belong to several variables");
    close_tape(t);
}
END_TEST

/* An overwritten value that a gradient needs is an error that names both ops. Other overwritten values are no
 * error. */
START_TEST(c3_3_overwritten_values)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    const xcvm_var x = parameter(t, 3), c = constant(t, 5), one = constant(t, 1);
    const xcvm_var sum = xcvm_Add(t, x, c), product = xcvm_Mul(t, sum, c), shaped = xcvm_var_detach(t, c);
    xcvm_Add(t, shaped, one, .into = shaped); /* call 2 */
    backward_with(t, sum, &retain);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 1);
    ck_assert_int_eq(xcvm_tape_backward(t, product, &retain, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(error.pc, 1);
    ck_assert_str_eq(error.instruction, "Mul");
    ck_assert_ptr_nonnull(
        strstr(error.message, "call 1 (Mul) needs variable 2 for its gradient, which call 2 has overwritten"));
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 1);
    /* A result that its own rule reads; set by the host; and in a rule that differentiates a formula. */
    const xcvm_var y = xcvm_Exp(t, x);
    ck_assert_int_eq(xcvm_var_set_data(t, y, F32S(7), 4, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_tape_backward(t, y, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "(Exp) needs variable"));
    const float numbers[24] = {0};
    const xcvm_var q = xcvm_tape_parameter(t, XCVM_F32, 4, DIMS(1, 1, 3, 4), numbers),
                   k = xcvm_tape_constant(t, XCVM_F32, 4, DIMS(1, 1, 3, 4), numbers);
    const xcvm_var attended = xcvm_ReduceSum(t, xcvm_Attention(t, q, k, k));
    ck_assert_int_eq(xcvm_var_set_data(t, k, numbers, 48, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_tape_backward(t, attended, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.instruction, "Attention");
    /* Returned gradients are variables of their own, which may be overwritten. */
    const xcvm_var a = parameter(t, 1), b = parameter(t, 2), wrt[] = {a, b}, z = xcvm_Add(t, a, b), none = XCVM_ABSENT;
    xcvm_var gradients[2];
    ck_assert_int_eq(xcvm_tape_gradients(t, 1, &z, &none, 2, wrt, NULL, gradients, &error), XCVM_OK);
    xcvm_Neg(t, gradients[0], .into = gradients[0]);
    CHECK_F32(t, gradients[0], -1);
    CHECK_F32(t, gradients[1], 1);
    close_tape(t);
}
END_TEST

/* Repeated training steps take no more memory than the first few. */
START_TEST(iterations_do_not_grow)
{
    enum { COUNT = 100000, WARM = 100 };
    xcvm_tape *t = open_tape();
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2, 3), F32S(1, 2, 3, 4, 5, 6));
    const xcvm_var w = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(3, 2), F32S(1, 2, 3, 4, 5, 6));
    size_t bytes = 0;
    for (int i = 0; i < COUNT; i++) {
        const xcvm_var y = xcvm_ReduceMean(t, xcvm_Softmax(t, xcvm_MatMul(t, x, w)));
        xcvm_var_clear_gradient(t, w);
        backward(t, y);
        xcvm_tape_reset(t);
        if (i == WARM)
            bytes = stats_of(t).total_bytes;
    }
    ck_assert_uint_eq(stats_of(t).total_bytes, bytes);
    ck_assert_uint_eq(stats_of(t).variables, 4);
    close_tape(t);
}
END_TEST

/* Each failed allocation is an error that leaves nothing behind, and the tape is usable. */
static xcvm_status one_step(xcvm_tape *t, xcvm_error *error)
{
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2, 3), F32S(1, 2, 3, 4, 5, 6));
    const xcvm_var w = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(3, 2), F32S(1, 2, 3, 4, 5, 6));
    const xcvm_var h = xcvm_Relu(t, xcvm_MatMul(t, x, w));
    const xcvm_var y = xcvm_ReduceSum(t, xcvm_Mul(t, xcvm_Softmax(t, h), h));
    const xcvm_status status = xcvm_tape_backward(t, y, &create, error);
    xcvm_var_release(t, x);
    xcvm_var_release(t, w);
    xcvm_tape_reset(t);
    return status;
}

START_TEST(out_of_memory_anywhere) { starve(&(starvation){.work = one_step, .least = 10}); }
END_TEST

Suite *suite_tape_backward(void);
Suite *suite_tape_backward(void)
{
    return SUITE_OF("tape_backward", c3_2_non_scalar_with_a_seed, c2_3_gradients_add_up_until_cleared,
                    shared_gradients_are_apart, c3_4_second_backward, c3_4_buffers_are_freed, c3_5_no_grad_and_detach,
                    c3_4_only_what_is_on_the_way, c2_4_gradients_of_gradients, c2_4_gradients_by_any_variable,
                    a_gradient_is_not_the_seed, gradients_have_elements_of_their_own, c3_5_hooks, failing_hooks,
                    hooks_do_not_go_back_or_reset, c2_3_retained_gradients, c1_3_without_a_rule, structural_zeros,
                    results_for_rules_alone, long_chains, c3_3_in_place, c3_3_overwritten_values,
                    iterations_do_not_grow, out_of_memory_anywhere);
}
