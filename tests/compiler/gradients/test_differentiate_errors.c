/* Tests of graphs whose differentiation is refused, and of the messages. */
#include "tests/compiler/gradients/differentiation.h"

/* The error names exactly the nodes that cannot be differentiated. */
START_TEST(missing_rules)
{
    compilation c;
    begin_backprop(&c);
    xcc_value *w = parameter(&c.b, "w", 2, DIMS(1, 1), FLOATS(1)), *x = input(&c.b, "x", XCVM_F32, 2, DIMS(1, 1));
    static const char *const names[] = {"first", "second", "aside"};
    xcc_value *made[3], *from[] = {w, w, x};
    for (int i = 0; i < 3; i++) {
        c.b.name = names[i];
        made[i] = must(&c.b, xcc_apply(&c.b, PairwiseCoupling, y, .x = XCC_IN(from[i]), .classes = 2));
    }
    c.b.name = "rest";
    xcc_value *all = must(&c.b, xcc_build_add(&c.b, xcc_build_add(&c.b, made[0], made[1]), made[2]));
    output(&c.b, sum(&c.b, all));
    ck_assert_int_eq(differentiate(&c), XCVM_UNSUPPORTED);
    ck_assert(strstr(c.error.message, "node 'first'") != NULL && strstr(c.error.message, "node 'second'") != NULL);
    ck_assert(strstr(c.error.message, "PairwiseCoupling cannot be differentiated") != NULL);
    ck_assert(strstr(c.error.message, "aside") == NULL && strstr(c.error.message, "rest") == NULL);
    ck_assert_str_eq(c.error.node, "first");
    ck_assert_str_eq(c.error.instruction, "PairwiseCoupling");
    finish(&c);
}
END_TEST

/* There are as many functions as directions, whatever a model names. */
START_TEST(functions_of_cells)
{
    static const xcvm_text names[] = {{"Tanh", 4}, {"Tan", 3}, {"Relu", 4}};
    static const struct {
        xcvm_texts names;
        const char *part;
    } cells[] = {{{names, 1}, "activations has the wrong number of entries (1; expected 2)"},
                 {{names, 3}, "activations has the wrong number of entries (3; expected 2)"},
                 {{names, 2}, "there is no activation \"Tan\""}};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        compilation c;
        begin_backprop(&c);
        xcc_value *x = input(&c.b, "x", XCVM_F32, 3, DIMS(2, 1, 1));
        xcc_value *w = parameter(&c.b, "w", 3, DIMS(2, 1, 1), FLOATS(1, 2));
        output(&c.b, sum(&c.b, must(&c.b, xcc_apply(&c.b, RNN, y, .x = XCC_IN(x), .w = XCC_IN(w), .r = XCC_IN(w),
                                                    .hidden_size = 1, .direction = XCVM_DIRECTION_bidirectional,
                                                    .activations = cells[i].names))));
        check_refused(&c, XCVM_UNSUPPORTED, cells[i].part);
    }
}
END_TEST

START_TEST(more_than_fit)
{
    compilation c;
    begin_backprop(&c);
    xcc_value *y = parameter(&c.b, "w", 2, DIMS(1, 1), FLOATS(1));
    c.b.name = "a name that is neither long nor short";
    for (int i = 0; i < 40; i++)
        y = xcc_build_slice(&c.b, must(&c.b, xcc_apply(&c.b, PairwiseCoupling, y, .x = XCC_IN(y), .classes = 2)), 1, 0,
                            1, 1);
    output(&c.b, sum(&c.b, y));
    ck_assert_int_eq(differentiate(&c), XCVM_UNSUPPORTED);
    const char *more = strstr(c.error.message, "\nand ");
    ck_assert_ptr_nonnull(more);
    size_t lines = 0;
    for (const char *at = c.error.message; at < more; at++)
        lines += *at == '\n';
    ck_assert_int_eq(atoi(more + strlen("\nand ")), 40 - (int)lines - 1);
    finish(&c);
}
END_TEST

START_TEST(no_scalar)
{
    compilation c;
    begin_backprop(&c);
    output(&c.b, must(&c.b, xcc_build_unary(&c.b, XCVM_OP_Tanh, parameter(&c.b, "w", 1, DIMS(2), FLOATS(1, 2)))));
    check_refused(&c, XCVM_INVALID_ARGUMENT, "it has to be one number, so end the model with a sum or a mean");
}
END_TEST

