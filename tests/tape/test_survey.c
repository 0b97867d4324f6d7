/* Features of other define-by-run systems that no other suite covers: of Autograd, Chainer, PyTorch, DyNet, Paddle
 * and static_graph. Test names have the numbers of the survey. */
#include "tests/tape/static_support.h"
#include "xcvm/functions.h"
#include "xcvm/layers.h"

/* The first gradient of a value is used as it is, the second makes a sum, and others are added in place. Memory does
 * not grow with the number of uses. */
START_TEST(c1_4_sums_in_place)
{
    enum { ELEMENTS = 10000, USES = 40 };
    const xcvm_tape_options options = {
        .size = sizeof options, .threads = 1, .memory_limit = 10 * ELEMENTS * sizeof(float)};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(ELEMENTS), NULL);
    xcvm_var total = xcvm_tape_scalar(t, XCVM_F32, 0);
    for (int i = 0; i < USES; i++) {
        const xcvm_scope scope = xcvm_tape_scope_begin(t);
        /* Sums keep no operands; products with a scalar keep only that and x. */
        total = xcvm_Add(t, total, xcvm_ReduceSum(t, xcvm_Mul(t, x, xcvm_tape_scalar(t, XCVM_F32, i))));
        xcvm_tape_scope_end(t, scope, 1, &total);
    }
    backward(t, total);
    const float *gradient = value_of(t, xcvm_var_get_gradient(t, x))->data;
    for (int i = 0; i < ELEMENTS; i++)
        ck_assert_float_eq(gradient[i], USES * (USES - 1) / 2);
    close_tape(t);
}
END_TEST

/* Gradients have the kind of their variables: numbers, tensors of any rank and float type, and lists. */
START_TEST(c1_5_kinds_of_values)
{
    xcvm_tape *t = open_tape();
    const xcvm_dtype floats[] = {XCVM_F64, XCVM_F32, XCVM_F16, XCVM_BF16};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        const xcvm_var x = xcvm_tape_parameter(t, floats[i], 3, DIMS(2, 1, 3), NULL);
        backward(t, xcvm_ReduceSum(t, xcvm_Exp(t, x)));
        const xcvm_value *gradient = value_of(t, xcvm_var_get_gradient(t, x));
        ck_assert_int_eq(xcvm_value_dtype(gradient), floats[i]);
        ck_assert_int_eq(gradient->rank, 3);
        const xcvm_var one = xcvm_Cast(t, xcvm_var_get_gradient(t, x), .to = XCVM_F32);
        CHECK_F32(t, one, 1, 1, 1, 1, 1, 1);
    }
    const xcvm_var a = parameter(t, 2), b = parameter(t, 3);
    const xcvm_var list = xcvm_var_keep(t, xcvm_SequenceConstruct(t, XCVM_VARS(a, b, a)));
    xcvm_var_retain_gradient(t, list);
    const xcvm_var first = xcvm_SequenceAt(t, list, xcvm_tape_scalar(t, XCVM_I64, 0));
    const xcvm_var last = xcvm_SequenceAt(t, list, xcvm_tape_scalar(t, XCVM_I64, 2));
    backward(t, xcvm_Mul(t, first, last));
    CHECK_F32(t, xcvm_var_get_gradient(t, a), 4);
    const xcvm_value *gradient = value_of(t, xcvm_var_get_gradient(t, list));
    ck_assert_int_eq(gradient->kind, XCVM_KIND_SEQUENCE);
    close_tape(t);
}
END_TEST

/* An op keeps only the operands and results that its rule reads. Others are freed as soon as no handle names
 * them. */
START_TEST(c2_2_what_is_retained)
{
    enum { BYTES = 4000 };
    xcvm_tape *t = open_tape();
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(1000), NULL);
    const size_t before = stats_of(t).live_bytes;
    /* Exp reads its result, Sin its operand, Add neither. */
    const xcvm_var e = xcvm_Exp(t, x), s = xcvm_Sin(t, e), sum = xcvm_Add(t, s, s);
    const size_t all = stats_of(t).live_bytes;
    ck_assert_uint_ge(all - before, 3 * BYTES);
    xcvm_var_release(t, s);
    ck_assert_uint_le(stats_of(t).live_bytes, all - BYTES);
    xcvm_var_release(t, e);
    ck_assert_uint_ge(stats_of(t).live_bytes, before + 2 * BYTES);
    backward(t, xcvm_ReduceSum(t, sum));
    const float *gradient = value_of(t, xcvm_var_get_gradient(t, x))->data;
    for (int i = 0; i < 1000; i++)
        ck_assert_float_eq_tol(gradient[i], 2 * cosf(1), 1e-6f);
    close_tape(t);
}
END_TEST

