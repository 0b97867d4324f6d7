/* Tests of the memory of batches, of the backward pass over them, and of the queue. */
#include "tape/batch/batch.h"
#include "tests/tape/support.h"

typedef struct counted {
    const char *name;
    size_t forward, backward;
} counted;

static void count_calls(void *user, const xcvm_call_event *event)
{
    counted *c = user;
    if (event->done && strcmp(event->name, c->name) == 0)
        ++*(event->backward ? &c->backward : &c->forward);
}

static void fill(uint32_t *state, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)(test_random(state) >> 8) / 16777216.0f - 0.5f;
}

static xcvm_var random_parameter(xcvm_tape *t, uint32_t seed, int64_t rows, int64_t columns)
{
    float *data = malloc((size_t)(rows * columns) * sizeof *data);
    ck_assert_ptr_nonnull(data);
    fill(&seed, data, (size_t)(rows * columns));
    const xcvm_var v = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(rows, columns), data);
    free(data);
    return v;
}

static xcvm_var random_rows(xcvm_tape *t, uint32_t seed, int64_t rows, int64_t columns)
{
    float data[256];
    ck_assert_int_le(rows * columns, 256);
    fill(&seed, data, (size_t)(rows * columns));
    return xcvm_tape_constant(t, XCVM_F32, 2, DIMS(rows, columns), data);
}

static void check_close(xcvm_tape *t, xcvm_var v, xcvm_tape *other, xcvm_var like)
{
    const xcvm_value *got = value_of(t, v), *expected = value_of(other, like);
    ck_assert_uint_eq(xcvm_value_count(got), xcvm_value_count(expected));
    for (size_t i = 0; i < xcvm_value_count(got); i++) {
        const float x = ((const float *)xcvm_value_data(expected))[i];
        ck_assert_float_eq_tol(((const float *)xcvm_value_data(got))[i], x, 1e-4f * (1 + fabsf(x)));
    }
}

static const char *data_of(xcvm_tape *t, xcvm_var v) { return xcvm_value_data(value_of(t, v)); }

/* ---- Memory of batches ---- */

enum { EXAMPLES = 20, SIDE = 4, WIDE = 600 };

/* Two directions that differ only in their weights are not joined by copying. */
START_TEST(c4_7_batches_that_lie_apart)
{
    xcvm_tape *tapes[] = {open_tape(), open_lazy_tape(XCVM_BATCHING_AGENDA), open_lazy_tape(XCVM_BATCHING_DEPTH)};
    xcvm_var gradients[3];
    for (int k = 0; k < 3; k++) {
        xcvm_tape *t = tapes[k];
        counted c = {.name = "Tanh"};
        xcvm_tape_set_observer(t, &(xcvm_tape_observer){count_calls, &c});
        const xcvm_var w[] = {random_parameter(t, 1, SIDE, WIDE), random_parameter(t, 2, SIDE, WIDE)};
        xcvm_var ys[2 * EXAMPLES], products[2 * EXAMPLES];
        for (uint32_t i = 0; i < 2 * EXAMPLES; i++) {
            products[i] = xcvm_MatMul(t, random_rows(t, i / 2, 1, SIDE), w[i % 2]);
            ys[i] = xcvm_Tanh(t, products[i]);
        }
        const xcvm_var all = xcvm_Concat(t, (xcvm_var_list){ys, 2 * EXAMPLES}, .axis = 0);
        value_of(t, all);
        ck_assert_uint_eq(c.forward, k == 0 ? 2 * EXAMPLES : 2);
        for (int i = 0; k > 0 && i < 2; i++) {
            const tape_batch *b = ys[i].at->creator->batch;
            ck_assert_uint_eq(b->count, EXAMPLES);
            ck_assert_ptr_eq(b->operands[0].base, products[i].at->creator->batch->call->out[0]);
        }
        backward(t, xcvm_ReduceSum(t, all));
        gradients[k] = xcvm_var_get_gradient(t, w[1]);
        xcvm_tape_set_observer(t, NULL);
    }
    for (int k = 1; k < 3; k++)
        check_close(tapes[k], gradients[k], tapes[0], gradients[0]);
    for (int k = 0; k < 3; k++)
        close_tape(tapes[k]);
}
END_TEST

