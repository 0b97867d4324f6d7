/* Outputs that are inputs of the next run become states, which programs load and store. */
#include "compiler/ir/compose.h"
#include "compiler/states/states.h"
#include "tests/compiler/support.h"

enum { LEVELS = 3 };

static void pair(compilation *c, const xcc_state_pair *pairs, size_t count)
{
    c->options.states.pairs = pairs;
    c->options.states.pair_count = count;
}

static void step(compiled_program *k)
{
    xcvm_error error = {0};
    ck_assert_msg(xcvm_session_run(k->session, NULL, &error) == XCVM_OK, "%s: %s", error.instruction, error.message);
}

static void set_x(compiled_program *k, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                  const void *data)
{
    xcvm_value *v;
    xcvm_error error = {0};
    size_t index = 0;
    while (strcmp(xcvm_program_input_at(k->program, index)->name, name) != 0)
        index++;
    ck_assert_int_eq(xcvm_tensor_wrap(dtype, rank, dims, (void *)(uintptr_t)data, (xcvm_finalizer){0}, &v, &error),
                     XCVM_OK);
    ck_assert_msg(xcvm_session_set_input(k->session, index, v, &error) == XCVM_OK, "%s", error.message);
    xcvm_value_release(v);
}

static const float *state(const compiled_program *k) { return xcvm_value_data(xcvm_session_get_state(k->session, 0)); }

