/* Tests of key/value caches that Attention extends. As states of known sizes they are read and appended in place.
 * Results equal those of Attention for all tokens at once. */
#include "compiler/ir/compose.h"
#include "compiler/states/states.h"
#include "tests/compiler/states/tokens.h"

#include <stdio.h>

/* All sizes have whole vectors and a remainder for every instruction set. */
enum { BOUND = 70, HEADS = 10, KEY_HEADS = 2, WIDTH = 37, TOKENS = 69, PROMPT = 50, WINDOW = 20, LEVELS = 3 };

/* Who says where new rows go: Attention itself, TensorScatter, or one and the other by different inputs. */
typedef enum form { PRESENT, PRESENT_FLAT, SCATTERED, SCATTERED_FROM_TOTAL, SCATTERED_ELSEWHERE, FORMS } form;

/* The mask of a model: causal; causal with a bias per key; or a mask alone, which also hides every fifth key. Or all
 * keys of a run, whose results differ from a run of all tokens: without a bias, or with a bias of f16 per head and
 * key. */
typedef enum sight { CAUSAL, BIASED, MASKED, SIGHTS, ALL = SIGHTS, HEADWISE } sight;

typedef struct model {
    form form;
    sight sight;
    int64_t bound;         /* rows of the caches; below 0: open */
    int64_t rows;          /* capacity, if the size is open */
    int64_t window;        /* number of earlier rows that a query attends to; 0: all */
    int64_t queries, keys; /* how many there are of each; 0: open */
    bool wide_mask;        /* f64 */
    bool read, given;      /* another node reads the keys; they are an output */
} model;

static xcc_value *fresh_input(xcc_builder *b, const model *m, const char *name, int64_t heads, int64_t count)
{
    const int64_t length = count > 0 ? count : -1;
    return m->form == PRESENT_FLAT ? input(b, name, XCVM_F32, 3, DIMS(1, length, heads * WIDTH))
                                   : input(b, name, XCVM_F32, 4, DIMS(1, heads, length, WIDTH));
}

static xcc_value *numbers(xcc_builder *b, xcc_value *count)
{
    xcc_value *limit = xcc_build_squeeze(b, must(b, count), 1, DIMS(0));
    return must(b, xcc_build_call(b, XCVM_OP_Range, 3,
                                  (xcc_value *[]){xcc_scalar_i64(b->graph, 0), limit, xcc_scalar_i64(b->graph, 1)}));
}

/* [keys] of numbers, or [queries, keys] of truth values; NULL: none. */
static xcc_value *mask_of(xcc_builder *b, const model *m, xcc_value *before, xcc_value *count)
{
    if (m->wide_mask)
        return must(b, xcc_build_cast(b, floats(b, 1, DIMS(1), FLOATS(0)), XCVM_F64));
    if (m->sight == CAUSAL || m->sight == ALL)
        return NULL;
    xcc_value *key = numbers(b, xcc_build_add(b, before, count));
    if (m->sight == HEADWISE) {
        xcc_value *head = xcc_build_unsqueeze(b, numbers(b, XCC_BUILD_INTS(b, HEADS)), 2, DIMS(1, 2));
        xcc_value *slope = xcc_build_mul(b, xcc_build_cast(b, head, XCVM_F32), floats(b, 0, NULL, FLOATS(0.03f)));
        return must(b, xcc_build_cast(b, xcc_build_mul(b, xcc_build_cast(b, key, XCVM_F32), slope), XCVM_F16));
    }
    if (m->sight == BIASED)
        return must(b, xcc_build_mul(b, xcc_build_cast(b, key, XCVM_F32), floats(b, 0, NULL, FLOATS(-0.05f))));
    xcc_value *place = xcc_build_unsqueeze(b, xcc_build_add(b, before, numbers(b, count)), 1, DIMS(1));
    xcc_value *five = XCC_BUILD_INTS(b, 5),
              *fifth = xcc_build_sub(b, key, xcc_build_mul(b, xcc_build_div(b, key, five), five));
    return must(b, xcc_build_binary(b, XCVM_OP_And, xcc_build_binary(b, XCVM_OP_LessOrEqual, key, place),
                                    xcc_build_binary(b, XCVM_OP_Less, fifth, XCC_BUILD_INTS(b, 4))));
}