/* For few small members copies are cheaper than ops. Many members must be looked up. */
START_TEST(c4_7_small_batches_are_copied_together)
{
    static const uint32_t examples[] = {4, 64};
    xcvm_tape *t = open_lazy_tape(XCVM_BATCHING_AGENDA);
    const xcvm_var w[] = {random_parameter(t, 1, SIDE, SIDE), random_parameter(t, 2, SIDE, SIDE)};
    xcvm_var ys[2 * 64];
    const uint32_t count = 2 * examples[_i];
    counted c = {.name = "Tanh"};
    xcvm_tape_set_observer(t, &(xcvm_tape_observer){count_calls, &c});
    for (uint32_t i = 0; i < count; i++)
        ys[i] = xcvm_Tanh(t, xcvm_MatMul(t, random_rows(t, i / 2, 1, SIDE), w[i % 2]));
    value_of(t, xcvm_Concat(t, (xcvm_var_list){ys, count}, .axis = 0));
    ck_assert_uint_eq(c.forward, 1 + (size_t)_i);
    close_tape(t);
}
END_TEST

/* Inputs of one time step are contiguous in order of the sequences, though the host calls sequence by sequence. */
START_TEST(c4_7_steps_lie_together)
{
    enum { SEQUENCES = 3, STEPS = 4 };
    xcvm_tape *t = open_lazy_tape(XCVM_BATCHING_AGENDA);
    const xcvm_var w = random_parameter(t, 1, SIDE, 2 * SIDE), u = random_parameter(t, 2, 2 * SIDE, 2 * SIDE);
    xcvm_var incoming[SEQUENCES][STEPS], last[SEQUENCES];
    for (uint32_t i = 0; i < SEQUENCES; i++)
        for (uint32_t k = 0; k < STEPS; k++) {
            /* The first call makes rows that are results too. */
            incoming[i][k] = xcvm_MatMul(t, xcvm_Neg(t, random_rows(t, i * STEPS + k, 1, SIDE)), w);
            last[i] = xcvm_Tanh(t, k == 0 ? incoming[i][k] : xcvm_Gemm(t, last[i], u, incoming[i][k]));
        }
    value_of(t, xcvm_Concat(t, (xcvm_var_list){last, SEQUENCES}, .axis = 0));
    const char *base = data_of(t, incoming[0][0]);
    for (int k = 0; k < STEPS; k++)
        for (int i = 0; i < SEQUENCES; i++)
            ck_assert_ptr_eq(data_of(t, incoming[i][k]), base + (k * SEQUENCES + i) * 2 * SIDE * 4);
    const tape_batch *b = last[1].at->creator->in[0]->creator->batch;
    ck_assert_uint_eq(b->count, SEQUENCES);
    ck_assert_ptr_eq(b->operands[2].base, incoming[0][0].at->creator->batch->call->out[0]);
    ck_assert_uint_eq(b->operands[2].first, (STEPS - 1) * SEQUENCES);
    close_tape(t);
}
END_TEST

/* ---- Products in the backward pass ---- */

typedef struct recurrent {
    int64_t sequences, steps, rows; /* of a state */
    bool transposed;                /* the weight */
    double factor;
} recurrent;

static xcvm_var last_states(xcvm_tape *t, const recurrent *r, xcvm_var u)
{
    xcvm_var states[64];
    for (uint32_t i = 0; i < r->sequences; i++) {
        states[i] = random_rows(t, i, r->rows, SIDE);
        for (int64_t k = 0; k < r->steps; k++)
            states[i] = xcvm_Tanh(t, r->transposed || r->factor != 1
                                         ? xcvm_Gemm(t, states[i], u, .transB = r->transposed, .alpha = r->factor)
                                         : xcvm_MatMul(t, states[i], u));
    }
    return xcvm_ReduceSum(t, xcvm_Concat(t, (xcvm_var_list){states, (size_t)r->sequences}, .axis = 0));
}

