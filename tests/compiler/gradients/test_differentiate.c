/* Tests of the outputs of a differentiated program, and of the differentiated nodes. */
#include "tests/compiler/gradients/differentiation.h"

/* ---- What comes out ---- */

START_TEST(parameters)
{
    compilation c;
    compiled_program k;
    begin_backprop(&c);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 1, DIMS(3));
    xcc_value *w = parameter(&c.b, "w", 1, DIMS(3), FLOATS(1, 2, 3)), *s = parameter(&c.b, "s", 0, NULL, FLOATS(2));
    (void)parameter(&c.b, "unused", 0, NULL, FLOATS(0));
    xcc_value *loss = sum(&c.b, xcc_build_mul(&c.b, xcc_build_mul(&c.b, x, w), s));
    output(&c.b, loss);
    ok(&c.m, differentiate(&c));
    check_outputs(&c, 3, (const char *const[]){loss->name, "grad_out@w", "grad_out@s"});
    /* Nothing is learned by the program itself. */
    ck_assert(xcc_is_constant(w));
    compile_rest(&c, &k);
    compiled_set_input(&k, 0, XCVM_F32, 1, DIMS(3), FLOATS(5, 6, 7));
    compiled_run(&k);
    expect_output(&k, 1, 1, DIMS(3), FLOATS(10, 12, 14));
    expect_output(&k, 2, 0, NULL, FLOATS(38));
    compiled_close(&k);
    finish(&c);
}
END_TEST

START_TEST(by_name)
{
    static const char *const wrt[] = {"x", "unused"};
    compilation c;
    compiled_program k;
    begin_backprop(&c);
    c.options.gradients.wrt = wrt;
    c.options.gradients.wrt_count = 2;
    xcc_value *x = input(&c.b, "x", XCVM_F32, 1, DIMS(2)), *w = parameter(&c.b, "w", 1, DIMS(2), FLOATS(1, 2));
    (void)parameter(&c.b, "unused", 1, DIMS(2), FLOATS(0, 0));
    output(&c.b, sum(&c.b, xcc_build_mul(&c.b, x, w)));
    ok(&c.m, differentiate(&c));
    check_outputs(&c, 3, (const char *const[]){c.m.graph->output_names[0], "grad_out@x", "grad_out@unused"});
    compile_rest(&c, &k);
    compiled_set_input(&k, 0, XCVM_F32, 1, DIMS(2), FLOATS(5, 6));
    compiled_run(&k);
    expect_output(&k, 1, 1, DIMS(2), FLOATS(1, 2));
    expect_output(&k, 2, 1, DIMS(2), FLOATS(0, 0)); /* requested, so it is present, though zero */
    compiled_close(&k);
    finish(&c);
}
END_TEST

START_TEST(loss_by_name)
{
    compilation c;
    begin_backprop(&c);
    xcc_value *w = parameter(&c.b, "w", 1, DIMS(2), FLOATS(1, 2)), *y = must(&c.b, xcc_build_mul(&c.b, w, w));
    xcc_value *loss = sum(&c.b, y);
    output(&c.b, y);
    output(&c.b, loss);
    c.options.loss = loss->name;
    ok(&c.m, differentiate(&c));
    check_outputs(&c, 3, (const char *const[]){y->name, loss->name, "grad_out@w"});
    finish(&c);
}
END_TEST

/* ---- What is built ---- */

