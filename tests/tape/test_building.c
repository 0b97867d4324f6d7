/* Tests of building tapes: the programs compute what eager tapes compute. */
#include "tests/tape/support.h"
#include "xcvm/compiler.h"

static xcvm_tape *open_building(void)
{
    const xcvm_tape_options options = {.size = sizeof options, .threads = 1, .mode = XCVM_TAPE_BUILDING};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    return t;
}

/* A built program with a session. */
typedef struct built {
    test_bytes bytes;
    xcvm_program *program;
    xcvm_session *session;
} built;

/* Instead of a level: the tape is exported as an ONNX model, which is compiled. */
enum { THROUGH_ONNX = 100 };

static built compile(xcvm_tape *t, size_t count, const xcvm_tape_output *outputs, int optimization)
{
    built p = {.program = NULL};
    test_bytes model = {NULL, 0, 0};
    xcvm_error error = {0};
    const bool onnx = optimization == THROUGH_ONNX;
    const xcc_options options = {
        .size = sizeof options, .optimization = onnx ? 0 : optimization, .onnx_export.enabled = onnx};
    const xcvm_session_options one = {.size = sizeof one, .threads = 1};
    ck_assert_msg(xcvm_tape_compile(t, count, outputs, &options, (xcvm_sink){test_bytes_sink, onnx ? &model : &p.bytes},
                                    NULL, &error) == XCVM_OK,
                  "%s: %s", error.instruction, error.message);
    if (onnx)
        ck_assert_msg(xcc_compile(model.at, model.length, NULL, (xcvm_sink){test_bytes_sink, &p.bytes}, NULL, &error) ==
                          XCVM_OK,
                      "%s: %s", error.instruction, error.message);
    test_bytes_free(&model);
    ck_assert_msg(xcvm_program_load(p.bytes.at, p.bytes.length, NULL, &p.program, &error) == XCVM_OK, "%s",
                  error.message);
    ck_assert_int_eq(xcvm_session_create(p.program, &one, &p.session, &error), XCVM_OK);
    xcvm_tape_destroy(t);
    return p;
}

static void close_built(built *p)
{
    xcvm_session_destroy(p->session);
    xcvm_program_destroy(p->program);
    test_bytes_free(&p->bytes);
}

static void bind(built *p, size_t input, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data)
{
    xcvm_value *v;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tensor_create(NULL, dtype, rank, dims, &v, &error), XCVM_OK);
    memcpy(xcvm_value_data(v), data, xcvm_value_bytes(v));
    ck_assert_int_eq(xcvm_session_set_input(p->session, input, v, &error), XCVM_OK);
    xcvm_value_release(v);
}

static void run_built(built *p)
{
    xcvm_error error = {0};
    ck_assert_msg(xcvm_session_run(p->session, NULL, &error) == XCVM_OK, "%s: %s", error.instruction, error.message);
}

static void check_same(const built *p, size_t output, xcvm_tape *t, xcvm_var v)
{
    const xcvm_value *got = xcvm_session_get_output(p->session, output), *expected = value_of(t, v);
    ck_assert_int_eq(xcvm_value_dtype(got), xcvm_value_dtype(expected));
    ck_assert_uint_eq(xcvm_value_bytes(got), xcvm_value_bytes(expected));
    for (size_t i = 0; i < xcvm_value_count(got); i++)
        ck_assert_float_eq_tol(((const float *)xcvm_value_data(got))[i], ((const float *)xcvm_value_data(expected))[i],
                               1e-5f);
}

/* ---- A network ---- */

typedef struct network {
    xcvm_var w, filter, loss;
} network;

static network make_network(xcvm_tape *t, xcvm_var x)
{
    network n;
    n.filter = xcvm_tape_parameter(t, XCVM_F32, 4, DIMS(2, 1, 2, 2), F32S(1, -1, 2, 0.5f, -0.5f, 1, 0.25f, 1));
    n.w = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(8, 2),
                              F32S(1, 2, 3, 4, -1, -2, -3, -4, 0.5f, 1, 0.25f, 2, 1, 1, -1, 2));
    const xcvm_var h = xcvm_Relu(t, xcvm_Conv(t, x, n.filter));
    const xcvm_var rows = xcvm_Reshape(t, h, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(0, 8)));
    const xcvm_var y = xcvm_Softmax(t, xcvm_Gemm(t, rows, n.w));
    n.loss = xcvm_ReduceMean(t, xcvm_Mul(t, y, y), .keepdims = 0);
    return n;
}