static void make(xcc_builder *b, const model *m)
{
    xcc_value *q = fresh_input(b, m, "q", HEADS, m->queries), *k = fresh_input(b, m, "k", KEY_HEADS, m->keys),
              *v = fresh_input(b, m, "v", KEY_HEADS, m->keys);
    xcc_value *keys = input(b, "past_key", XCVM_F32, 4, DIMS(1, KEY_HEADS, m->bound, WIDTH)),
              *values = input(b, "past_value", XCVM_F32, 4, DIMS(1, KEY_HEADS, m->bound, WIDTH));
    xcvm_Attention_args args = {.q = XCC_IN(q),
                                .k = XCC_IN(k),
                                .v = XCC_IN(v),
                                .is_causal = m->sight == CAUSAL || m->sight == BIASED,
                                .left_window_size = m->window > 0 ? m->window : -1,
                                .right_window_size = -1,
                                .scale = 0.4};
    if (m->form <= PRESENT_FLAT) {
        xcc_value *y = must(b, xcc_value_create(b->graph, NULL)), *next[2];
        for (size_t i = 0; i < 2; i++)
            next[i] = must(b, xcc_value_create(b->graph, cache_pairs[i].output));
        args.y = XCC_OUT(y);
        args.present_key = XCC_OUT(next[0]);
        args.present_value = XCC_OUT(next[1]);
        args.past_key = XCC_IN(keys);
        args.past_value = XCC_IN(values);
        if (m->form == PRESENT_FLAT) {
            args.q_num_heads = HEADS;
            args.kv_num_heads = KEY_HEADS;
        }
        args.mask = XCC_IN(
            mask_of(b, m, xcc_build_dim_of(b, keys, 2), xcc_build_dim_of(b, k, m->form == PRESENT_FLAT ? 1 : 2)));
        ck_assert_ptr_nonnull(xcc_append(b, XCVM_OP_Attention, &args));
        output(b, y);
        output(b, next[0]);
        output(b, next[1]);
        if (m->sight == HEADWISE)
            output(b, must(b, xcc_apply(b, Shape, y, .x = XCC_IN(next[0]), .start = 1, .end = -1)));
    } else {
        xcc_value *length = xcc_build_dim_of(b, q, 2), *at, *total;
        if (m->form == SCATTERED_FROM_TOTAL) {
            total = input(b, "at", XCVM_I64, 1, DIMS(1));
            at = xcc_build_sub(b, total, length);
        } else {
            at = input(b, "at", XCVM_I64, 1, DIMS(1));
            total = m->form == SCATTERED ? xcc_build_add(b, at, length) : input(b, "total", XCVM_I64, 1, DIMS(1));
        }
        xcc_value *const past[] = {keys, values}, *const fresh[] = {k, v};
        xcc_value *next[2];
        for (size_t i = 0; i < 2; i++)
            next[i] = named(b,
                            xcc_apply(b, TensorScatter, y, .past_cache = XCC_IN(past[i]), .update = XCC_IN(fresh[i]),
                                      .write_indices = XCC_IN(at), .axis = -2),
                            cache_pairs[i].output);
        args.k = XCC_IN(next[0]);
        args.v = XCC_IN(next[1]);
        args.nonpad_kv_seqlen = XCC_IN(must(b, total));
        args.mask = XCC_IN(mask_of(b, m, at, length));
        output(b, must(b, xcc_apply_at(b, XCVM_OP_Attention, &args, offsetof(xcvm_Attention_args, y))));
        output(b, next[0]);
        output(b, next[1]);
    }
}

/* Other readers of the keys. */
static void make_others(xcc_builder *b, const model *m)
{
    xcc_value *keys = b->graph->inputs[3];
    ck_assert_str_eq(keys->name, cache_pairs[0].input);
    if (m->read)
        output(b, must(b, xcc_build_unary(b, XCVM_OP_Neg, keys)));
    if (m->given)
        output(b, keys);
}

static void begin_model(compilation *c, int level, const model *m, bool states)
{
    begin(c, level);
    c->options.states.cache_rows = m->rows;
    c->options.states.pairs = states ? cache_pairs : NULL;
    c->options.states.pair_count = states ? 2 : 0;
    make(&c->b, m);
    make_others(&c->b, m);
}

/* Queries, keys and values of tokens from `first` on. */
static void give_tokens(compiled_program *k, bool flat, int64_t first, int64_t count)
{
    for (size_t operand = 0; operand < 3; operand++) {
        const int64_t heads = operand == 0 ? HEADS : KEY_HEADS;
        float data[TOKENS * HEADS * WIDTH];
        for (int64_t i = 0; i < heads * count * WIDTH; i++) {
            const int64_t p = i % WIDTH, head = flat ? i / WIDTH % heads : i / (WIDTH * count);
            const int64_t token = flat ? i / (WIDTH * heads) : i / WIDTH % count;
            data[i] = token_element(operand, first + token, head * WIDTH + p);
        }
        if (flat)
            compiled_set_input(k, operand, XCVM_F32, 3, DIMS(1, count, heads * WIDTH), data);
        else
            compiled_set_input(k, operand, XCVM_F32, 4, DIMS(1, heads, count, WIDTH), data);
    }
}