START_TEST(path_alone)
{
    static const char *const wrt[] = {"w"};
    compilation c;
    begin_backprop(&c);
    c.options.gradients.wrt = wrt;
    c.options.gradients.wrt_count = 1;
    xcc_value *x = input(&c.b, "x", XCVM_F32, 1, DIMS(2)), *w = parameter(&c.b, "w", 1, DIMS(2), FLOATS(1, 2));
    xcc_value *frozen = parameter(&c.b, "frozen", 1, DIMS(2), FLOATS(1, 2));
    /* Neither paths from the input or a frozen parameter alone, nor values that the loss does not depend on. */
    xcc_value *before = must(&c.b, xcc_build_unary(&c.b, XCVM_OP_Tanh, xcc_build_mul(&c.b, x, frozen)));
    xcc_value *aside = must(&c.b, xcc_build_unary(&c.b, XCVM_OP_Sin, w));
    xcc_value *loss = sum(&c.b, xcc_build_mul(&c.b, before, w));
    output(&c.b, loss);
    output(&c.b, aside);
    c.options.loss = loss->name;
    const size_t tanhs = count_in(c.m.graph, XCVM_OP_Tanh), products = count_in(c.m.graph, XCVM_OP_Mul);
    ok(&c.m, differentiate(&c));
    ok(&c.m, xcc_pass_canonicalize(&c.m));
    CHECK_COUNT(&c, Tanh, tanhs);
    CHECK_COUNT(&c, Mul, products + 1); /* of the gradient with what w is multiplied by */
    CHECK_COUNT(&c, Cos, 0);
    finish(&c);
}
END_TEST

/* Softmax less one at the target, over the number of lines: no gradient of the logarithms is held, and nothing is
 * summed up over classes. A target that is ignored leaves zeros. */
