/* Tests of wrong calls, and of failed allocations in the middle of calls: each call succeeds or leaves the tape
 * unchanged, and all memory is freed. */
#include "tests/tape/support.h"

#include "xcvm/optimizers.h"
#include "xcvm/tape_static.h"

#include <stdio.h>

static xcvm_tape *open_with(xcvm_tape_mode mode, xcvm_batching batching, const xcvm_allocator *allocator)
{
    const xcvm_tape_options options = {
        .size = sizeof options, .threads = 1, .seed = 7, .mode = mode, .batching = batching, .allocator = allocator};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    return t;
}

/* ---- Memory that runs out in the middle ---- */

/* 300 ops, some of which have run: more than the queue's reserve. */
START_TEST(invalidate_without_memory)
{
    enum { CALLS = 300 };
    for (size_t fail_at = 1, more = 1; more > 0; fail_at++) {
        test_allocator a;
        xcvm_error error;
        test_allocator_start(&a, 0);
        a.once = true;
        xcvm_tape *t = open_with(XCVM_TAPE_LAZY, XCVM_BATCHING_AGENDA, &a.allocator);
        xcvm_var x = parameter(t, 1), y = x;
        for (int i = 0; i < CALLS; i++) {
            y = xcvm_Add(t, y, x);
            ck_assert_int_eq(i != CALLS / 2 ? XCVM_OK : xcvm_tape_forward(t, y, &error), XCVM_OK);
        }
        ck_assert_int_eq(xcvm_tape_forward(t, y, &error), XCVM_OK);
        a.requests = 0;
        a.fail_at = fail_at;
        xcvm_tape_invalidate(t);
        more = a.requests >= fail_at;
        a.fail_at = 0;
        ck_assert_int_eq(xcvm_tape_status(t, &error), more > 0 ? XCVM_OUT_OF_MEMORY : XCVM_OK);
        CHECK_F32(t, y, CALLS + 1);
        xcvm_tape_invalidate(t);
        ck_assert_int_eq(xcvm_var_set_data(t, x, F32S(2), sizeof(float), &error), XCVM_OK);
        CHECK_F32(t, y, 2 * (CALLS + 1));
        close_tape(t);
        ck_assert_uint_eq(a.live, 0);
    }
}
END_TEST

/* Parameters can be stepped while there is no memory to add more. */
START_TEST(parameters_without_memory)
{
    enum { MANY = 40 };
    test_allocator a;
    xcvm_error error;
    char name[16];
    test_allocator_start(&a, 0);
    xcvm_tape *t = open_with(XCVM_TAPE_EAGER, XCVM_BATCHING_NONE, &a.allocator);
    xcvm_optimizer *o;
    ck_assert_int_eq(xcvm_optimizer_create(t, "sgd:lr=1", NULL, &o, &error), XCVM_OK);
    xcvm_var loss = constant(t, 0), all[MANY];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "p%d", i);
        all[i] = parameter(t, 3);
        loss = xcvm_Add(t, loss, all[i]);
        a.once = true;
        for (size_t fail_at = 1;; fail_at++) {
            a.requests = 0;
            a.fail_at = fail_at;
            const xcvm_status status = xcvm_optimizer_add(o, name, all[i], &error);
            a.fail_at = 0;
            ck_assert(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY);
            if (status == XCVM_OK)
                break;
            xcvm_optimizer_clear_gradients(o);
            ck_assert_int_eq(xcvm_optimizer_step(o, &error), XCVM_OK);
        }
    }
    backward(t, loss);
    ck_assert_int_eq(xcvm_optimizer_step(o, &error), XCVM_OK);
    for (int i = 0; i < MANY; i++)
        CHECK_F32(t, all[i], 2);
    xcvm_optimizer_destroy(o);
    close_tape(t);
    ck_assert_uint_eq(a.live, 0);
}
END_TEST

