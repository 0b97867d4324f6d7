/* Tests of types of results of control flow, and of folding. */
#include "tests/compiler/support.h"

#define APPLY(b, Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

static xcc_value *value(xcc_builder *b) { return must(b, xcc_value_create(b->graph, NULL)); }

/* The result of an If whose branches give constants of these types. */
static xcvm_status join_types(compilation *c, xcvm_dtype other_type, int rank, const int64_t *dims, int other_rank,
                              const int64_t *other_dims, xcc_value **out)
{
    xcc_builder *b = &c->b;
    xcc_value *cond = input(b, "cond", XCVM_BOOL, 0, NULL);
    *out = value(b);
    xcc_node *n = xcc_append_control(b, XCC_IF, 1, &cond, 1, out, 2);
    ck_assert_ptr_nonnull(n);
    xcc_builder then = {.graph = n->bodies[0]}, other = {.graph = n->bodies[1]};
    static const double zeros[64] = {0};
    output(&then, must(b, xcc_constant(then.graph, NULL, XCVM_F32, rank, dims, zeros, false)));
    output(&other, must(b, xcc_constant(other.graph, NULL, other_type, other_rank, other_dims, zeros, false)));
    return xcc_node_infer(n);
}

START_TEST(branches_are_joined)
{
    compilation c;
    xcc_value *out;
    begin(&c, 0);
    ok(&c.m, join_types(&c, XCVM_F32, 2, DIMS(2, 3), 2, DIMS(2, 4), &out));
    ck_assert_int_eq(out->type.rank, 2);
    ck_assert_int_eq(out->type.dims[0], 2);
    ck_assert_int_lt(out->type.dims[1], XCVM_ANY_DIM);
    int64_t symbol = out->type.dims[1];
    ok(&c.m, xcc_node_infer(out->producer));
    ck_assert_int_eq(out->type.dims[1], symbol);
    finish(&c);

    begin(&c, 0);
    ok(&c.m, join_types(&c, XCVM_F32, 2, DIMS(2, 3), 1, DIMS(2), &out));
    ck_assert_int_eq(out->type.rank, -1);
    ck_assert_int_eq(out->type.dtype, XCVM_F32);
    finish(&c);

    begin(&c, 0);
    ck_assert_int_eq(join_types(&c, XCVM_I64, 1, DIMS(2), 1, DIMS(2), &out), XCVM_TYPE_MISMATCH);
    finish(&c);
}
END_TEST

/* A loop of `trips` (below 0: not known) over states that change their shape as `grow` says. */
typedef enum growth { STAYS, GROWS, DEEPENS } growth;

static xcc_node *make_loop(compilation *c, int64_t trips, growth how, xcc_value **out)
{
    xcc_builder *b = &c->b;
    xcc_value *count = trips < 0 ? input(b, "count", XCVM_I64, 0, NULL) : must(b, xcc_scalar_i64(b->graph, trips));
    xcc_value *in[3] = {count, NULL, input(b, "x", XCVM_F32, 2, DIMS(-1, 3))};
    out[0] = value(b);
    out[1] = value(b);
    xcc_node *n = xcc_append_control(b, XCC_LOOP, 3, in, 2, out, 1);
    ck_assert_ptr_nonnull(n);
    xcc_builder body = {.graph = n->bodies[0]};
    input(&body, "i", XCVM_I64, 0, NULL);
    xcc_value *go = input(&body, "go", XCVM_BOOL, 0, NULL), *s = input(&body, "s", XCVM_F32, 2, DIMS(-1, 3));
    output(&body, go);
    if (how == STAYS)
        output(&body, APPLY(&body, Neg, y, .x = XCC_IN(s)));
    else if (how == GROWS)
        output(&body, APPLY(&body, Concat, y, .xs = {(const xcvm_value *[]){XCC_IN(s), XCC_IN(s)}, 2}));
    else
        output(&body, APPLY(&body, Unsqueeze, y, .x = XCC_IN(s), .axes = XCC_IN(ints(&body, 1, DIMS(0)))));
    output(&body, APPLY(&body, Abs, y, .x = XCC_IN(in[2])));
    ok(&c->m, xcc_loop_infer_body(n));
    ok(&c->m, xcc_node_infer(n));
    output(b, out[0]);
    output(b, out[1]);
    return n;
}

