/* Tests of observers, NaN checks, drawings and unchaining. */
#include "tests/tape/support.h"

#include <stdio.h>

typedef struct followed {
    char text[1000];
    size_t done;
    uint64_t ns;
} followed;

static void follow(void *user, const xcvm_call_event *event)
{
    followed *f = user;
    char line[80];
    if (!event->done) {
        snprintf(line, sizeof line, "%s%s ", event->backward ? "*" : "", event->name);
        strncat(f->text, line, sizeof f->text - strlen(f->text) - 1);
        return;
    }
    f->done++;
    f->ns += event->ns;
    ck_assert_uint_gt(event->live_bytes, 0);
}

/* Observers for timers, memory profiles and debug output see the ops of the backward pass too. */
START_TEST(c2_5_observers)
{
    xcvm_tape *t = open_tape();
    followed f = {.text = ""};
    xcvm_tape_set_observer(t, &(xcvm_tape_observer){follow, &f});
    const xcvm_var x = parameter(t, 2);
    backward(t, xcvm_Sin(t, xcvm_Exp(t, x)));
    ck_assert_str_eq(f.text, "Exp Sin *Cos *Mul *Mul ");
    ck_assert_uint_eq(f.done, 5);
    xcvm_MatMul(t, x, x);
    check_failed(t, XCVM_SHAPE_MISMATCH, "");
    ck_assert_uint_eq(f.done, 5);
    xcvm_tape_set_observer(t, NULL);
    xcvm_Neg(t, x);
    ck_assert_uint_eq(f.done, 5);
    close_tape(t);
}
END_TEST

/* The op that produces NaN is named, in forward and backward. */
START_TEST(c2_1_nan_is_found)
{
    const xcvm_tape_options options = {.size = sizeof options, .threads = 1, .check_nan = true};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), F32S(4, -1));
    xcvm_ReduceSum(t, xcvm_Sqrt(t, x));
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_OUT_OF_RANGE);
    ck_assert_str_eq(error.instruction, "Sqrt");
    ck_assert_str_eq(error.message, "the result has NaN, which no operand has");
    /* NaN in operands passes through. */
    value_of(t, xcvm_Neg(t, constant(t, NAN)));
    /* 0 * infinity */
    const xcvm_var zero = xcvm_tape_parameter(t, XCVM_F32, 0, NULL, NULL);
    const xcvm_var root = xcvm_Mul(t, xcvm_Sqrt(t, zero), constant(t, 0));
    ck_assert_int_eq(xcvm_tape_backward(t, root, NULL, &error), XCVM_OUT_OF_RANGE);
    ck_assert_str_eq(error.instruction, "Sqrt");
    close_tape(t);
}
END_TEST

/* A drawing of the recorded ops, forward and backward. */
START_TEST(c5_6_drawings)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    test_bytes bytes = {NULL, 0, 0};
    const xcvm_backward_options create = {.size = sizeof create, .create_graph = true};
    const xcvm_var x = parameter(t, 2), two = constant(t, 2), y = xcvm_Exp(t, xcvm_Mul(t, x, two));
    ck_assert_int_eq(xcvm_tape_draw(t, (xcvm_sink){test_bytes_sink, &bytes}, &error), XCVM_OK);
    ck_assert(test_bytes_sink(&bytes, "", 1));
    ck_assert_str_eq(bytes.at, "digraph tape {\n"
                               "  node [shape=ellipse];\n"
                               "  c0 [label=\"Mul\", shape=box];\n"
                               "  v1 [label=\"f32[]\", style=filled];\n"
                               "  v1 -> c0;\n"
                               "  v2 [label=\"f32[]\"];\n"
                               "  v2 -> c0;\n"
                               "  v3 [label=\"f32[]\"];\n"
                               "  c0 -> v3;\n"
                               "  c1 [label=\"Exp\", shape=box];\n"
                               "  v3 -> c1;\n"
                               "  v4 [label=\"f32[]\"];\n"
                               "  c1 -> v4;\n"
                               "}\n");
    backward_with(t, y, &create);
    bytes.length = 0;
    ck_assert_int_eq(xcvm_tape_draw(t, (xcvm_sink){test_bytes_sink, &bytes}, &error), XCVM_OK);
    ck_assert(test_bytes_sink(&bytes, "", 1));
    ck_assert_ptr_nonnull(strstr(bytes.at, "[label=\"Mul\", shape=box, style=dashed]"));
    ck_assert_int_eq(xcvm_tape_draw(t, (xcvm_sink){test_full_sink, NULL}, &error), XCVM_IO);
    ck_assert_int_eq(xcvm_tape_draw(t, (xcvm_sink){0}, &error), XCVM_INVALID_ARGUMENT);
    test_bytes_free(&bytes);
    close_tape(t);
}
END_TEST