/* An incomplete graph: every call reports it, and the tape can be destroyed. */
START_TEST(building_without_memory)
{
    size_t ended = 0;
    for (size_t fail_at = 1, more = 1; more > 0; fail_at++) {
        test_allocator a;
        xcvm_error error = {0};
        test_bytes bytes = {NULL, 0, 0};
        test_allocator_start(&a, 0);
        a.once = true;
        xcvm_tape *t = open_with(XCVM_TAPE_BUILDING, XCVM_BATCHING_NONE, &a.allocator);
        a.requests = 0;
        a.fail_at = fail_at;
        const xcvm_var x = xcvm_tape_input(t, "x", XCVM_F32, 1, DIMS(-1), NULL);
        const xcvm_tape_output output = {"y", xcvm_ReduceSum(t, xcvm_Mul(t, x, parameter(t, 2)), .keepdims = 0)};
        more = a.requests >= fail_at;
        a.fail_at = 0;
        const xcvm_status status = xcvm_tape_status(t, &error);
        ck_assert_int_eq(status, more > 0 ? XCVM_OUT_OF_MEMORY : XCVM_OK);
        if (status != XCVM_OK) {
            for (int i = 0; i < 2; i++) {
                parameter(t, 1);
                check_failed(t, XCVM_INVALID_ARGUMENT, "memory ran out while the graph was built");
            }
            ended++;
        }
        ck_assert_int_eq(xcvm_tape_compile(t, 1, &output, NULL, (xcvm_sink){test_bytes_sink, &bytes}, NULL, &error),
                         status == XCVM_OK ? XCVM_OK : XCVM_INVALID_ARGUMENT);
        test_bytes_free(&bytes);
        xcvm_tape_destroy(t);
        ck_assert_uint_eq(a.live, 0);
    }
    ck_assert_uint_ge(ended, 2);
}
END_TEST

/* ---- Elements that were dropped ---- */

/* The exponent was computed, and no gradient flows to it. Compress runs at once, and its operands stay. */
START_TEST(computed_constants_stay)
{
    for (int batching = 0; batching < 2; batching++) {
        xcvm_tape *t = open_lazy_tape(batching == 0 ? XCVM_BATCHING_NONE : XCVM_BATCHING_AGENDA);
        const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(4), F32S(1, 2, 3, 4));
        const xcvm_var exponent = xcvm_Add(t, constant(t, 1), constant(t, 2));
        const bool mask[] = {true, true, false, true};
        const xcvm_var y = xcvm_Compress(t, xcvm_Pow(t, x, exponent),
                                         xcvm_tape_constant(t, XCVM_BOOL, 1, DIMS(4), mask), .axis = 0),
                       loss = xcvm_ReduceSum(t, y, .keepdims = 0);
        CHECK_F32(t, loss, 73);
        xcvm_tape_invalidate(t);
        backward(t, loss);
        CHECK_F32(t, xcvm_var_get_gradient(t, x), 3, 12, 0, 48);
        close_tape(t);
    }
}
END_TEST

/* The tensors of a layer may be results of waiting ops. */
START_TEST(files_of_tensors_that_wait)
{
    xcvm_tape *t = open_lazy_tape(XCVM_BATCHING_AGENDA);
    xcvm_layer *l = xcvm_layer_create_chain(t);
    test_bytes bytes = {NULL, 0, 0};
    xcvm_error error;
    const xcvm_var p = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), F32S(1, 2));
    xcvm_layer_add_parameter(l, "a", xcvm_Neg(t, p));
    xcvm_layer_add_parameter(l, "b", xcvm_Add(t, p, p));
    ck_assert_int_eq(xcvm_layer_save(l, XCVM_SAFETENSORS, (xcvm_sink){test_bytes_sink, &bytes}, &error), XCVM_OK);
    CHECK_F32(t, xcvm_layer_get_parameter(l, "b"), 2, 4);
    xcvm_tape_invalidate(t);
    xcvm_layer *copy = xcvm_layer_copy(l, false);
    CHECK_F32(t, xcvm_layer_get_parameter(copy, "a"), -1, -2);
    xcvm_tape_invalidate(t);
    ck_assert_int_eq(xcvm_layer_load(l, bytes.at, bytes.length, &error), XCVM_OK);
    CHECK_F32(t, xcvm_layer_get_parameter(l, "a"), -1, -2);
    xcvm_layer_destroy(copy);
    xcvm_layer_destroy(l);
    test_bytes_free(&bytes);
    close_tape(t);
}
END_TEST

