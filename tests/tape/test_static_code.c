/* Tests of static functions with host code, of functions that are not static, and of failures. */
#include "tests/tape/static_support.h"

#include <pthread.h>

/* ---- Host code ---- */

typedef struct counter {
    int forward, backward, bare;
    char order[64];
    xcvm_operation first, second;
} counter;

static xcvm_status count_and_double(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                    xcvm_var *out)
{
    counter *c = user;
    ck_assert(in_count == 1 && out_count == 2);
    c->forward++;
    strcat(c->order, "a");
    out[0] = xcvm_Add(t, in[0], in[0]);
    out[1] = constant(t, (float)c->forward);
    return XCVM_OK;
}

static xcvm_status gradient_of_double(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                      const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    counter *c = user;
    (void)in_count;
    (void)in;
    (void)out_count;
    (void)out;
    c->backward++;
    in_gradients[0] = xcvm_Mul(t, out_gradients[0], constant(t, 2));
    return XCVM_OK;
}

static xcvm_status only_count(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                              xcvm_var *out)
{
    counter *c = user;
    (void)t;
    (void)in;
    (void)out;
    ck_assert(in_count == 0 && out_count == 0);
    strcat(c->order, "b");
    return XCVM_OK;
}

static xcvm_status with_code(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                             xcvm_var *out)
{
    counter *c = user;
    xcvm_var both[2];
    (void)in_count;
    (void)out_count;
    c->bare++;
    xcvm_tape_call_operation(t, &c->second, 0, NULL, 0, NULL);
    xcvm_tape_call_operation(t, &c->first, 1, in, 2, both);
    xcvm_tape_call_operation(t, &c->second, 0, NULL, 0, NULL);
    out[0] = xcvm_Mul(t, xcvm_Mul(t, both[0], in[0]), both[1]);
    return XCVM_OK;
}

/* Host operations run in each call, in order, with changing results. Other code runs at the recording only. */
START_TEST(a11_7_static_code)
{
    xcvm_tape *t = open_tape();
    counter c = {.first = {sizeof c.first, "double", count_and_double, gradient_of_double, &c},
                 .second = {sizeof c.second, "count", only_count, NULL, &c}};
    xcvm_static *s = make_static(t, (xcvm_static_function){with_code, &c}, NULL);
    for (int i = 1; i < 5; i++) {
        const xcvm_var x = parameter(t, 3), y = call1(s, x);
        CHECK_F32(t, y, 18 * (float)i);
        backward(t, y);
        CHECK_F32(t, xcvm_var_get_gradient(t, x), 12 * (float)i);
        ck_assert_int_eq(c.forward, i);
        ck_assert_int_eq(c.backward, i);
    }
    ck_assert_int_eq(c.bare, 1);
    ck_assert_str_eq(c.order, "babbabbabbab");
    ck_assert_uint_eq(figures(s).replayed, 3);
    xcvm_static_destroy(s);
    /* Outside of a static function it is an op like others. */
    xcvm_tape_call_operation(t, &c.second, 0, NULL, 0, NULL);
    ck_assert_str_eq(c.order, "babbabbabbabb");
    close_tape(t);
}
END_TEST

static xcvm_status failing_third_time(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                      xcvm_var *out)
{
    (void)in_count;
    (void)out_count;
    if (++*(int *)user == 3)
        return XCVM_IO;
    out[0] = xcvm_Neg(t, in[0]);
    return XCVM_OK;
}

typedef struct one_operation {
    xcvm_operation operation;
    xcvm_var w;
} one_operation;

static xcvm_status with_failing(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                xcvm_var *out)
{
    const one_operation *o = user;
    (void)out_count;
    xcvm_Add(t, o->w, constant(t, 1), .into = o->w);
    xcvm_tape_call_operation(t, &o->operation, in_count, in, 1, out);
    return XCVM_OK;
}

/* ---- Operations and written elements ---- */

typedef struct spy {
    xcvm_operation operation;
    xcvm_var w;
    double seen[8];
    int calls;
} spy;

static xcvm_status look(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count, xcvm_var *out)
{
    spy *s = user;
    ck_assert(in_count == 1 && out_count == 1);
    s->seen[s->calls++] = xcvm_var_get_number(t, s->w);
    out[0] = xcvm_Mul(t, in[0], s->w);
    return XCVM_OK;
}

