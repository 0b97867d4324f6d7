/* Tests of key/value caches of attention that is written as products. As states of known sizes they are read and
 * appended in place. Results equal those of the model for all tokens at once. */
#include "compiler/ir/compose.h"
#include "compiler/states/states.h"
#include "tests/compiler/states/tokens.h"

#include <stdio.h>

/* All sizes have whole vectors and a remainder for every instruction set. */
enum { BOUND = 70, HEADS = 4, KEY_HEADS = 2, WIDTH = 37, TOKENS = 69, PROMPT = 50, LEVELS = 3 };

/* REPEATED: heads of keys and values are repeated for several of queries. The others are not as they have to be. */
typedef enum variant {
    PLAIN,
    REPEATED,
    FIRST_QUERY_HEADS,
    READ_BEFORE,
    READ_BEHIND,
    GIVEN_TWICE,
    IN_FRONT,
    OPEN_WIDTH,
    REPEATED_BY_OTHERS
} variant;

typedef struct model {
    int64_t rows; /* that the caches are to hold; 0: it is not said */
    variant variant;
} model;

/* How many rows there are, as models ask for it: a number. */
static xcc_value *rows_of(xcc_builder *b, xcc_value *v)
{
    return xcc_build_gather(b, xcc_apply(b, Shape, y, .x = XCC_IN(v), .start = 0, .end = INT64_MAX),
                            xcc_scalar_i64(b->graph, 2), 0);
}

static xcc_value *range(xcc_builder *b, xcc_value *first, xcc_value *end)
{
    return xcc_build_call(b, XCVM_OP_Range, 3, (xcc_value *const[]){first, end, xcc_scalar_i64(b->graph, 1)});
}

/* Returns true if the key of a column is at or before the query of a row. */
static xcc_value *causal(xcc_builder *b, xcc_value *past, xcc_value *present)
{
    xcc_value *total = rows_of(b, present);
    xcc_value *keys = range(b, xcc_scalar_i64(b->graph, 0), total), *queries = range(b, rows_of(b, past), total);
    return xcc_build_binary(b, XCVM_OP_LessOrEqual, keys, xcc_build_unsqueeze(b, queries, 1, (const int64_t[]){1}));
}

static int64_t key_heads(const model *m)
{
    return m->variant == REPEATED || m->variant == REPEATED_BY_OTHERS ? KEY_HEADS : HEADS;
}

/* As exporters write it, who test the shape for -1. The number of rows is that of `counted`. */
static xcc_value *repeat(xcc_builder *b, xcc_value *v, xcc_value *counted)
{
    const int64_t minus[] = {-1, -1, -1, -1, -1}, one[] = {1, 1, 1, 1, 1}, together[] = {1, HEADS, -1, WIDTH};
    xcc_value *count = xcc_build_unsqueeze(b, rows_of(b, counted), 1, (const int64_t[]){0});
    xcc_value *const parts[] = {XCC_BUILD_INTS(b, 1, KEY_HEADS, HEADS / KEY_HEADS), count, XCC_BUILD_INTS(b, WIDTH)};
    xcc_value *shape = xcc_build_concat(b, 3, parts, 0);
    xcc_value *const choice[] = {xcc_build_binary(b, XCVM_OP_Equal, shape, xcc_build_ints(b, 5, minus)),
                                 xcc_build_ints(b, 5, one), shape};
    shape = xcc_build_call(b, XCVM_OP_Where, 3, choice);
    xcc_value *expanded = xcc_build_expand(b, xcc_build_unsqueeze(b, v, 1, (const int64_t[]){2}), shape);
    return xcc_build_reshape(b, expanded, xcc_build_ints(b, 4, together));
}