static xcvm_status add_captured(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                xcvm_var *out)
{
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_Add(t, in[0], *(const xcvm_var *)user);
    return XCVM_OK;
}

/* A pass has consumed the op of a capture. Another op still refers to it, but its elements are gone. */
START_TEST(captures_that_are_gone)
{
    xcvm_tape *t = open_tape();
    xcvm_var captured, out;
    xcvm_static *s;
    xcvm_error error;
    test_bytes bytes = {NULL, 0, 0};
    ck_assert_int_eq(xcvm_static_create(t, (xcvm_static_function){add_captured, &captured}, NULL, &s, &error), XCVM_OK);
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(4), F32S(1, 2, 3, 4));
    captured = xcvm_Mul(t, x, x);
    const xcvm_var other = xcvm_Sigmoid(t, captured), y = xcvm_static_call(s, 1, &x, 1, &out);
    backward(t, xcvm_ReduceSum(t, y, .keepdims = 0));
    ck_assert_int_eq(xcvm_static_save(s, NULL, (xcvm_sink){test_bytes_sink, &bytes}, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "has captured is gone"));
    CHECK_F32(t, other, 0.7310586f, 0.9820138f, 0.9998766f, 0.9999999f);
    xcvm_static_destroy(s);
    test_bytes_free(&bytes);
    close_tape(t);
}
END_TEST

/* A slot has a variable of the same shape with fewer bytes. */
START_TEST(places_of_another_type)
{
    xcvm_tape *t = open_tape();
    xcvm_var held = xcvm_tape_constant(t, XCVM_F64, 1, DIMS(2), (const double[]){1, 2}), *place = &held;
    const xcvm_var x = xcvm_tape_constant(t, XCVM_F64, 1, DIMS(2), (const double[]){3, 4});
    const xcvm_static_options options = {.size = sizeof options, .held = &place, .held_count = 1};
    const xcvm_static_save_options states = {.size = sizeof states, .states = true};
    xcvm_var out;
    xcvm_static *s;
    xcvm_error error;
    test_bytes bytes = {NULL, 0, 0};
    ck_assert_int_eq(xcvm_static_create(t, (xcvm_static_function){add_captured, &held}, &options, &s, &error), XCVM_OK);
    xcvm_static_call(s, 1, &x, 1, &out);
    ck_assert_int_eq(xcvm_static_save(s, &states, (xcvm_sink){test_bytes_sink, &bytes}, &error), XCVM_OK);
    held = xcvm_tape_constant(t, XCVM_BOOL, 1, DIMS(2), (const bool[]){true, false});
    ck_assert_int_eq(xcvm_static_save(s, &states, (xcvm_sink){test_bytes_sink, &bytes}, &error), XCVM_SHAPE_MISMATCH);
    ck_assert_ptr_nonnull(strstr(error.message, "of another type or shape than at the last call"));
    xcvm_static_destroy(s);
    test_bytes_free(&bytes);
    close_tape(t);
}
END_TEST

typedef struct starved {
    test_allocator a;
    size_t fail_at;
    xcvm_var captured;
} starved;

/* A function that fetches the failure continues, but its recording is incomplete. */
static xcvm_status go_on(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count, xcvm_var *out)
{
    starved *s = user;
    (void)in_count;
    (void)out_count;
    s->a.requests = 0;
    s->a.fail_at = s->fail_at;
    out[0] = xcvm_Add(t, in[0], s->captured);
    s->a.fail_at = 0;
    (void)xcvm_tape_status(t, NULL);
    if (out[0].at == NULL)
        out[0] = xcvm_Neg(t, in[0]);
    return XCVM_OK;
}