static const recurrent recurrences[] = {
    {5, 20, 1, false, 1},  /* all at once */
    {2, 150, 1, false, 1}, /* more pieces than the limit */
    {50, 10, 3, false, 1}, /* more rows than the limit */
    {50, 3, 6, false, 1},  /* batches with so many rows are not deferred */
    {5, 20, 1, true, 1},   {5, 20, 1, false, 0.5},
};
static const size_t weight_products[] = {1, 2, 3, 3, 1, 1};
enum { RECURRENCES = 6 };

/* The gradient of a weight is a product over the rows of many steps. */
START_TEST(c4_7_steps_are_one_product)
{
    const recurrent *r = &recurrences[_i];
    xcvm_tape *one = open_tape(), *all = open_lazy_tape(XCVM_BATCHING_AGENDA);
    xcvm_tape *tapes[] = {one, all};
    xcvm_var u[2];
    counted c = {.name = "Gemm"};
    xcvm_tape_set_observer(all, &(xcvm_tape_observer){count_calls, &c});
    for (int k = 0; k < 2; k++) {
        u[k] = random_parameter(tapes[k], 3, SIDE, SIDE);
        const xcvm_var sum = last_states(tapes[k], r, u[k]);
        value_of(tapes[k], sum);
        backward(tapes[k], sum);
    }
    /* The states' gradients are products too, except for the first step. */
    ck_assert_uint_eq(c.backward, weight_products[_i] + (size_t)r->steps - 1);
    check_close(all, xcvm_var_get_gradient(all, u[1]), one, xcvm_var_get_gradient(one, u[0]));
    /* With explicit targets, and again. */
    xcvm_error error;
    xcvm_var gradients[2];
    for (int k = 0; k < 2; k++) {
        const xcvm_var sum = last_states(tapes[k], r, u[k]);
        ck_assert_int_eq(xcvm_tape_gradients(tapes[k], 1, &sum, NULL, 1, &u[k], NULL, &gradients[k], &error), XCVM_OK);
    }
    check_close(all, gradients[1], one, gradients[0]);
    close_tape(one);
    close_tape(all);
}
END_TEST

typedef struct hooked {
    xcvm_var weight;
    float seen;
} hooked;

static xcvm_var halve(void *user, xcvm_tape *t, xcvm_var gradient)
{
    hooked *h = user;
    h->seen = *(const float *)xcvm_value_data(value_of(t, gradient));
    return xcvm_Mul(t, gradient, xcvm_tape_scalar(t, XCVM_F32, 0.5));
}

/* A hook receives the complete gradient. */
START_TEST(c4_7_hooks_of_products)
{
    xcvm_tape *one = open_tape(), *all = open_lazy_tape(XCVM_BATCHING_AGENDA);
    xcvm_tape *tapes[] = {one, all};
    hooked h[2];
    for (int k = 0; k < 2; k++) {
        xcvm_tape *t = tapes[k];
        h[k].weight = random_parameter(t, 3, SIDE, SIDE);
        xcvm_error error;
        ck_assert_int_eq(xcvm_var_add_hook(t, h[k].weight, (xcvm_gradient_hook){halve, &h[k]}, &error), XCVM_OK);
        backward(t, last_states(t, &recurrences[0], h[k].weight));
    }
    ck_assert_float_eq_tol(h[1].seen, h[0].seen, 1e-4f);
    ck_assert_float_eq_tol(*(const float *)xcvm_value_data(value_of(all, xcvm_var_get_gradient(all, h[1].weight))),
                           h[1].seen / 2, 1e-6f);
    check_close(all, xcvm_var_get_gradient(all, h[1].weight), one, xcvm_var_get_gradient(one, h[0].weight));
    close_tape(one);
    close_tape(all);
}
END_TEST

/* ---- Queue ---- */

