/* Tests of batching: values and gradients equal those of separate ops, with fewer kernel runs. */
#include "tape/batch/batch.h"
#include "tests/tape/random.h"

static xcvm_tape *open_batching_with(xcvm_tape_mode mode, xcvm_batching batching, const xcvm_allocator *allocator)
{
    const xcvm_tape_options options = {
        .size = sizeof options, .threads = 1, .seed = 7, .mode = mode, .batching = batching, .allocator = allocator};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    return t;
}

static xcvm_tape *open_batching(xcvm_batching batching) { return open_batching_with(XCVM_TAPE_LAZY, batching, NULL); }

static const xcvm_batching strategies[] = {XCVM_BATCHING_NONE, XCVM_BATCHING_AGENDA, XCVM_BATCHING_DEPTH,
                                           XCVM_BATCHING_TIMED};
enum { STRATEGIES = 4 };

typedef struct counted {
    size_t forward, backward;
} counted;

static void count_call(void *user, const xcvm_call_event *event)
{
    counted *c = user;
    if (event->done)
        ++*(event->backward ? &c->backward : &c->forward);
}

static void fill(uint64_t *state, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)draw(state) / 2147483648.0f * 2 - 1;
}

/* ---- Random graphs ---- */

enum { SIDE = 3, ROWS = 8, PARAMETERS = 5, MOST = 400 };

typedef struct network {
    xcvm_tape *tape;
    xcvm_var weight, bias, table, wide, column;
} network;

static network make_network(xcvm_tape *t, uint64_t seed)
{
    float w[SIDE * SIDE], b[SIDE], e[ROWS * SIDE], u[SIDE * 2 * SIDE], c[SIDE * SIDE];
    uint64_t state = seed;
    fill(&state, w, SIDE * SIDE);
    fill(&state, b, SIDE);
    fill(&state, e, ROWS * SIDE);
    fill(&state, u, SIDE * 2 * SIDE);
    fill(&state, c, SIDE * SIDE);
    return (network){t,
                     xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(SIDE, SIDE), w),
                     xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(SIDE), b),
                     xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(ROWS, SIDE), e),
                     xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2 * SIDE, SIDE), u),
                     xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(SIDE, SIDE), c)};
}

static xcvm_var axes(xcvm_tape *t, int64_t axis) { return xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), &axis); }

/* A row vector of earlier ones. */
static xcvm_var apply(const network *n, uint64_t kind, uint64_t choice, xcvm_var a, xcvm_var b)
{
    xcvm_tape *t = n->tape;
    xcvm_var halves[3], x, h, c;
    switch (kind) {
    case 0:
        return xcvm_Tanh(t, xcvm_MatMul(t, a, n->weight));
    case 1:
        return xcvm_Sigmoid(t, xcvm_Gemm(t, a, n->weight, n->bias));
    case 2:
        return xcvm_Add(t, a, n->bias);
    case 3:
        return xcvm_Mul(t, a, b);
    case 4:
        return xcvm_Tanh(t, xcvm_MatMul(t, xcvm_Concat(t, XCVM_VARS(a, b), .axis = 1), n->wide));
    case 5:
        return xcvm_Gather(t, n->table, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS((int64_t)(choice % ROWS))));
    case 6: /* a column from the left */
        return xcvm_Reshape(t, xcvm_MatMul(t, n->column, xcvm_Reshape(t, a, axes(t, SIDE))),
                            xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(1, SIDE)));
    case 7:
        return xcvm_Softmax(t, xcvm_Sub(t, a, b), .axis = 1);
    case 8:
        return xcvm_LayerNormalization(t, a, n->bias, .axis = -1);
    case 9: /* a product with a matrix that is no parameter */
        return xcvm_MatMul(t, a, xcvm_MatMul(t, xcvm_Transpose(t, b, .perm = XCVM_INTS(1, 0)), a));
    case 10:
        xcvm_Split(t, a, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(1, SIDE - 1)), .axis = 1,
                   .out = {{halves, 2}});
        return xcvm_Concat(t, XCVM_VARS(halves[1], halves[0]), .axis = -1);
    case 11:
        return xcvm_Mul(t, a, xcvm_ReduceMean(t, b, axes(t, 1)));
    case 12:
        return xcvm_Add(
            t, xcvm_Slice(t, xcvm_Concat(t, XCVM_VARS(a, b), .axis = 0), axes(t, 1), axes(t, 2), axes(t, 0)), a);
    case 13:
        return xcvm_Where(t, xcvm_Less(t, a, b), a, xcvm_Neg(t, b));
    case 14:
        return xcvm_Clip(t, a, xcvm_tape_scalar(t, XCVM_F32, -0.75), xcvm_tape_scalar(t, XCVM_F32, 0.75));
    case 15:
        return xcvm_Unsqueeze(
            t, xcvm_ReduceMax(t, xcvm_Concat(t, XCVM_VARS(a, b), .axis = 0), axes(t, 0), .keepdims = 0), axes(t, 0));
    case 16:
        return xcvm_Expand(t, xcvm_ReduceSum(t, a), xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(1, SIDE)));
    case 17:
        x = xcvm_Concat(t, XCVM_VARS(a, b, b, a), .axis = 1);
        h = xcvm_LSTMCell(t, x, XCVM_VARS(a), .layout = choice % 2, .out.c = &c);
        return xcvm_Add(t, h, c);
    case 18: /* a node of a tree */
        x = xcvm_Concat(t, XCVM_VARS(a, b, a, b, a), .axis = 1);
        h = xcvm_LSTMCell(t, x, XCVM_VARS(b, a), .children = 2, .out.c = &c);
        return xcvm_Sub(t, c, h);
    case 19: /* a leaf, and the first step of a sequence */
        x = xcvm_Concat(t, XCVM_VARS(b, a, b), .axis = 1);
        h = xcvm_LSTMCell(t, x, {NULL, 0}, .children = 0, .out.c = &c);
        return xcvm_LSTMCell(t, xcvm_Concat(t, XCVM_VARS(x, c), .axis = 1), {&h, choice % 2});
    default:
        return xcvm_Exp(t, xcvm_Neg(t, xcvm_Mul(t, a, a)));
    }
}
enum { KINDS = 21 };

