/* Tests of separate forward and backward programs, second order, straight-through gradients, and host functions. */
#include "tests/compiler/support.h"
#include "compiler/ir/compilation.h"

#include "compiler/ir/compose.h"

static void begin_backprop(compilation *c)
{
    begin(c, 2);
    c->options.backprop = true;
}

static xcc_value *parameter(xcc_builder *b, const char *name, int rank, const int64_t *dims, const float *data)
{
    return must(b, xcc_parameter(b->graph, name, XCVM_F32, rank, dims, data, false));
}

static void expect_names(const compiled_program *k, size_t inputs, const char *const *input_names, size_t outputs,
                         const char *const *output_names)
{
    ck_assert_uint_eq(xcvm_program_input_count(k->program), inputs);
    ck_assert_uint_eq(xcvm_program_output_count(k->program), outputs);
    for (size_t i = 0; i < inputs; i++)
        ck_assert_str_eq(xcvm_program_input_at(k->program, i)->name, input_names[i]);
    for (size_t i = 0; i < outputs; i++)
        ck_assert_str_eq(xcvm_program_output_at(k->program, i)->name, output_names[i]);
}

static void check_refused(compilation *c, xcvm_status status, const char *part)
{
    ck_assert_int_eq(xcc_passes_run(&c->m), status);
    ck_assert_msg(strstr(c->error.message, part) != NULL, "%s", c->error.message);
    finish(c);
}

/* ---- Two programs ---- */

static xcc_value *named(xcc_builder *b, const char *name, xcc_value *v)
{
    xcc_value *y = must(b, xcc_value_create(b->graph, name));
    ck_assert_ptr_nonnull(xcc_emit(b, Identity, .y = XCC_OUT(y), .x = XCC_IN(v)));
    return y;
}

/* y = tanh(x * w), z = an index of the greatest. */
static void layer(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(2)), *w = parameter(b, "w", 1, DIMS(2), FLOATS(0.5f, -1));
    xcc_value *t = must(b, xcc_build_unary(b, XCVM_OP_Tanh, must(b, xcc_build_mul(b, x, w))));
    xcc_value *y = named(b, "y", t), *z = xcc_apply(b, ArgMax, y, .x = XCC_IN(t), .keepdims = 1);
    output(b, y);
    output(b, named(b, "z", must(b, z)));
}

/* Outputs need be no numbers; those without a gradient take none. */
START_TEST(two_programs)
{
    const float x[] = {1, 2}, g[] = {3, 4};
    compiled_program forward, backward;
    for (int phase = XCC_PHASE_FORWARD; phase <= XCC_PHASE_BACKWARD; phase++) {
        compilation c;
        begin_backprop(&c);
        c.options.gradients.phase = (xcc_phase)phase;
        layer(&c.b);
        passes(&c);
        compiled_open(phase == XCC_PHASE_FORWARD ? &forward : &backward, &c);
        if (phase == XCC_PHASE_FORWARD) {
            ck_assert_uint_eq(c.m.compilation->retained_count, 2);
            ck_assert_uint_eq(c.m.compilation->retained_bytes, 16);
        }
        finish(&c);
    }
    const char *retained = xcvm_program_output_at(forward.program, 3)->name;
    ck_assert_int_eq(strncmp(retained, "retained_", 9), 0);
    expect_names(&forward, 1, (const char *const[]){"x"}, 4, (const char *const[]){"y", "z", "retained_x", retained});
    expect_names(&backward, 3, (const char *const[]){"grad_in@y", "retained_x", retained}, 1,
                 (const char *const[]){"grad_out@w"});
    compiled_set_input(&forward, 0, XCVM_F32, 1, DIMS(2), x);
    compiled_run(&forward);
    compiled_set_input(&backward, 0, XCVM_F32, 1, DIMS(2), g);
    for (size_t i = 1; i < 3; i++)
        ck_assert_int_eq(
            xcvm_session_set_input(backward.session, i, xcvm_session_get_output(forward.session, i + 1), NULL),
            XCVM_OK);
    compiled_run(&backward);
    const float a = tanhf(0.5f), b = tanhf(-2);
    expect_output(&backward, 0, 1, DIMS(2), FLOATS(3 * (1 - a * a) * 1, 4 * (1 - b * b) * 2));
    compiled_close(&forward);
    compiled_close(&backward);
}
END_TEST