/* Ops that are evaluated one by one, while others wait, leave nothing in the queue. */
START_TEST(c4_7_what_has_run_waits_no_more)
{
    enum { CALLS = 3000, LATER = 10, MOST = 300 };
    xcvm_tape *t = open_lazy_tape(XCVM_BATCHING_AGENDA);
    const xcvm_var x = parameter(t, 0.5f);
    xcvm_var later[LATER], before = x;
    float expected = 0.5f;
    for (int i = 0; i < CALLS; i++) {
        if (i % (CALLS / LATER) == 0)
            later[i / (CALLS / LATER)] = xcvm_Add(t, before, x);
        const xcvm_var neg = xcvm_Neg(t, before), gone = xcvm_Exp(t, neg);
        if (i % 3 == 0)
            xcvm_var_release(t, gone);
        CHECK_F32(t, neg, -expected);
        expected = -expected;
        before = neg;
        if (i % 3 != 0)
            value_of(t, gone);
        ck_assert_uint_le(t->batching.pending->count, MOST);
    }
    ck_assert_uint_eq(t->batching.pending->live, LATER);
    ck_assert_int_eq(xcvm_tape_forward(t, XCVM_ABSENT, &(xcvm_error){0}), XCVM_OK);
    ck_assert_uint_eq(t->batching.pending->count, 0);
    for (int i = 0; i < LATER; i++)
        CHECK_F32(t, later[i], i * (CALLS / LATER) % 2 == 0 ? 1.0f : 0.0f);
    /* All of them wait again, whatever had run before. */
    const xcvm_var new = xcvm_Mul(t, later[0], x);
    xcvm_tape_invalidate(t);
    ck_assert_uint_eq(t->batching.pending->live, stats_of(t).recorded);
    CHECK_F32(t, new, 0.5f);
    CHECK_F32(t, before, CALLS % 2 == 0 ? 0.5f : -0.5f);
    close_tape(t);
}
END_TEST

/* A batch without memory runs op by op, and leaves no failure. */
START_TEST(c4_7_batches_without_room)
{
    enum { MEMBERS = 8, COUNT = 1000, STEP = 2048 };
    size_t alone = 0;
    bool batched = false;
    static const float data[COUNT];
    for (size_t limit = MEMBERS * COUNT * sizeof(float); !batched; limit += STEP) {
        const xcvm_tape_options options = {.size = sizeof options,
                                           .threads = 1,
                                           .mode = XCVM_TAPE_LAZY,
                                           .batching = XCVM_BATCHING_AGENDA,
                                           .memory_limit = limit};
        xcvm_tape *t;
        xcvm_error error;
        counted c = {.name = "Exp"};
        ck_assert_uint_le(limit, 1 << 20);
        ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
        xcvm_tape_set_observer(t, &(xcvm_tape_observer){count_calls, &c});
        for (int i = 0; i < MEMBERS; i++)
            xcvm_Exp(t, xcvm_tape_constant(t, XCVM_F32, 1, DIMS(COUNT), data));
        const xcvm_status status = xcvm_tape_forward(t, XCVM_ABSENT, &error);
        ck_assert(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY);
        ck_assert_int_eq(t->error.status, XCVM_OK);
        ck_assert_str_eq(t->error.message, "");
        alone += status == XCVM_OK && c.forward == MEMBERS;
        batched = status == XCVM_OK && c.forward == 1;
        xcvm_tape_destroy(t);
    }
    ck_assert_uint_gt(alone, 0);
}
END_TEST

/* ---- Known signatures ---- */

static void check_type(xcvm_tape *t, xcvm_var v, int64_t rows, int64_t columns, bool requires)
{
    const xcvm_value *type = &v.at->value.type;
    ck_assert(v.at->creator->waiting);
    ck_assert_int_eq(type->rank, 2);
    ck_assert_int_eq(type->dims[0], rows);
    ck_assert_int_eq(type->dims[1], columns);
    ck_assert(xcvm_var_requires_gradient(t, v) == requires);
}

/* The result types of an op follow from a like one: the same operand types, attributes, and elements that determine
 * a shape. */