/* The same functions build the program and compute values and gradients, with a dynamic batch size. */
START_TEST(names_of_parameters)
{
    xcvm_tape *t = open_building();
    xcvm_error error;
    const xcvm_var w = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), F32S(3, 4));
    const xcvm_var v = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), F32S(1, 1));
    const xcvm_var x = xcvm_tape_input(t, "x", XCVM_F32, 1, DIMS(2), NULL);
    ck_assert_int_eq(xcvm_var_set_name(t, w, "l.W", &error), XCVM_OK);
    ck_assert_int_eq(xcvm_var_set_name(t, v, "l.W", &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_var_set_name(t, v, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_var_set_name(t, x, "y", &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_var_set_name(t, v, "l.v", &error), XCVM_OK);
    const xcvm_var y = xcvm_Mul(t, xcvm_Mul(t, x, w), v);
    const xcvm_tape_output outputs[] = {{"loss", xcvm_ReduceSum(t, y, XCVM_ABSENT, .keepdims = 0)}};
    const xcc_options options = {.size = sizeof options, .optimization = -1, .backprop = true};
    test_bytes bytes = {NULL, 0, 0};
    xcvm_program *program;
    ck_assert_msg(xcvm_tape_compile(t, 1, outputs, &options, (xcvm_sink){test_bytes_sink, &bytes}, NULL, &error) ==
                      XCVM_OK,
                  "%s", error.message);
    ck_assert_int_eq(xcvm_program_load(bytes.at, bytes.length, NULL, &program, &error), XCVM_OK);
    ck_assert_str_eq(xcvm_program_output_at(program, 1)->name, "grad_out@l.W");
    ck_assert_str_eq(xcvm_program_output_at(program, 2)->name, "grad_out@l.v");
    xcvm_program_destroy(program);
    test_bytes_free(&bytes);
    xcvm_tape_destroy(t);
}
END_TEST

START_TEST(types_of_variables)
{
    xcvm_tape *t = open_building();
    xcvm_type type;
    xcvm_error error;
    const xcvm_var x = xcvm_tape_input(t, "x", XCVM_F32, 3, DIMS(-1, 4, -1), (const char *const[]){"n", NULL, NULL});
    const xcvm_var y = xcvm_Relu(t, xcvm_Transpose(t, x));
    ck_assert_int_eq(xcvm_var_get_type(t, y, &type, &error), XCVM_OK);
    ck_assert(type.kind == XCVM_KIND_TENSOR && type.dtype == XCVM_F32 && type.rank == 3);
    ck_assert(type.dims[0] < 0 && type.dim_names[0] == NULL && type.dims[1] == 4);
    ck_assert_str_eq(type.dim_names[2], "n");
    const int64_t n = type.dims[2];
    ck_assert(n < 0 && n != type.dims[0]);
    ck_assert_int_eq(xcvm_var_get_type(t, x, &type, &error), XCVM_OK);
    ck_assert_int_eq(type.dims[0], n);
    xcvm_tape_destroy(t);
}
END_TEST

START_TEST(networks_and_their_gradients)
{
    const int levels[] = {-1, 2, THROUGH_ONNX};
    float xs[2 * 9];
    for (int i = 0; i < 18; i++)
        xs[i] = (float)(i % 5) / 3 - 0.5f;
    for (size_t level = 0; level < 3; level++) {
        xcvm_tape *t = open_building(), *eager = open_tape();
        xcvm_error error = {0};
        xcvm_var gradients[2], none = XCVM_ABSENT;
        const xcvm_var x = xcvm_tape_input(t, "x", XCVM_F32, 4, DIMS(-1, 1, 3, 3), (const char *const[]){"n", 0, 0, 0});
        const network n = make_network(t, x);
        const xcvm_var wrt[] = {n.w, n.filter};
        ck_assert_msg(xcvm_tape_gradients(t, 1, &n.loss, &none, 2, wrt, NULL, gradients, &error) == XCVM_OK, "%s",
                      error.message);
        const xcvm_tape_output outputs[] = {{"loss", n.loss}, {"dw", gradients[0]}, {"df", gradients[1]}};
        built p = compile(t, 3, outputs, levels[level]);
        bind(&p, 0, XCVM_F32, 4, DIMS(2, 1, 3, 3), xs);
        run_built(&p);
        const network same = make_network(eager, xcvm_tape_constant(eager, XCVM_F32, 4, DIMS(2, 1, 3, 3), xs));
        backward(eager, same.loss);
        check_same(&p, 0, eager, same.loss);
        check_same(&p, 1, eager, xcvm_var_get_gradient(eager, same.w));
        check_same(&p, 2, eager, xcvm_var_get_gradient(eager, same.filter));
        close_built(&p);
        close_tape(eager);
    }
}
END_TEST

/* ---- LSTMCell, which ONNX has no operator for ---- */

typedef struct cell {
    xcvm_var w, h, c, loss;
} cell;

/* A tree node with two children, whose states also depend on x. */
static cell make_cell(xcvm_tape *t, xcvm_var x, int layout)
{
    cell n;
    float w[3 * 10];
    xcvm_var states[2];
    for (int i = 0; i < 30; i++)
        w[i] = (float)(i % 7) / 4 - 0.75f;
    n.w = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(3, 10), w);
    const xcvm_var sums = xcvm_Gemm(t, x, n.w);
    const xcvm_var sizes = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(3), DIMS(2, 2, 6));
    xcvm_var pieces[3];
    xcvm_Split(t, sums, sizes, .axis = 1, .out = {{pieces, 3}});
    states[0] = pieces[0];
    states[1] = xcvm_Tanh(t, pieces[1]);
    n.h = xcvm_LSTMCell(t, sums, {states, 2}, .children = 2, .layout = layout, .out.c = &n.c);
    n.loss = xcvm_ReduceSum(t, xcvm_Add(t, xcvm_Mul(t, n.h, n.h), n.c), .keepdims = 0);
    return n;
}

