/* Tests of the order of ops on lazy tapes: waiting ops read earlier elements, and gradients reach ops after all
 * readers. */
#include "tests/tape/support.h"
#include "xcvm/optimizers.h"

/* Ops called before a swap of averages read the old elements. */
START_TEST(averages_are_swapped_behind_calls_that_wait)
{
    xcvm_tape *t = open_lazy_tape(XCVM_BATCHING_NONE);
    const xcvm_optimizer_options options = {.size = sizeof options, .average = 0.5};
    xcvm_var w = parameter(t, 4);
    xcvm_optimizer *o;
    ck_assert_int_eq(xcvm_optimizer_create(t, "sgd:lr=0.5", &options, &o, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_optimizer_add(o, "w", w, NULL), XCVM_OK);
    backward(t, xcvm_Mul(t, w, constant(t, 4)));
    ck_assert_int_eq(xcvm_optimizer_step(o, NULL), XCVM_OK);
    const xcvm_var y = xcvm_Mul(t, w, constant(t, 10));
    ck_assert_int_eq(xcvm_optimizer_swap_averages(o, NULL), XCVM_OK);
    CHECK_F32(t, y, 20);
    CHECK_F32(t, w, 3);
    xcvm_optimizer_destroy(o);
    close_tape(t);
}
END_TEST

/* ---- Operations on lazy tapes ---- */

static xcvm_status give_number(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    (void)user;
    (void)in_count;
    (void)in;
    (void)out_count;
    out[0] = constant(t, 5);
    return XCVM_OK;
}

static xcvm_status give_gradient(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    (void)user;
    (void)in_count;
    (void)in;
    (void)out_count;
    (void)out;
    in_gradients[0] = xcvm_Mul(t, out_gradients[0], constant(t, 7));
    return XCVM_OK;
}

/* An operation that does not read its operand gives it a gradient, though the operand is evaluated later or
 * never. */
START_TEST(operations_that_do_not_read_on_lazy_tapes)
{
    const xcvm_operation o = {.size = sizeof o, .name = "inject", .forward = give_number, .backward = give_gradient};
    for (int strategy = XCVM_BATCHING_NONE; strategy <= XCVM_BATCHING_TIMED; strategy++)
        for (int asked = 0; asked < 2; asked++) {
            xcvm_tape *t = open_lazy_tape((xcvm_batching)strategy);
            const xcvm_var w = parameter(t, 3), h = xcvm_Mul(t, w, constant(t, 2));
            xcvm_var y;
            xcvm_tape_call_operation(t, &o, 1, &h, 1, &y);
            if (asked)
                CHECK_F32(t, h, 6);
            backward(t, xcvm_Mul(t, y, constant(t, 1)));
            ck_assert_ptr_nonnull(xcvm_var_get_gradient(t, w).at);
            CHECK_F32(t, xcvm_var_get_gradient(t, w), 14);
            close_tape(t);
        }
}
END_TEST

/* Ops that ran at once keep their results when others wait again; gradients flow through both. */
START_TEST(gradients_through_calls_that_ran_at_once)
{
    for (int strategy = XCVM_BATCHING_NONE; strategy <= XCVM_BATCHING_TIMED; strategy++)
        for (int asked = 0; asked < 2; asked++) {
            xcvm_tape *t = open_lazy_tape((xcvm_batching)strategy);
            const xcvm_var w = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(3), F32S(1, 2, 3)),
                           h = xcvm_Mul(t, xcvm_Mul(t, w, constant(t, 2)), w),
                           picked = xcvm_tape_constant(t, XCVM_BOOL, 1, DIMS(3), (const bool[]){1, 0, 1}),
                           y = xcvm_Compress(t, h, picked, .axis = 0), loss = xcvm_ReduceSum(t, y, .keepdims = 0);
            CHECK_F32(t, loss, 20);
            xcvm_tape_invalidate(t);
            if (asked)
                CHECK_F32(t, h, 2, 8, 18);
            backward(t, loss);
            ck_assert_ptr_nonnull(xcvm_var_get_gradient(t, w).at);
            CHECK_F32(t, xcvm_var_get_gradient(t, w), 4, 0, 12);
            close_tape(t);
        }
}
END_TEST

/* Gradients that are part of the graph refer to old values. Values are computed again, and a pass through those
 * gradients is refused. */