static xcvm_status gradient_of_look(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                    const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    (void)user;
    (void)in;
    (void)out;
    ck_assert(in_count == 1 && out_count == 1);
    in_gradients[0] = xcvm_Mul(t, out_gradients[0], constant(t, 7));
    return XCVM_OK;
}

static xcvm_var constant_shape(xcvm_tape *t)
{
    return xcvm_tape_constant(t, XCVM_I64, 1, (const int64_t[]){1}, (const int64_t[]){1});
}

static xcvm_status between_writes(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                  xcvm_var *out)
{
    spy *s = user;
    xcvm_var first;
    (void)out_count;
    const bool recording = xcvm_tape_set_recording(t, false);
    xcvm_Add(t, s->w, constant(t, 1), .into = s->w);
    xcvm_tape_set_recording(t, recording);
    xcvm_tape_call_operation(t, &s->operation, in_count, in, 1, &first);
    xcvm_tape_set_recording(t, false);
    xcvm_Mul(t, s->w, constant(t, 2), .into = s->w);
    xcvm_tape_set_recording(t, recording);
    xcvm_tape_call_operation(t, &s->operation, in_count, &first, 1, out);
    return XCVM_OK;
}

/* An operation sees captured variables as earlier ops have left them, with a schedule as without one, also through a
 * view. */