/* An unchained variable is constant, and its op is gone. */
START_TEST(c2_3_unchain)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = parameter(t, 2), y = xcvm_Mul(t, x, xcvm_Exp(t, x));
    const xcvm_var sine = xcvm_Sin(t, y);
    ck_assert_uint_eq(stats_of(t).recorded, 3);
    xcvm_var_unchain(t, y);
    ck_assert(!xcvm_var_requires_gradient(t, y));
    /* The exponential still has a name. */
    ck_assert_uint_eq(stats_of(t).recorded, 2);
    backward(t, xcvm_Mul(t, y, x));
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 2 * expf(2));
    value_of(t, sine);
    xcvm_var_unchain(t, x);
    ck_assert(!xcvm_var_requires_gradient(t, x));
    /* One of several results can be unchained and released, though the rule reads it or its shape. */
    const xcvm_var v = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(4), F32S(3, 1, 2, 5));
    xcvm_var pieces[2], values, indices;
    xcvm_Split(t, v, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(1, 3)), .out = {{pieces, 2}});
    xcvm_TopK(t, v, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(2)), .out = {&values, &indices});
    const size_t recorded = stats_of(t).recorded;
    xcvm_var_unchain(t, pieces[0]);
    xcvm_var_unchain(t, indices);
    xcvm_var_release(t, pieces[0]);
    xcvm_var_release(t, indices);
    ck_assert_uint_eq(stats_of(t).recorded, recorded);
    for (int i = 0; i < 8; i++) /* take the free slots */
        xcvm_tape_constant(t, XCVM_F64, 3, DIMS(1, 1, 1), NULL);
    backward(t, xcvm_Add(t, xcvm_ReduceSum(t, pieces[1]), xcvm_ReduceSum(t, values)));
    CHECK_F32(t, xcvm_var_get_gradient(t, v), 1, 1, 1, 2);
    close_tape(t);
}
END_TEST

/* Memory of parameters, values and gradients is distinguished, shared memory counts once, and a reset frees
 * values. */
START_TEST(c4_6_memory_by_purpose)
{
    enum { COUNT = 4096, BYTES = COUNT * sizeof(float) };
    xcvm_tape *t = open_tape();
    xcvm_error error;
    xcvm_tape_memory_info memory = {.size = sizeof memory};
    ck_assert_int_eq(xcvm_tape_get_memory_info(t, &memory, &error), XCVM_OK);
    ck_assert_uint_eq(memory.values + memory.gradients + memory.parameters, 0);
    const xcvm_var w = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(COUNT), NULL), y = xcvm_Exp(t, w);
    const xcvm_var loss =
        xcvm_ReduceSum(t, xcvm_Reshape(t, y, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(64, 64))));
    ck_assert_int_eq(xcvm_tape_get_memory_info(t, &memory, &error), XCVM_OK);
    ck_assert_uint_ge(memory.parameters, BYTES);
    ck_assert_uint_lt(memory.parameters, 2 * BYTES);
    ck_assert_uint_ge(memory.values, BYTES);
    ck_assert_uint_lt(memory.values, 2 * BYTES);
    ck_assert_uint_eq(memory.gradients, 0);
    ck_assert_uint_gt(memory.records, 0);
    backward(t, loss);
    xcvm_tape_reset(t);
    ck_assert_int_eq(xcvm_tape_get_memory_info(t, &memory, &error), XCVM_OK);
    ck_assert_uint_ge(memory.gradients, BYTES);
    ck_assert_uint_lt(memory.gradients, 2 * BYTES);
    ck_assert_uint_lt(memory.parameters, 2 * BYTES);
    ck_assert_uint_eq(memory.values, 0);
    xcvm_var_clear_gradient(t, w);
    ck_assert_int_eq(xcvm_tape_get_memory_info(t, &memory, &error), XCVM_OK);
    ck_assert_uint_eq(memory.gradients, 0);
    memory.size = 0;
    ck_assert_int_eq(xcvm_tape_get_memory_info(t, &memory, &error), XCVM_INVALID_ARGUMENT);
    close_tape(t);
}
END_TEST

/* The op that needs more memory exceeds the limit, whoever requested its value. */
START_TEST(c4_6_limits_name_the_call)
{
    const xcvm_tape_options options = {
        .size = sizeof options, .threads = 1, .mode = XCVM_TAPE_LAZY, .memory_limit = 1 << 20};
    xcvm_tape *t;
    xcvm_error error;
    const xcvm_value *value;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(1 << 17), NULL);
    const xcvm_var y = xcvm_ReduceSum(t, xcvm_Tanh(t, xcvm_Exp(t, x)));
    ck_assert_int_eq(xcvm_var_get_value(t, y, &value, &error), XCVM_OUT_OF_MEMORY);
    ck_assert_str_eq(error.instruction, "Exp");
    ck_assert_int_eq(error.pc, 0);
    CHECK_F32(t, xcvm_ReduceMax(t, x), 0);
    close_tape(t);
}
END_TEST

Suite *suite_tape_observe(void);
Suite *suite_tape_observe(void)
{
    return SUITE_OF("tape_observe", c2_5_observers, c2_1_nan_is_found, c5_6_drawings, c2_3_unchain,
                    c4_6_memory_by_purpose, c4_6_limits_name_the_call);
}
