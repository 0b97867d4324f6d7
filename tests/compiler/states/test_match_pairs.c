/* Pairs of outputs and inputs that patterns, conventions of exporters and the graph show to be states. */
#include "compiler/ir/compose.h"
#include "compiler/states/states.h"
#include "tests/compiler/support.h"

#include <stdio.h>

enum { NOTES = 2048 };

typedef struct notes {
    char text[NOTES];
    size_t length;
} notes;

static void keep_note(void *user, xcc_diagnostic_kind kind, const char *text)
{
    notes *n = user;
    const int length = snprintf(n->text + n->length, NOTES - n->length, "%s%s\n",
                                kind == XCC_DIAGNOSTIC_STATE_PAIR ? "note: " : "", text);
    ck_assert(length > 0 && n->length + (size_t)length < NOTES);
    n->length += (size_t)length;
}

/* An input of two numbers, and its double as an output, each with its name. */
static void pair_of(compilation *c, const char *input_name, const char *output_name)
{
    xcc_value *x = input(&c->b, input_name, XCVM_F32, 1, DIMS(2));
    xcc_value *y = must(&c->b, xcc_apply(&c->b, Add, y, .a = XCC_IN(x), .b = XCC_IN(x)));
    ok(&c->m, xcc_value_rename(y, output_name));
    output(&c->b, y);
}

static void match(compilation *c, const char *const *patterns, size_t count, notes *n)
{
    *n = (notes){.length = 0};
    c->options.states.patterns = patterns;
    c->options.states.pattern_count = count;
    c->options.diagnostics = (xcc_diagnostics){keep_note, n};
}

static bool is_state(const compilation *c, const char *name)
{
    for (const xcc_value *v = c->m.variables; v != NULL; v = v->next_owned)
        if (v->kind == XCC_STATE && strcmp(v->name, name) == 0)
            return true;
    return false;
}

static const char *const automatic[] = {"auto"};