START_TEST(open_loss)
{
    compilation c;
    begin_backprop(&c);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 1, DIMS(-1)), *w = parameter(&c.b, "w", 0, NULL, FLOATS(1));
    output(&c.b, must(&c.b, xcc_build_mul(&c.b, x, w)));
    check_refused(&c, XCVM_INVALID_ARGUMENT, "it has to be one number");
}
END_TEST

START_TEST(several_losses)
{
    compilation c;
    begin_backprop(&c);
    xcc_value *w = parameter(&c.b, "w", 1, DIMS(2), FLOATS(1, 2));
    output(&c.b, sum(&c.b, w));
    output(&c.b, sum(&c.b, must(&c.b, xcc_build_mul(&c.b, w, w))));
    check_refused(&c, XCVM_INVALID_ARGUMENT, "2 outputs of float types; name the one");
}
END_TEST

START_TEST(wrong_names)
{
    static const char *const wrt[] = {"w", "w", "i", "nobody"};
    static const char *const parts[] = {"no output 'other'", "'w' is named more than once",
                                        "'i' is no tensor of a float type", "no parameter or input 'nobody'"};
    for (int i = 0; i < 4; i++) {
        compilation c;
        begin_backprop(&c);
        if (i == 0) {
            c.options.loss = "other";
        } else {
            c.options.gradients.wrt = i == 1 ? wrt : &wrt[i];
            c.options.gradients.wrt_count = i == 1 ? 2 : 1;
        }
        (void)input(&c.b, "i", XCVM_I64, 0, NULL);
        output(&c.b, sum(&c.b, parameter(&c.b, "w", 1, DIMS(2), FLOATS(1, 2))));
        check_refused(&c, XCVM_INVALID_ARGUMENT, parts[i]);
    }
}
END_TEST

START_TEST(nothing_to_learn)
{
    compilation c;
    begin_backprop(&c);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 1, DIMS(2));
    output(&c.b, sum(&c.b, x));
    check_refused(&c, XCVM_INVALID_ARGUMENT, "no parameters");
    begin_backprop(&c);
    x = input(&c.b, "x", XCVM_F32, 1, DIMS(2));
    (void)parameter(&c.b, "w", 0, NULL, FLOATS(0));
    output(&c.b, sum(&c.b, x));
    check_refused(&c, XCVM_INVALID_ARGUMENT, "depends on none");
}
END_TEST

START_TEST(taken_name)
{
    compilation c;
    begin_backprop(&c);
    xcc_value *w = parameter(&c.b, "w", 0, NULL, FLOATS(1)), *y = must(&c.b, xcc_value_create(c.b.graph, "grad_out@w"));
    ck_assert_ptr_nonnull(xcc_emit(&c.b, Identity, .y = XCC_OUT(y), .x = XCC_IN(w)));
    output(&c.b, y);
    check_refused(&c, XCVM_INVALID_MODEL, "has an input or an output 'grad_out@w' already");
}
END_TEST

/* Gradients have the shapes of their values, so the run need not search for axes if the batch is open. */
START_TEST(open_batch)
{
    compilation c;
    begin_backprop(&c);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 2, DIMS(-1, 2)), *w = parameter(&c.b, "w", 1, DIMS(2), FLOATS(1, 2));
    xcc_value *y = must(&c.b, xcc_build_unary(&c.b, XCVM_OP_Tanh, must(&c.b, xcc_build_mul(&c.b, x, w))));
    output(&c.b, sum(&c.b, must(&c.b, xcc_build_mul(&c.b, y, y))));
    ok(&c.m, differentiate(&c));
    c.options.backprop = false;
    passes(&c);
    CHECK_COUNT(&c, NonZero, 0);
    finish(&c);
}
END_TEST

Suite *suite_compiler_differentiate_errors(void);
Suite *suite_compiler_differentiate_errors(void)
{
    Suite *suite = suite_create("compiler/differentiate_errors");
    TCase *tests = tcase_create("differentiate_errors");
    tcase_add_test(tests, missing_rules);
    tcase_add_test(tests, functions_of_cells);
    tcase_add_test(tests, more_than_fit);
    tcase_add_test(tests, no_scalar);
    tcase_add_test(tests, open_loss);
    tcase_add_test(tests, several_losses);
    tcase_add_test(tests, wrong_names);
    tcase_add_test(tests, nothing_to_learn);
    tcase_add_test(tests, taken_name);
    tcase_add_test(tests, open_batch);
    suite_add_tcase(suite, tests);
    return suite;
}