START_TEST(traces_without_memory)
{
    for (size_t fail_at = 1; fail_at < 40; fail_at++) {
        starved f = {.fail_at = fail_at};
        xcvm_error error;
        test_bytes bytes = {NULL, 0, 0};
        xcvm_static *s;
        xcvm_var out;
        test_allocator_start(&f.a, 0);
        f.a.once = true;
        xcvm_tape *t = open_with(XCVM_TAPE_EAGER, XCVM_BATCHING_NONE, &f.a.allocator);
        const xcvm_var x = parameter(t, 2);
        f.captured = parameter(t, 3);
        ck_assert_int_eq(xcvm_static_create(t, (xcvm_static_function){go_on, &f}, NULL, &s, &error), XCVM_OK);
        xcvm_static_call(s, 1, &x, 1, &out);
        (void)!xcvm_static_save(s, NULL, (xcvm_sink){test_bytes_sink, &bytes}, &error);
        f.fail_at = 0;
        for (int i = 0; i < 3; i++) {
            xcvm_static_call(s, 1, &x, 1, &out);
            ck_assert_ptr_nonnull(out.at);
        }
        xcvm_static_destroy(s);
        test_bytes_free(&bytes);
        close_tape(t);
        ck_assert_uint_eq(f.a.live, 0);
    }
}
END_TEST

/* A reset or a revert evaluates kept waiting variables if there is memory; otherwise it changes nothing. */
START_TEST(reset_without_memory)
{
    for (int reverts = 0; reverts < 2; reverts++)
        for (size_t fail_at = 1, more = 1; more > 0; fail_at++) {
            test_allocator a;
            xcvm_error error;
            test_allocator_start(&a, 0);
            a.once = true;
            xcvm_tape *t = open_with(XCVM_TAPE_LAZY, XCVM_BATCHING_AGENDA, &a.allocator);
            const xcvm_var x = parameter(t, 2);
            ck_assert_int_eq(xcvm_tape_checkpoint(t, &error), XCVM_OK);
            const xcvm_var y = xcvm_var_keep(t, xcvm_Mul(t, x, x));
            a.requests = 0;
            a.fail_at = fail_at;
            xcvm_status status = XCVM_OK;
            if (reverts)
                status = xcvm_tape_revert(t, &error);
            else
                xcvm_tape_reset(t);
            more = a.requests >= fail_at;
            a.fail_at = 0;
            if (!reverts)
                status = xcvm_tape_status(t, &error);
            ck_assert(status == XCVM_OK || (status == XCVM_OUT_OF_MEMORY && more > 0));
            CHECK_F32(t, y, 4);
            ck_assert(xcvm_var_requires_gradient(t, y) == (status != XCVM_OK));
            ck_assert_int_eq(xcvm_tape_revert(t, &error), status == XCVM_OK ? XCVM_INVALID_ARGUMENT : XCVM_OK);
            CHECK_F32(t, y, 4);
            close_tape(t);
            ck_assert_uint_eq(a.live, 0);
        }
}
END_TEST

/* Starts of rank 0 are one number, also for the gradient. */
START_TEST(slices_by_scalars)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2, 2), F32S(1, 2, 3, 4));
    const xcvm_var one = xcvm_tape_scalar(t, XCVM_I64, 1), two = xcvm_tape_scalar(t, XCVM_I64, 2);
    const xcvm_var y = xcvm_Slice(t, x, one, two);
    CHECK_F32(t, y, 3, 4);
    backward(t, xcvm_ReduceSum(t, y, .keepdims = 0));
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 0, 0, 1, 1);
    close_tape(t);
}
END_TEST

/* ---- Variables that are gradients ---- */

static xcvm_var itself(void *user, xcvm_tape *t, xcvm_var gradient)
{
    (void)t;
    (void)gradient;
    return *(const xcvm_var *)user;
}

