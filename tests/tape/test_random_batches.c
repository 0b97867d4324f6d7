/* Random recurrences over examples of different lengths, with actions of the host in between: reading, writing in
 * place, hooks, retained gradients, several passes. Lazy tapes, batched or not, must give the numbers of an eager
 * tape. */
#include "tests/tape/random.h"

enum { SIDE = 4, TABLE = 6, WEIGHTS = 5, EXAMPLES = 7, LONGEST = 6, MOST = 8192, STEPS = 8, STATES = 3 };

typedef struct example {
    int64_t length, words[LONGEST], target;
} example;

typedef struct run {
    xcvm_tape *tape;
    uint64_t state;
    xcvm_var weights[WEIGHTS]; /* two matrices, a bias, a table, a buffer without gradient */
    int ops[STEPS], args[STEPS];
    example examples[EXAMPLES];
    int hooked;
    xcvm_var retained[EXAMPLES * LONGEST * STEPS];
    size_t retained_count;
    float *got;
    size_t count;
    bool forces; /* the host reads numbers in between */
} run;

static uint32_t next(run *r) { return (uint32_t)draw(&r->state); }

static void append_value(run *r, xcvm_var v)
{
    if (v.at == NULL) {
        r->got[r->count++] = -1;
        return;
    }
    ck_assert_uint_lt(r->count + xcvm_value_count(value_of(r->tape, v)), MOST);
    r->count += read_floats(r->tape, v, r->got + r->count);
}

static xcvm_var count_gradients(void *user, xcvm_tape *t, xcvm_var gradient)
{
    run *r = user;
    r->hooked++;
    return xcvm_Mul(t, gradient, xcvm_tape_scalar(t, XCVM_F32, 0.5));
}

/* One op of the recurrence, on the word x and states h. */
static xcvm_var apply(run *r, int op, int arg, xcvm_var x, const xcvm_var *h)
{
    xcvm_tape *t = r->tape;
    const xcvm_var *w = r->weights;
    const xcvm_var a = h[arg % STATES], b = h[arg / STATES % STATES];
    xcvm_var parts[2];
    switch (op) {
    case 0:
        return xcvm_Tanh(t, xcvm_Gemm(t, a, w[0], w[2]));
    case 1:
        return xcvm_Tanh(t, xcvm_Gemm(t, a, w[1], x));
    case 2:
        return xcvm_Sigmoid(t, xcvm_MatMul(t, x, w[0]));
    case 3:
        return xcvm_Tanh(t, xcvm_Mul(t, a, b));
    case 4:
        return xcvm_Tanh(t, xcvm_Add(t, a, xcvm_Mul(t, b, x)));
    case 5:
        xcvm_Split(t, xcvm_Concat(t, XCVM_VARS(a, b), .axis = 1),
                   xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(SIDE + 2, SIDE - 2)), .axis = 1,
                   .out = {{parts, 2}});
        return xcvm_Add(t,
                        xcvm_Slice(t, parts[0], xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(2)),
                                   xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(SIDE + 2)),
                                   xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(1))),
                        xcvm_ReduceSum(t, parts[1], xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(1))));
    case 6:
        return xcvm_Softmax(t, a);
    case 7:
        return xcvm_Reshape(t,
                            xcvm_Relu(t, xcvm_Reshape(t, b, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(2, 2)))),
                            xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(1, SIDE)));
    case 8:
        return xcvm_Where(t, xcvm_Less(t, a, b), x, b);
    case 9:
        return xcvm_LayerNormalization(t, xcvm_Add(t, xcvm_Tanh(t, a), x), w[2], .axis = -1);
    case 10:
        return xcvm_Sub(t, xcvm_var_detach(t, xcvm_Tanh(t, a)), xcvm_Tanh(t, b));
    case 11:
        return arg % 2 == 0 ? xcvm_Tanh(t, xcvm_Add(t, a, w[4])) : xcvm_Mul(t, a, xcvm_Sin(t, w[4]));
    default:
        return xcvm_MatMul(t, xcvm_Sin(t, xcvm_Mul(t, a, x)), xcvm_Transpose(t, w[1], .perm = XCVM_INTS(1, 0)));
    }
}