START_TEST(a11_7_code_sees_what_was_written)
{
    xcvm_tape *t = open_tape();
    spy p = {.operation = {sizeof p.operation, "look", look, gradient_of_look, &p}};
    p.w = xcvm_var_keep(t, constant(t, 1));
    xcvm_var view = p.w;
    xcvm_static *s = make_static(t, (xcvm_static_function){between_writes, &p}, NULL);
    double w = 1;
    for (int i = 0; i < 4; i++) {
        const xcvm_var x = parameter(t, 3), y = call1(s, x);
        ck_assert_double_eq(p.seen[2 * i], w + 1);
        ck_assert_double_eq(p.seen[2 * i + 1], 2 * (w + 1));
        CHECK_F32(t, y, (float)(3 * (w + 1) * 2 * (w + 1)));
        w = 2 * (w + 1);
        CHECK_F32(t, view, (float)w);
        if (_i == 1 && i == 0) /* an existing view makes the call run define-by-run */
            view = xcvm_var_keep(t, xcvm_Reshape(t, p.w, constant_shape(t)));
        backward(t, y);
        CHECK_F32(t, xcvm_var_get_gradient(t, x), 49);
    }
    ck_assert_uint_eq(figures(s).replayed, 3);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* The host's function fails: nothing is written, and the next call succeeds. */
START_TEST(a11_7_code_that_fails)
{
    xcvm_tape *t = open_tape();
    int calls = 0;
    one_operation o = {{sizeof o.operation, "third", failing_third_time, NULL, &calls}, XCVM_ABSENT};
    o.w = xcvm_var_keep(t, constant(t, 0));
    xcvm_static *s = make_static(t, (xcvm_static_function){with_failing, &o}, NULL);
    xcvm_error error;
    for (int i = 1; i < 6; i++) {
        const xcvm_var y = call1(s, constant(t, 2));
        ck_assert_int_eq(xcvm_tape_status(t, &error), i == 3 ? XCVM_IO : XCVM_OK);
        if (i == 3) {
            ck_assert_str_eq(error.instruction, "static");
            ck_assert_ptr_null(y.at);
        } else {
            CHECK_F32(t, y, -2);
        }
        CHECK_F32(t, o.w, (float)(i < 3 ? i : i - 1));
    }
    ck_assert_uint_eq(figures(s).replayed, 4);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* An unchained result of an operation does not block the gradient of the other. */
START_TEST(a_result_that_was_unchained)
{
    xcvm_tape *t = open_tape();
    counter c = {.forward = 1, .first = {sizeof c.first, "double", count_and_double, gradient_of_double, &c}};
    const xcvm_var x = parameter(t, 3);
    xcvm_var both[2];
    xcvm_tape_call_operation(t, &c.first, 1, &x, 2, both);
    xcvm_var_unchain(t, both[1]);
    backward(t, xcvm_Mul(t, both[0], both[1]));
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 4);
    close_tape(t);
}
END_TEST

static xcvm_status clears(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                          xcvm_var *out)
{
    (void)in_count;
    (void)out_count;
    xcvm_static_reset(*(xcvm_static **)user);
    out[0] = xcvm_Neg(t, in[0]);
    return XCVM_OK;
}

/* A running function is not cleared. */
START_TEST(cleared_while_it_runs)
{
    xcvm_tape *t = open_tape();
    xcvm_static *s = NULL;
    one_operation o = {{sizeof o.operation, "clears", clears, NULL, &s}, constant(t, 0)};
    s = make_static(t, (xcvm_static_function){with_failing, &o}, NULL);
    for (int i = 0; i < 2; i++) {
        call1(s, constant(t, 2));
        check_failed(t, XCVM_INVALID_ARGUMENT, "cannot be cleared while a static function runs");
    }
    xcvm_static_reset(s);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* ---- Checking ---- */

typedef struct changing {
    int what;
    float number;
    int64_t axis;
    xcvm_var w[2];
} changing;

static xcvm_status run_changing(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                xcvm_var *out)
{
    const changing *c = user;
    (void)in_count;
    (void)out_count;
    xcvm_var y = xcvm_Mul(t, in[0], constant(t, c->number));
    y = c->what == 1 ? xcvm_Sigmoid(t, y) : xcvm_Tanh(t, y);
    if (c->what == 2)
        y = xcvm_Neg(t, y);
    y = xcvm_Softmax(t, y, .axis = c->axis);
    y = xcvm_Add(t, y, c->w[c->what == 3]);
    out[0] = c->what == 4 ? in[0] : y;
    return XCVM_OK;
}

/* Checking mode names the first difference, gives correct results, and records again. */
START_TEST(d5_guard_names_the_first_difference)
{
    static const struct {
        changing change;
        const char *message;
    } cases[] = {
        {{.what = 1, .number = 2, .axis = 0}, "not static: call 1 is Sigmoid, and was Tanh"},
        {{.what = 2, .number = 2, .axis = 0}, "not static: call 2 is Neg, and was Softmax"},
        {{.number = 3, .axis = 0}, "operand 1 of call 0 (Mul) has other numbers of the host's than those recorded"},
        {{.number = 2, .axis = 1}, "call 2 (Softmax) has attributes axis=1, and had axis=0"},
        {{.what = 3, .number = 2, .axis = 0}, "capture 0 is another variable"},
        {{.what = 4, .number = 2, .axis = 0}, "result 0 is that of another call"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xcvm_tape *t = open_tape();
        messages m = {.count = 0};
        changing c = {.number = 2, .w = {parameter(t, 1), parameter(t, 2)}};
        const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &m}};
        xcvm_static *s = make_static(t, (xcvm_static_function){run_changing, &c}, &options);
        xcvm_static_set_checking(s, true);
        const xcvm_var x = xcvm_var_keep(t, batch(t, XCVM_F32, 2, 0));
        for (int round = 0; round < 3; round++)
            call1(s, x);
        ck_assert_msg(m.count == 0, "%s", m.text);
        ck_assert_uint_eq(figures(s).recorded, 1);
        ck_assert_uint_eq(figures(s).runs, 3);
        c.what = cases[i].change.what;
        c.number = cases[i].change.number;
        c.axis = cases[i].change.axis;
        xcvm_var expected, y = call1(s, x);
        ck_assert_msg(strstr(m.text, cases[i].message) != NULL, "%zu: %s", i, m.text);
        ck_assert_uint_eq(m.warnings, 1);
        ck_assert_uint_eq(figures(s).different, 1);
        run_changing(&c, t, 1, &x, 1, &expected);
        check_bytes(t, y, t, expected, 1e-6);
        /* The new recording is replayed. */
        xcvm_static_set_checking(s, false);
        check_bytes(t, call1(s, x), t, expected, 1e-6);
        ck_assert_uint_eq(figures(s).replayed, 1);
        ck_assert_uint_eq(figures(s).schedules, 1);
        xcvm_static_destroy(s);
        close_tape(t);
    }
}
END_TEST

/* ---- Functions without a schedule ---- */

static xcvm_status sets_elements(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 xcvm_var *out)
{
    const xcvm_var w = *(const xcvm_var *)user;
    const float one = (float)xcvm_var_get_number(t, in[0]);
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    ck_assert_int_eq(xcvm_var_set_data(t, w, &one, sizeof one, &error), XCVM_OK);
    out[0] = xcvm_Add(t, w, w);
    return XCVM_OK;
}

static xcvm_status overwrites_a_view(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                     xcvm_var *out)
{
    const xcvm_var w = xcvm_Add(t, xcvm_var_detach(t, *(const xcvm_var *)user), constant(t, 1)),
                   view = xcvm_Reshape(t, w, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(1)));
    (void)in_count;
    (void)out_count;
    const bool recording = xcvm_tape_set_recording(t, false);
    xcvm_Add(t, w, in[0], .into = w);
    xcvm_tape_set_recording(t, recording);
    out[0] = xcvm_ReduceSum(t, view, .keepdims = 0);
    return XCVM_OK;
}