/* h' = h + x, y = -h'. */
START_TEST(recurrence)
{
    static const xcc_state_pair pairs[] = {{"next", "h"}};
    compilation c;
    compiled_program k;
    begin(&c, _i);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 1, DIMS(2)), *h = input(&c.b, "h", XCVM_F32, 1, DIMS(2));
    xcc_value *next = must(&c.b, xcc_apply(&c.b, Add, y, .a = XCC_IN(x), .b = XCC_IN(h)));
    ok(&c.m, xcc_value_rename(next, "next"));
    output(&c.b, next);
    output(&c.b, must(&c.b, xcc_apply(&c.b, Neg, y, .x = XCC_IN(next))));
    pair(&c, pairs, 1);
    ok(&c.m, xcc_pair_states(&c.m));
    passes(&c);
    compiled_open(&k, &c);
    ck_assert_uint_eq(xcvm_program_input_count(k.program), 1);
    ck_assert_uint_eq(xcvm_program_output_count(k.program), 1);
    ck_assert_str_eq(xcvm_program_state_at(k.program, 0)->name, "h");
    set_x(&k, "x", XCVM_F32, 1, DIMS(2), FLOATS(1, 2));
    for (int i = 1; i <= 4; i++) {
        step(&k);
        ck_assert_float_eq(state(&k)[1], (float)(2 * i));
        ck_assert_float_eq(((const float *)xcvm_value_data(xcvm_session_get_output(k.session, 0)))[0], (float)-i);
    }
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* A state that both branches of an If read; one of them changes it. */
START_TEST(in_branches)
{
    static const xcc_state_pair pairs[] = {{"next", "h"}};
    static const bool yes = true, no = false;
    compilation c;
    compiled_program k;
    begin(&c, _i);
    xcc_builder *b = &c.b;
    xcc_value *cond = input(b, "cond", XCVM_BOOL, 0, NULL), *h = input(b, "h", XCVM_F32, 1, DIMS(2));
    xcc_value *next = must(b, xcc_value_create(b->graph, "next"));
    xcc_node *n = xcc_append_control(b, XCC_IF, 1, &cond, 1, &next, 2);
    ck_assert_ptr_nonnull(n);
    xcc_builder branches[2] = {{.graph = n->bodies[0]}, {.graph = n->bodies[1]}};
    output(&branches[0], must(b, xcc_apply(&branches[0], Add, y, .a = XCC_IN(h), .b = XCC_IN(number(b, 1)))));
    output(&branches[1], h);
    ok(&c.m, xcc_node_infer(n));
    output(b, next);
    pair(&c, pairs, 1);
    ok(&c.m, xcc_pair_states(&c.m));
    passes(&c);
    compiled_open(&k, &c);
    set_x(&k, "cond", XCVM_BOOL, 0, NULL, &yes);
    step(&k);
    step(&k);
    set_x(&k, "cond", XCVM_BOOL, 0, NULL, &no);
    step(&k);
    ck_assert_float_eq(state(&k)[0], 2);
    set_x(&k, "cond", XCVM_BOOL, 0, NULL, &yes);
    step(&k);
    ck_assert_float_eq(state(&k)[1], 3);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* A cache that grows: sizes before and after may differ. */
START_TEST(cache)
{
    static const xcc_state_pair pairs[] = {{"present", "past"}};
    compilation c;
    compiled_program k;
    begin(&c, _i);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 2, DIMS(-1, 2)), *past = input(&c.b, "past", XCVM_F32, 2, DIMS(-2, 2));
    const xcvm_value *parts[] = {XCC_IN(past), XCC_IN(x)};
    xcc_value *present = must(&c.b, xcc_apply(&c.b, Concat, y, .xs = {parts, 2}, .axis = 0));
    ok(&c.m, xcc_value_rename(present, "present"));
    output(&c.b, present);
    pair(&c, pairs, 1);
    ok(&c.m, xcc_pair_states(&c.m));
    passes(&c);
    compiled_open(&k, &c);
    set_x(&k, "x", XCVM_F32, 2, DIMS(2, 2), FLOATS(1, 2, 3, 4));
    step(&k);
    set_x(&k, "x", XCVM_F32, 2, DIMS(1, 2), FLOATS(5, 6));
    step(&k);
    const xcvm_value *v = xcvm_session_get_state(k.session, 0);
    ck_assert_int_eq(xcvm_value_dims(v)[0], 3);
    ck_assert_mem_eq(xcvm_value_data(v), FLOATS(1, 2, 3, 4, 5, 6), 6 * sizeof(float));
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* h' = h + x with an open batch: the first run after a reset says how large it is. */
START_TEST(open_batch)
{
    static const xcc_state_pair pairs[] = {{"next", "h"}};
    compilation c;
    compiled_program k;
    xcvm_error error = {0};
    begin(&c, 2);
    /* The batch of the state may have another name: the state is added to a value with the batch of x. */
    const int64_t batch = _i == 0 ? -1 : -2;
    xcc_value *x = input(&c.b, "x", XCVM_F32, 2, DIMS(-1, 2)), *h = input(&c.b, "h", XCVM_F32, 2, DIMS(batch, 2));
    xcc_value *doubled = must(&c.b, xcc_apply(&c.b, Add, y, .a = XCC_IN(x), .b = XCC_IN(x)));
    xcc_value *next = must(&c.b, xcc_build_call(&c.b, XCVM_OP_Add, 2, (xcc_value *[]){doubled, h}));
    ok(&c.m, xcc_value_rename(next, "next"));
    output(&c.b, next);
    pair(&c, pairs, 1);
    ok(&c.m, xcc_pair_states(&c.m));
    passes(&c);
    compiled_open(&k, &c);
    for (int round = 0; round < 2; round++) {
        const int64_t rows = 3 - round;
        set_x(&k, "x", XCVM_F32, 2, DIMS(rows, 2), FLOATS(1, 2, 3, 4, 5, 6));
        for (int i = 1; i <= 2; i++) {
            step(&k);
            ck_assert_int_eq(xcvm_value_dims(xcvm_session_get_state(k.session, 0))[0], rows);
            ck_assert_float_eq(state(&k)[2 * rows - 1], (float)(2 * i * 2 * rows));
        }
        set_x(&k, "x", XCVM_F32, 2, DIMS(1, 2), FLOATS(1, 2));
        ck_assert_int_eq(xcvm_session_run(k.session, NULL, &error), XCVM_SHAPE_MISMATCH);
        ck_assert_ptr_nonnull(strstr(error.message, "in state \"h\" (axis 0), but 1 in input \"x\" (axis 0)"));
        ck_assert_int_eq(xcvm_session_reset_states(k.session, &error), XCVM_OK);
    }
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* The rows of a cache have the name of a dimension of an input, but grow: they begin as none. */
START_TEST(growing_dimensions_begin_as_none)
{
    static const xcc_state_pair pairs[] = {{"present", "past"}};
    compilation c;
    compiled_program k;
    begin(&c, 2);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 2, DIMS(-1, 2)), *past = input(&c.b, "past", XCVM_F32, 2, DIMS(-1, 2));
    xcc_value *present = must(&c.b, xcc_build_concat(&c.b, 2, (xcc_value *[]){past, x}, 0));
    ok(&c.m, xcc_value_rename(present, "present"));
    output(&c.b, present);
    pair(&c, pairs, 1);
    ok(&c.m, xcc_pair_states(&c.m));
    passes(&c);
    compiled_open(&k, &c);
    set_x(&k, "x", XCVM_F32, 2, DIMS(2, 2), FLOATS(1, 2, 3, 4));
    step(&k);
    step(&k);
    ck_assert_int_eq(xcvm_value_dims(xcvm_session_get_state(k.session, 0))[0], 4);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* No input has the dimension, and the stored value has the same one. */
START_TEST(open_dimensions_of_no_input)
{
    static const xcc_state_pair pairs[] = {{"next", "h"}};
    compilation c;
    begin(&c, 2);
    input(&c.b, "x", XCVM_F32, 1, DIMS(2));
    xcc_value *h = input(&c.b, "h", XCVM_F32, 2, DIMS(-2, 2));
    xcc_value *next = must(&c.b, xcc_apply(&c.b, Neg, y, .x = XCC_IN(h)));
    ok(&c.m, xcc_value_rename(next, "next"));
    output(&c.b, next);
    pair(&c, pairs, 1);
    ck_assert_int_eq(xcc_pair_states(&c.m), XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(c.error.message, "state \"h\": dimension 0, \"B\", is open, and no input has it") != NULL &&
                      strstr(c.error.message, "--dim B=1") != NULL,
                  "%s", c.error.message);
    finish(&c);
}
END_TEST

START_TEST(refused)
{
    static const struct {
        xcc_state_pair pairs[2];
        size_t count;
        xcvm_status status;
        const char *part;
    } cases[] = {{{{"y", "nobody"}}, 1, XCVM_INVALID_ARGUMENT, "no input \"nobody\""},
                 {{{"nothing", "x"}}, 1, XCVM_INVALID_ARGUMENT, "no output \"nothing\""},
                 {{{"y", "n"}}, 1, XCVM_TYPE_MISMATCH, "output \"y\", f32[2], cannot be the state"},
                 {{{"y", "x"}, {"y", "x"}}, 2, XCVM_INVALID_ARGUMENT, "no output \"y\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        compilation c;
        begin(&c, 2);
        xcc_value *x = input(&c.b, "x", XCVM_F32, 1, DIMS(2));
        input(&c.b, "n", XCVM_F32, 1, DIMS(3));
        xcc_value *y = must(&c.b, xcc_apply(&c.b, Neg, y, .x = XCC_IN(x)));
        ok(&c.m, xcc_value_rename(y, "y"));
        output(&c.b, y);
        pair(&c, cases[i].pairs, cases[i].count);
        ck_assert_int_eq(xcc_pair_states(&c.m), cases[i].status);
        ck_assert_msg(strstr(c.error.message, cases[i].part) != NULL, "%s", c.error.message);
        finish(&c);
    }
}
END_TEST

Suite *suite_compiler_pair_states(void);
Suite *suite_compiler_pair_states(void)
{
    Suite *suite = suite_create("compiler/pair_states");
    TCase *tests = tcase_create("pair_states");
    tcase_add_loop_test(tests, recurrence, 0, LEVELS);
    tcase_add_loop_test(tests, in_branches, 0, LEVELS);
    tcase_add_loop_test(tests, cache, 0, LEVELS);
    tcase_add_loop_test(tests, open_batch, 0, 2);
    tcase_add_test(tests, growing_dimensions_begin_as_none);
    tcase_add_test(tests, open_dimensions_of_no_input);
    tcase_add_test(tests, refused);
    suite_add_tcase(suite, tests);
    return suite;
}