static xcvm_var loss_of(const network *n, xcvm_var row, uint64_t choice)
{
    return xcvm_NegativeLogLikelihoodLoss(
        n->tape, xcvm_LogSoftmax(n->tape, row),
        xcvm_tape_constant(n->tape, XCVM_I64, 1, DIMS(1), DIMS((int64_t)(choice % SIDE))));
}

/* Several graphs with the same kinds of ops in different places. */
static xcvm_var expression(const network *n, uint64_t seed)
{
    xcvm_var pool[64], losses[8];
    uint64_t state = seed;
    const uint64_t examples = 2 + draw(&state) % 6, same = draw(&state) % 2;
    for (uint64_t k = 0; k < examples; k++) {
        uint64_t own = same ? seed * 31 : draw(&state);
        float x[SIDE];
        fill(&state, x, SIDE);
        pool[0] = xcvm_tape_constant(n->tape, XCVM_F32, 2, DIMS(1, SIDE), x);
        pool[1] = apply(n, 5, draw(&state), pool[0], pool[0]);
        const uint64_t size = 4 + draw(&own) % 24 + (same ? 0 : draw(&state) % 4);
        for (uint64_t i = 2; i < size; i++) {
            const uint64_t kind = draw(&own) % KINDS, a = draw(&own) % i, b = i - 1 - draw(&own) % (i < 3 ? 1 : 2);
            pool[i] = apply(n, kind, draw(&state), pool[a], pool[b]);
        }
        const xcvm_var last = xcvm_Add(n->tape, pool[size - 1], pool[size / 2]);
        losses[k] = loss_of(n, xcvm_Add(n->tape, last, pool[1]), draw(&state));
    }
    xcvm_var sum = losses[0];
    for (uint64_t k = 1; k < examples; k++)
        sum = xcvm_Add(n->tape, sum, losses[k]);
    return sum;
}

static size_t run_network(xcvm_tape *t, uint64_t seed, float *got)
{
    const network n = make_network(t, seed);
    const xcvm_var parameters[PARAMETERS] = {n.weight, n.bias, n.table, n.wide, n.column};
    const xcvm_var loss = expression(&n, seed);
    size_t count = read_floats(t, loss, got);
    backward(t, loss);
    for (int i = 0; i < PARAMETERS; i++) {
        count += read_floats(t, xcvm_var_get_gradient(t, parameters[i]), got + count);
        xcvm_var_release(t, parameters[i]);
    }
    xcvm_tape_reset(t);
    ck_assert_uint_eq(stats_of(t).variables, 0);
    return count;
}

