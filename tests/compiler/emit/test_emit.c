/* Tests of programs with control flow, run on the VM. */
#include "tests/compiler/support.h"

#define APPLY(b, Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))
enum { LEVELS = 2 };
static const int levels[LEVELS] = {-1, 2};

static xcc_value *value(xcc_builder *b, const char *name) { return must(b, xcc_value_create(b->graph, name)); }

/* An If whose branches are to be filled in. */
static xcc_node *begin_if(xcc_builder *b, xcc_value *cond, size_t outputs, xcc_value **out, xcc_builder branches[2])
{
    for (size_t i = 0; i < outputs; i++)
        out[i] = value(b, NULL);
    xcc_node *n = xcc_append_control(b, XCC_IF, 1, &cond, outputs, out, 2);
    ck_assert_ptr_nonnull(n);
    branches[0] = (xcc_builder){.graph = n->bodies[0]};
    branches[1] = (xcc_builder){.graph = n->bodies[1]};
    return n;
}

/* A Loop whose body is to be filled in: parameters i, go and the states, of the types that these begin with. */
static xcc_node *begin_loop(xcc_builder *b, xcc_value *count, xcc_value *cond, size_t states, xcc_value *const *initial,
                            size_t outputs, xcc_value **out, xcc_builder *body)
{
    xcc_value *in[8] = {count, cond};
    for (size_t i = 0; i < states; i++)
        in[i + 2] = initial[i];
    for (size_t i = 0; i < outputs; i++)
        out[i] = value(b, NULL);
    xcc_node *n = xcc_append_control(b, XCC_LOOP, states + 2, in, outputs, out, 1);
    ck_assert_ptr_nonnull(n);
    *body = (xcc_builder){.graph = n->bodies[0]};
    input(body, "i", XCVM_I64, 0, NULL);
    input(body, "go", XCVM_BOOL, 0, NULL);
    for (size_t i = 0; i < states; i++)
        input(body, "s", initial[i]->type.dtype, initial[i]->type.rank, initial[i]->type.dims);
    return n;
}

static xcc_value *parameter(const xcc_builder *body, size_t i) { return body->graph->inputs[i]; }

/* ---- If ---- */

static void make_if(xcc_builder *b)
{
    xcc_value *cond = input(b, "cond", XCVM_BOOL, 0, NULL), *x = input(b, "x", XCVM_F32, 1, DIMS(2));
    xcc_value *twice = APPLY(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(x)), *out[3];
    xcc_builder branches[2];
    xcc_node *n = begin_if(b, cond, 3, out, branches);
    /* Outputs that are made in the branch, twice the same, captured, and constant. */
    xcc_value *y = APPLY(&branches[0], Neg, y, .x = XCC_IN(twice));
    output(&branches[0], y);
    output(&branches[0], y);
    output(&branches[0], x);
    output(&branches[1], floats(b, 1, DIMS(2), FLOATS(7, 8)));
    output(&branches[1], twice);
    output(&branches[1], APPLY(&branches[1], Neg, y, .x = XCC_IN(x)));
    ok(b->graph->module, xcc_node_infer(n));
    for (size_t i = 0; i < 3; i++)
        output(b, out[i]);
}

START_TEST(two_branches)
{
    compilation c;
    compiled_program k;
    begin(&c, levels[_i]);
    make_if(&c.b);
    passes(&c);
    compiled_open(&k, &c);
    for (int cond = 0; cond < 2; cond++) {
        compiled_set_input(&k, 0, XCVM_BOOL, 0, NULL, &(const bool){cond});
        compiled_set_input(&k, 1, XCVM_F32, 1, DIMS(2), FLOATS(1, 2));
        compiled_run(&k);
        expect_output(&k, 0, 1, DIMS(2), cond ? FLOATS(-2, -4) : FLOATS(7, 8));
        expect_output(&k, 1, 1, DIMS(2), cond ? FLOATS(-2, -4) : FLOATS(2, 4));
        expect_output(&k, 2, 1, DIMS(2), cond ? FLOATS(1, 2) : FLOATS(-1, -2));
    }
    compiled_close(&k);
    finish(&c);
}
END_TEST