static void make(xcc_builder *b, const model *m)
{
    static const char *const names[] = {"q", "k", "v"};
    const int64_t width = m->variant == OPEN_WIDTH ? -3 : WIDTH;
    xcc_value *fresh[3], *past[2], *present[2];
    for (size_t i = 0; i < 3; i++)
        fresh[i] = input(b, names[i], XCVM_F32, 4,
                         DIMS(1,
                              i > 0                             ? key_heads(m)
                              : m->variant == FIRST_QUERY_HEADS ? 1
                                                                : HEADS,
                              -1, i == 2 ? width : WIDTH));
    for (size_t i = 0; i < 2; i++) {
        past[i] = input(b, cache_pairs[i].input, XCVM_F32, 4, DIMS(1, key_heads(m), -2, i == 1 ? width : WIDTH));
        xcc_value *const parts[] = {m->variant == IN_FRONT ? fresh[i + 1] : past[i],
                                    m->variant == IN_FRONT ? past[i] : fresh[i + 1]};
        present[i] = named(b, xcc_build_concat(b, 2, parts, i == 0 ? -2 : 2), cache_pairs[i].output);
    }
    xcc_value *rows[] = {present[0], present[1]};
    for (size_t i = 0; i < 2 && key_heads(m) != HEADS; i++)
        rows[i] = repeat(b, present[i], present[m->variant == REPEATED ? i : 1 - i]);
    xcc_value *keys = xcc_build_transpose(b, rows[0], 4, (const int64_t[]){0, 1, 3, 2});
    xcc_value *scores = xcc_build_mul(b, xcc_build_binary(b, XCVM_OP_MatMul, fresh[0], keys), number(b, 0.4));
    xcc_value *const choice[] = {causal(b, past[0], present[0]), scores, number(b, -3e38)};
    scores = xcc_build_call(b, XCVM_OP_Where, 3, choice);
    xcc_value *weighted = must(b, xcc_apply(b, Softmax, y, .x = XCC_IN(must(b, scores)), .axis = -1));
    output(b, xcc_build_binary(b, XCVM_OP_MatMul, weighted, rows[1]));
    for (size_t i = 0; i < 2; i++)
        output(b, present[i]);
    for (size_t i = 0; i < 2 && m->variant == GIVEN_TWICE; i++)
        output(b, xcc_build_unary(b, XCVM_OP_Identity, present[i]));
    for (size_t i = 0; i < 2 && m->variant == READ_BEFORE; i++)
        output(b, xcc_build_unary(b, XCVM_OP_Neg, past[i]));
    for (size_t i = 0; i < 2 && m->variant == READ_BEHIND; i++)
        output(b, xcc_build_unary(b, XCVM_OP_Neg, present[i]));
}

static void begin_model(compilation *c, int level, const model *m, bool states)
{
    begin(c, level);
    c->options.states.cache_rows = m->rows;
    c->options.states.pairs = states ? cache_pairs : NULL;
    c->options.states.pair_count = states ? 2 : 0;
    make(&c->b, m);
}

static xcvm_status run_tokens(compiled_program *k, const model *m, int64_t first, int64_t count)
{
    xcvm_error error = {0};
    for (size_t operand = 0; operand < 3; operand++) {
        const int64_t heads = operand == 0 ? HEADS : key_heads(m);
        float data[HEADS * TOKENS * WIDTH];
        for (int64_t i = 0; i < heads * count * WIDTH; i++)
            data[i] = token_element(operand, first + i / WIDTH % count, i / (WIDTH * count) * WIDTH + i % WIDTH);
        compiled_set_input(k, operand, XCVM_F32, 4, DIMS(1, heads, count, WIDTH), data);
    }
    return xcvm_session_run(k->session, NULL, &error);
}

/* The result of the model for all tokens at once, without a cache. */
static void whole(const model *m, float expected[HEADS][TOKENS][WIDTH])
{
    compilation c;
    compiled_program k;
    const float none = 0;
    begin_model(&c, 0, m, false);
    passes(&c);
    compiled_open(&k, &c);
    for (size_t i = 3; i < 5; i++)
        compiled_set_input(&k, i, XCVM_F32, 4, DIMS(1, key_heads(m), 0, WIDTH), &none);
    ck_assert_int_eq(run_tokens(&k, m, 0, TOKENS), XCVM_OK);
    memcpy(expected, xcvm_value_data(xcvm_session_get_output(k.session, 0)), sizeof(float) * HEADS * TOKENS * WIDTH);
    compiled_close(&k);
    finish(&c);
}