/* The row of y for a token and a head, where `count` tokens were given. */
static const float *result(const compiled_program *k, bool flat, int64_t count, int64_t token, int64_t head)
{
    const float *y = xcvm_value_data(xcvm_session_get_output(k->session, 0));
    return y + (flat ? token * HEADS + head : head * count + token) * WIDTH;
}

/* The result of Attention for all tokens at once. */
static void whole(sight how, int64_t window, float expected[TOKENS][HEADS][WIDTH])
{
    compilation c;
    compiled_program k;
    const float none = 0;
    begin_model(&c, 0, &(model){.form = PRESENT, .sight = how, .bound = -2, .window = window}, false);
    passes(&c);
    compiled_open(&k, &c);
    give_tokens(&k, false, 0, TOKENS);
    for (size_t i = 3; i < 5; i++)
        compiled_set_input(&k, i, XCVM_F32, 4, DIMS(1, KEY_HEADS, 0, WIDTH), &none);
    compiled_run(&k);
    for (int64_t t = 0; t < TOKENS; t++)
        for (int64_t h = 0; h < HEADS; h++)
            memcpy(expected[t][h], result(&k, false, TOKENS, t, h), sizeof expected[t][h]);
    compiled_close(&k);
    finish(&c);
}

static xcvm_status run_tokens(compiled_program *k, const model *m, int64_t first, int64_t count)
{
    xcvm_error error = {0};
    const int64_t at = m->form == SCATTERED_FROM_TOTAL ? first + count : first, total = first + count;
    give_tokens(k, m->form == PRESENT_FLAT, first, count);
    if (m->form > PRESENT_FLAT)
        compiled_set_input(k, 3, XCVM_I64, 1, DIMS(1), &at);
    if (m->form == SCATTERED_ELSEWHERE)
        compiled_set_input(k, 4, XCVM_I64, 1, DIMS(1), &total);
    return xcvm_session_run(k->session, NULL, &error);
}

/* A prompt, then a few tokens a run, then one, in the memory that the caches have from the start; a run too many
 * changes nothing. */