static void make_nested_if(xcc_builder *b)
{
    xcc_value *p = input(b, "p", XCVM_BOOL, 0, NULL), *q = input(b, "q", XCVM_BOOL, 0, NULL);
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(2)), *out, *inner_out;
    xcc_builder outer[2], inner[2];
    xcc_node *n = begin_if(b, p, 1, &out, outer);
    xcc_node *m = begin_if(&outer[0], q, 1, &inner_out, inner);
    output(&inner[0], APPLY(&inner[0], Add, y, .a = XCC_IN(x), .b = XCC_IN(x)));
    output(&inner[1], x);
    ok(b->graph->module, xcc_node_infer(m));
    output(&outer[0], inner_out);
    output(&outer[1], APPLY(&outer[1], Neg, y, .x = XCC_IN(x)));
    ok(b->graph->module, xcc_node_infer(n));
    output(b, out);
}

START_TEST(nested_branches)
{
    compilation c;
    compiled_program k;
    begin(&c, levels[_i]);
    make_nested_if(&c.b);
    passes(&c);
    compiled_open(&k, &c);
    for (int which = 0; which < 4; which++) {
        compiled_set_input(&k, 0, XCVM_BOOL, 0, NULL, &(const bool){which & 1});
        compiled_set_input(&k, 1, XCVM_BOOL, 0, NULL, &(const bool){which >> 1});
        compiled_set_input(&k, 2, XCVM_F32, 1, DIMS(2), FLOATS(1, 2));
        compiled_run(&k);
        float factor = !(which & 1) ? -1 : which >> 1 ? 2 : 1;
        expect_output(&k, 0, 1, DIMS(2), FLOATS(factor, 2 * factor));
    }
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* ---- Loops ---- */

/* Fibonacci: (a, b) = (b, a + b); the results are a, b and every b. */
static void make_fibonacci(xcc_builder *b)
{
    xcc_value *count = input(b, "count", XCVM_I64, 0, NULL);
    xcc_value *initial[2] = {number(b, 0), number(b, 1)}, *out[3];
    xcc_builder body;
    xcc_node *n = begin_loop(b, count, NULL, 2, initial, 3, out, &body);
    xcc_value *sum = APPLY(&body, Add, y, .a = XCC_IN(parameter(&body, 2)), .b = XCC_IN(parameter(&body, 3)));
    output(&body, parameter(&body, 1));
    output(&body, parameter(&body, 3));
    output(&body, sum);
    output(&body, sum);
    ok(b->graph->module, xcc_node_infer(n));
    for (size_t i = 0; i < 3; i++)
        output(b, out[i]);
}

START_TEST(fibonacci)
{
    compilation c;
    compiled_program k;
    begin(&c, levels[_i]);
    make_fibonacci(&c.b);
    passes(&c);
    compiled_open(&k, &c);
    const float expected[7] = {1, 2, 3, 5, 8, 13, 21};
    for (int64_t count = 7; count >= -1; count--) {
        compiled_set_input(&k, 0, XCVM_I64, 0, NULL, &count);
        compiled_run(&k);
        int64_t trips = count < 0 ? 0 : count;
        expect_output(&k, 0, 0, NULL, FLOATS(trips == 0 ? 0 : trips == 1 ? 1 : expected[trips - 2]));
        expect_output(&k, 1, 0, NULL, FLOATS(trips == 0 ? 1 : expected[trips - 1]));
        expect_output(&k, 2, 1, &trips, expected);
    }
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* States: two are exchanged, one does not change, one becomes the iteration, one becomes a constant, and one is
 * captured. */
static void make_swap(xcc_builder *b)
{
    xcc_value *count = input(b, "count", XCVM_I64, 1, DIMS(1)), *x = input(b, "x", XCVM_F32, 1, DIMS(1));
    xcc_value *zero = must(b, xcc_scalar_i64(b->graph, 0));
    xcc_value *initial[6] = {floats(b, 1, DIMS(1), FLOATS(1)), floats(b, 1, DIMS(1), FLOATS(2)), x, zero, x, x},
              *out[6];
    xcc_builder body;
    xcc_node *n = begin_loop(b, count, NULL, 6, initial, 6, out, &body);
    output(&body, must(b, xcc_scalar(body.graph, XCVM_BOOL, 1)));
    output(&body, parameter(&body, 3));
    output(&body, parameter(&body, 2));
    output(&body, parameter(&body, 4));
    output(&body, parameter(&body, 0));
    output(&body, floats(b, 1, DIMS(1), FLOATS(9)));
    output(&body, x);
    ok(b->graph->module, xcc_node_infer(n));
    for (size_t i = 0; i < 6; i++)
        output(b, out[i]);
}

START_TEST(swap)
{
    compilation c;
    compiled_program k;
    begin(&c, levels[_i]);
    make_swap(&c.b);
    passes(&c);
    compiled_open(&k, &c);
    for (int64_t count = 0; count < 4; count++) {
        compiled_set_input(&k, 0, XCVM_I64, 1, DIMS(1), &count);
        compiled_set_input(&k, 1, XCVM_F32, 1, DIMS(1), FLOATS(5));
        compiled_run(&k);
        expect_output(&k, 0, 1, DIMS(1), FLOATS(count % 2 == 0 ? 1 : 2));
        expect_output(&k, 1, 1, DIMS(1), FLOATS(count % 2 == 0 ? 2 : 1));
        expect_output(&k, 2, 1, DIMS(1), FLOATS(5));
        expect_output(&k, 3, 0, NULL, FLOATS(count == 0 ? 0 : (float)count - 1));
        expect_output(&k, 4, 1, DIMS(1), FLOATS(count == 0 ? 5 : 9));
        expect_output(&k, 5, 1, DIMS(1), FLOATS(5));
    }
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Doubles x while it is below the limit; the state grows by one element each time. */
static void make_while(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(1)), *limit = input(b, "limit", XCVM_F32, 0, NULL);
    xcc_value *first = APPLY(b, Less, y, .a = XCC_IN(x), .b = XCC_IN(limit));
    xcc_value *initial[2] = {x, x}, *out[2];
    xcc_builder body;
    xcc_node *n = begin_loop(b, NULL, first, 2, initial, 2, out, &body);
    xcc_value *twice = APPLY(&body, Add, y, .a = XCC_IN(parameter(&body, 2)), .b = XCC_IN(parameter(&body, 2)));
    output(&body, APPLY(&body, Less, y, .a = XCC_IN(twice), .b = XCC_IN(limit)));
    output(&body, twice);
    output(&body,
           APPLY(&body, Concat, y, .xs = {(const xcvm_value *[]){XCC_IN(parameter(&body, 3)), XCC_IN(twice)}, 2}));
    bool changed = true;
    while (changed)
        ok(b->graph->module, xcc_loop_widen(n, &changed));
    ok(b->graph->module, xcc_loop_infer_body(n));
    ok(b->graph->module, xcc_node_infer(n));
    output(b, out[0]);
    output(b, out[1]);
}

START_TEST(while_loop)
{
    compilation c;
    compiled_program k;
    begin(&c, levels[_i]);
    make_while(&c.b);
    passes(&c);
    ck_assert_int_eq(c.m.graph->outputs[0]->type.dims[0], 1);
    ck_assert_int_lt(c.m.graph->outputs[1]->type.dims[0], 0);
    compiled_open(&k, &c);
    compiled_set_input(&k, 0, XCVM_F32, 1, DIMS(1), FLOATS(3));
    compiled_set_input(&k, 1, XCVM_F32, 0, NULL, FLOATS(20));
    compiled_run(&k);
    expect_output(&k, 0, 1, DIMS(1), FLOATS(24));
    expect_output(&k, 1, 1, DIMS(4), FLOATS(3, 6, 12, 24));
    compiled_set_input(&k, 1, XCVM_F32, 0, NULL, FLOATS(1));
    compiled_run(&k);
    expect_output(&k, 0, 1, DIMS(1), FLOATS(3));
    expect_output(&k, 1, 1, DIMS(1), FLOATS(3));
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Sums i * j over 0 <= j < i < n with an If that leaves odd i out. */
static void make_nested_loops(xcc_builder *b)
{
    xcc_value *n_value = input(b, "n", XCVM_I64, 0, NULL), *zero = must(b, xcc_scalar_i64(b->graph, 0)), *out;
    xcc_builder outer, inner, branches[2];
    xcc_node *loop = begin_loop(b, n_value, NULL, 1, &zero, 1, &out, &outer);
    xcc_value *i = parameter(&outer, 0), *sum = parameter(&outer, 2), *chosen;
    xcc_value *rest = APPLY(&outer, Mod, y, .a = XCC_IN(i), .b = XCC_IN(must(b, xcc_scalar_i64(outer.graph, 2))));
    xcc_value *even = APPLY(&outer, Equal, y, .a = XCC_IN(rest), .b = XCC_IN(zero));
    xcc_node *branch = begin_if(&outer, even, 1, &chosen, branches);
    xcc_value *total;
    xcc_node *inside = begin_loop(&branches[0], i, NULL, 1, &sum, 1, &total, &inner);
    xcc_value *product = APPLY(&inner, Mul, y, .a = XCC_IN(i), .b = XCC_IN(parameter(&inner, 0)));
    output(&inner, parameter(&inner, 1));
    output(&inner, APPLY(&inner, Add, y, .a = XCC_IN(parameter(&inner, 2)), .b = XCC_IN(product)));
    ok(b->graph->module, xcc_node_infer(inside));
    output(&branches[0], total);
    output(&branches[1], sum);
    ok(b->graph->module, xcc_node_infer(branch));
    output(&outer, parameter(&outer, 1));
    output(&outer, chosen);
    ok(b->graph->module, xcc_node_infer(loop));
    output(b, out);
}

START_TEST(nested_loops)
{
    compilation c;
    compiled_program k;
    begin(&c, levels[_i]);
    make_nested_loops(&c.b);
    passes(&c);
    compiled_open(&k, &c);
    for (int64_t n = 0; n < 8; n++) {
        float expected = 0;
        for (int64_t i = 0; i < n; i += 2)
            for (int64_t j = 0; j < i; j++)
                expected += (float)(i * j);
        compiled_set_input(&k, 0, XCVM_I64, 0, NULL, &n);
        compiled_run(&k);
        expect_output(&k, 0, 0, NULL, &expected);
    }
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* A loop without count or condition ends by running out of fuel. */
START_TEST(endless_loop)
{
    compilation c;
    compiled_program k;
    begin(&c, levels[_i]);
    xcc_builder *b = &c.b, body;
    xcc_value *x = input(b, "x", XCVM_F32, 0, NULL), *out;
    xcc_node *n = begin_loop(b, NULL, NULL, 1, &x, 1, &out, &body);
    output(&body, parameter(&body, 1));
    output(&body, APPLY(&body, Add, y, .a = XCC_IN(parameter(&body, 2)), .b = XCC_IN(x)));
    ok(&c.m, xcc_node_infer(n));
    output(b, out);
    passes(&c);
    compiled_open(&k, &c);
    compiled_set_input(&k, 0, XCVM_F32, 0, NULL, FLOATS(1));
    xcvm_error error = {0};
    xcvm_run_options options = {.size = sizeof options, .fuel = 1000};
    ck_assert_int_eq(xcvm_session_run(k.session, &options, &error), XCVM_OUT_OF_TIME);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* ---- Edges ---- */

START_TEST(plain_outputs)
{
    compilation c;
    compiled_program k;
    begin(&c, levels[_i]);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 1, DIMS(2));
    input(&c.b, "unused", XCVM_F32, 1, DIMS(2));
    output(&c.b, x);
    output(&c.b, floats(&c.b, 1, DIMS(2), FLOATS(3, 4)));
    xcc_value *y = APPLY(&c.b, Neg, y, .x = XCC_IN(x));
    output(&c.b, y);
    output(&c.b, y);
    passes(&c);
    compiled_open(&k, &c);
    compiled_set_input(&k, 0, XCVM_F32, 1, DIMS(2), FLOATS(1, 2));
    compiled_set_input(&k, 1, XCVM_F32, 1, DIMS(2), FLOATS(1, 2));
    compiled_run(&k);
    expect_output(&k, 0, 1, DIMS(2), FLOATS(1, 2));
    expect_output(&k, 1, 1, DIMS(2), FLOATS(3, 4));
    expect_output(&k, 2, 1, DIMS(2), FLOATS(-1, -2));
    expect_output(&k, 3, 1, DIMS(2), FLOATS(-1, -2));
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Equal constants are written once, unused ones not at all. */
START_TEST(constants)
{
    compilation c;
    compiled_program k;
    begin(&c, 2);
    xcc_builder *b = &c.b;
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(2)), *y = x;
    weights(b, 1, DIMS(1000));
    for (int i = 0; i < 10; i++)
        y = APPLY(b, Add, y, .a = XCC_IN(y), .b = XCC_IN(floats(b, 1, DIMS(2), FLOATS(1, 2))));
    y = APPLY(b, Add, y, .a = XCC_IN(y), .b = XCC_IN(floats(b, 2, DIMS(1, 2), FLOATS(1, 2))));
    output(b, y);
    passes(&c);
    compiled_open(&k, &c);
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_get_info(k.program, &info);
    ck_assert_uint_eq(info.constant_count, 2);
    compiled_set_input(&k, 0, XCVM_F32, 1, DIMS(2), FLOATS(1, 2));
    compiled_run(&k);
    expect_output(&k, 0, 2, DIMS(1, 2), FLOATS(12, 24));
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* ---- Memory that runs out ---- */

static xcvm_status compile_with(const xcvm_allocator *allocator, xcvm_error *error)
{
    xcc_options options = {.size = sizeof options, .allocator = allocator};
    xcc_module m;
    test_bytes bytes = {0};
    xcvm_status status = xcc_module_init(&m, &options, error);
    if (status == XCVM_OK) {
        xcc_builder b = {.graph = m.graph}, branches[2];
        xcc_value *x = xcc_value_create(m.graph, "x"), *cond = xcc_value_create(m.graph, "cond"), *p = NULL, *q = NULL,
                  *y = NULL;
        xcc_node *n = NULL;
        if (x != NULL && cond != NULL) {
            xcvm_value_set_tensor(&x->type, XCVM_F32, 2, DIMS(2, 3));
            xcvm_value_set_tensor(&cond->type, XCVM_BOOL, 0, NULL);
            y = xcc_value_create(m.graph, "y");
            status = xcc_graph_set_inputs(m.graph, 2, (xcc_value *[]){x, cond});
        }
        if (status == XCVM_OK && y != NULL)
            n = xcc_append_control(&b, XCC_IF, 1, &cond, 1, &y, 2);
        if (n != NULL) {
            branches[0] = (xcc_builder){.graph = n->bodies[0]};
            branches[1] = (xcc_builder){.graph = n->bodies[1]};
            p = xcc_apply(&branches[0], Exp, y, .x = XCC_IN(x));
            q = xcc_apply(&branches[1], Flatten, y, .x = XCC_IN(x), .axis = 1);
            if (q != NULL)
                q = xcc_apply(&branches[1], Squeeze, y, .x = XCC_IN(q),
                              .axes = XCC_IN(xcc_constant_i64(m.graph, 0, NULL)));
        }
        if (p != NULL && q != NULL) {
            status = xcc_graph_set_outputs(n->bodies[0], 1, &p);
            status = status == XCVM_OK ? xcc_graph_set_outputs(n->bodies[1], 1, &q) : status;
            status = status == XCVM_OK ? xcc_node_infer(n) : status;
            status = status == XCVM_OK ? xcc_graph_set_outputs(m.graph, 1, &y) : status;
        } else {
            status = error->status;
        }
        xcc_plan plan;
        status = status == XCVM_OK ? xcc_passes_run(&m) : status;
        status = status == XCVM_OK ? xcc_plan_make(&m, &plan) : status;
        status = status == XCVM_OK ? xcc_emit_program(&m, &plan, (xcvm_sink){test_bytes_sink, &bytes}) : status;
    }
    xcc_module_release(&m);
    test_bytes_free(&bytes);
    return status;
}

static bool refuse_bytes(void *user, const void *bytes, size_t count)
{
    (void)user, (void)bytes, (void)count;
    ck_abort_msg("a program that the loader refuses is written");
    return false;
}

/* Emits y, z = Split(x) after `spoil` has changed the node. */
static void check_refused(void (*spoil)(xcc_node *n), const char *part)
{
    compilation c;
    xcc_plan plan;
    begin(&c, 0);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 1, DIMS(4)), *y = value(&c.b, "y"), *z = value(&c.b, "z");
    xcvm_value *ys[] = {XCC_OUT(y), XCC_OUT(z)};
    xcc_node *n = xcc_emit(&c.b, Split, .ys = {ys, 2}, .x = XCC_IN(x), .axis = 0);
    ck_assert_ptr_nonnull(n);
    output(&c.b, y);
    passes(&c);
    ok(&c.m, xcc_plan_make(&c.m, &plan));
    spoil(c.m.graph->first);
    ck_assert_int_eq(xcc_emit_program(&c.m, &plan, (xcvm_sink){refuse_bytes, NULL}), XCVM_INTERNAL);
    ck_assert_msg(strstr(c.error.message, part) != NULL, "%s", c.error.message);
    ck_assert_msg(strstr(c.error.message, "a lower optimization level") != NULL, "%s", c.error.message);
    finish(&c);
}

static void drop_result(xcc_node *n) { ((xcvm_value **)(void *)XCC_ARGS(Split, n)->ys.at)[1] = NULL; }
static void move_axis(xcc_node *n) { ((xcvm_Split_args *)n->args)->axis = 9; }

START_TEST(refused_by_the_loader)
{
    check_refused(drop_result, "result ys is absent, but not optional");
    check_refused(move_axis, "axis");
}
END_TEST

START_TEST(out_of_memory)
{
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    size_t failed = 0;
    for (size_t i = 1; status != XCVM_OK; i++) {
        test_allocator a;
        xcvm_error error = {0};
        test_allocator_start(&a, i);
        status = compile_with(&a.allocator, &error);
        ck_assert_uint_eq(a.live, 0);
        ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY, "request %zu: %s", i, error.message);
        failed += status != XCVM_OK;
    }
    ck_assert_uint_gt(failed, 5);
}
END_TEST

Suite *suite_compiler_emit(void)
{
    Suite *suite = suite_create("compiler/emit");
    TCase *tests = tcase_create("emit");
    tcase_add_loop_test(tests, two_branches, 0, LEVELS);
    tcase_add_loop_test(tests, nested_branches, 0, LEVELS);
    tcase_add_loop_test(tests, fibonacci, 0, LEVELS);
    tcase_add_loop_test(tests, swap, 0, LEVELS);
    tcase_add_loop_test(tests, while_loop, 0, LEVELS);
    tcase_add_loop_test(tests, nested_loops, 0, LEVELS);
    tcase_add_loop_test(tests, endless_loop, 0, LEVELS);
    tcase_add_loop_test(tests, plain_outputs, 0, LEVELS);
    tcase_add_test(tests, constants);
    tcase_add_test(tests, refused_by_the_loader);
    tcase_add_test(tests, out_of_memory);
    suite_add_tcase(suite, tests);
    return suite;
}