START_TEST(c4_7_results_follow_from_operands)
{
    xcvm_tape *t = open_lazy_tape(XCVM_BATCHING_AGENDA);
    const xcvm_var w = random_parameter(t, 1, 2, 6), x = random_rows(t, 2, 2, 6);
    for (int round = 0; round < 3; round++) {
        const bool recording = round != 1;
        xcvm_tape_set_recording(t, recording);
        for (int64_t rows = 3; rows <= 4; rows++) {
            const xcvm_var shape = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(rows, 12 / rows));
            check_type(t, xcvm_Reshape(t, w, shape), rows, 12 / rows, recording);
            check_type(t, xcvm_Reshape(t, x, shape), rows, 12 / rows, false);
        }
        for (int64_t first = 1; first <= 2; first++) {
            xcvm_var parts[2];
            xcvm_Split(t, w, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(first, 6 - first)), .axis = 1,
                       .out = {{parts, 2}});
            check_type(t, parts[0], 2, first, recording);
            check_type(t, parts[1], 2, 6 - first, recording);
        }
        check_type(t, xcvm_Transpose(t, w), 6, 2, recording);
        check_type(t, xcvm_Transpose(t, w, .perm = XCVM_INTS(0, 1)), 2, 6, recording);
        check_type(t, xcvm_Mul(t, w, x), 2, 6, recording);
        check_type(t, xcvm_Mul(t, x, x), 2, 6, false);
        xcvm_Mul(t, x, random_rows(t, 2, 3, 6));
        xcvm_error error;
        ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_SHAPE_MISMATCH);
        ck_assert_str_eq(error.instruction, "Mul");
    }
    close_tape(t);
}
END_TEST

/* ---- Packed weights ---- */

enum { UNITS = 128, STEPS_OF_UNITS = 4 };

/* Products with a bias per column, with an added tensor, and with neither. */
static xcvm_var recurrent_loss(xcvm_tape *t, xcvm_var w, xcvm_var bias)
{
    xcvm_var last[EXAMPLES];
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        const xcvm_var incoming = random_rows(t, i, 1, UNITS);
        xcvm_var h = xcvm_Tanh(t, incoming);
        for (uint32_t k = 0; k < STEPS_OF_UNITS; k++)
            h = xcvm_Tanh(t, k == 0   ? xcvm_MatMul(t, h, w)
                             : k == 1 ? xcvm_Gemm(t, h, w, bias)
                                      : xcvm_Gemm(t, h, w, xcvm_Neg(t, h), .transB = k == 3));
        last[i] = h;
    }
    return xcvm_ReduceSum(t, xcvm_Concat(t, (xcvm_var_list){last, EXAMPLES}, .axis = 0), .keepdims = 0);
}