/* Names of exporters, with another input and output in each model. */
START_TEST(conventions)
{
    static const char *const names[][2] = {{"past_key_values.0.key", "present.0.key"},
                                           {"past_key_values.11.decoder.value", "present.11.decoder.value"},
                                           {"past_0", "present_0"},
                                           {"past", "present"},
                                           {"past_key_self_3", "present_key_self_3"},
                                           {"past.1.value", "present.1.value"},
                                           {"past_conv.2", "present_conv.2"},
                                           {"h0", "hn"},
                                           {"c_0", "c_n"},
                                           {"hx", "hy"},
                                           {"initial_h", "Y_h"},
                                           {"state", "stateN"},
                                           {"h", "hn"},
                                           {"r1i", "r1o"},
                                           {"cached_key_0", "new_cached_key_0"},
                                           {"state_in_1", "state_out_1"},
                                           {"hidden", "next_hidden"},
                                           {"prev_state", "state"},
                                           {"recurrent_in", "recurrent_out"},
                                           {"init_cell", "final_cell"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        compilation c;
        notes n;
        begin(&c, 2);
        pair_of(&c, "input_ids", "logits");
        pair_of(&c, names[i][0], names[i][1]);
        match(&c, automatic, 1, &n);
        ok(&c.m, xcc_pair_states(&c.m));
        ck_assert_msg(is_state(&c, names[i][0]), "%s, %s", names[i][0], names[i][1]);
        ck_assert_msg(!is_state(&c, "input_ids"), "%s", names[i][0]);
        ck_assert_msg(strncmp(n.text, "note: \"auto\" found 1 state, ", 28) == 0, "%s", n.text);
        finish(&c);
    }
}
END_TEST

/* Names that are no states, with the expected messages. */
START_TEST(others_are_no_states)
{
    static const char *const names[][2] = {{"input", "output"},
                                           {"input_1", "output_1"},
                                           {"hidden_states", "output_hidden_states"},
                                           {"token", "next_token"},
                                           {"past_key_values.0.encoder.key", "present.0.encoder.key"},
                                           {"x", "y"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        compilation c;
        notes n;
        begin(&c, 2);
        pair_of(&c, names[i][0], names[i][1]);
        match(&c, automatic, 1, &n);
        ck_assert_int_eq(xcc_pair_states(&c.m), XCVM_INVALID_ARGUMENT);
        ck_assert_msg(strstr(c.error.message,
                             "neither names nor graph show an output that is the next value of an input") != NULL &&
                          strstr(c.error.message, names[i][1]) != NULL && strstr(c.error.message, names[i][0]) != NULL,
                      "%s", c.error.message);
        finish(&c);
    }
}
END_TEST

/* The reasons why a model has no states, each with its remedy. */
START_TEST(models_without_states)
{
    compilation c;
    notes n;
    begin(&c, 2);
    xcc_value *ids = input(&c.b, "ids", XCVM_I64, 1, DIMS(2));
    xcc_value *mask = input(&c.b, "mask", XCVM_BOOL, 1, DIMS(2));
    output(&c.b, must(&c.b, xcc_apply(&c.b, Add, y, .a = XCC_IN(ids), .b = XCC_IN(ids))));
    output(&c.b, must(&c.b, xcc_apply(&c.b, Not, y, .x = XCC_IN(mask))));
    match(&c, automatic, 1, &n);
    ck_assert_int_eq(xcc_pair_states(&c.m), XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(c.error.message, "exported without a cache") != NULL, "%s", c.error.message);
    finish(&c);
    /* The output has one row more, by its name or by the graph. */
    static const char *const names[][2] = {{"past_0", "present_0"}, {"here", "there"}};
    for (size_t i = 0; i < 2; i++) {
        begin(&c, 2);
        xcc_value *past = input(&c.b, names[i][0], XCVM_F32, 4, DIMS(1, 1, 3, 2)),
                  *row = input(&c.b, "row", XCVM_F32, 4, DIMS(1, 1, 1, 2)), *both[] = {past, row};
        xcc_value *present = must(&c.b, xcc_build_concat(&c.b, 2, both, 2));
        ok(&c.m, xcc_value_rename(present, names[i][1]));
        output(&c.b, present);
        match(&c, automatic, 1, &n);
        ck_assert_int_eq(xcc_pair_states(&c.m), XCVM_INVALID_ARGUMENT);
        ck_assert_msg(strstr(c.error.message, "their sizes are those of the example") != NULL &&
                          strstr(c.error.message, names[i][0]) != NULL && strstr(c.error.message, names[i][1]) != NULL,
                      "%s", c.error.message);
        finish(&c);
    }
}
END_TEST

START_TEST(ambiguous_and_unmatched_names_are_reported)
{
    compilation c;
    notes n;
    begin(&c, 2);
    pair_of(&c, "past_key_values.0.key", "present.0.key");
    pair_of(&c, "state", "state_out");
    pair_of(&c, "state_in", "state_o");
    pair_of(&c, "past_key_values.1.encoder.key", "present.1.encoder.key");
    pair_of(&c, "past_key_values.2.key", "something");
    pair_of(&c, "x", "present.3.key");
    match(&c, automatic, 1, &n);
    ok(&c.m, xcc_pair_states(&c.m));
    ck_assert(is_state(&c, "past_key_values.0.key"));
    ck_assert(!is_state(&c, "state") && !is_state(&c, "state_in"));
    static const char *const said[] = {
        "looks like a state, but keys and values of an encoder do not change between runs",
        "input \"past_key_values.2.key\" looks like a state, but no output has a matching name. It stays an input",
        "output \"present.3.key\" looks like a state, but no single input matches it. It stays an output"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        ck_assert_msg(strstr(n.text, said[i]) != NULL, "%s", n.text);
    finish(&c);
}
END_TEST

START_TEST(patterns)
{
    static const struct {
        const char *pattern;
        size_t states; /* of the four */
        const char *part;
    } cases[] = {
        {"present.*:past_key_values.*", 3, "output \"present.7.key\" matches \"present.*:past_key_values.*\", but no "},
        {"present.*.key:past_key_values.*.key", 2, "present.7.key"},
        {"p*t.0.*:past_key_values.0.*", 0, NULL},
        {"p*t.*.key:*ast_key_values.*.key", 0, NULL},
        {"pres*t.*.key:past*_key_values.*.key", 0, NULL},
        {"a:b:present.*:past_key_values.*", 0, NULL},
        {"present.*", 0, NULL},
        {"*:*", 0, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        compilation c;
        notes n;
        begin(&c, 2);
        pair_of(&c, "past_key_values.0.key", "present.0.key");
        pair_of(&c, "past_key_values.0.value", "present.0.value");
        pair_of(&c, "past_key_values.1.key", "present.1.key");
        pair_of(&c, "x", "present.7.key");
        match(&c, &cases[i].pattern, 1, &n);
        const xcvm_status status = xcc_pair_states(&c.m);
        ck_assert_int_eq(status, cases[i].states > 0 ? XCVM_OK : XCVM_INVALID_ARGUMENT);
        const int states = is_state(&c, "past_key_values.0.key") + is_state(&c, "past_key_values.0.value") +
                           is_state(&c, "past_key_values.1.key") + is_state(&c, "x");
        ck_assert_int_eq(states, (int)cases[i].states);
        if (cases[i].part != NULL)
            ck_assert_msg(strstr(n.text, cases[i].part) != NULL, "%s", n.text);
        else
            ck_assert_msg(strstr(c.error.message, "state pairs \"") != NULL, "%s", c.error.message);
        finish(&c);
    }
}
END_TEST

/* A '*' with two possible matches, both of which name an input. */
START_TEST(patterns_with_several_readings)
{
    static const char *const pattern[] = {"n_*_*:o_*.*"};
    compilation c;
    notes n;
    begin(&c, 2);
    pair_of(&c, "o_a.b_c", "n_a_b_c");
    pair_of(&c, "o_a_b.c", "other");
    pair_of(&c, "o_d.e", "n_d_e");
    match(&c, pattern, 1, &n);
    ok(&c.m, xcc_pair_states(&c.m));
    ck_assert(is_state(&c, "o_d.e") && !is_state(&c, "o_a.b_c") && !is_state(&c, "o_a_b.c"));
    ck_assert_msg(strstr(n.text, "output \"n_a_b_c\" matches \"n_*_*:o_*.*\" with 2 inputs") != NULL, "%s", n.text);
    finish(&c);
}
END_TEST

/* Pairs of the options come first, and patterns leave them alone. */
START_TEST(patterns_besides_pairs)
{
    static const xcc_state_pair given[] = {{"present.0.key", "x"}};
    static const char *const pattern[] = {"present.*:past.*"};
    compilation c;
    notes n;
    begin(&c, 2);
    pair_of(&c, "past.0.key", "present.0.key");
    pair_of(&c, "past.1.key", "present.1.key");
    pair_of(&c, "x", "y");
    match(&c, pattern, 1, &n);
    c.options.states.pairs = given;
    c.options.states.pair_count = 1;
    ok(&c.m, xcc_pair_states(&c.m));
    ck_assert(is_state(&c, "x") && is_state(&c, "past.1.key") && !is_state(&c, "past.0.key"));
    finish(&c);
}
END_TEST

/* Names without a pattern: rows are appended to a cache, once directly and once through a view. */
START_TEST(the_graph_shows_states)
{
    compilation c;
    notes n;
    begin(&c, 2);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 2, DIMS(-1, 2));
    for (int i = 0; i < 2; i++) {
        char name[8];
        snprintf(name, sizeof name, "in%d", i);
        xcc_value *past = input(&c.b, name, XCVM_F32, 2, DIMS(-2, 2));
        xcc_value *both[] = {past, x};
        xcc_value *y = must(&c.b, xcc_build_concat(&c.b, 2, both, 0));
        if (i == 1)
            y = must(&c.b, xcc_build_reshape(&c.b, y, XCC_BUILD_INTS(&c.b, -1, 2)));
        snprintf(name, sizeof name, "cat_%d", i);
        ok(&c.m, xcc_value_rename(y, name));
        output(&c.b, y);
    }
    /* Read by more than what extends it: no cache. */
    xcc_value *image = input(&c.b, "image", XCVM_F32, 2, DIMS(2, 2));
    xcc_value *parts[] = {image, xcc_build_mul(&c.b, image, image)};
    output(&c.b, must(&c.b, xcc_build_concat(&c.b, 2, parts, 0)));
    match(&c, automatic, 1, &n);
    ok(&c.m, xcc_pair_states(&c.m));
    ck_assert(is_state(&c, "in0") && is_state(&c, "in1") && !is_state(&c, "image") && !is_state(&c, "x"));
    finish(&c);
}
END_TEST

Suite *suite_compiler_match_pairs(void);
Suite *suite_compiler_match_pairs(void)
{
    Suite *suite = suite_create("compiler/match_pairs");
    TCase *tests = tcase_create("match_pairs");
    tcase_add_test(tests, conventions);
    tcase_add_test(tests, others_are_no_states);
    tcase_add_test(tests, models_without_states);
    tcase_add_test(tests, ambiguous_and_unmatched_names_are_reported);
    tcase_add_test(tests, patterns);
    tcase_add_test(tests, patterns_with_several_readings);
    tcase_add_test(tests, patterns_besides_pairs);
    tcase_add_test(tests, the_graph_shows_states);
    suite_add_tcase(suite, tests);
    return suite;
}