START_TEST(c4_7_random_graphs_agree)
{
    xcvm_tape *eager = open_tape(), *tapes[STRATEGIES];
    counted calls[STRATEGIES] = {{0, 0}};
    for (int k = 0; k < STRATEGIES; k++) {
        tapes[k] = open_batching(strategies[k]);
        xcvm_tape_set_observer(tapes[k], &(xcvm_tape_observer){count_call, &calls[k]});
    }
    for (uint64_t seed = 0; seed < 400; seed++) {
        float expected[MOST], got[MOST];
        const size_t count = run_network(eager, seed, expected);
        for (int k = 0; k < STRATEGIES; k++) {
            ck_assert_uint_eq(run_network(tapes[k], seed, got), count);
            check_numbers(seed, (size_t)k, got, expected, count, 2e-5f);
        }
    }
    for (int k = 1; k < STRATEGIES; k++) {
        ck_assert_uint_lt(3 * calls[k].forward, 2 * calls[0].forward);
        ck_assert_uint_lt(3 * calls[k].backward, 2 * calls[0].backward);
    }
    ck_assert_uint_eq(tapes[3]->batching.trial_count, 2);
    close_tape(eager);
    for (int k = 0; k < STRATEGIES; k++)
        close_tape(tapes[k]);
}
END_TEST

/* ---- Batches ---- */

typedef struct call_log {
    char names[1024];
} call_log;

static void log_call(void *user, const xcvm_call_event *event)
{
    call_log *l = user;
    if (event->done && strlen(l->names) + strlen(event->name) + 2 < sizeof l->names) {
        strcat(l->names, event->name);
        strcat(l->names, " ");
    }
}

static xcvm_var sum_of(xcvm_tape *t, const xcvm_var *xs, size_t count)
{
    xcvm_var sum = xs[0];
    for (size_t i = 1; i < count; i++)
        sum = xcvm_Add(t, sum, xs[i]);
    return sum;
}

/* Chains: each step of all chains is one op, and products have many rows. */
START_TEST(c4_7_calls_run_together)
{
    enum { EXAMPLES = 5 };
    xcvm_tape *t = open_batching(strategies[1 + _i]);
    call_log l = {""};
    xcvm_tape_set_observer(t, &(xcvm_tape_observer){log_call, &l});
    const network n = make_network(t, 1);
    xcvm_var rows[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++)
        rows[i] =
            xcvm_Tanh(t, xcvm_Gemm(t, xcvm_Gather(t, n.table, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(i))),
                                   n.weight, n.bias));
    const xcvm_var all = xcvm_Concat(t, (xcvm_var_list){rows, EXAMPLES}, .axis = 0);
    value_of(t, all);
    ck_assert_str_eq(l.names, "Gather Gemm Tanh Concat ");
    close_tape(t);
}
END_TEST

/* Results are contiguous, and ops that read them in order copy nothing. */
START_TEST(c4_7_results_are_contiguous)
{
    enum { EXAMPLES = 4 };
    xcvm_tape *t = open_batching(XCVM_BATCHING_AGENDA);
    const network n = make_network(t, 1);
    xcvm_var first[EXAMPLES], second[EXAMPLES], third[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) {
        const float x[SIDE] = {(float)i, 1, 2};
        first[i] = xcvm_MatMul(t, xcvm_tape_constant(t, XCVM_F32, 2, DIMS(1, SIDE), x), n.weight);
        second[i] = xcvm_Tanh(t, first[i]);
        third[i] = xcvm_Reshape(t, second[i], axes(t, SIDE));
    }
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_forward(t, XCVM_ABSENT, &error), XCVM_OK);
    const char *base = xcvm_value_data(value_of(t, second[0]));
    for (int i = 0; i < EXAMPLES; i++) {
        ck_assert_ptr_eq(xcvm_value_data(value_of(t, second[i])), base + i * SIDE * 4);
        ck_assert_ptr_eq(xcvm_value_data(value_of(t, third[i])), base + i * SIDE * 4);
    }
    /* The operand of the second is the result of the first, not a copy. */
    const tape_batch *of_first = first[0].at->creator->batch, *of_second = second[0].at->creator->batch;
    ck_assert_ptr_nonnull(of_first);
    ck_assert_ptr_nonnull(of_second);
    ck_assert_ptr_eq(of_second->operands[0].base, of_first->call->out[0]);
    ck_assert_ptr_eq(of_second->call->in[0]->value.type.data, of_first->call->out[0]->value.type.data);
    close_tape(t);
}
END_TEST