/* A weight is packed at the second use, packed again after a change, and unpacked by a reset. */
START_TEST(c4_7_weights_are_packed_once)
{
    xcvm_tape *tapes[] = {open_tape(), open_lazy_tape(XCVM_BATCHING_AGENDA)};
    xcvm_var w[2], bias[2], loss[2];
    for (int k = 0; k < 2; k++) {
        w[k] = random_parameter(tapes[k], 1, UNITS, UNITS);
        bias[k] = random_parameter(tapes[k], 2, 1, UNITS);
    }
    for (uint32_t round = 0; round < 3; round++) {
        for (int k = 0; k < 2; k++) {
            loss[k] = recurrent_loss(tapes[k], w[k], bias[k]);
            backward(tapes[k], loss[k]);
        }
        check_close(tapes[1], loss[1], tapes[0], loss[0]);
        check_close(tapes[1], xcvm_var_get_gradient(tapes[1], w[1]), tapes[0], xcvm_var_get_gradient(tapes[0], w[0]));
        check_close(tapes[1], xcvm_var_get_gradient(tapes[1], bias[1]), tapes[0],
                    xcvm_var_get_gradient(tapes[0], bias[0]));
        ck_assert_ptr_null(tape_side(w[0].at)->panels);
        const tape_panels *panels = tape_side(w[1].at)->panels;
        ck_assert_ptr_nonnull(panels);
        ck_assert_uint_eq(panels->version, w[1].at->value.type.storage->version);
        ck_assert_ptr_nonnull(panels->packed[0]);
        ck_assert_ptr_nonnull(panels->packed[1]);
        ck_assert_ptr_null(tape_side(bias[1].at)->panels);
        for (int k = 0; k < 2; k++) {
            float other[UNITS * UNITS];
            xcvm_error error;
            uint32_t state = 3 + round;
            fill(&state, other, UNITS * UNITS);
            xcvm_var_clear_gradient(tapes[k], w[k]);
            xcvm_var_clear_gradient(tapes[k], bias[k]);
            const size_t live = stats_of(tapes[k]).live_bytes;
            if (round == 1)
                xcvm_tape_reset(tapes[k]);
            ck_assert_uint_eq(tape_side(w[k].at)->panels != NULL, round != 1 && k == 1);
            if (round == 1 && k == 1)
                ck_assert_uint_le(stats_of(tapes[k]).live_bytes + 2 * sizeof other, live);
            ck_assert_int_eq(xcvm_var_set_data(tapes[k], w[k], other, sizeof other, &error), XCVM_OK);
        }
    }
    for (int k = 0; k < 2; k++)
        close_tape(tapes[k]);
}
END_TEST

/* Packed weights are freed at the memory limit. */
START_TEST(c4_7_panels_give_way)
{
    enum { ROWS = 2048 };
    const size_t weight = UNITS * UNITS * sizeof(float), rows = ROWS * UNITS * sizeof(float);
    const xcvm_tape_options options = {.size = sizeof options,
                                       .threads = 1,
                                       .mode = XCVM_TAPE_LAZY,
                                       .batching = XCVM_BATCHING_AGENDA,
                                       .memory_limit = 4 * weight + rows};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    const xcvm_var w = random_parameter(t, 1, UNITS, UNITS);
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    for (uint32_t i = 0; i < 4; i++) {
        const xcvm_var x = random_rows(t, 1, 2, UNITS);
        value_of(t, i % 2 == 0 ? xcvm_MatMul(t, x, w) : xcvm_Gemm(t, x, w, .transB = 1));
    }
    xcvm_tape_scope_end(t, scope, 0, NULL);
    ck_assert_ptr_nonnull(tape_side(w.at)->panels);
    ck_assert_ptr_nonnull(tape_side(w.at)->panels->packed[0]);
    ck_assert_ptr_nonnull(tape_side(w.at)->panels->packed[1]);
    const size_t left = options.memory_limit - stats_of(t).live_bytes;
    ck_assert_uint_lt(left, rows + 2 * weight);
    xcvm_tape_constant(t, XCVM_F32, 2, DIMS(ROWS + UNITS + UNITS / 2, UNITS), NULL);
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_OK);
    ck_assert_ptr_null(tape_side(w.at)->panels);
    close_tape(t);
}
END_TEST

/* Without memory for panels, products read the weight as it is. */
START_TEST(c4_7_products_without_panels)
{
    test_allocator a;
    test_allocator_start(&a, 0);
    const xcvm_tape_options options = {.size = sizeof options,
                                       .threads = 1,
                                       .mode = XCVM_TAPE_LAZY,
                                       .batching = XCVM_BATCHING_AGENDA,
                                       .allocator = &a.allocator};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    const xcvm_var w[] = {random_parameter(t, 1, UNITS, UNITS), random_parameter(t, 1, UNITS, UNITS)};
    /* All other memory exists since the first product. */
    float expected[2 * UNITS];
    for (int i = 0; i < 2; i++) {
        const xcvm_scope scope = xcvm_tape_scope_begin(t);
        const xcvm_var y = xcvm_MatMul(t, random_rows(t, 1, 2, UNITS), w[i]);
        a.fail_at = i == 1 ? a.requests + 1 : 0;
        const void *elements = data_of(t, y);
        ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_OK);
        if (i == 0)
            memcpy(expected, elements, sizeof expected);
        else
            ck_assert_mem_eq(elements, expected, sizeof expected);
        xcvm_tape_scope_end(t, scope, 0, NULL);
    }
    ck_assert_uint_ge(a.requests, a.fail_at);
    ck_assert_ptr_null(tape_side(w[1].at)->panels);
    a.fail_at = 0;
    close_tape(t);
}
END_TEST