START_TEST(two_programs_refused)
{
    compilation c;
    begin_backprop(&c);
    c.options.gradients.phase = XCC_PHASE_FORWARD;
    c.options.loss = "z";
    layer(&c.b);
    check_refused(&c, XCVM_INVALID_ARGUMENT, "no output 'z' of a float type");
    begin_backprop(&c);
    c.options.gradients.phase = XCC_PHASE_BACKWARD;
    xcc_value *w = parameter(&c.b, "w", 1, DIMS(2), FLOATS(1, 2)), *x = input(&c.b, "grad_in@y", XCVM_F32, 1, DIMS(2));
    output(&c.b, named(&c.b, "y", must(&c.b, xcc_build_mul(&c.b, x, w))));
    check_refused(&c, XCVM_INVALID_MODEL, "an input or an output 'grad_in@y' already");
    begin_backprop(&c);
    c.options.gradients.phase = XCC_PHASE_FORWARD;
    w = parameter(&c.b, "w", 1, DIMS(2), FLOATS(1, 2));
    x = input(&c.b, "x", XCVM_F32, 1, DIMS(2));
    output(&c.b, named(&c.b, "retained_x", must(&c.b, xcc_build_mul(&c.b, x, w))));
    check_refused(&c, XCVM_INVALID_MODEL, "an input or an output 'retained_x' already");
}
END_TEST

/* ---- The second order ---- */

/* sum(w * w * w) + sum(u), whose Hessian is 6 * w, and 0 for u. */
static void cubes(xcc_builder *b)
{
    xcc_value *w = parameter(b, "w", 1, DIMS(2), FLOATS(2, -1)), *u = parameter(b, "u", 1, DIMS(2), FLOATS(1, 1));
    xcc_value *cube = must(b, xcc_build_mul(b, w, must(b, xcc_build_mul(b, w, w))));
    xcc_value *all = must(b, xcc_build_add(b, cube, u));
    output(b, named(b, "loss", must(b, xcc_build_reduce(b, XCVM_OP_ReduceSum, all, NULL, false))));
}

START_TEST(second_order)
{
    static const char *const wrt[] = {"u", "w"};
    for (int i = 0; i < 2; i++) {
        compilation c;
        compiled_program k;
        begin_backprop(&c);
        c.options.gradients.order = 2;
        c.options.gradients.wrt = wrt;
        c.options.gradients.wrt_count = i == 1 ? 2 : 0;
        cubes(&c.b);
        passes(&c);
        compiled_open(&k, &c);
        /* Structural zeros become tensors if they are requested. */
        if (i == 0)
            expect_names(&k, 2, (const char *const[]){"vector@w", "vector@u"}, 4,
                         (const char *const[]){"loss", "grad_out@w", "grad_out@u", "hvp_out@w"});
        else
            expect_names(&k, 2, (const char *const[]){"vector@u", "vector@w"}, 5,
                         (const char *const[]){"loss", "grad_out@u", "grad_out@w", "hvp_out@u", "hvp_out@w"});
        for (size_t k_input = 0; k_input < 2; k_input++)
            compiled_set_input(&k, k_input, XCVM_F32, 1, DIMS(2), FLOATS(1, 10));
        compiled_run(&k);
        expect_output(&k, i == 0 ? 3 : 4, 1, DIMS(2), FLOATS(12, -60));
        if (i == 1)
            expect_output(&k, 3, 1, DIMS(2), FLOATS(0, 0));
        compiled_close(&k);
        finish(&c);
    }
}
END_TEST