START_TEST(lstm_cells)
{
    const int levels[] = {-1, 2, THROUGH_ONNX};
    const int layouts[] = {XCVM_LSTM_LAYOUT_onnx, XCVM_LSTM_LAYOUT_chainer};
    const float xs[] = {0.5f, -1, 2, 1, 0.25f, -0.75f};
    for (int i = 0; i < 6; i++) {
        xcvm_tape *t = open_building(), *eager = open_tape();
        xcvm_error error = {0};
        xcvm_var gradient, none = XCVM_ABSENT;
        const xcvm_var x = xcvm_tape_input(t, "x", XCVM_F32, 2, DIMS(-1, 3), (const char *const[]){"n", 0});
        const cell n = make_cell(t, x, layouts[i % 2]);
        ck_assert_msg(xcvm_tape_gradients(t, 1, &n.loss, &none, 1, &n.w, NULL, &gradient, &error) == XCVM_OK, "%s",
                      error.message);
        const xcvm_tape_output outputs[] = {{"h", n.h}, {"c", n.c}, {"dw", gradient}};
        built p = compile(t, 3, outputs, levels[i / 2]);
        bind(&p, 0, XCVM_F32, 2, DIMS(2, 3), xs);
        run_built(&p);
        const cell same = make_cell(eager, xcvm_tape_constant(eager, XCVM_F32, 2, DIMS(2, 3), xs), layouts[i % 2]);
        xcvm_var_keep(eager, same.h);
        xcvm_var_keep(eager, same.c);
        backward(eager, same.loss);
        check_same(&p, 0, eager, same.h);
        check_same(&p, 1, eager, same.c);
        check_same(&p, 2, eager, xcvm_var_get_gradient(eager, same.w));
        close_built(&p);
        close_tape(eager);
    }
}
END_TEST

/* ---- Control flow ---- */

typedef struct branching {
    xcvm_var x;
    int called;
} branching;

static void squared(void *user, xcvm_tape *t, size_t count, xcvm_var *results)
{
    branching *b = user;
    (void)count;
    b->called++;
    results[0] = xcvm_Mul(t, b->x, b->x);
    results[1] = b->x;
}

static void negated(void *user, xcvm_tape *t, size_t count, xcvm_var *results)
{
    branching *b = user;
    (void)count;
    b->called++;
    results[0] = xcvm_Neg(t, b->x);
    results[1] = xcvm_tape_constant(t, XCVM_F32, 1, DIMS(2), F32S(7, 8));
}

static xcvm_var branch(xcvm_tape *t, branching *b, xcvm_var *second)
{
    xcvm_var results[2];
    const xcvm_var sum = xcvm_ReduceSum(t, b->x, .keepdims = 0);
    xcvm_tape_if(t, xcvm_Greater(t, sum, constant(t, 0)), (xcvm_tape_branch){squared, b},
                 (xcvm_tape_branch){negated, b}, 2, results);
    *second = results[1];
    return xcvm_Add(t, results[0], results[1]);
}