/* They run in each call, with correct results, and the log gives the reason. */
START_TEST(what_cannot_be_a_schedule_runs_define_by_run)
{
    static const struct {
        xcvm_status (*function)(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in, size_t out_count,
                                xcvm_var *out);
        const char *why;
        float w, x, expected;
    } cases[] = {
        {sets_elements, "the host sets the elements of a variable", 1, 5, 10},
        {overwrites_a_view, "shares them with another", 2, 5, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xcvm_tape *t = open_tape();
        messages m = {.count = 0};
        const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &m}};
        xcvm_var w = parameter(t, cases[i].w);
        xcvm_static *s = make_static(t, (xcvm_static_function){cases[i].function, &w}, &options);
        for (int round = 0; round < 3; round++)
            CHECK_F32(t, call1(s, constant(t, cases[i].x)), cases[i].expected);
        ck_assert_msg(strstr(m.text, cases[i].why) != NULL && m.warnings == 1, "%zu: %s", i, m.text);
        ck_assert_uint_eq(figures(s).runs, 3);
        xcvm_error error;
        test_bytes bytes = {NULL, 0, 0};
        ck_assert_int_eq(xcvm_static_save(s, NULL, (xcvm_sink){test_bytes_sink, &bytes}, &error), XCVM_UNSUPPORTED);
        xcvm_static_destroy(s);
        close_tape(t);
    }
}
END_TEST

static xcvm_status fails(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count, xcvm_var *out)
{
    const int how = *(const int *)user;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_Neg(t, in[0]);
    if (how == 0)
        return XCVM_IO;
    if (how == 1)
        out[0] = xcvm_MatMul(t, out[0], xcvm_tape_scalar(t, XCVM_I64, 1));
    if (how == 2)
        out[0] = XCVM_ABSENT;
    return XCVM_OK;
}

/* A failing function leaves nothing behind. */
START_TEST(a_function_that_fails)
{
    const xcvm_status expected[] = {XCVM_IO, XCVM_TYPE_MISMATCH, XCVM_INVALID_ARGUMENT, XCVM_OK};
    xcvm_tape *t = open_tape();
    int how;
    xcvm_error error;
    xcvm_static *s = make_static(t, (xcvm_static_function){fails, &how}, NULL);
    const xcvm_var x = parameter(t, 1);
    for (how = 0; how < 4; how++) {
        const size_t variables = stats_of(t).variables;
        const xcvm_var y = call1(s, x);
        ck_assert((y.at != NULL) == (how == 3));
        ck_assert_int_eq(xcvm_tape_status(t, &error), expected[how]);
        ck_assert_uint_eq(figures(s).schedules, how == 3);
        if (how < 3)
            ck_assert_uint_eq(stats_of(t).variables, variables);
    }
    /* Stale operands, and those of another tape. */
    xcvm_tape *other = open_tape();
    call1(s, parameter(other, 1));
    check_failed(t, XCVM_INVALID_ARGUMENT, "is a variable of another tape");
    const xcvm_var gone = constant(t, 1);
    xcvm_var_release(t, gone);
    call1(s, gone);
    check_failed(t, XCVM_INVALID_ARGUMENT, "an operand of the function is stale");
    ck_assert_ptr_null(xcvm_static_call(s, 1, NULL, 1, NULL).at);
    check_failed(t, XCVM_INVALID_ARGUMENT, "operands of static are missing");
    CHECK_F32(t, call1(s, x), -1);
    close_tape(other);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* Steps need no more memory. */
START_TEST(d5_memory_does_not_grow)
{
    xcvm_tape *t = open_tape();
    chain c = make_chain(t, XCVM_F32);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, NULL);
    xcvm_tape_info before = {.size = 0};
    for (int i = 0; i < 2000; i++) {
        backward(t, xcvm_ReduceSum(t, call1(s, batch(t, XCVM_F32, 2, 0))));
        clear_chain(t, &c);
        xcvm_tape_reset(t);
        if (i == 10)
            before = stats_of(t);
    }
    ck_assert_uint_eq(stats_of(t).live_bytes, before.live_bytes);
    ck_assert_uint_eq(stats_of(t).total_bytes, before.total_bytes);
    ck_assert_uint_eq(stats_of(t).variables, before.variables);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* ---- Threads ---- */

/* Four threads with a tape each. */
static void *run_on_thread(void *user)
{
    xcvm_tape *t = open_tape();
    chain c = make_chain(t, XCVM_F32);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, NULL);
    for (int i = 0; i < 50; i++) {
        const xcvm_var loss = xcvm_ReduceSum(t, call1(s, batch(t, XCVM_F32, 2, 0)), .keepdims = 0);
        backward(t, loss);
        *(double *)user = xcvm_var_get_number(t, loss);
        xcvm_tape_reset(t);
    }
    xcvm_static_destroy(s);
    close_tape(t);
    return NULL;
}