START_TEST(loss_of_classes)
{
    compilation c;
    compiled_program k;
    begin_backprop(&c);
    const float w[] = {0.5f, -1, 2, 0, 1, 0.25f}, ignored = (float)_i;
    xcc_value *scores = parameter(&c.b, "w", 2, DIMS(2, 3), w), *target = input(&c.b, "t", XCVM_I64, 1, DIMS(2));
    xcc_value *logs = must(&c.b, xcc_apply(&c.b, LogSoftmax, y, .x = XCC_IN(scores), .axis = _i == 0 ? 1 : -1));
    output(&c.b, must(&c.b, xcc_apply(&c.b, NegativeLogLikelihoodLoss, y, .x = XCC_IN(logs), .target = XCC_IN(target),
                                      .ignore_index = -100, .reduction = XCVM_LOSS_REDUCTION_mean)));
    ok(&c.m, differentiate(&c));
    ok(&c.m, xcc_pass_canonicalize(&c.m));
    CHECK_COUNT(&c, ScatterElements, 1);
    CHECK_COUNT(&c, Sub, 0);
    CHECK_COUNT(&c, Expand, 0);
    compile_rest(&c, &k);
    const int64_t targets[] = {2, _i == 0 ? 0 : -100};
    compiled_set_input(&k, 0, XCVM_I64, 1, DIMS(2), targets);
    compiled_run(&k);
    float expected[6];
    for (size_t i = 0; i < 6; i++) {
        const float *line = w + i / 3 * 3;
        const float all = expf(line[0]) + expf(line[1]) + expf(line[2]);
        const float gradient = expf(w[i]) / all - (float)((int64_t)(i % 3) == targets[i / 3]);
        expected[i] = i < 3 ? gradient / (2 - ignored) : gradient / 2 * (1 - ignored);
    }
    expect_output(&k, 1, 2, DIMS(2, 3), expected);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* A gradient that nothing contributes to is not computed: Where chooses, comparisons give none. */
START_TEST(structural_zero)
{
    compilation c;
    begin_backprop(&c);
    xcc_value *w = parameter(&c.b, "w", 1, DIMS(2), FLOATS(1, 2)), *v = parameter(&c.b, "v", 1, DIMS(2), FLOATS(1, 2));
    xcc_value *above = must(&c.b, xcc_build_binary(&c.b, XCVM_OP_Greater, v, number(&c.b, 1)));
    xcc_value *steps = must(&c.b, xcc_build_unary(&c.b, XCVM_OP_Floor, v));
    xcc_value *y = must(&c.b, xcc_build_call(&c.b, XCVM_OP_Where, 3, (xcc_value *[]){above, w, steps}));
    xcc_value *loss = sum(&c.b, y);
    output(&c.b, loss);
    ok(&c.m, differentiate(&c));
    check_outputs(&c, 2, (const char *const[]){loss->name, "grad_out@w"});
    finish(&c);
}
END_TEST

/* Contributions to one value are added up last to first, whatever the order of the parameters. */
START_TEST(accumulation)
{
    compilation c;
    compiled_program k;
    begin_backprop(&c);
    xcc_value *w = parameter(&c.b, "w", 0, NULL, FLOATS(1)), *y = w;
    static const float factors[] = {1e8f, 1, -1e8f};
    for (int i = 0; i < 3; i++) {
        xcc_value *term = must(&c.b, xcc_build_mul(&c.b, w, number(&c.b, (double)factors[i])));
        y = i == 0 ? term : must(&c.b, xcc_build_add(&c.b, y, term));
    }
    output(&c.b, sum(&c.b, y));
    ok(&c.m, differentiate(&c));
    compile_rest(&c, &k);
    compiled_run(&k);
    /* (-1e8 + 1) + 1e8, where 1 is lost */
    expect_output(&k, 1, 0, NULL, FLOATS(0));
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Running statistics are not trained, unless they are requested. */
START_TEST(running_statistics)
{
    for (int asked = 0; asked < 2; asked++) {
        static const char *const wrt[] = {"mean"};
        compilation c;
        begin_backprop(&c);
        if (asked) {
            c.options.gradients.wrt = wrt;
            c.options.gradients.wrt_count = 1;
        }
        xcc_value *x = input(&c.b, "x", XCVM_F32, 2, DIMS(4, 1)), *operands[4];
        static const char *const names[] = {"scale", "bias", "mean", "var"};
        for (int i = 0; i < 4; i++)
            operands[i] = parameter(&c.b, names[i], 1, DIMS(1), FLOATS(1));
        xcc_value *y = xcc_apply(&c.b, BatchNormalization, y, .x = XCC_IN(x), .scale = XCC_IN(operands[0]),
                                 .b = XCC_IN(operands[1]), .mean = XCC_IN(operands[2]), .var = XCC_IN(operands[3]),
                                 .epsilon = 1e-5);
        xcc_value *loss = sum(&c.b, must(&c.b, y));
        output(&c.b, loss);
        ok(&c.m, differentiate(&c));
        if (asked)
            check_outputs(&c, 2, (const char *const[]){loss->name, "grad_out@mean"});
        else
            check_outputs(&c, 3, (const char *const[]){loss->name, "grad_out@scale", "grad_out@bias"});
        finish(&c);
    }
}
END_TEST

/* ---- Control flow ---- */

/* A loop over state x0, whose body is built by `fill` from the state's value; three iterations. */
static xcc_node *loop_of(compilation *c, xcc_value *x0, xcc_value *(*fill)(xcc_builder *b, xcc_value *state))
{
    xcc_value *result = must(&c->b, xcc_value_create(c->b.graph, NULL));
    xcc_value *inputs[] = {must(&c->b, xcc_scalar_i64(c->b.graph, 3)), NULL, x0};
    xcc_node *loop = xcc_append_control(&c->b, XCC_LOOP, 3, inputs, 1, &result, 1);
    ck_assert_ptr_nonnull(loop);
    xcc_graph *body = loop->bodies[0];
    xcc_builder b = {.graph = body, .name = "inside", .origin = "Test"};
    xcc_value *given[3];
    for (int i = 0; i < 3; i++)
        given[i] = must(&b, xcc_value_create(body, NULL));
    xcvm_value_set_tensor(&given[0]->type, XCVM_I64, 0, NULL);
    xcvm_value_set_tensor(&given[1]->type, XCVM_BOOL, 0, NULL);
    xcvm_value_set_tensor(&given[2]->type, x0->type.dtype, x0->type.rank, x0->type.dims);
    ok(&c->m, xcc_graph_set_inputs(body, 3, given));
    xcc_value *next = must(&b, fill(&b, given[2]));
    ok(&c->m, xcc_graph_set_outputs(body, 2, (xcc_value *[]){given[1], next}));
    ok(&c->m, xcc_node_infer(loop));
    return loop;
}

static xcc_value *square(xcc_builder *b, xcc_value *state) { return xcc_build_mul(b, state, state); }

static xcc_value *coupled(xcc_builder *b, xcc_value *state)
{
    return xcc_apply(b, PairwiseCoupling, y, .x = XCC_IN(xcc_build_slice(b, state, 1, 0, 1, 1)), .classes = 2);
}

static xcc_value *dropped(xcc_builder *b, xcc_value *state)
{
    return xcc_apply(b, Dropout, y, .x = XCC_IN(state), .ratio = XCC_IN(number(b, 0.5)),
                     .training_mode = XCC_IN(xcc_scalar(b->graph, XCVM_BOOL, 1)), .seed = -1);
}

/* The same in a branch, if some element of the state is above 0. */
static xcc_value *dropped_deep(xcc_builder *b, xcc_value *state)
{
    xcc_value *most = must(b, xcc_build_reduce(b, XCVM_OP_ReduceMax, state, NULL, false));
    xcc_value *on = must(b, xcc_build_binary(b, XCVM_OP_Greater, most, number(b, 0)));
    xcc_value *result = must(b, xcc_value_create(b->graph, NULL));
    xcc_node *n = xcc_append_control(b, XCC_IF, 1, &on, 1, &result, 2);
    ck_assert_ptr_nonnull(n);
    for (int i = 0; i < 2; i++) {
        xcc_builder inner = {.graph = n->bodies[i], .name = "deep", .origin = "Test"};
        xcc_value *y = must(&inner, i == 0 ? dropped(&inner, state) : square(&inner, state));
        ok(b->graph->module, xcc_graph_set_outputs(n->bodies[i], 1, &y));
    }
    ok(b->graph->module, xcc_node_infer(n));
    return result;
}

static xcc_value *longer(xcc_builder *b, xcc_value *state)
{
    return xcc_build_concat(b, 2, (xcc_value *[]){state, state}, 1);
}

/* x^8 */
START_TEST(loop)
{
    compilation c;
    compiled_program k;
    begin_backprop(&c);
    const xcc_node *n = loop_of(&c, parameter(&c.b, "w", 2, DIMS(1, 2), FLOATS(1, 2)), square);
    output(&c.b, sum(&c.b, n->outputs[0]));
    ok(&c.m, differentiate(&c));
    compile_rest(&c, &k);
    compiled_run(&k);
    expect_output(&k, 1, 2, DIMS(1, 2), FLOATS(8, 1024));
    compiled_close(&k);
    finish(&c);
}
END_TEST

static xcc_value *doubled(xcc_builder *b, xcc_value *state) { return xcc_build_add(b, state, state); }

/* The backward pass uses the same dropout mask: y = w * f and the gradient is f, in a loop and in a branch. */
START_TEST(dropped_in_bodies)
{
    for (int branch = 0; branch < 2; branch++) {
        compilation c;
        compiled_program k;
        float w[64];
        begin_backprop(&c);
        c.options.loss = "loss";
        for (int i = 0; i < 64; i++)
            w[i] = (float)(i + 1);
        xcc_value *p = parameter(&c.b, "w", 2, DIMS(1, 64), w),
                  *named = must(&c.b, xcc_value_create(c.b.graph, "loss"));
        xcc_value *y = branch ? dropped_deep(&c.b, p) : loop_of(&c, p, dropped)->outputs[0];
        xcc_value *total = sum(&c.b, y);
        ck_assert_ptr_nonnull(xcc_emit(&c.b, Identity, .y = XCC_OUT(named), .x = XCC_IN(total)));
        output(&c.b, named);
        output(&c.b, y);
        ok(&c.m, differentiate(&c));
        compile_rest(&c, &k);
        compiled_run(&k);
        const float *of_y = xcvm_value_data(xcvm_session_get_output(k.session, 1));
        const float *of_w = xcvm_value_data(xcvm_session_get_output(k.session, 2));
        size_t zeros = 0;
        for (size_t i = 0; i < 64; i++) {
            ck_assert_double_eq_tol((double)(of_w[i] * w[i]), (double)of_y[i], 1e-3);
            zeros += of_y[i] == 0;
        }
        ck_assert(zeros > 0 && zeros < 64);
        compiled_close(&k);
        finish(&c);
    }
}
END_TEST

/* Only values that the gradients of an iteration depend on are kept: nothing for a sum, and the state for a product. */
START_TEST(kept_states)
{
    for (int i = 0; i < 2; i++) {
        compilation c;
        begin_backprop(&c);
        const xcc_node *n = loop_of(&c, parameter(&c.b, "w", 2, DIMS(1, 2), FLOATS(1, 2)), i == 0 ? doubled : square);
        output(&c.b, sum(&c.b, n->outputs[0]));
        ok(&c.m, differentiate(&c));
        ck_assert_uint_eq(n->output_count, i == 0 ? 2 : 3); /* the state, the rounds' numbers, the states */
        finish(&c);
    }
}
END_TEST

/* A state that is twice as long after each round: 8 copies. */
START_TEST(growing_state)
{
    compilation c;
    compiled_program k;
    begin_backprop(&c);
    const xcc_node *n = loop_of(&c, parameter(&c.b, "w", 2, DIMS(1, 2), FLOATS(1, 2)), longer);
    output(&c.b, sum(&c.b, must(&c.b, xcc_build_mul(&c.b, n->outputs[0], n->outputs[0]))));
    ok(&c.m, differentiate(&c));
    compile_rest(&c, &k);
    compiled_run(&k);
    expect_output(&k, 1, 2, DIMS(1, 2), FLOATS(16, 32));
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Nodes of a body are named in the error like all others, before anything is built. */
START_TEST(refused_in_bodies)
{
    static const struct {
        xcc_value *(*fill)(xcc_builder *b, xcc_value *state);
        const char *node, *part;
    } bodies[] = {{coupled, "node 'inside'", "PairwiseCoupling cannot be differentiated"},
                  {dropped_deep, "node 'node'", "a nested body draws random numbers"}};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        compilation c;
        begin_backprop(&c);
        const xcc_node *n = loop_of(&c, parameter(&c.b, "w", 2, DIMS(1, 2), FLOATS(1, 2)), bodies[i].fill);
        output(&c.b, sum(&c.b, n->outputs[0]));
        ck_assert_int_eq(differentiate(&c), XCVM_UNSUPPORTED);
        ck_assert_msg(strstr(c.error.message, bodies[i].node) != NULL, "%s", c.error.message);
        ck_assert_msg(strstr(c.error.message, bodies[i].part) != NULL, "%s", c.error.message);
        finish(&c);
    }
}
END_TEST

Suite *suite_compiler_differentiate(void);
Suite *suite_compiler_differentiate(void)
{
    Suite *suite = suite_create("compiler/differentiate");
    TCase *tests = tcase_create("differentiate");
    tcase_add_test(tests, parameters);
    tcase_add_test(tests, by_name);
    tcase_add_test(tests, loss_by_name);
    tcase_add_test(tests, path_alone);
    tcase_add_loop_test(tests, loss_of_classes, 0, 2);
    tcase_add_test(tests, structural_zero);
    tcase_add_test(tests, accumulation);
    tcase_add_test(tests, running_statistics);
    tcase_add_test(tests, loop);
    tcase_add_test(tests, dropped_in_bodies);
    tcase_add_test(tests, kept_states);
    tcase_add_test(tests, growing_state);
    tcase_add_test(tests, refused_in_bodies);
    suite_add_tcase(suite, tests);
    return suite;
}