/* Part of a batch is differentiated alone and again; the other ops stay. */
START_TEST(c4_7_parts_of_batches)
{
    enum { EXAMPLES = 4 };
    xcvm_tape *t = open_batching(strategies[1 + _i]);
    xcvm_error error;
    const network n = make_network(t, 3);
    xcvm_var hidden[EXAMPLES], losses[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) {
        const float x[SIDE] = {(float)i, 1, -1};
        hidden[i] = xcvm_Tanh(t, xcvm_MatMul(t, xcvm_tape_constant(t, XCVM_F32, 2, DIMS(1, SIDE), x), n.weight));
        losses[i] = xcvm_ReduceSum(t, xcvm_Mul(t, hidden[i], hidden[i]), .keepdims = 0);
    }
    const xcvm_var sum = sum_of(t, losses, EXAMPLES);
    ck_assert(!isnan(xcvm_var_get_number(t, sum)));
    float one[SIDE * SIDE], all[SIDE * SIDE], separate[SIDE * SIDE] = {0};
    const xcvm_backward_options retain = {.size = sizeof retain, .retain_graph = true};
    for (int i = 0; i < EXAMPLES; i++) {
        backward_with(t, losses[i], &retain);
        read_floats(t, xcvm_var_get_gradient(t, n.weight), one);
        for (int k = 0; k < SIDE * SIDE; k++)
            separate[k] += one[k];
        xcvm_var_clear_gradient(t, n.weight);
    }
    /* With respect to a middle result, and to two of four. */
    xcvm_var gradients[2];
    ck_assert_int_eq(xcvm_tape_gradients(t, 1, &sum, NULL, 2, hidden + 1, &retain, gradients, &error), XCVM_OK);
    for (int i = 0; i < 2; i++) {
        float h[SIDE], g[SIDE];
        read_floats(t, hidden[1 + i], h);
        read_floats(t, gradients[i], g);
        for (int k = 0; k < SIDE; k++)
            ck_assert_float_eq_tol(g[k], 2 * h[k], 1e-6f);
    }
    /* A middle result retains its gradient. */
    xcvm_var_retain_gradient(t, hidden[2]);
    backward_with(t, sum, &retain);
    read_floats(t, xcvm_var_get_gradient(t, n.weight), all);
    for (int k = 0; k < SIDE * SIDE; k++)
        ck_assert_float_eq_tol(all[k], separate[k], 1e-4f);
    ck_assert_ptr_nonnull(xcvm_var_get_gradient(t, hidden[2]).at);
    xcvm_var_clear_gradient(t, n.weight);
    /* An unchained result gets no gradient. */
    xcvm_var_unchain(t, hidden[0]);
    backward_with(t, losses[0], &retain);
    ck_assert_ptr_null(xcvm_var_get_gradient(t, n.weight).at);
    backward(t, losses[3]);
    read_floats(t, xcvm_var_get_gradient(t, n.weight), all);
    for (int k = 0; k < SIDE * SIDE; k++)
        ck_assert_float_eq_tol(all[k], one[k], 1e-5f);
    ck_assert_int_eq(xcvm_tape_backward(t, losses[3], NULL, &error), XCVM_INVALID_ARGUMENT);
    backward(t, losses[2]);
    close_tape(t);
}
END_TEST