START_TEST(tapes_on_threads)
{
    pthread_t threads[4];
    double sums[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_on_thread, &sums[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < 4; i++)
        ck_assert_double_eq(sums[i], sums[0]);
}
END_TEST

/* Schedules of a tape with two threads use both, and give the same bits. */
START_TEST(a_tape_of_several_threads)
{
    const xcvm_tape_options options = {.size = sizeof options, .threads = 2};
    xcvm_error error;
    xcvm_tape *t, *one = open_tape();
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    chain c = make_chain(t, XCVM_F32), same = make_chain(one, XCVM_F32);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, NULL),
                *other = make_static(one, (xcvm_static_function){run_chain, &same}, NULL);
    for (int i = 0; i < 3; i++)
        check_bytes(t, call1(s, batch(t, XCVM_F32, 5, 0)), one, call1(other, batch(one, XCVM_F32, 5, 0)), 0);
    xcvm_static_destroy(s);
    xcvm_static_destroy(other);
    close_tape(t);
    close_tape(one);
}
END_TEST

/* ---- Out of memory ---- */

static xcvm_status three_steps(xcvm_tape *t, xcvm_static *s, xcvm_error *error)
{
    for (int i = 0; i < 3; i++) {
        const xcvm_status status =
            xcvm_tape_backward(t, xcvm_ReduceSum(t, call1(s, batch(t, XCVM_F32, 2, 0))), NULL, error);
        xcvm_tape_reset(t);
        if (status != XCVM_OK)
            return status;
    }
    return XCVM_OK;
}

START_TEST(out_of_memory_anywhere)
{
    size_t requests = 1, failures = 0;
    for (size_t fail_at = 1; fail_at <= requests; fail_at += fail_at < 200 ? 1 : 17) {
        test_allocator a;
        xcvm_error error = {0};
        test_allocator_start(&a, 0);
        a.once = true;
        xcvm_tape *t = open_tape_with(&a.allocator);
        chain c = make_chain(t, XCVM_F32);
        xcvm_static *s = NULL;
        a.requests = 0;
        a.fail_at = fail_at;
        xcvm_status status = xcvm_static_create(t, (xcvm_static_function){run_chain, &c}, NULL, &s, &error);
        if (status == XCVM_OK)
            status = three_steps(t, s, &error);
        /* Without memory to fold constants, the compiler leaves them to the run. */
        ck_assert_msg(status == XCVM_OUT_OF_MEMORY || status == XCVM_OK, "%zu: %d %s", fail_at, status, error.message);
        failures += status != XCVM_OK;
        ck_assert(status == XCVM_OK || a.requests >= fail_at);
        requests = a.requests >= fail_at ? fail_at + 17 : requests;
        a.fail_at = 0;
        if (s != NULL)
            ck_assert_msg(three_steps(t, s, &error) == XCVM_OK, "%zu: %s", fail_at, error.message);
        xcvm_static_destroy(s);
        xcvm_tape_destroy(t);
        ck_assert_uint_eq(a.live, 0);
    }
    ck_assert_uint_gt(failures, 100);
}
END_TEST

Suite *suite_tape_static_code(void);
Suite *suite_tape_static_code(void)
{
    Suite *suite =
        SUITE_OF("tape_static_code", a11_7_static_code, a11_7_code_that_fails, a_result_that_was_unchained,
                 cleared_while_it_runs, d5_guard_names_the_first_difference,
                 what_cannot_be_a_schedule_runs_define_by_run, a_function_that_fails, d5_memory_does_not_grow,
                 tapes_on_threads, a_tape_of_several_threads, out_of_memory_anywhere);
    TCase *tcase = tcase_create("views");
    tcase_add_loop_test(tcase, a11_7_code_sees_what_was_written, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}