START_TEST(gradients_of_gradients_behind_an_invalidation)
{
    const xcvm_backward_options create = {.size = sizeof create, .create_graph = true};
    for (int strategy = XCVM_BATCHING_NONE; strategy <= XCVM_BATCHING_TIMED; strategy++) {
        xcvm_tape *t = open_lazy_tape((xcvm_batching)strategy);
        xcvm_error error;
        xcvm_var gradient;
        const float five = 5;
        const xcvm_var w = parameter(t, 3), h = xcvm_Mul(t, w, w), loss = xcvm_Mul(t, h, h);
        ck_assert_int_eq(xcvm_tape_gradients(t, 1, &loss, NULL, 1, &w, &create, &gradient, &error), XCVM_OK);
        const xcvm_var penalty = xcvm_Mul(t, gradient, gradient);
        CHECK_F32(t, penalty, 11664);
        ck_assert_int_eq(xcvm_var_set_data(t, w, &five, sizeof five, &error), XCVM_OK);
        xcvm_tape_invalidate(t);
        CHECK_F32(t, loss, 625);
        ck_assert_int_eq(xcvm_tape_backward(t, penalty, NULL, &error), XCVM_INVALID_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(error.message, "consumed"));
        backward(t, loss);
        CHECK_F32(t, xcvm_var_get_gradient(t, w), 500);
        close_tape(t);
    }
}
END_TEST

/* ---- What is asked for ---- */

static void count_forward(void *user, const xcvm_call_event *event) { *(size_t *)user += event->done ? 1 : 0; }

/* A value runs the ops it needs, however early they were called, and none in between. No two ops may be batched. */
START_TEST(what_is_between_does_not_run)
{
    enum { BETWEEN = 50 };
    for (int strategy = XCVM_BATCHING_NONE; strategy <= XCVM_BATCHING_TIMED; strategy++) {
        xcvm_tape *t = open_lazy_tape((xcvm_batching)strategy);
        size_t calls = 0;
        const xcvm_var w = parameter(t, 3);
        xcvm_tape_set_observer(t, &(xcvm_tape_observer){count_forward, &calls});
        const xcvm_var before = xcvm_Neg(t, w), far = xcvm_Mul(t, w, w);
        xcvm_var between = far;
        for (int i = 0; i < BETWEEN; i++)
            between = xcvm_Add(t, between, w);
        const xcvm_var twice = xcvm_Sub(t, xcvm_Neg(t, far), far);
        CHECK_F32(t, twice, -18);
        ck_assert_uint_eq(calls, 3);
        CHECK_F32(t, twice, -18);
        ck_assert_uint_eq(calls, 3);
        CHECK_F32(t, before, -3);
        ck_assert_uint_eq(calls, 4);
        CHECK_F32(t, between, 9 + 3 * BETWEEN);
        ck_assert_uint_eq(calls, 4 + BETWEEN);
        close_tape(t);
    }
}
END_TEST

/* An op is followed by another than before: by one of another shape, another attribute, or a result without
 * gradient. */
START_TEST(calls_in_another_order_than_before)
{
    enum { ROUNDS = 12 };
    for (int strategy = XCVM_BATCHING_NONE; strategy <= XCVM_BATCHING_TIMED; strategy++) {
        xcvm_tape *t = open_lazy_tape((xcvm_batching)strategy);
        const xcvm_var w = parameter(t, 2), x = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(2, 3), F32S(1, 2, 3, 4, 5, 6)),
                       y = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(1, 2), F32S(7, 8));
        for (int i = 0; i < ROUNDS; i++) {
            const xcvm_var negative = xcvm_Neg(t, y);
            xcvm_var other;
            switch (i % 4) {
            case 0:
                CHECK_F32(t, xcvm_Neg(t, x), -1, -2, -3, -4, -5, -6);
                break;
            case 1:
                CHECK_F32(t, xcvm_Concat(t, XCVM_VARS(negative, y), .axis = 1), -7, -8, 7, 8);
                break;
            case 2:
                other = xcvm_Concat(t, XCVM_VARS(negative, y), .axis = 0);
                ck_assert_int_eq(value_of(t, other)->dims[0], 2);
                CHECK_F32(t, other, -7, -8, 7, 8);
                break;
            default:
                other = xcvm_Mul(t, negative, w);
                ck_assert(xcvm_var_requires_gradient(t, other));
                CHECK_F32(t, other, -14, -16);
            }
            ck_assert(!xcvm_var_requires_gradient(t, xcvm_Mul(t, negative, y)));
        }
        close_tape(t);
    }
}
END_TEST

Suite *suite_tape_lazy_order(void);
Suite *suite_tape_lazy_order(void)
{
    return SUITE_OF("tape_lazy_order", averages_are_swapped_behind_calls_that_wait,
                    operations_that_do_not_read_on_lazy_tapes, gradients_of_gradients_behind_an_invalidation,
                    gradients_through_calls_that_ran_at_once, what_is_between_does_not_run,
                    calls_in_another_order_than_before);
}