/* Gradients never form a cycle with their variables: all memory is freed. */
START_TEST(gradients_of_themselves)
{
    for (int create = 0; create < 2; create++) {
        test_allocator a;
        xcvm_error error;
        test_allocator_start(&a, 0);
        xcvm_tape *t = open_with(XCVM_TAPE_EAGER, XCVM_BATCHING_NONE, &a.allocator);
        const bool creates = create > 0;
        const xcvm_var p = parameter(t, 3), q = parameter(t, 5);
        xcvm_var hooked = parameter(t, 7);
        const xcvm_backward_options by_p = {.size = sizeof by_p, .seed = p, .create_graph = creates},
                                    by_q = {.size = sizeof by_q, .seed = q, .create_graph = creates};
        backward_with(t, p, &by_p);
        CHECK_F32(t, xcvm_var_get_gradient(t, p), 3);
        xcvm_var_clear_gradient(t, p);
        backward_with(t, p, &by_q);
        backward_with(t, q, &by_p);
        CHECK_F32(t, xcvm_var_get_gradient(t, p), 5);
        CHECK_F32(t, xcvm_var_get_gradient(t, q), 3);
        ck_assert_int_eq(xcvm_var_add_hook(t, hooked, (xcvm_gradient_hook){itself, &hooked}, &error), XCVM_OK);
        backward_with(t, xcvm_Mul(t, hooked, hooked),
                      &(xcvm_backward_options){.size = sizeof(xcvm_backward_options), .create_graph = creates});
        CHECK_F32(t, xcvm_var_get_gradient(t, hooked), 7);
        if (creates) { /* the gradient of q is p itself, and is differentiable */
            xcvm_var second;
            const xcvm_var first = xcvm_var_get_gradient(t, q);
            ck_assert_int_eq(xcvm_tape_gradients(t, 1, &first, NULL, 1, &p, NULL, &second, &error), XCVM_OK);
            CHECK_F32(t, second, 1);
        }
        close_tape(t);
        ck_assert_uint_eq(a.live, 0);
    }
}
END_TEST

/* The same for sparse rows: two tables whose gradients are each other. */
START_TEST(rows_of_each_other)
{
    test_allocator a;
    xcvm_error error;
    test_allocator_start(&a, 0);
    xcvm_tape *t = open_with(XCVM_TAPE_EAGER, XCVM_BATCHING_NONE, &a.allocator);
    const xcvm_var tables[] = {xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2, 1), F32S(1, 2)),
                               xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2, 1), F32S(3, 4))};
    const xcvm_var indices = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), (const int64_t[]){0, 1});
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(xcvm_var_set_sparse_gradient(t, tables[i], true, &error), XCVM_OK);
        backward_with(t, xcvm_Gather(t, tables[i], indices),
                      &(xcvm_backward_options){.size = sizeof(xcvm_backward_options), .seed = tables[1 - i]});
    }
    xcvm_var rows, gradients;
    ck_assert_int_eq(xcvm_var_get_gradient_rows(t, tables[0], &rows, &gradients, &error), XCVM_OK);
    CHECK_F32(t, gradients, 3, 4);
    /* The caller may set the seed. */
    ck_assert_int_eq(xcvm_var_set_data(t, tables[1], F32S(8, 9), 2 * sizeof(float), &error), XCVM_OK);
    close_tape(t);
    ck_assert_uint_eq(a.live, 0);
}
END_TEST

/* ---- Tapes that a function is not for ---- */

static xcvm_var sum(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)user;
    (void)count;
    return xcvm_ReduceSum(t, xs[0], .keepdims = 0);
}

