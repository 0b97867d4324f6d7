/* Random programs with scopes, run in every way: eager and lazy tapes, batched or not, static functions. An eager
 * tape without scopes gives the expected numbers. */
#include "tests/tape/random.h"
#include "tests/tape/static_layers.h"
#include "xcvm/functions.h"

enum { SIDE = 3, TABLE = 5, PARAMETERS = 4, MOST = 128, POOL = 24, CALLS = 3 };

typedef struct setting {
    xcvm_tape_mode mode;
    xcvm_batching batching;
    bool scopes, is_static, sparse, without_middle;
    int order;
} setting;

static const setting reference = {.mode = XCVM_TAPE_EAGER};
static const setting settings[] = {
    {.mode = XCVM_TAPE_EAGER, .scopes = true},
    {.mode = XCVM_TAPE_EAGER, .scopes = true, .sparse = true},
    {.mode = XCVM_TAPE_LAZY},
    {.mode = XCVM_TAPE_LAZY, .scopes = true, .sparse = true},
    {.mode = XCVM_TAPE_LAZY, .batching = XCVM_BATCHING_AGENDA, .scopes = true},
    {.mode = XCVM_TAPE_LAZY, .batching = XCVM_BATCHING_DEPTH, .scopes = true, .sparse = true},
    {.mode = XCVM_TAPE_LAZY, .batching = XCVM_BATCHING_TIMED, .scopes = true},
    {.mode = XCVM_TAPE_EAGER, .scopes = true, .is_static = true},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

typedef struct program {
    xcvm_tape *tape;
    uint64_t seed, state;
    const setting *how;
    xcvm_var parameters[PARAMETERS]; /* a weight, a bias, a table, a column */
    xcvm_var middle;                 /* a result of the first block */
    xcvm_optimizer *optimizer;       /* that the program steps; NULL: it returns gradients */
    xcvm_var count;                  /* of its calls */
} program;

static uint64_t next(program *p) { return draw(&p->state); }

static float number(program *p) { return (float)next(p) / 2147483648.0f * 2 - 1; }

static xcvm_var ints(xcvm_tape *t, int64_t count, const int64_t *numbers)
{
    return xcvm_tape_constant(t, XCVM_I64, 1, &count, numbers);
}

/* x^2 + 1 */
static xcvm_var positive(xcvm_tape *t, xcvm_var x) { return xcvm_Add(t, xcvm_Mul(t, x, x), constant(t, 1)); }

/* An element-wise op. */
static xcvm_var function_of(xcvm_tape *t, xcvm_var x, uint64_t which)
{
    switch (which) {
    case 0:
        return xcvm_Tanh(t, x);
    case 1:
        return xcvm_Sigmoid(t, x);
    case 2:
        return xcvm_Exp(t, xcvm_Neg(t, positive(t, x)));
    case 3:
        return xcvm_Relu(t, x);
    case 4:
        return xcvm_Sqrt(t, positive(t, x));
    case 5:
        return xcvm_Log(t, positive(t, x));
    case 6:
        return xcvm_Reciprocal(t, positive(t, x));
    case 7:
        return xcvm_Sin(t, x);
    case 8:
        return xcvm_Softplus(t, x);
    case 9:
        return xcvm_Clip(t, x, constant(t, -0.75f), constant(t, 0.75f));
    case 10:
        return xcvm_LeakyRelu(t, x);
    case 11:
        return xcvm_Elu(t, x);
    case 12:
        return xcvm_Gelu(t, x);
    case 13:
        return xcvm_Erf(t, x);
    case 14:
        return xcvm_Mish(t, x);
    case 15:
        return xcvm_Selu(t, x);
    case 16:
        return xcvm_Cast(t, xcvm_Cast(t, x, .to = XCVM_F64), .to = XCVM_F32);
    case 17:
        return xcvm_HardSigmoid(t, x);
    case 18:
        return xcvm_Abs(t, x);
    default:
        return xcvm_Neg(t, x);
    }
}

/* Moves elements, or reduces them along an axis. */
static xcvm_var moved_or_reduced(program *p, xcvm_var x, uint64_t which)
{
    xcvm_tape *t = p->tape;
    xcvm_var parts[2];
    switch (which) {
    case 0:
        return xcvm_Softmax(t, x, .axis = 1);
    case 1:
        return xcvm_LogSoftmax(t, x, .axis = 0);
    case 2:
        return xcvm_Transpose(t, xcvm_Tanh(t, xcvm_Transpose(t, x, .perm = XCVM_INTS(1, 0))), .perm = XCVM_INTS(1, 0));
    case 3:
        return xcvm_Reshape(t, xcvm_Reshape(t, x, ints(t, 1, DIMS(-1))), ints(t, 2, DIMS(2, SIDE)));
    case 4:
        xcvm_Split(t, x, ints(t, 2, DIMS(1, SIDE - 1)), .axis = 1, .out = {{parts, 2}});
        return xcvm_Concat(t, XCVM_VARS(parts[1], parts[0]), .axis = 1);
    case 5:
        return xcvm_CumSum(t, x, xcvm_tape_scalar(t, XCVM_I64, 0));
    case 6:
        return xcvm_Slice(t, xcvm_Pad(t, x, ints(t, 4, DIMS(1, 0, 0, 2))), ints(t, 2, DIMS(1, 1)),
                          ints(t, 2, DIMS(3, SIDE + 1)), ints(t, 2, DIMS(0, 1)));
    case 7:
        return xcvm_ReduceMean(t,
                               xcvm_Reshape(t, xcvm_Tile(t, x, ints(t, 2, DIMS(2, 1))), ints(t, 3, DIMS(2, 2, SIDE))),
                               ints(t, 1, DIMS(0)), .keepdims = 0);
    case 8:
        return xcvm_Trilu(t, x);
    case 9:
        return xcvm_LayerNormalization(t, x, p->parameters[1], .axis = -1);
    case 10:
        return xcvm_Expand(t, xcvm_ReduceSum(t, x, ints(t, 1, DIMS(1))), ints(t, 2, DIMS(2, SIDE)));
    default:
        return xcvm_Mul(t, x, xcvm_ReduceMax(t, x, ints(t, 1, DIMS(1))));
    }
}

/* Affects gradients rather than values. */
static xcvm_var held_back(program *p, xcvm_var x, uint64_t which)
{
    xcvm_tape *t = p->tape;
    switch (which) {
    case 0:
        return xcvm_Mul(t, xcvm_var_detach(t, x), xcvm_Tanh(t, x));
    case 1:
        return xcvm_tape_scale_gradient(t, x, -0.5);
    case 2:
        x = xcvm_Neg(t, x);
        xcvm_var_unchain(t, x);
        return xcvm_Add(t, x, p->parameters[1]);
    default:
        return xcvm_Identity(t, x);
    }
}

static xcvm_var unary(program *p, xcvm_var x)
{
    enum { FUNCTIONS = 20, MOVED = 12, HELD = 4 };
    const uint64_t which = next(p) % (FUNCTIONS + MOVED + HELD);
    if (which < FUNCTIONS)
        return function_of(p->tape, x, which);
    if (which < FUNCTIONS + MOVED)
        return moved_or_reduced(p, x, which - FUNCTIONS);
    return held_back(p, x, which - FUNCTIONS - MOVED);
}

static xcvm_var binary(program *p, xcvm_var a, xcvm_var b)
{
    xcvm_tape *t = p->tape;
    const int64_t rows[2] = {(int64_t)(next(p) % TABLE), (int64_t)(next(p) % TABLE)};
    switch (next(p) % 14) {
    case 0:
        return xcvm_Add(t, a, b);
    case 1:
        return xcvm_Sub(t, a, b);
    case 2:
        return xcvm_Mul(t, a, b);
    case 3:
        return xcvm_Div(t, a, positive(t, b));
    case 4:
        return xcvm_Max(t, a, b);
    case 5:
        return xcvm_Where(t, xcvm_Less(t, a, b), a, b);
    case 6:
        return xcvm_MatMul(t, xcvm_Tanh(t, xcvm_MatMul(t, a, xcvm_Transpose(t, b, .perm = XCVM_INTS(1, 0)))), b);
    case 7:
        return xcvm_Tanh(t, xcvm_MatMul(t, a, p->parameters[0]));
    case 8:
        return xcvm_Sigmoid(t, xcvm_Gemm(t, b, p->parameters[0], p->parameters[1], .transB = 1));
    case 9:
        return xcvm_Mul(t, a, xcvm_Gather(t, p->parameters[2], ints(t, 2, rows)));
    case 10:
        return xcvm_Tanh(t, xcvm_MatMul(t, p->parameters[3], b));
    case 11:
        return xcvm_Slice(t, xcvm_Concat(t, XCVM_VARS(a, b), .axis = 0), ints(t, 1, DIMS(1)), ints(t, 1, DIMS(3)));
    case 12:
        return xcvm_Pow(t, positive(t, a), constant(t, 1.5f));
    default:
        return xcvm_Add(t, xcvm_Mul(t, a, p->parameters[1]), b);
    }
}

/* Ops on variables of the pool. The last results stay, the others end with the scope. */
static size_t block(program *p, xcvm_var *pool, size_t count, int depth)
{
    xcvm_tape *t = p->tape;
    xcvm_var own[POOL];
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    const size_t calls = 2 + next(p) % 5, results = 1 + next(p) % 2;
    size_t size = count;
    memcpy(own, pool, count * sizeof *own);
    for (size_t i = 0; i < calls && size + 3 < POOL; i++) {
        if (depth > 0 && next(p) % 3 == 0) {
            size = block(p, own, size, depth - 1);
            continue;
        }
        const xcvm_var a = own[next(p) % size], b = own[size - 1 - next(p) % (size < 3 ? size : 3)];
        own[size++] = next(p) % 2 == 0 ? unary(p, a) : binary(p, a, b);
    }
    for (size_t i = 0; i < results; i++)
        pool[count + i] = own[size - 1 - (i < size - count ? i : 0)];
    if (p->how->scopes)
        xcvm_tape_scope_end(t, scope, results, pool + count);
    return count + results;
}

/* A step of all parameters, followed by one that is written out in ops. */
static xcvm_status learn(program *p, xcvm_var loss)
{
    XCVM_TRY(learn_from(p->tape, p->optimizer, loss));
    xcvm_Add(p->tape, p->count, xcvm_tape_scalar(p->tape, XCVM_F32, 1), .into = p->count);
    return XCVM_OK;
}

static xcvm_status run_program(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    program *p = user;
    xcvm_var pool[POOL];
    (void)out_count;
    p->state = p->seed;
    memcpy(pool, in, in_count * sizeof *pool);
    const size_t first = in_count, blocks = 1 + next(p) % 3;
    size_t count = first;
    for (size_t i = 0; i < blocks && count + 6 < POOL; i++)
        count = block(p, pool, count, 2);
    p->middle = pool[first];
    const xcvm_var sum = xcvm_Add(t, xcvm_Add(t, pool[count - 1], pool[first]), xcvm_Mul(t, in[0], p->parameters[1]));
    out[0] = xcvm_ReduceMean(t, xcvm_Tanh(t, sum), .keepdims = 0);
    return p->optimizer != NULL ? learn(p, out[0]) : XCVM_OK;
}

/* The gradient of parameter `i`, as a tensor. */
static size_t read_gradient(program *p, int i, float *to)
{
    xcvm_tape *t = p->tape;
    xcvm_var rows, gradients;
    const size_t count = xcvm_value_count(value_of(t, p->parameters[i]));
    memset(to, 0, count * sizeof *to);
    read_floats(t, xcvm_var_get_gradient(t, p->parameters[i]), to);
    ck_assert_int_eq(xcvm_var_get_gradient_rows(t, p->parameters[i], &rows, &gradients, NULL), XCVM_OK);
    for (size_t k = 0; rows.at != NULL && k < xcvm_value_count(value_of(t, rows)); k++)
        for (size_t j = 0; j < SIDE; j++)
            to[(size_t)((const int64_t *)xcvm_value_data(value_of(t, rows)))[k] * SIDE + j] +=
                ((const float *)xcvm_value_data(value_of(t, gradients)))[k * SIDE + j];
    return count;
}

/* The gradients, or in second order those of the sum of their squares. UNSUPPORTED if a host operation in a static
 * function would have to be differentiated. */
static xcvm_status go_back(program *p, xcvm_var loss, xcvm_error *error)
{
    enum { WRT = PARAMETERS + 1 };
    xcvm_tape *t = p->tape;
    const xcvm_backward_options create = {.size = sizeof create, .create_graph = true};
    xcvm_var wrt[WRT], gradients[WRT], sum = XCVM_ABSENT;
    size_t count = PARAMETERS;
    if (p->how->order < 2)
        return xcvm_tape_backward(t, loss, NULL, error);
    memcpy(wrt, p->parameters, sizeof p->parameters);
    if (!p->how->is_static)
        wrt[count++] = p->middle;
    XCVM_TRY(xcvm_tape_gradients(t, 1, &loss, NULL, count, wrt, &create, gradients, error));
    for (size_t i = 0; i < count; i++) {
        if (gradients[i].at == NULL || (p->how->without_middle && i == PARAMETERS))
            continue;
        const xcvm_var square = xcvm_ReduceSum(t, xcvm_Mul(t, gradients[i], gradients[i]), .keepdims = 0);
        sum = sum.at != NULL ? xcvm_Add(t, sum, square) : square;
    }
    return xcvm_tape_backward(t, xcvm_Add(t, sum, xcvm_ReduceSum(t, p->parameters[0], .keepdims = 0)), NULL, error);
}

static void make_optimizer(program *p)
{
    static const char *const names[PARAMETERS] = {"weight", "bias", "table", "column"};
    ck_assert_int_eq(xcvm_optimizer_create(p->tape, "sgd:lr=0.1,momentum=0.5", NULL, &p->optimizer, NULL), XCVM_OK);
    for (int i = 0; i < PARAMETERS; i++)
        ck_assert_int_eq(xcvm_optimizer_add(p->optimizer, names[i], p->parameters[i], NULL), XCVM_OK);
}

static size_t run_tape_program(uint64_t seed, const setting *how, float *got)
{
    const xcvm_tape_options options = {
        .size = sizeof options, .threads = 1, .seed = 7, .mode = how->mode, .batching = how->batching};
    program p = {.seed = seed, .state = seed * 977 + 1, .how = how};
    float numbers[TABLE * SIDE];
    const int64_t dims[PARAMETERS][2] = {{SIDE, SIDE}, {SIDE, 1}, {TABLE, SIDE}, {2, 2}};
    xcvm_static *s = NULL;
    size_t count = 0;
    ck_assert_int_eq(xcvm_tape_create(&options, &p.tape, NULL), XCVM_OK);
    xcvm_tape *t = p.tape;
    for (int i = 0; i < PARAMETERS; i++) {
        for (int64_t k = 0; k < dims[i][0] * dims[i][1]; k++)
            numbers[k] = number(&p);
        p.parameters[i] = xcvm_tape_parameter(t, XCVM_F32, i == 1 ? 1 : 2, dims[i], numbers);
    }
    ck_assert_int_eq(xcvm_var_set_sparse_gradient(t, p.parameters[2], how->sparse, NULL), XCVM_OK);
    p.count = xcvm_var_keep(t, constant(t, 0));
    if (how->order < 2 && seed % 2 != 0)
        make_optimizer(&p);
    const xcvm_static_options twice = {.size = sizeof twice, .double_backprop = how->order > 1};
    if (how->is_static)
        s = make_static(t, (xcvm_static_function){run_program, &p}, &twice);
    for (int call = 0; call < CALLS; call++) {
        p.state = seed * 31 + (uint64_t)call;
        for (int k = 0; k < 4 * SIDE; k++)
            numbers[k] = number(&p);
        const xcvm_var in[] = {xcvm_tape_constant(t, XCVM_F32, 2, DIMS(2, SIDE), numbers),
                               xcvm_tape_constant(t, XCVM_F32, 2, DIMS(2, SIDE), numbers + 2 * SIDE)};
        xcvm_var loss;
        if (how->is_static)
            xcvm_static_call(s, 2, in, 1, &loss);
        else
            ck_assert_int_eq(run_program(&p, t, 2, in, 1, &loss), XCVM_OK);
        xcvm_error error = {0};
        count += read_floats(t, loss, got + count);
        const xcvm_status status = p.optimizer == NULL ? go_back(&p, loss, &error) : xcvm_tape_status(t, &error);
        if (status == XCVM_UNSUPPORTED && how->is_static && how->order > 1) {
            xcvm_static_destroy(s);
            close_tape(t);
            return 0;
        }
        ck_assert_msg(status == XCVM_OK, "program %d: %s: %s", (int)seed, error.instruction, error.message);
    }
    for (int i = 0; i < PARAMETERS; i++)
        count += p.optimizer == NULL ? read_gradient(&p, i, got + count) : read_floats(t, p.parameters[i], got + count);
    count += read_floats(t, p.count, got + count);
    xcvm_optimizer_destroy(p.optimizer);
    xcvm_static_destroy(s);
    close_tape(t);
    return count;
}

static void check_program(uint64_t seed, int order)
{
    setting plain = reference;
    float expected[2][MOST], got[MOST];
    plain.order = order;
    const size_t count = run_tape_program(seed, &plain, expected[0]);
    plain.without_middle = true;
    run_tape_program(seed, &plain, expected[1]);
    for (size_t k = 0; k < SETTINGS; k++) {
        setting how = settings[k];
        how.order = order;
        const size_t found = run_tape_program(seed, &how, got);
        if (found == 0 && how.is_static && order > 1)
            continue;
        ck_assert_uint_eq(found, count);
        check_numbers(seed, k, got, expected[how.is_static], count, 1e-4f);
    }
}

START_TEST(random_programs_agree)
{
    for (int i = 0; i < 50; i++)
        check_program((uint64_t)(_i / 2 * 50 + i), 1 + _i % 2);
}
END_TEST

Suite *suite_tape_random_programs(void);
Suite *suite_tape_random_programs(void)
{
    Suite *suite = test_suite_of("tape_random_programs", NULL, 0);
    TCase *tcase = tcase_create("programs");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, random_programs_agree, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite;
}