/* Only the loss has a name. The operands of a batch live until the backward pass visits the ops that made them. */
START_TEST(c4_7_only_the_loss_is_named)
{
    enum { EXAMPLES = 5 };
    float got[2][SIDE * SIDE];
    xcvm_tape *tapes[] = {open_tape(), open_batching(strategies[1 + _i])};
    for (int k = 0; k < 2; k++) {
        xcvm_tape *t = tapes[k];
        const network n = make_network(t, 3);
        const size_t before = stats_of(t).variables;
        xcvm_var losses[EXAMPLES];
        for (int i = 0; i < EXAMPLES; i++) {
            const xcvm_scope scope = xcvm_tape_scope_begin(t);
            const float x[SIDE] = {(float)i, 1, -1};
            xcvm_var h = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(1, SIDE), x);
            for (int step = 0; step < 3 - i / 2; step++)
                h = xcvm_Tanh(t, xcvm_MatMul(t, h, n.weight));
            losses[i] = xcvm_ReduceSum(t, h, .keepdims = 0);
            xcvm_tape_scope_end(t, scope, 1, &losses[i]);
        }
        const xcvm_var sum = sum_of(t, losses, EXAMPLES);
        backward(t, sum);
        read_floats(t, xcvm_var_get_gradient(t, n.weight), got[k]);
        xcvm_var_clear_gradient(t, n.weight);
        xcvm_var_release(t, sum);
        ck_assert_uint_eq(stats_of(t).variables, before);
        close_tape(t);
    }
    for (int i = 0; i < SIDE * SIDE; i++)
        ck_assert_float_eq_tol(got[1][i], got[0][i], 1e-5f);
}
END_TEST

/* Second-order gradients equal those of separate ops, and take one op per batch. */
START_TEST(c4_7_gradients_of_gradients)
{
    xcvm_tape *tapes[] = {open_tape(), open_batching(XCVM_BATCHING_AGENDA)};
    float got[2][SIDE * SIDE];
    counted calls[2] = {0};
    for (int k = 0; k < 2; k++) {
        xcvm_tape *t = tapes[k];
        xcvm_error error;
        const network n = make_network(t, 5);
        const xcvm_backward_options create = {.size = sizeof create, .create_graph = true};
        xcvm_var rows[4], gradient;
        for (int i = 0; i < 4; i++) {
            const float x[SIDE] = {(float)i, 1, -1};
            rows[i] = xcvm_ReduceSum(
                t, xcvm_Sigmoid(t, xcvm_MatMul(t, xcvm_tape_constant(t, XCVM_F32, 2, DIMS(1, SIDE), x), n.weight)),
                .keepdims = 0);
        }
        const xcvm_var sum = sum_of(t, rows, 4);
        xcvm_tape_set_observer(t, &(xcvm_tape_observer){count_call, &calls[k]});
        ck_assert_int_eq(xcvm_tape_gradients(t, 1, &sum, NULL, 1, &n.weight, &create, &gradient, &error), XCVM_OK);
        backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, gradient, gradient), .keepdims = 0));
        read_floats(t, xcvm_var_get_gradient(t, n.weight), got[k]);
        close_tape(t);
    }
    for (int i = 0; i < SIDE * SIDE; i++)
        ck_assert_float_eq_tol(got[1][i], got[0][i], 1e-5f);
    ck_assert_msg(2 * calls[1].backward < calls[0].backward, "%zu calls, of %zu one by one", calls[1].backward,
                  calls[0].backward);
}
END_TEST

/* Element-wise and row-wise ops give the same bits. */
START_TEST(c4_7_the_same_bits)
{
    enum { EXAMPLES = 7, COUNT = ROWS * SIDE };
    xcvm_tape *tapes[] = {open_tape(), open_batching(XCVM_BATCHING_AGENDA), open_batching(XCVM_BATCHING_DEPTH)};
    float got[3][EXAMPLES * SIDE + COUNT];
    for (int k = 0; k < 3; k++) {
        xcvm_tape *t = tapes[k];
        const network n = make_network(t, 11);
        xcvm_var rows[EXAMPLES], pair[2];
        for (int i = 0; i < EXAMPLES; i++) {
            const xcvm_var x = xcvm_Gather(t, n.table, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(i)));
            const xcvm_var y = xcvm_Mul(t, xcvm_Tanh(t, x), xcvm_Sigmoid(t, xcvm_Add(t, x, n.bias)));
            xcvm_Split(t, xcvm_Concat(t, XCVM_VARS(xcvm_Exp(t, y), xcvm_Softplus(t, x)), .axis = 1), .axis = 1,
                       .out = {{pair, 2}});
            rows[i] = xcvm_Div(t, xcvm_Transpose(t, xcvm_Transpose(t, pair[0])), xcvm_Exp(t, pair[1]));
        }
        const xcvm_var all = xcvm_Concat(t, (xcvm_var_list){rows, EXAMPLES}, .axis = 0);
        size_t count = read_floats(t, all, got[k]);
        backward(t, xcvm_ReduceSum(t, all, .keepdims = 0));
        count += read_floats(t, xcvm_var_get_gradient(t, n.table), got[k] + count);
        ck_assert_uint_eq(count, EXAMPLES * SIDE + COUNT);
        close_tape(t);
    }
    ck_assert_mem_eq(got[1], got[0], sizeof got[0]);
    ck_assert_mem_eq(got[2], got[0], sizeof got[0]);
}
END_TEST