START_TEST(modes)
{
    xcvm_error error;
    xcvm_tape *t = open_with(XCVM_TAPE_BUILDING, XCVM_BATCHING_NONE, NULL);
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), NULL);
    xcvm_var value, gradient;
    ck_assert_int_eq(xcvm_tape_check_gradients(t, (xcvm_tape_function){sum, NULL}, 1, &x, NULL, &error),
                     XCVM_UNSUPPORTED);
    ck_assert_str_eq(error.message, "a building tape has no elements, which xcvm_tape_check_gradients needs");
    ck_assert_int_eq(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){sum, NULL}, 1, &x, XCVM_ABSENT, &value,
                                                       &gradient, &error),
                     XCVM_UNSUPPORTED);
    ck_assert_int_eq(xcvm_tape_forward(t, x, &error), XCVM_UNSUPPORTED);
    xcvm_tape_invalidate(t);
    check_failed(t, XCVM_UNSUPPORTED, "a building tape has no elements, which xcvm_tape_invalidate needs");
    xcvm_var_retain_gradient(t, x);
    check_failed(t, XCVM_UNSUPPORTED, "which xcvm_var_retain_gradient needs");
    close_tape(t);
    t = open_tape();
    xcvm_tape_input(t, "x", XCVM_F32, 0, NULL, NULL);
    check_failed(t, XCVM_INVALID_ARGUMENT, "xcvm_tape_input needs a building tape");
    close_tape(t);
}
END_TEST

/* No tape, and no object of one. */
START_TEST(none)
{
    xcvm_error error;
    xcvm_tape_info stats = {.size = sizeof stats};
    ck_assert(!xcvm_tape_set_recording(NULL, true));
    ck_assert_int_eq(xcvm_tape_status(NULL, &error), XCVM_INVALID_ARGUMENT);
    xcvm_tape_get_info(NULL, &stats);
    xcvm_tape_scope_end(NULL, xcvm_tape_scope_begin(NULL), 0, NULL);
    xcvm_tape_reset(NULL);
    ck_assert_ptr_null(xcvm_Neg(NULL, XCVM_ABSENT).at);
    ck_assert_int_eq(xcvm_static_save(NULL, NULL, (xcvm_sink){0}, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_null(xcvm_static_call(NULL, 0, NULL, 0, NULL).at);
    xcvm_static_reset(NULL);
    ck_assert(isnan(xcvm_optimizer_get_rate(NULL)));
    xcvm_optimizer_clear_gradients(NULL);
    xcvm_layer_unchain(NULL);
    ck_assert_ptr_null(xcvm_layer_call(NULL, XCVM_ABSENT).at);
}
END_TEST

/* No element type, where a function expects one. */
START_TEST(element_types)
{
    xcvm_tape *t = open_tape();
    const xcvm_layer_options options = {.size = sizeof options, .dtype = (xcvm_dtype)73};
    xcvm_tape_scalar(t, (xcvm_dtype)73, 1);
    check_failed(t, XCVM_TYPE_MISMATCH, "a number cannot become");
    xcvm_tape_parameter(t, (xcvm_dtype)92, 0, NULL, NULL);
    check_failed(t, XCVM_INVALID_ARGUMENT, "92 is no element type");
    ck_assert_ptr_null(xcvm_layer_create_linear(t, 1, 1, &options));
    check_failed(t, XCVM_TYPE_MISMATCH, "a layer's parameters are of a float type");
    close_tape(t);
}
END_TEST

START_TEST(steps_without_parameters)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    xcvm_optimizer *o;
    const xcvm_optimizer_options options = {.size = sizeof options, .clip_norm = 1};
    ck_assert_int_eq(xcvm_optimizer_create(t, "sgd:lr=0.1", &options, &o, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_optimizer_step(o, &error), XCVM_OK);
    ck_assert_double_eq(xcvm_optimizer_gradient_norm(o), 0);
    xcvm_optimizer_destroy(o);
    close_tape(t);
}
END_TEST

Suite *suite_tape_misuse(void);
Suite *suite_tape_misuse(void)
{
    return SUITE_OF("tape_misuse", invalidate_without_memory, parameters_without_memory, building_without_memory,
                    computed_constants_stay, files_of_tensors_that_wait, captures_that_are_gone, places_of_another_type,
                    traces_without_memory, reset_without_memory, slices_by_scalars, gradients_of_themselves,
                    rows_of_each_other, modes, none, element_types, steps_without_parameters);
}