START_TEST(branches)
{
    xcvm_tape *t = open_building();
    branching b = {.x = xcvm_tape_input(t, "x", XCVM_F32, 1, DIMS(2), NULL)};
    xcvm_var second;
    const xcvm_var y = branch(t, &b, &second);
    ck_assert_int_eq(b.called, 2);
    const xcvm_tape_output outputs[] = {{"y", y}, {"second", second}};
    built p = compile(t, 2, outputs, _i == 0 ? 0 : THROUGH_ONNX);
    const float xs[2][2] = {{1, 2}, {-3, 2}};
    for (int i = 0; i < 2; i++) {
        xcvm_tape *eager = open_tape();
        branching same = {.x = xcvm_tape_parameter(eager, XCVM_F32, 1, DIMS(2), xs[i])};
        const xcvm_var z = branch(eager, &same, &second);
        ck_assert_int_eq(same.called, 1);
        bind(&p, 0, XCVM_F32, 1, DIMS(2), xs[i]);
        run_built(&p);
        check_same(&p, 0, eager, z);
        check_same(&p, 1, eager, second);
        backward(eager, xcvm_ReduceSum(eager, z));
        check_f32(eager, xcvm_var_get_gradient(eager, same.x), 2, i == 0 ? F32S(3, 5) : F32S(-1, -1));
        close_tape(eager);
    }
    close_built(&p);
}
END_TEST

/* state = state * 1.5 + iteration, until it is above 10 */
static void grow(void *user, xcvm_tape *t, xcvm_var iteration, size_t state_count, xcvm_var *states, size_t scan_count,
                 xcvm_var *scans, xcvm_var *go_on)
{
    ck_assert_uint_eq(state_count, 1);
    ck_assert_uint_eq(scan_count, 1);
    const xcvm_var factor = *(const xcvm_var *)user;
    states[0] = xcvm_Add(t, xcvm_Mul(t, states[0], factor), xcvm_Cast(t, iteration, .to = XCVM_F32));
    scans[0] = xcvm_Neg(t, states[0]);
    *go_on = xcvm_Less(t, states[0], constant(t, 10));
}

static xcvm_var loop(xcvm_tape *t, xcvm_var x, xcvm_var *last)
{
    const xcvm_var factor = constant(t, 1.5f);
    xcvm_var scan;
    *last = x;
    xcvm_tape_loop(t, xcvm_tape_scalar(t, XCVM_I64, 20), XCVM_ABSENT,
                   (xcvm_tape_loop_body){grow, (void *)(uintptr_t)&factor}, 1, last, 1, &scan);
    return scan;
}

START_TEST(loops)
{
    xcvm_tape *t = open_building(), *eager = open_tape();
    xcvm_var last, gradient, none = XCVM_ABSENT;
    xcvm_error error = {0};
    const xcvm_var x = xcvm_tape_input(t, "x", XCVM_F32, 0, NULL, NULL);
    const xcvm_var scan = loop(t, x, &last);
    ck_assert_msg(xcvm_tape_gradients(t, 1, &last, &none, 1, &x, NULL, &gradient, &error) == XCVM_OK, "%s",
                  error.message);
    const xcvm_tape_output outputs[] = {{"scan", scan}, {"last", last}, {"dx", gradient}};
    built p = compile(t, 3, outputs, _i == 0 ? 0 : THROUGH_ONNX);
    const float at = 1.25f;
    bind(&p, 0, XCVM_F32, 0, NULL, &at);
    run_built(&p);
    const xcvm_var same = parameter(eager, at);
    const xcvm_var rows = loop(eager, same, &last);
    check_same(&p, 0, eager, rows);
    check_same(&p, 1, eager, last);
    ck_assert_uint_gt(xcvm_value_count(value_of(eager, rows)), 3);
    backward(eager, last);
    check_same(&p, 2, eager, xcvm_var_get_gradient(eager, same));
    close_built(&p);
    close_tape(eager);
}
END_TEST

/* ---- What is refused ---- */

static void leaking(void *user, xcvm_tape *t, size_t count, xcvm_var *results)
{
    xcvm_var *leaked = user;
    (void)count;
    *leaked = results[0] = xcvm_Neg(t, constant(t, 1));
}

static void failing(void *user, xcvm_tape *t, size_t count, xcvm_var *results)
{
    (void)count;
    results[0] = xcvm_Add(t, *(const xcvm_var *)user, xcvm_tape_scalar(t, XCVM_I64, 1));
}

static void forgetful(void *user, xcvm_tape *t, size_t count, xcvm_var *results)
{
    (void)user;
    (void)t;
    (void)count;
    (void)results;
}