/* A variable has the number of its op, which orders ops like ranks. */
START_TEST(c3_1_creators)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(4), F32S(3, 1, 2, 5));
    const xcvm_var k = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(2));
    xcvm_var values, indices;
    xcvm_TopK(t, xcvm_Neg(t, x), k, .out = {&values, &indices});
    xcvm_creator_info creator = {.size = sizeof creator};
    ck_assert(!xcvm_var_get_creator(t, x, &creator));
    ck_assert(!xcvm_var_get_creator(t, k, &creator));
    ck_assert(xcvm_var_get_creator(t, indices, &creator));
    ck_assert_str_eq(creator.name, "TopK");
    ck_assert_uint_eq(creator.number, 1);
    ck_assert_uint_eq(creator.result, 1);
    ck_assert_uint_eq(creator.operand_count, 2);
    ck_assert_uint_eq(creator.result_count, 2);
    ck_assert(!creator.backward);
    xcvm_var_unchain(t, values);
    ck_assert(!xcvm_var_get_creator(t, values, &creator));
    xcvm_tape_set_recording(t, false);
    ck_assert(!xcvm_var_get_creator(t, xcvm_Exp(t, x), &creator));
    xcvm_tape_set_recording(t, true);
    const xcvm_var stale = xcvm_Exp(t, x);
    xcvm_tape_reset(t);
    ck_assert(!xcvm_var_get_creator(t, stale, &creator));
    check_failed(t, XCVM_INVALID_ARGUMENT, "the variable whose creator is asked for");
    close_tape(t);
}
END_TEST

/* Views share elements and versions without running a kernel. */
START_TEST(c3_6_views_share_versions)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2, 2), F32S(1, 2, 3, 4));
    const xcvm_var c = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(2, 2), F32S(5, 6, 7, 8));
    const xcvm_var flat = xcvm_Reshape(t, c, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(4)));
    ck_assert_ptr_eq(value_of(t, flat)->data, value_of(t, c)->data);
    const xcvm_var product = xcvm_ReduceSum(t, xcvm_Mul(t, x, c));
    /* The view changes c. */
    xcvm_Neg(t, flat, .into = flat);
    CHECK_F32(t, c, -5, -6, -7, -8);
    ck_assert_int_eq(xcvm_tape_backward(t, product, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "has overwritten"));
    close_tape(t);
}
END_TEST

/* A value that is used twice has the sum of both gradients. The root of a pass is checked. Gradients end with the
 * recording, except those of parameters. */
START_TEST(c5_2_sums_and_targets)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    const xcvm_var x = parameter(t, 3), twice = xcvm_var_keep(t, xcvm_Mul(t, x, x)), sum = xcvm_Add(t, twice, twice);
    xcvm_var_retain_gradient(t, twice);
    backward(t, sum);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 12);
    const xcvm_var gradient = xcvm_var_get_gradient(t, twice);
    CHECK_F32(t, gradient, 2);
    xcvm_var_release(t, twice);
    xcvm_tape_reset(t);
    const xcvm_value *value;
    ck_assert_int_eq(xcvm_var_get_value(t, gradient, &value, &error), XCVM_INVALID_ARGUMENT);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 12);
    ck_assert_int_eq(xcvm_tape_backward(t, constant(t, 1), NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_tape_backward(t, XCVM_ABSENT, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_tape_backward(t, xcvm_Cast(t, x, .to = XCVM_I64), NULL, &error), XCVM_TYPE_MISMATCH);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 12);
    close_tape(t);
}
END_TEST