/* An operand that members must share was set to another value after the call. */
START_TEST(c4_7_equal_operands_are_set)
{
    xcvm_tape *t = open_batching(strategies[1 + _i]);
    xcvm_error error;
    xcvm_var lows[3], ys[3];
    for (int i = 0; i < 3; i++) {
        lows[i] = constant(t, 0);
        ys[i] = xcvm_Clip(t, xcvm_tape_constant(t, XCVM_F32, 1, DIMS(2), F32S(-2, 2)), lows[i]);
    }
    const float one = 1;
    ck_assert_int_eq(xcvm_var_set_data(t, lows[1], &one, sizeof one, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_tape_forward(t, XCVM_ABSENT, &error), XCVM_OK);
    CHECK_F32(t, ys[0], 0, 2);
    CHECK_F32(t, ys[1], 1, 2);
    CHECK_F32(t, ys[2], 0, 2);
    close_tape(t);
}
END_TEST

/* A failing member is named, and the others have run. */
START_TEST(c4_7_a_member_fails)
{
    xcvm_tape *t = open_batching(strategies[1 + _i]);
    xcvm_error error;
    const xcvm_value *value;
    const network n = make_network(t, 1);
    xcvm_var rows[4];
    for (int i = 0; i < 4; i++)
        rows[i] = xcvm_Gather(t, n.table, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(i == 2 ? 99 : i)));
    const xcvm_var all = xcvm_Concat(t, (xcvm_var_list){rows, 4}, .axis = 0);
    ck_assert_int_eq(xcvm_var_get_value(t, all, &value, &error), XCVM_OUT_OF_RANGE);
    ck_assert_str_eq(error.instruction, "Gather");
    ck_assert_int_eq(error.pc, 2);
    value_of(t, rows[3]);
    /* A repeated read batches again. */
    ck_assert_int_eq(xcvm_var_get_value(t, all, &value, &error), XCVM_OUT_OF_RANGE);
    close_tape(t);
}
END_TEST

START_TEST(c4_7_values_are_read_again)
{
    xcvm_tape *t = open_batching(strategies[1 + _i]);
    xcvm_error error;
    xcvm_var xs[3], ys[3];
    const xcvm_var w = parameter(t, 2);
    for (int i = 0; i < 3; i++) {
        xs[i] = constant(t, (float)i);
        ys[i] = xcvm_Exp(t, xcvm_Mul(t, xs[i], w));
    }
    const xcvm_var sum = sum_of(t, ys, 3);
    CHECK_F32(t, sum, 1 + expf(2) + expf(4));
    const float minus = -1;
    ck_assert_int_eq(xcvm_var_set_data(t, xs[1], &minus, sizeof minus, &error), XCVM_OK);
    xcvm_tape_invalidate(t);
    CHECK_F32(t, sum, 1 + expf(-2) + expf(4));
    backward(t, sum);
    CHECK_F32(t, xcvm_var_get_gradient(t, w), -expf(-2) + 2 * expf(4));
    close_tape(t);
}
END_TEST

START_TEST(c4_1_revert_into_a_batch)
{
    xcvm_tape *t = open_batching(strategies[1 + _i]);
    xcvm_error error;
    const network n = make_network(t, 9);
    const float x[SIDE] = {1, 2, 3};
    const xcvm_var row = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(1, SIDE), x);
    const xcvm_var a = xcvm_Tanh(t, xcvm_MatMul(t, row, n.weight));
    ck_assert_int_eq(xcvm_tape_checkpoint(t, &error), XCVM_OK);
    const xcvm_var b = xcvm_Tanh(t, xcvm_MatMul(t, xcvm_Neg(t, row), n.weight));
    ck_assert_int_eq(xcvm_tape_forward(t, XCVM_ABSENT, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_tape_revert(t, &error), XCVM_OK);
    xcvm_Neg(t, b);
    check_failed(t, XCVM_INVALID_ARGUMENT, "stale");
    float got[SIDE], g[SIDE * SIDE];
    read_floats(t, a, got);
    backward(t, xcvm_ReduceSum(t, a));
    read_floats(t, xcvm_var_get_gradient(t, n.weight), g);
    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < SIDE; k++)
            ck_assert_float_eq_tol(g[i * SIDE + k], x[i] * (1 - got[k] * got[k]), 1e-5f);
    close_tape(t);
}
END_TEST