START_TEST(loops)
{
    compilation c;
    xcc_value *out[2];
    begin(&c, 0);
    xcc_node *n = make_loop(&c, 5, STAYS, out);
    ck_assert_str_eq(xcc_symbol_name(&c.m, out[0]->type.dims[0]), "A");
    ck_assert_int_eq(out[0]->type.dims[1], 3);
    ck_assert_int_eq(out[1]->type.rank, 3);
    ck_assert_int_eq(out[1]->type.dims[0], 5);
    ck_assert_str_eq(xcc_symbol_name(&c.m, out[1]->type.dims[1]), "A");
    finish(&c);

    begin(&c, 0);
    n = make_loop(&c, -1, GROWS, out);
    int64_t inside = n->bodies[0]->inputs[2]->type.dims[0];
    ck_assert(xcc_symbol_is_of(&c.m, inside, n->bodies[0]->inputs[2]));
    ck_assert_int_lt(out[0]->type.dims[0], XCVM_ANY_DIM);
    ck_assert_int_ne(out[0]->type.dims[0], inside);
    ck_assert_int_eq(out[0]->type.dims[1], 3);
    ck_assert_int_lt(out[1]->type.dims[0], XCVM_ANY_DIM);
    finish(&c);

    begin(&c, 0);
    make_loop(&c, -1, DEEPENS, out);
    ck_assert_int_eq(out[0]->type.rank, -1);
    ok(&c.m, xcc_graph_verify(c.m.graph));
    ok(&c.m, xcc_pass_infer(&c.m));
    ck_assert_int_eq(out[0]->type.rank, -1);
    finish(&c);
}
END_TEST

/* A loop in a loop in a loop ... whose innermost state grows. The rounds up to their fixpoints must add up only. */
START_TEST(deep_loops_reach_fixpoint)
{
    enum { DEPTH = 40 };
    compilation c;
    begin(&c, 0);
    xcc_builder levels[DEPTH + 1] = {c.b};
    xcc_node *nodes[DEPTH];
    xcc_value *count = must(&c.b, xcc_scalar_i64(c.m.graph, 2)), *state = input(&c.b, "x", XCVM_F32, 1, DIMS(2));
    for (int i = 0; i < DEPTH; i++) {
        xcc_value *in[3] = {count, NULL, state}, *out = value(&levels[i]);
        nodes[i] = xcc_append_control(&levels[i], XCC_LOOP, 3, in, 1, &out, 1);
        levels[i + 1] = (xcc_builder){.graph = nodes[i]->bodies[0]};
        input(&levels[i + 1], "i", XCVM_I64, 0, NULL);
        input(&levels[i + 1], "go", XCVM_BOOL, 0, NULL);
        state = input(&levels[i + 1], "s", XCVM_F32, 1, DIMS(2));
    }
    for (int i = DEPTH; i > 0; i--) {
        output(&levels[i], levels[i].graph->inputs[1]);
        output(&levels[i], i == DEPTH ? APPLY(&levels[i], Concat, y,
                                              .xs = {(const xcvm_value *[]){XCC_IN(state), XCC_IN(state)}, 2})
                                      : nodes[i]->outputs[0]);
    }
    output(&c.b, nodes[0]->outputs[0]);
    ok(&c.m, xcc_pass_infer(&c.m));
    ck_assert_int_lt(nodes[0]->outputs[0]->type.dims[0], XCVM_ANY_DIM);
    finish(&c);
}
END_TEST