/* Initialization and updates are not recorded: only the network is, in each iteration. */
START_TEST(c5_4_iterations_are_reset)
{
    xcvm_tape *t = open_tape();
    xcvm_tape_set_recording(t, false);
    const xcvm_var w = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(3), NULL);
    const xcvm_var filled = xcvm_Expand(t, xcvm_tape_scalar(t, XCVM_F32, 0.5), xcvm_Shape(t, w));
    xcvm_Identity(t, filled, .into = w);
    xcvm_var_release(t, filled);
    xcvm_tape_set_recording(t, true);
    ck_assert_uint_eq(stats_of(t).recorded, 0);
    for (int i = 0; i < 3; i++) {
        const xcvm_var loss = xcvm_ReduceSum(t, xcvm_Mul(t, w, w));
        ck_assert_uint_eq(stats_of(t).recorded, 2);
        backward(t, loss);
        ck_assert_uint_eq(stats_of(t).recorded, 0);
        xcvm_tape_set_recording(t, false);
        xcvm_Sub(t, w, xcvm_Mul(t, xcvm_var_get_gradient(t, w), xcvm_tape_scalar(t, XCVM_F32, 0.25)), .into = w);
        xcvm_tape_set_recording(t, true);
        xcvm_var_clear_gradient(t, w);
        xcvm_tape_reset(t);
        ck_assert_uint_eq(stats_of(t).variables, 1);
    }
    CHECK_F32(t, w, 0.0625f, 0.0625f, 0.0625f);
    close_tape(t);
}
END_TEST

/* Several graphs coexist, and one is differentiated without the others. */
START_TEST(d6_several_graphs)
{
    xcvm_tape *t = open_tape(), *other = open_tape();
    const xcvm_var x = parameter(t, 2), y = parameter(other, 3);
    const xcvm_var a = xcvm_Mul(t, x, x), b = xcvm_Exp(t, x), c = xcvm_Mul(other, y, y);
    backward(t, a);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 4);
    backward(other, c);
    CHECK_F32(other, xcvm_var_get_gradient(other, y), 6);
    xcvm_var_clear_gradient(t, x);
    backward(t, b);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 7.389056f);
    close_tape(other);
    close_tape(t);
}
END_TEST

/* ---- DyNet ---- */

/* DyNet's example: W * concatenate([E[a], E[b]]) + b, softmax, pickneglogsoftmax, value, backward, with numbers from
 * the formulas. affine_transform takes a batch, and broadcasts the bias. */
START_TEST(c4_11_sample_and_affine_transforms)
{
    xcvm_tape *t = open_tape();
    const xcvm_var e = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(3, 2), F32S(1, 2, 3, 4, 5, 6)),
                   w = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2, 4), F32S(0.1f, 0.2f, 0.3f, 0.4f, -0.1f, 0, 0.1f, 0)),
                   b = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2, 1), F32S(0.5f, 1));
    ck_assert_int_eq(xcvm_var_set_sparse_gradient(t, e, true, NULL), XCVM_OK);
    const xcvm_var first = xcvm_Gather(t, e, xcvm_tape_constant(t, XCVM_I64, 0, NULL, DIMS(2))),
                   second = xcvm_Gather(t, e, xcvm_tape_constant(t, XCVM_I64, 0, NULL, DIMS(0)));
    const xcvm_var x = xcvm_Unsqueeze(t, xcvm_Concat(t, XCVM_VARS(first, second), .axis = 0),
                                      xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(1)));
    const xcvm_var affine = xcvm_tape_affine_transform(t, 3, (const xcvm_var[]){b, w, x});
    const xcvm_var scores = xcvm_Squeeze(t, affine, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(1)));
    /* (0.5 + 1.2 + 0.3 + 0.8 + 0.5, -0.5 + 0.1 + 1) */
    CHECK_F32(t, scores, 3.3f, 0.6f);
    const double p = 1 / (1 + exp(0.6 - 3.3));
    CHECK_F32(t, xcvm_Softmax(t, scores), (float)p, (float)(1 - p));
    const xcvm_var loss = xcvm_tape_pick_neg_log_softmax(t, scores, xcvm_tape_constant(t, XCVM_I64, 0, NULL, DIMS(1)));
    ck_assert_double_eq_tol(xcvm_var_get_number(t, loss), -log(1 - p), 1e-6);
    backward(t, loss);
    const float q = (float)p;
    CHECK_F32(t, xcvm_var_get_gradient(t, b), q, -q);
    CHECK_F32(t, xcvm_var_get_gradient(t, w), 5 * q, 6 * q, q, 2 * q, -5 * q, -6 * q, -q, -2 * q);
    xcvm_var rows, gradients;
    ck_assert_int_eq(xcvm_var_get_gradient_rows(t, e, &rows, &gradients, NULL), XCVM_OK);
    CHECK_F32(t, gradients, 0.2f * q, 0.4f * q, 0.2f * q, 0.2f * q);
    /* A batch of columns, and one for each of a batch. */
    const xcvm_var columns = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(4, 2), F32S(5, 0, 6, 0, 1, 0, 2, 0));
    CHECK_F32(t, xcvm_tape_affine_transform(t, 3, (const xcvm_var[]){b, w, columns}), 3.3f, 0.5f, 0.6f, 1);
    const xcvm_var batch_of = xcvm_tape_constant(t, XCVM_F32, 3, DIMS(2, 4, 1), F32S(5, 6, 1, 2, 0, 0, 0, 0));
    const xcvm_var both = xcvm_tape_affine_transform(t, 3, (const xcvm_var[]){b, w, batch_of});
    CHECK_F32(t, both, 3.3f, 0.6f, 0.5f, 1);
    xcvm_var_clear_gradient(t, b);
    backward(t, xcvm_ReduceSum(t, both, .keepdims = 0));
    CHECK_F32(t, xcvm_var_get_gradient(t, b), 2, 2);
    close_tape(t);
}
END_TEST