START_TEST(options_are_checked)
{
    xcvm_tape *t;
    xcvm_error error;
    const xcvm_tape_options eager = {.size = sizeof eager, .batching = XCVM_BATCHING_AGENDA};
    ck_assert_int_eq(xcvm_tape_create(&eager, &t, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "only a lazy tape can batch calls");
    const xcvm_tape_options unknown = {.size = sizeof unknown, .mode = XCVM_TAPE_LAZY, .batching = (xcvm_batching)9};
    ck_assert_int_eq(xcvm_tape_create(&unknown, &t, &error), XCVM_INVALID_ARGUMENT);
}
END_TEST

static xcvm_status step_of_order(xcvm_tape *t, int order, xcvm_error *error)
{
    const network n = make_network(t, 4);
    const xcvm_backward_options create = {.size = sizeof create, .create_graph = true};
    xcvm_var loss = expression(&n, 4), gradient;
    xcvm_status status = XCVM_OK;
    if (order > 1 &&
        (status = xcvm_tape_gradients(t, 1, &loss, NULL, 1, &n.weight, &create, &gradient, error)) == XCVM_OK)
        loss = xcvm_ReduceSum(t, gradient, .keepdims = 0);
    if (status == XCVM_OK)
        status = xcvm_tape_backward(t, loss, NULL, error);
    xcvm_var_release(t, n.weight);
    xcvm_var_release(t, n.bias);
    xcvm_var_release(t, n.table);
    xcvm_var_release(t, n.wide);
    xcvm_var_release(t, n.column);
    xcvm_tape_reset(t);
    if (status == XCVM_OK)
        status = xcvm_tape_status(t, error);
    (void)xcvm_tape_status(t, NULL);
    return status;
}
static xcvm_status one_step(xcvm_tape *t, xcvm_error *error) { return step_of_order(t, 1, error); }
static xcvm_status two_orders(xcvm_tape *t, xcvm_error *error) { return step_of_order(t, 2, error); }

/* A batch without memory runs op by op, so not every failed allocation is an error. */
START_TEST(out_of_memory_anywhere)
{
    starve(&(starvation){
        .work = one_step, .mode = XCVM_TAPE_LAZY, .batching = XCVM_BATCHING_AGENDA, .may_succeed = true, .least = 20});
    starve(&(starvation){.work = two_orders,
                         .mode = XCVM_TAPE_LAZY,
                         .batching = XCVM_BATCHING_AGENDA,
                         .may_succeed = true,
                         .least = 20});
}
END_TEST

Suite *suite_tape_autobatch(void);
Suite *suite_tape_autobatch(void)
{
    Suite *suite =
        SUITE_OF("tape_autobatch", c4_7_random_graphs_agree, c4_7_results_are_contiguous, c4_7_gradients_of_gradients,
                 c4_7_the_same_bits, options_are_checked, out_of_memory_anywhere);
    TCase *tcase = tcase_create("strategies");
    tcase_add_loop_test(tcase, c4_7_calls_run_together, 0, STRATEGIES - 1);
    tcase_add_loop_test(tcase, c4_7_parts_of_batches, 0, STRATEGIES - 1);
    tcase_add_loop_test(tcase, c4_7_only_the_loss_is_named, 0, STRATEGIES - 1);
    tcase_add_loop_test(tcase, c4_7_equal_operands_are_set, 0, STRATEGIES - 1);
    tcase_add_loop_test(tcase, c4_7_a_member_fails, 0, STRATEGIES - 1);
    tcase_add_loop_test(tcase, c4_7_values_are_read_again, 0, STRATEGIES - 1);
    tcase_add_loop_test(tcase, c4_1_revert_into_a_batch, 0, STRATEGIES - 1);
    suite_add_tcase(suite, tcase);
    return suite;
}