/* ---- Folding ---- */

START_TEST(constants_are_computed)
{
    compilation c;
    begin(&c, 1);
    xcc_builder *b = &c.b;
    xcc_value *p = floats(b, 1, DIMS(3), FLOATS(1, 2, 3)), *q = APPLY(b, Exp, y, .x = XCC_IN(p));
    q = APPLY(b, Add, y, .a = XCC_IN(q), .b = XCC_IN(APPLY(b, Neg, y, .x = XCC_IN(p))));
    xcc_value *r = APPLY(b, Flatten, y, .x = XCC_IN(q), .axis = 0);
    output(b, APPLY(b, Mul, y, .a = XCC_IN(input(b, "x", XCVM_F32, 1, DIMS(3))), .b = XCC_IN(r)));
    output(b, q);
    xcc_value *seeded =
        APPLY(b, RandomUniform, y, .shape = XCC_IN(ints(b, 1, DIMS(4))), .high = 1, .seed = 1, .dtype = XCVM_F32);
    output(b, seeded);
    passes(&c);
    CHECK_NODES(&c, 2);
    ck_assert(xcc_is_constant(c.m.graph->outputs[1]));
    ck_assert_double_eq_tol(xcvm_element_as_double(&c.m.graph->outputs[1]->type, 1), exp(2) - 2, 1e-5);
    CHECK_COUNT(&c, RandomUniform, 1);
    compiled_program k;
    compiled_open(&k, &c);
    compiled_fill_input(&k, 0, 1);
    compiled_run(&k);
    compiled_close(&k);
    finish(&c);
}
END_TEST

START_TEST(what_is_too_large_is_left)
{
    compilation c;
    begin(&c, 1);
    xcc_builder *b = &c.b;
    xcc_value *big = APPLY(b, Expand, y, .x = XCC_IN(number(b, 1)), .shape = XCC_IN(ints(b, 2, DIMS(3000, 3000))));
    output(b, APPLY(b, ReduceSum, y, .x = XCC_IN(big), .keepdims = 1));
    xcc_value *small = APPLY(b, Expand, y, .x = XCC_IN(number(b, 1)), .shape = XCC_IN(ints(b, 2, DIMS(30, 30))));
    output(b, APPLY(b, ReduceSum, y, .x = XCC_IN(small), .keepdims = 1));
    passes(&c);
    CHECK_COUNT(&c, Expand, 1);
    CHECK_COUNT(&c, ReduceSum, 1);
    finish(&c);
}
END_TEST

/* A computation that fails is not folded, because the run may never reach it. */
START_TEST(failures_are_left)
{
    compilation c;
    begin(&c, 1);
    xcc_builder *b = &c.b;
    xcc_value *p = floats(b, 1, DIMS(3), FLOATS(1, 2, 3));
    output(b, APPLY(b, Gather, y, .x = XCC_IN(p), .indices = XCC_IN(must(b, xcc_scalar_i64(b->graph, 7)))));
    passes(&c);
    CHECK_COUNT(&c, Gather, 1);
    compiled_program k;
    compiled_open(&k, &c);
    xcvm_error error = {0};
    ck_assert_int_eq(xcvm_session_run(k.session, NULL, &error), XCVM_OUT_OF_RANGE);
    ck_assert_str_eq(error.node, "node");
    compiled_close(&k);
    finish(&c);
}
END_TEST

Suite *suite_compiler_infer(void)
{
    Suite *suite = suite_create("compiler/infer");
    TCase *tests = tcase_create("infer");
    tcase_add_test(tests, branches_are_joined);
    tcase_add_test(tests, loops);
    tcase_add_test(tests, deep_loops_reach_fixpoint);
    tcase_add_test(tests, constants_are_computed);
    tcase_add_test(tests, what_is_too_large_is_left);
    tcase_add_test(tests, failures_are_left);
    suite_add_tcase(suite, tests);
    return suite;
}