/* ---- Paddle ---- */

/* Types are inferred at the call, before the kernel runs. A second pass is refused. Ops are a list in call order
 * without sorting, and an unreferenced part is freed at once. */
START_TEST(c5_7_lists_and_dead_parts)
{
    xcvm_tape *t = open_lazy_tape(XCVM_BATCHING_NONE), *eager = open_tape();
    xcvm_error error;
    const xcvm_var w = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2, 3), NULL),
                   x34 = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(3, 4), NULL);
    const size_t live = stats_of(t).live_bytes;
    const xcvm_var y = xcvm_MatMul(t, w, x34);
    ck_assert_uint_eq(stats_of(t).live_bytes, live); /* which has not run */
    xcvm_MatMul(t, y, w);
    check_failed(t, XCVM_SHAPE_MISMATCH, "");
    const xcvm_var loss = xcvm_ReduceSum(t, y);
    backward(t, loss);
    ck_assert_int_eq(xcvm_tape_backward(t, loss, NULL, &error), XCVM_INVALID_ARGUMENT);
    close_tape(t);
    const xcvm_var x = parameter(eager, 2);
    xcvm_creator_info creator = {.size = sizeof creator};
    xcvm_var calls[4];
    for (int i = 0; i < 4; i++) {
        calls[i] = i % 2 == 0 ? xcvm_Exp(eager, x) : xcvm_Sin(eager, calls[i - 1]);
        ck_assert(xcvm_var_get_creator(eager, calls[i], &creator));
        ck_assert_uint_eq(creator.number, (uint64_t)i);
    }
    ck_assert_uint_eq(stats_of(eager).recorded, 4);
    xcvm_var_release(eager, calls[0]);
    ck_assert_uint_eq(stats_of(eager).recorded, 4); /* calls[1] needs it */
    xcvm_var_release(eager, calls[1]);
    ck_assert_uint_eq(stats_of(eager).recorded, 2);
    backward(eager, calls[3]);
    CHECK_F32(eager, xcvm_var_get_gradient(eager, x), cosf(expf(2)) * expf(2));
    close_tape(eager);
}
END_TEST

/* ---- static_graph ---- */

typedef struct mixed {
    xcvm_var w, seen;
    xcvm_operation operation;
    int runs, called;
} mixed;

static xcvm_status count_forward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 xcvm_var *out)
{
    mixed *m = user;
    (void)in_count;
    (void)out_count;
    m->called++;
    out[0] = xcvm_Mul(t, in[0], in[0]);
    return XCVM_OK;
}

static xcvm_status count_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                  const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    (void)user;
    (void)in_count;
    (void)out_count;
    (void)out;
    in_gradients[0] = xcvm_Mul(t, out_gradients[0], xcvm_Mul(t, in[0], constant(t, 2)));
    return XCVM_OK;
}