START_TEST(refused)
{
    xcvm_tape *t = open_building();
    xcvm_error error;
    test_bytes bytes = {NULL, 0, 0};
    const xcvm_var x = xcvm_tape_input(t, "x", XCVM_F32, 1, DIMS(-1), NULL);
    const xcvm_value *value;
    ck_assert_int_eq(xcvm_var_get_value(t, x, &value, &error), XCVM_UNSUPPORTED);
    ck_assert(isnan(xcvm_var_get_number(t, x)));
    check_failed(t, XCVM_UNSUPPORTED, "a building tape has no elements");
    ck_assert_int_eq(xcvm_tape_backward(t, x, NULL, &error), XCVM_UNSUPPORTED);
    xcvm_tape_input(t, "x", XCVM_F32, 1, DIMS(-1), NULL);
    check_failed(t, XCVM_INVALID_ARGUMENT, "an input needs a name of its own, not 'x'");
    xcvm_MatMul(t, x, xcvm_tape_scalar(t, XCVM_I64, 1));
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_TYPE_MISMATCH);
    ck_assert_str_eq(error.instruction, "MatMul");
    /* A variable of a branch is not visible outside. */
    xcvm_var leaked, result;
    const xcvm_var cond = xcvm_Greater(t, xcvm_ReduceSum(t, x, .keepdims = 0), constant(t, 0));
    xcvm_tape_if(t, cond, (xcvm_tape_branch){leaking, &leaked}, (xcvm_tape_branch){leaking, &leaked}, 1, &result);
    xcvm_Neg(t, leaked);
    check_failed(t, XCVM_INVALID_ARGUMENT, "was made in a branch or a loop body, and is used outside");
    const xcvm_tape_output output = {"y", xcvm_Mul(t, result, x)};
    ck_assert_int_eq(xcvm_tape_compile(t, 1, &output, NULL, (xcvm_sink){test_bytes_sink, &bytes}, NULL, &error),
                     XCVM_OK);
    ck_assert_int_eq(xcvm_tape_compile(t, 1, &output, NULL, (xcvm_sink){test_bytes_sink, &bytes}, NULL, &error),
                     XCVM_INVALID_ARGUMENT);
    xcvm_Neg(t, x);
    check_failed(t, XCVM_INVALID_ARGUMENT, "the tape has been compiled, and can only be destroyed");
    xcvm_tape_destroy(t);
    test_bytes_free(&bytes);
    /* A callback that fails, or omits a result. */
    void (*const bad[])(void *user, xcvm_tape *tape, size_t count, xcvm_var *results) = {failing, forgetful};
    for (int i = 0; i < 2; i++) {
        t = open_building();
        xcvm_var y = xcvm_tape_input(t, "y", XCVM_F32, 0, NULL, NULL);
        xcvm_tape_if(t, xcvm_Greater(t, y, constant(t, 0)), (xcvm_tape_branch){bad[i], &y},
                     (xcvm_tape_branch){leaking, &y}, 1, &result);
        ck_assert_int_ne(xcvm_tape_status(t, &error), XCVM_OK);
        ck_assert_ptr_null(result.at);
        const xcvm_tape_output left = {"z", xcvm_Neg(t, y)};
        ck_assert_int_eq(xcvm_tape_compile(t, 1, &left, NULL, (xcvm_sink){test_bytes_sink, &bytes}, NULL, &error),
                         XCVM_INVALID_ARGUMENT);
        ck_assert_str_eq(error.message, "a branch or a loop body has failed, so the graph is incomplete");
        xcvm_tape_destroy(t);
    }
    t = open_tape();
    ck_assert_int_eq(xcvm_tape_compile(t, 1, &output, NULL, (xcvm_sink){test_bytes_sink, &bytes}, NULL, &error),
                     XCVM_INVALID_ARGUMENT);
    xcvm_tape_input(t, "x", XCVM_F32, 0, NULL, NULL);
    check_failed(t, XCVM_INVALID_ARGUMENT, "xcvm_tape_input needs a building tape");
    xcvm_tape_if(t, constant(t, 1), (xcvm_tape_branch){leaking, &leaked}, (xcvm_tape_branch){leaking, &leaked}, 1,
                 &result);
    check_failed(t, XCVM_TYPE_MISMATCH, "cond is f32[], one element of type bool is needed");
    close_tape(t);
}
END_TEST

Suite *suite_tape_building(void);
Suite *suite_tape_building(void)
{
    Suite *suite = SUITE_OF("tape_building", networks_and_their_gradients, lstm_cells, names_of_parameters,
                            types_of_variables, refused);
    TCase *control = tcase_create("control");
    /* As programs, and through ONNX models. */
    tcase_add_loop_test(control, branches, 0, 2);
    tcase_add_loop_test(control, loops, 0, 2);
    suite_add_tcase(suite, control);
    return suite;
}