/* Scratch memory of a kernel reclaims panels too: the determinant copies the matrix as f64. */
START_TEST(c4_7_panels_give_way_to_scratch)
{
    enum { PLENTY = 16 << 20, LITTLE = 16 << 10 };
    const xcvm_tape_options options = {.size = sizeof options,
                                       .threads = 1,
                                       .mode = XCVM_TAPE_LAZY,
                                       .batching = XCVM_BATCHING_AGENDA,
                                       .memory_limit = PLENTY};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    const xcvm_var w = random_parameter(t, 1, UNITS, UNITS);
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    for (uint32_t i = 0; i < 4; i++)
        value_of(t, i % 2 == 0 ? xcvm_MatMul(t, random_rows(t, 1, 2, UNITS), w)
                               : xcvm_Gemm(t, random_rows(t, 1, 2, UNITS), w, .transB = 1));
    xcvm_tape_scope_end(t, scope, 0, NULL);
    ck_assert_ptr_nonnull(tape_side(w.at)->panels);
    const xcvm_var x = random_parameter(t, 2, UNITS, UNITS);
    value_of(t, x);
    const size_t left = options.memory_limit - stats_of(t).live_bytes;
    xcvm_tape_constant(t, XCVM_U8, 1, DIMS((int64_t)(left - LITTLE)), NULL);
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_OK);
    ck_assert_ptr_nonnull(tape_side(w.at)->panels);
    value_of(t, xcvm_Det(t, x));
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_OK);
    ck_assert_ptr_null(tape_side(w.at)->panels);
    close_tape(t);
}
END_TEST

/* Without a reset, too, the number of known signatures is limited. */
START_TEST(c4_7_kinds_are_forgotten)
{
    enum { KINDS = 24000, FEW = 6000 };
    xcvm_tape *t = open_lazy_tape(XCVM_BATCHING_AGENDA);
    size_t records = 0;
    for (int64_t i = 0; i < KINDS; i++) {
        const xcvm_scope scope = xcvm_tape_scope_begin(t);
        value_of(t, xcvm_Neg(t, xcvm_tape_constant(t, XCVM_F32, 2, DIMS(1 + i % 100, 1 + i / 100), NULL)));
        xcvm_tape_scope_end(t, scope, 0, NULL);
        if (i + 1 != FEW && i + 1 != KINDS)
            continue;
        xcvm_tape_memory_info memory = {.size = sizeof memory};
        xcvm_error error;
        ck_assert_int_eq(xcvm_tape_get_memory_info(t, &memory, &error), XCVM_OK);
        if (i + 1 == FEW)
            records = memory.records;
        else
            ck_assert_uint_lt(memory.records, 3 * records);
    }
    close_tape(t);
}
END_TEST

Suite *suite_tape_autobatch_memory(void);
Suite *suite_tape_autobatch_memory(void)
{
    Suite *suite = SUITE_OF("tape_autobatch_memory", c4_7_batches_that_lie_apart, c4_7_steps_lie_together,
                            c4_7_hooks_of_products, c4_7_what_has_run_waits_no_more, c4_7_batches_without_room,
                            c4_7_weights_are_packed_once, c4_7_panels_give_way, c4_7_panels_give_way_to_scratch,
                            c4_7_products_without_panels, c4_7_kinds_are_forgotten, c4_7_results_follow_from_operands);
    TCase *tcase = tcase_create("recurrences");
    tcase_add_loop_test(tcase, c4_7_steps_are_one_product, 0, RECURRENCES);
    tcase_add_loop_test(tcase, c4_7_small_batches_are_copied_together, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}