/* Three rounds of x = x * x: x^8, whose second derivative is 56 * x^6. */
START_TEST(second_order_of_a_loop)
{
    compilation c;
    compiled_program k;
    begin_backprop(&c);
    c.options.gradients.order = 2;
    xcc_value *w = parameter(&c.b, "w", 1, DIMS(2), FLOATS(1, -2)),
              *result = must(&c.b, xcc_value_create(c.b.graph, NULL));
    xcc_value *inputs[] = {must(&c.b, xcc_scalar_i64(c.b.graph, 3)), NULL, w}, *given[3];
    xcc_node *loop = xcc_append_control(&c.b, XCC_LOOP, 3, inputs, 1, &result, 1);
    ck_assert_ptr_nonnull(loop);
    xcc_builder b = {.graph = loop->bodies[0], .name = "inside", .origin = "Test"};
    for (int i = 0; i < 3; i++)
        given[i] = must(&b, xcc_value_create(b.graph, NULL));
    xcvm_value_set_tensor(&given[0]->type, XCVM_I64, 0, NULL);
    xcvm_value_set_tensor(&given[1]->type, XCVM_BOOL, 0, NULL);
    xcvm_value_set_tensor(&given[2]->type, XCVM_F32, 1, DIMS(2));
    ok(&c.m, xcc_graph_set_inputs(b.graph, 3, given));
    xcc_value *next = must(&b, xcc_build_mul(&b, given[2], given[2]));
    ok(&c.m, xcc_graph_set_outputs(b.graph, 2, (xcc_value *[]){given[1], next}));
    ok(&c.m, xcc_node_infer(loop));
    output(&c.b, must(&c.b, xcc_build_reduce(&c.b, XCVM_OP_ReduceSum, result, NULL, false)));
    passes(&c);
    compiled_open(&k, &c);
    compiled_set_input(&k, 0, XCVM_F32, 1, DIMS(2), FLOATS(1, 0.5f));
    compiled_run(&k);
    expect_output(&k, 1, 1, DIMS(2), FLOATS(8, -1024));
    expect_output(&k, 2, 1, DIMS(2), FLOATS(56, 1792));
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* ---- Straight through ---- */

/* Between DequantizeLinear and QuantizeLinear, only operators that move all elements are supported. */
START_TEST(straight_through)
{
    for (int pooled = 0; pooled < 2; pooled++) {
        compilation c;
        compiled_program k;
        begin_backprop(&c);
        c.options.gradients.straight_through = true;
        xcc_builder *b = &c.b;
        xcc_value *w = parameter(b, "w", 4, DIMS(1, 1, 2, 2), FLOATS(1, -2, 3, 4)), *scale = number(b, 0.5);
        xcc_value *q = xcc_apply(b, QuantizeLinear, y, .x = XCC_IN(w), .scale = XCC_IN(scale), .output_dtype = XCVM_I8,
                                 .saturate = 1);
        must(b, q);
        if (pooled)
            q = must(b,
                     xcc_apply(b, MaxPool, y, .x = XCC_IN(q), .kernel_shape = XCC_INTS(2, 2), .strides = XCC_INTS(1, 1),
                               .pads = XCC_INTS(0, 0, 0, 0), .dilations = XCC_INTS(1, 1)));
        else
            q = must(b, xcc_build_transpose(b, q, 4, DIMS(3, 2, 1, 0)));
        xcc_value *y = must(b, xcc_apply(b, DequantizeLinear, y, .x = XCC_IN(q), .scale = XCC_IN(scale)));
        output(b, must(b, xcc_build_reduce(b, XCVM_OP_ReduceSum, y, NULL, false)));
        if (pooled) {
            check_refused(&c, XCVM_UNSUPPORTED, "MaxPool reads quantized numbers");
            continue;
        }
        passes(&c);
        compiled_open(&k, &c);
        compiled_run(&k);
        expect_output(&k, 1, 4, DIMS(1, 1, 2, 2), FLOATS(1, 1, 1, 1));
        compiled_close(&k);
        finish(&c);
    }
}
END_TEST

/* ---- Functions of the host ---- */

START_TEST(host_function_without_gradient)
{
    compilation c;
    begin_backprop(&c);
    xcc_value *w = parameter(&c.b, "w", 1, DIMS(2), FLOATS(1, 2)), *y = must(&c.b, xcc_value_create(c.b.graph, NULL));
    xcvm_value *results[] = {XCC_OUT(y)};
    const xcvm_value *operands[] = {XCC_IN(w)};
    ck_assert_ptr_nonnull(xcc_emit(&c.b, HostCall, .ys = {results, 1}, .xs = {operands, 1}, .function = {"f", 1},
                                   .dtypes = XCC_INTS(XCVM_F32), .ranks = XCC_INTS(1)));
    output(&c.b, must(&c.b, xcc_build_reduce(&c.b, XCVM_OP_ReduceSum, y, NULL, false)));
    check_refused(&c, XCVM_UNSUPPORTED, "calls \"f\", which has no vector-Jacobian product");
}
END_TEST

/* ---- Options ---- */

START_TEST(wrong_options)
{
    static const xcc_vjp_function none = {NULL, "f"};
    static const struct {
        xcc_options options;
        const char *part;
    } cases[] = {{{.gradients.order = 2}, "without `backprop`"},
                 {{.gradients.phase = XCC_PHASE_FORWARD}, "without `backprop`"},
                 {{.gradients.straight_through = true}, "without `backprop`"},
                 {{.backprop = true, .gradients.order = 3}, "order is 3"},
                 {{.backprop = true, .gradients.phase = (xcc_phase)7}, "phase is 7"},
                 {{.backprop = true, .gradients.order = 2, .gradients.phase = XCC_PHASE_FORWARD},
                  "cannot be combined with straight-through"},
                 {{.backprop = true, .gradients.order = 2, .gradients.straight_through = true},
                  "cannot be combined with straight-through"},
                 {{.backprop = true, .gradients.vjps = &none, .gradients.vjp_count = 1}, "product is NULL"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xcc_options options = cases[i].options;
        xcvm_error error = {0};
        test_bytes bytes = {0};
        options.size = sizeof options;
        ck_assert_int_eq(xcc_compile("", 0, &options, (xcvm_sink){test_bytes_sink, &bytes}, NULL, &error),
                         XCVM_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.message, cases[i].part) != NULL, "%s", error.message);
    }
}
END_TEST

Suite *suite_compiler_backprop(void);
Suite *suite_compiler_backprop(void)
{
    Suite *suite = suite_create("compiler/backprop");
    TCase *tests = tcase_create("backprop");
    tcase_add_test(tests, two_programs);
    tcase_add_test(tests, two_programs_refused);
    tcase_add_test(tests, second_order);
    tcase_add_test(tests, second_order_of_a_loop);
    tcase_add_test(tests, straight_through);
    tcase_add_test(tests, host_function_without_gradient);
    tcase_add_test(tests, wrong_options);
    suite_add_tcase(suite, tests);
    return suite;
}