static xcvm_status run_mixed(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                             xcvm_var *out)
{
    mixed *m = user;
    (void)in_count;
    m->runs++;
    xcvm_var y, values, indices;
    xcvm_tape_call_operation(t, &m->operation, 1, (const xcvm_var[]){xcvm_Mul(t, in[0], m->w)}, 1, &y);
    xcvm_TopK(t, y, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(2)), .out = {&values, &indices});
    const bool recording = xcvm_tape_set_recording(t, false);
    xcvm_ReduceSum(t, values, .keepdims = 0, .into = m->seen);
    xcvm_tape_set_recording(t, recording);
    if (out_count > 0)
        out[0] = xcvm_ReduceSum(t, values, .keepdims = 0);
    return XCVM_OK;
}

/* Every op can be in a schedule without preparation: instructions, in-place ops, host operations. A static function
 * may return nothing, and leave its values. */
START_TEST(a11_8_any_call_is_recorded)
{
    for (size_t outs = 0; outs < 2; outs++) {
        xcvm_tape *t = open_tape();
        mixed m = {.w = parameter(t, 2), .seen = xcvm_var_keep(t, constant(t, 0))};
        m.operation = (xcvm_operation){.size = sizeof m.operation,
                                       .name = "square",
                                       .forward = count_forward,
                                       .backward = count_backward,
                                       .user = &m};
        messages log = {.count = 0};
        const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &log}};
        xcvm_static *s = make_static(t, (xcvm_static_function){run_mixed, &m}, &options);
        for (int i = 0; i < 4; i++) {
            const float a = (float)i + 1;
            const xcvm_var x = xcvm_tape_constant(t, XCVM_F32, 1, DIMS(3), F32S(a, -2 * a, 0));
            xcvm_var y = XCVM_ABSENT;
            xcvm_static_call(s, 1, &x, outs, &y);
            CHECK_F32(t, m.seen, 4 * 5 * a * a);
            if (outs > 0) {
                backward(t, y);
                CHECK_F32(t, xcvm_var_get_gradient(t, m.w), 4 * 5 * a * a); /* 2 w (a^2 + 4 a^2) */
                xcvm_var_clear_gradient(t, m.w);
            }
            xcvm_tape_reset(t);
        }
        ck_assert_msg(m.runs == 1 && log.warnings == 0, "%d %s", m.runs, log.text);
        ck_assert_int_eq(m.called, 4);
        xcvm_static_destroy(s);
        close_tape(t);
    }
}
END_TEST

static xcvm_status run_chain_of_elements(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in,
                                         size_t out_count, xcvm_var *out)
{
    (void)user;
    (void)in_count;
    (void)out_count;
    xcvm_var x = in[0];
    for (int i = 0; i < 12; i++)
        x = xcvm_Tanh(t, xcvm_Add(t, xcvm_Mul(t, x, in[0]), x));
    out[0] = x;
    return XCVM_OK;
}

/* A schedule is compiled: a chain of 36 element-wise ops runs in the memory of fewer than three results. */
START_TEST(d5_fusion_and_memory)
{
    enum { ELEMENTS = 65536 };
    xcvm_tape *t = open_tape();
    const xcvm_static_options options = {.size = sizeof options};
    xcvm_static *s = make_static(t, (xcvm_static_function){run_chain_of_elements, NULL}, &options);
    float *numbers = calloc(ELEMENTS, sizeof *numbers);
    for (int i = 0; i < ELEMENTS; i++)
        numbers[i] = (float)(i % 97) / 97;
    const xcvm_var x = xcvm_var_keep(t, xcvm_tape_constant(t, XCVM_F32, 1, DIMS(ELEMENTS), numbers));
    const xcvm_var recorded = xcvm_var_keep(t, call1(s, x)), replayed = call1(s, x);
    check_bytes(t, replayed, t, recorded, 1e-5);
    ck_assert_uint_eq(figures(s).replayed, 1);
    ck_assert_uint_lt(figures(s).memory_bytes, 3 * ELEMENTS * sizeof(float));
    free(numbers);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

Suite *suite_tape_survey(void)
{
    return SUITE_OF("tape_survey", c1_4_sums_in_place, c1_5_kinds_of_values, c2_2_what_is_retained, c3_1_creators,
                    c3_6_views_share_versions, c5_2_sums_and_targets, c5_4_iterations_are_reset, d6_several_graphs,
                    c4_11_sample_and_affine_transforms, c5_7_lists_and_dead_parts, a11_8_any_call_is_recorded,
                    d5_fusion_and_memory);
}