/* A prompt, then a few tokens a run, then one, in the memory that the caches have from the start; a run too many
 * changes nothing. */
START_TEST(generation)
{
    const model m = {.rows = BOUND, .variant = _i < LEVELS ? PLAIN : REPEATED};
    float expected[HEADS][TOKENS][WIDTH];
    const void *memory = NULL;
    compilation c;
    compiled_program k;
    whole(&m, expected);
    begin_model(&c, _i % LEVELS, &m, true);
    ok(&c.m, xcc_pair_states(&c.m));
    passes(&c);
    CHECK_COUNT(&c, CachedMatMul, 2);
    CHECK_COUNT(&c, CacheAppend, 2);
    CHECK_COUNT(&c, MatMul, 0);
    CHECK_COUNT(&c, TensorScatter, 0);
    CHECK_COUNT(&c, Transpose, 0);
    compiled_open(&k, &c);
    ck_assert_uint_eq(xcvm_program_output_count(k.program), 1);
    ck_assert_uint_eq(xcvm_program_state_count(k.program), 3);
    for (int64_t first = 0, count = PROMPT; first < TOKENS; first += count, count = first < PROMPT + 6 ? 3 : 1) {
        ck_assert_int_eq(run_tokens(&k, &m, first, count), XCVM_OK);
        const float *y = xcvm_value_data(xcvm_session_get_output(k.session, 0));
        for (int64_t i = 0; i < HEADS * count * WIDTH; i++)
            ck_assert_float_eq_tol(y[i], expected[i / (count * WIDTH)][first + i / WIDTH % count][i % WIDTH], 1e-5f);
        check_value_cache(&k, BOUND, WIDTH, first, count, &memory);
    }
    ck_assert_int_eq(run_tokens(&k, &m, TOKENS, 2), XCVM_OUT_OF_RANGE);
    ck_assert_int_eq(run_tokens(&k, &m, TOKENS, 1), XCVM_OK);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* If another node reads the rows, or the order of rows is not certain, nothing changes. */
static const struct {
    model model;
    const char *why;
} others[] = {
    {{.rows = 0}, "the number of rows that it holds is not given"},
    {{.rows = BOUND, .variant = FIRST_QUERY_HEADS}, "an operator other than a product"},
    {{.rows = BOUND, .variant = READ_BEFORE}, "an operator other than Concat"},
    {{.rows = BOUND, .variant = READ_BEHIND}, "an operator other than a product"},
    {{.rows = BOUND, .variant = GIVEN_TWICE}, "another output"},
    {{.rows = BOUND, .variant = IN_FRONT}, "the run computes all of it"},
    {{.rows = BOUND, .variant = OPEN_WIDTH}, "more dimensions than its number of rows"},
    {{.rows = BOUND, .variant = REPEATED_BY_OTHERS}, "an operator other than a product"},
};

START_TEST(what_stays)
{
    compilation c;
    test_bytes messages = {.at = NULL};
    begin_model(&c, 2, &others[_i].model, true);
    c.options.diagnostics = (xcc_diagnostics){keep_diagnostic, &messages};
    ok(&c.m, xcc_pair_states(&c.m));
    ck_assert(test_bytes_sink(&messages, "", 1));
    const char *at = strstr(messages.at, " is written in full in each run: ");
    ck_assert_msg(at != NULL && strstr(at, others[_i].why) != NULL, "%s", messages.at);
    test_bytes_free(&messages);
    finish(&c);
}
END_TEST

Suite *suite_compiler_pair_products(void);
Suite *suite_compiler_pair_products(void)
{
    Suite *suite = suite_create("compiler/pair_products");
    TCase *tests = tcase_create("pair_products");
    tcase_add_loop_test(tests, generation, 0, 2 * LEVELS);
    tcase_add_loop_test(tests, what_stays, 0, (int)(sizeof others / sizeof *others));
    suite_add_tcase(suite, tests);
    return suite;
}