static void meddle(run *r, xcvm_var v)
{
    xcvm_tape *t = r->tape;
    xcvm_error error = {0};
    bool recording;
    switch (next(r) % 12) {
    case 0:
        if (r->forces)
            append_value(r, v);
        break;
    case 1:
        xcvm_var_retain_gradient(t, v);
        r->retained[r->retained_count++] = xcvm_var_keep(t, v);
        break;
    case 2:
        ck_assert_int_eq(xcvm_var_add_hook(t, v, (xcvm_gradient_hook){count_gradients, r}, &error), XCVM_OK);
        break;
    case 3: /* an in-place op on the buffer, which earlier ops have read */
        recording = xcvm_tape_set_recording(t, false);
        xcvm_Add(t, r->weights[4], xcvm_tape_scalar(t, XCVM_F32, 0.125), .into = r->weights[4]);
        xcvm_tape_set_recording(t, recording);
        break;
    default:
        break;
    }
}

static xcvm_var loss_of(run *r, const example *e, xcvm_var *middle, bool meddles)
{
    xcvm_tape *t = r->tape;
    xcvm_var h[STATES];
    const xcvm_var start = xcvm_Gather(t, r->weights[3], xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(0)));
    for (int i = 0; i < STATES; i++)
        h[i] = start;
    for (int64_t k = 0; k < e->length; k++) {
        const xcvm_var x = xcvm_Gather(t, r->weights[3], xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), &e->words[k]));
        for (int i = 0; i < STEPS; i++) {
            const xcvm_var y = apply(r, r->ops[i], r->args[i], x, h);
            h[i % STATES] = y;
            if (meddles && next(r) % 4 == 0)
                meddle(r, y);
            /* The numbers that the host reads decide its calls. */
            if (r->forces && meddles && next(r) % 40 == 0 &&
                xcvm_var_get_number(t, xcvm_ReduceSum(t, y, .keepdims = 0)) > 0)
                h[0] = xcvm_Neg(t, h[0]);
        }
        if (k == 0)
            *middle = h[0];
    }
    const xcvm_var scores = xcvm_LogSoftmax(t, xcvm_Gemm(t, h[0], r->weights[0], r->weights[2]));
    return xcvm_NegativeLogLikelihoodLoss(t, scores, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), &e->target),
                                          .reduction = XCVM_LOSS_REDUCTION_none);
}

static void forget(run *r)
{
    for (int i = 0; i + 1 < WEIGHTS; i++) {
        append_value(r, xcvm_var_get_gradient(r->tape, r->weights[i]));
        xcvm_var_clear_gradient(r->tape, r->weights[i]);
    }
    r->got[r->count++] = (float)r->hooked;
    for (size_t i = 0; i < r->retained_count; i++) {
        append_value(r, xcvm_var_get_gradient(r->tape, r->retained[i]));
        xcvm_var_release(r->tape, r->retained[i]);
    }
    r->retained_count = 0;
    xcvm_tape_reset(r->tape);
}

static void run_round(run *r, int kind)
{
    xcvm_tape *t = r->tape;
    xcvm_var losses[EXAMPLES], middle[EXAMPLES], gradients[EXAMPLES + 2];
    xcvm_error error = {0};
    for (int i = 0; i < EXAMPLES; i++)
        losses[i] = loss_of(r, &r->examples[i], &middle[i], kind > 0);
    const xcvm_var loss =
        xcvm_ReduceSum(t, xcvm_Concat(t, (xcvm_var_list){losses, EXAMPLES}, .axis = 0), .keepdims = 0);
    xcvm_backward_options options = {.size = sizeof options};
    const uint32_t way = next(r) % 4;
    if (way == 0) {
        backward(t, loss);
    } else if (way == 1) { /* some examples, then all */
        options.retain_graph = true;
        backward_with(t, xcvm_Add(t, losses[1], losses[4]), &options);
        backward(t, loss);
    } else {
        xcvm_var wrt[EXAMPLES + 2] = {r->weights[0], r->weights[3]};
        const size_t count = way == 2 ? EXAMPLES + 2 : 2;
        memcpy(wrt + 2, middle, sizeof middle);
        options.create_graph = true;
        ck_assert_msg(xcvm_tape_gradients(t, 1, &loss, NULL, count, wrt, &options, gradients, &error) == XCVM_OK,
                      "%s: %s", error.instruction, error.message);
        xcvm_var sum = losses[0];
        for (size_t i = 0; i < count; i++)
            if (gradients[i].at != NULL)
                sum = xcvm_Add(t, sum, xcvm_ReduceSum(t, xcvm_Mul(t, gradients[i], gradients[i]), .keepdims = 0));
        append_value(r, sum);
        if (way == 3) { /* once more */
            const xcvm_var root = xcvm_ReduceSum(t, xcvm_Tanh(t, sum), .keepdims = 0);
            ck_assert_int_eq(xcvm_tape_gradients(t, 1, &root, NULL, 2, wrt, &options, gradients, &error), XCVM_OK);
            for (size_t i = 0; i < 2; i++)
                if (gradients[i].at != NULL)
                    sum = xcvm_Add(t, sum, xcvm_ReduceSum(t, gradients[i], .keepdims = 0));
            append_value(r, sum);
        }
        backward(t, xcvm_ReduceSum(t, xcvm_Tanh(t, sum), .keepdims = 0));
    }
    append_value(r, loss);
    const bool recording = xcvm_tape_set_recording(t, false);
    xcvm_Sub(t, r->weights[1], xcvm_tape_scalar(t, XCVM_F32, 0.01), .into = r->weights[1]);
    xcvm_Add(t, r->weights[4], r->weights[4], .into = r->weights[4]);
    xcvm_tape_set_recording(t, recording);
    forget(r);
}