START_TEST(generation)
{
    const bool in_place = _i / LEVELS % FORMS != SCATTERED_ELSEWHERE, counted = _i / LEVELS % FORMS <= PRESENT_FLAT;
    const model m = {.form = (form)(_i / LEVELS % FORMS),
                     .sight = (sight)(_i / LEVELS / FORMS % SIGHTS),
                     .window = _i / LEVELS / FORMS / SIGHTS * WINDOW,
                     .bound = counted ? -2 : BOUND,
                     .rows = counted ? BOUND : 0};
    float expected[TOKENS][HEADS][WIDTH];
    const void *memory = NULL;
    compilation c;
    compiled_program k;
    whole(m.sight, m.window, expected);
    begin_model(&c, _i % LEVELS, &m, true);
    ok(&c.m, xcc_pair_states(&c.m));
    passes(&c);
    CHECK_COUNT(&c, CachedAttention, in_place ? 1 : 0);
    CHECK_COUNT(&c, CacheAppend, in_place ? 2 : 0);
    CHECK_COUNT(&c, Attention, in_place ? 0 : 1);
    CHECK_COUNT(&c, TensorScatter, in_place ? 0 : 2);
    CHECK_COUNT(&c, Concat, 0);
    compiled_open(&k, &c);
    ck_assert_uint_eq(xcvm_program_output_count(k.program), 1);
    ck_assert_uint_eq(xcvm_program_state_count(k.program), counted ? 3 : 2);
    for (int64_t first = 0, count = PROMPT; first < TOKENS; first += count, count = first < PROMPT + 6 ? 3 : 1) {
        ck_assert_int_eq(run_tokens(&k, &m, first, count), XCVM_OK);
        for (int64_t t = 0; t < count; t++)
            for (int64_t h = 0; h < HEADS; h++)
                for (size_t p = 0; p < WIDTH; p++)
                    ck_assert_float_eq_tol(result(&k, m.form == PRESENT_FLAT, count, t, h)[p],
                                           expected[first + t][h][p], 1e-5f);
        if (in_place)
            check_value_cache(&k, BOUND, WIDTH, first, count, &memory);
    }
    ck_assert_int_eq(run_tokens(&k, &m, TOKENS, 2), XCVM_OUT_OF_RANGE);
    ck_assert_int_eq(run_tokens(&k, &m, TOKENS, 1), XCVM_OK);
    for (size_t i = 0; i < xcvm_program_state_count(k.program) && counted; i++)
        if (strcmp(xcvm_program_state_at(k.program, i)->name, "rows@past_key") == 0)
            ck_assert_int_eq(*(const int64_t *)xcvm_value_data(xcvm_session_get_state(k.session, i)), BOUND);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Queries of later tokens attend to the same keys as with copied caches. Each run is compared with the model without
 * states, which receives its previous outputs. */
START_TEST(beside_copies)
{
    const model m = {.form = (form)(_i % 2), .sight = (sight)(ALL + _i / 2), .bound = -2, .rows = BOUND};
    compilation c[2];
    compiled_program k[2];
    const float none = 0;
    for (int i = 0; i < 2; i++) {
        begin_model(&c[i], 2, &m, i == 1);
        if (i == 1)
            ok(&c[i].m, xcc_pair_states(&c[i].m));
        passes(&c[i]);
        compiled_open(&k[i], &c[i]);
    }
    CHECK_COUNT(&c[1], CachedAttention, 1);
    for (size_t i = 3; i < 5; i++)
        compiled_set_input(&k[0], i, XCVM_F32, 4, DIMS(1, KEY_HEADS, 0, WIDTH), &none);
    for (int64_t first = 0, count = 12; first < 18; first += count, count = first < 15 ? 3 : 1) {
        for (int i = 0; i < 2; i++)
            ck_assert_int_eq(run_tokens(&k[i], &m, first, count), XCVM_OK);
        for (int64_t t = 0; t < count; t++)
            for (int64_t h = 0; h < HEADS; h++)
                for (size_t p = 0; p < WIDTH; p++)
                    ck_assert_float_eq_tol(result(&k[1], m.form == PRESENT_FLAT, count, t, h)[p],
                                           result(&k[0], m.form == PRESENT_FLAT, count, t, h)[p], 1e-5f);
        if (m.sight == HEADWISE)
            ck_assert_mem_eq(xcvm_value_data(xcvm_session_get_output(k[1].session, 1)), DIMS(KEY_HEADS, first + count),
                             2 * sizeof(int64_t));
        for (size_t i = 0; i < 2; i++) {
            const float *present = xcvm_value_data(xcvm_session_get_output(k[0].session, 1 + i));
            compiled_set_input(&k[0], 3 + i, XCVM_F32, 4, DIMS(1, KEY_HEADS, first + count, WIDTH), present);
        }
    }
    for (int i = 0; i < 2; i++) {
        compiled_close(&k[i]);
        finish(&c[i]);
    }
}
END_TEST

/* If another node reads the caches, if there are more keys than queries, or if the VM computes in f64, the Attention
 * does not change. */
static const struct {
    model model;
    const char *why;
} others[] = {
    {{.form = PRESENT, .bound = -2, .rows = BOUND, .wide_mask = true}, "is f64"},
    {{.form = PRESENT, .bound = -2, .rows = BOUND, .read = true}, "an operator other than Attention"},
    {{.form = PRESENT, .bound = -2, .rows = BOUND, .given = true}, "an operator other than Attention"},
    {{.form = PRESENT, .bound = -2}, "the number of rows that it holds is not given"},
    {{.form = SCATTERED, .bound = BOUND, .wide_mask = true}, "is f64"},
    {{.form = SCATTERED_ELSEWHERE, .bound = BOUND}, "the model does not show"},
    {{.form = PRESENT, .bound = -2, .rows = BOUND, .queries = 1, .keys = 3}, "another number of queries"},
    {{.form = PRESENT_FLAT, .bound = -2, .rows = BOUND, .queries = 2, .keys = 3}, "another number of queries"},
};

static void collect_messages(compilation *c, test_bytes *messages)
{
    c->options.diagnostics = (xcc_diagnostics){keep_diagnostic, messages};
}

START_TEST(what_stays)
{
    compilation c;
    test_bytes messages = {.at = NULL};
    char expected[128];
    begin_model(&c, 2, &others[_i].model, true);
    collect_messages(&c, &messages);
    ok(&c.m, xcc_pair_states(&c.m));
    CHECK_COUNT(&c, CachedAttention, 0);
    CHECK_COUNT(&c, Attention, 1);
    ck_assert(test_bytes_sink(&messages, "", 1));
    for (size_t i = 0; i < 2; i++) {
        snprintf(expected, sizeof expected, "state %s is written in full in each run: ", cache_pairs[i].input);
        const char *line = strstr(messages.at, expected);
        ck_assert_msg(line != NULL && strstr(line, others[_i].why) != NULL, "%s", messages.at);
    }
    test_bytes_free(&messages);
    finish(&c);
}
END_TEST

/* A state with more rows than the model declares suits no other node. */
START_TEST(known_sizes_do_not_grow)
{
    compilation c;
    begin_model(&c, 2, &(model){.form = PRESENT, .bound = BOUND, .rows = BOUND}, true);
    ok(&c.m, xcc_pair_states(&c.m));
    CHECK_COUNT(&c, CachedAttention, 0);
    finish(&c);
}
END_TEST

/* Inputs that only updates read are loaded before all of them. */
START_TEST(inputs_of_updates)
{
    static const xcc_state_pair scattered[] = {{"next_a", "a"}, {"next_b", "b"}};
    static const char *const names[] = {"x", "y"};
    compilation c;
    compiled_program k;
    begin(&c, 2);
    c.options.states.pairs = scattered;
    c.options.states.pair_count = 2;
    xcc_value *at = input(&c.b, "at", XCVM_I64, 1, DIMS(1));
    for (size_t i = 0; i < 2; i++) {
        xcc_value *rows = input(&c.b, names[i], XCVM_F32, 4, DIMS(1, 1, 1, 2)),
                  *cache = input(&c.b, scattered[i].input, XCVM_F32, 4, DIMS(1, 1, 4, 2));
        output(&c.b, named(&c.b,
                           xcc_apply(&c.b, TensorScatter, y, .past_cache = XCC_IN(cache), .update = XCC_IN(rows),
                                     .write_indices = XCC_IN(at), .axis = -2),
                           scattered[i].output));
    }
    ok(&c.m, xcc_pair_states(&c.m));
    passes(&c);
    CHECK_COUNT(&c, CacheAppend, 2);
    compiled_open(&k, &c);
    compiled_set_input(&k, 0, XCVM_I64, 1, DIMS(1), DIMS(1));
    compiled_set_input(&k, 1, XCVM_F32, 4, DIMS(1, 1, 1, 2), FLOATS(1, 2));
    compiled_set_input(&k, 2, XCVM_F32, 4, DIMS(1, 1, 1, 2), FLOATS(3, 4));
    compiled_run(&k);
    for (size_t i = 0; i < 2; i++)
        ck_assert_float_eq(((const float *)xcvm_value_data(xcvm_session_get_state(k.session, i)))[3], i == 0 ? 2 : 4);
    compiled_close(&k);
    finish(&c);
}
END_TEST

START_TEST(what_became_of_caches_is_told)
{
    compilation c;
    test_bytes messages = {.at = NULL};
    begin_model(&c, 2, &(model){.form = PRESENT, .bound = -2, .rows = BOUND}, true);
    collect_messages(&c, &messages);
    c.options.states.cache_dtype = _i == 0 ? XCVM_NO_DTYPE : XCVM_F16;
    ok(&c.m, xcc_pair_states(&c.m));
    ck_assert(test_bytes_sink(&messages, "", 1));
    ck_assert_str_eq(messages.at, _i == 0 ? "state past_key is a cache of 70 rows of f32, appended in place\n"
                                            "state past_value is a cache of 70 rows of f32, appended in place\n"
                                          : "state past_key is a cache of 70 rows of f16, appended in place\n"
                                            "state past_value is a cache of 70 rows of f16, appended in place\n");
    test_bytes_free(&messages);
    finish(&c);
}
END_TEST

Suite *suite_compiler_pair_caches(void);
Suite *suite_compiler_pair_caches(void)
{
    Suite *suite = suite_create("compiler/pair_caches");
    TCase *tests = tcase_create("pair_caches");
    tcase_add_loop_test(tests, generation, 0, 2 * SIGHTS * FORMS * LEVELS);
    tcase_add_loop_test(tests, beside_copies, 0, 4);
    tcase_add_loop_test(tests, what_stays, 0, (int)(sizeof others / sizeof *others));
    tcase_add_test(tests, known_sizes_do_not_grow);
    tcase_add_test(tests, inputs_of_updates);
    tcase_add_loop_test(tests, what_became_of_caches_is_told, 0, 2);
    suite_add_tcase(suite, tests);
    return suite;
}