static size_t run_all(uint64_t seed, xcvm_tape_mode mode, xcvm_batching batching, float *got)
{
    const xcvm_tape_options options = {.size = sizeof options, .threads = 1, .mode = mode, .batching = batching};
    static const int64_t dims[WEIGHTS][2] = {{SIDE, SIDE}, {SIDE, SIDE}, {SIDE, 1}, {TABLE, SIDE}, {1, SIDE}};
    run r = {.state = seed * 7919 + 3, .got = got};
    float numbers[TABLE * SIDE];
    ck_assert_int_eq(xcvm_tape_create(&options, &r.tape, NULL), XCVM_OK);
    for (int i = 0; i < WEIGHTS; i++) {
        for (int64_t k = 0; k < dims[i][0] * dims[i][1]; k++)
            numbers[k] = (float)(next(&r) % 2001) / 1000 - 1;
        r.weights[i] = i + 1 < WEIGHTS
                           ? xcvm_tape_parameter(r.tape, XCVM_F32, i == 2 ? 1 : 2, dims[i], numbers)
                           : xcvm_var_keep(r.tape, xcvm_tape_constant(r.tape, XCVM_F32, 2, dims[i], numbers));
    }
    for (int i = 0; i < STEPS; i++) {
        r.ops[i] = (int)(next(&r) % 13);
        r.args[i] = (int)(next(&r) % (STATES * STATES));
    }
    for (int i = 0; i < EXAMPLES; i++) {
        example *e = &r.examples[i];
        e->length = 1 + next(&r) % LONGEST;
        e->target = next(&r) % SIDE;
        for (int k = 0; k < LONGEST; k++)
            e->words[k] = next(&r) % TABLE;
    }
    r.forces = seed % 2 != 0;
    for (int round = 0; round < 3; round++)
        run_round(&r, round);
    close_tape(r.tape);
    return r.count;
}

START_TEST(batches_agree)
{
    static const struct {
        xcvm_tape_mode mode;
        xcvm_batching batching;
    } ways[] = {{XCVM_TAPE_LAZY, XCVM_BATCHING_NONE},
                {XCVM_TAPE_LAZY, XCVM_BATCHING_AGENDA},
                {XCVM_TAPE_LAZY, XCVM_BATCHING_DEPTH}};
    static float expected[MOST], got[MOST];
    for (int i = 0; i < 12; i++) {
        const uint64_t seed = (uint64_t)(_i * 12 + i);
        const size_t count = run_all(seed, XCVM_TAPE_EAGER, XCVM_BATCHING_NONE, expected);
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
            ck_assert_uint_eq(run_all(seed, ways[k].mode, ways[k].batching, got), count);
            check_numbers(seed, k, got, expected, count, 1e-3f);
        }
    }
}
END_TEST

Suite *suite_tape_random_batches(void);
Suite *suite_tape_random_batches(void)
{
    Suite *suite = test_suite_of("tape_random_batches", NULL, 0);
    TCase *tcase = tcase_create("programs");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, batches_agree, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite;
}
