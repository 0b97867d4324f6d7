/* Tests of weights in blocks: constants that are rounded, models that are already quantized, and caches that grow. */
#include "compiler/states/states.h"
#include "compiler/ir/compilation.h"
#include "tests/compiler/support.h"

#include "ops/matmul/quantized_blocks.h"

enum { ROWS = 96, COLUMNS = 20 };

static const struct {
    xcc_weight_blocks form;
    size_t bits, offset_bytes; /* of a block's column */
    double most;               /* error of a product of ROWS numbers up to 1, relative to the sum of weights' sizes */
} forms[] = {{XCC_WEIGHTS_Q8, 8, 0, 0.01}, {XCC_WEIGHTS_Q4, 4, 0, 0.15}, {XCC_WEIGHTS_Q4A, 4, 1, 0.15}};
enum { FORMS = sizeof forms / sizeof *forms };

static void begin_with(compilation *c, int form)
{
    begin(c, 2);
    c->options.weights.blocks = forms[form].form;
}

static const xcc_node *only(const compilation *c, xcvm_opcode op)
{
    const xcc_node *found = NULL;
    for (const xcc_node *n = c->m.graph->first; n != NULL; n = n->next)
        if (xcc_is(n, op)) {
            ck_assert_ptr_null(found);
            found = n;
        }
    ck_assert_ptr_nonnull(found);
    return found;
}

/* A matrix with bias, activation and residual becomes codes of the size that the form says, and results are near. */
START_TEST(products)
{
    static const float x[ROWS] = {0.5f, -1, 0.25f};
    compilation c;
    compiled_program k;
    begin_with(&c, _i);
    xcc_value *a = input(&c.b, "x", XCVM_F32, 2, DIMS(1, ROWS)), *w = weights(&c.b, 2, DIMS(ROWS, COLUMNS));
    xcc_value *bias = weights(&c.b, 1, DIMS(COLUMNS));
    xcc_value *y = must(&c.b, xcc_apply(&c.b, Gemm, y, .a = XCC_IN(a), .b = XCC_IN(w), .c = XCC_IN(bias), .alpha = 1,
                                        .beta = 1, .activation = XCVM_ACTIVATION_none));
    output(&c.b, must(&c.b, xcc_apply(&c.b, Relu, y, .x = XCC_IN(y))));
    passes(&c);
    CHECK_COUNT(&c, PackedGemm, 0);
    CHECK_NODES(&c, 1);
    const xcvm_BlockQuantizedGemm_args *got = XCC_ARGS(BlockQuantizedGemm, only(&c, XCVM_OP_BlockQuantizedGemm));
    ck_assert_int_eq(got->bits, (int64_t)forms[_i].bits);
    ck_assert_int_eq(got->activations, XCVM_BLOCK_ACTIVATIONS_f32);
    const size_t panels = 2, blocks = ROWS / XCVM_QBLOCKS_USUAL, columns = panels * 16;
    ck_assert_uint_eq(got->w->bytes, columns * ROWS * forms[_i].bits / 8);
    ck_assert_uint_eq(c.m.compilation->weight_bytes_before, columns * ROWS * sizeof(float));
    ck_assert_uint_eq(c.m.compilation->weight_bytes_after,
                      got->w->bytes + columns * blocks * (2 + forms[_i].offset_bytes));
    compiled_open(&k, &c);
    compiled_set_input(&k, 0, XCVM_F32, 2, DIMS(1, ROWS), x);
    compiled_run(&k);
    const float *result = xcvm_value_data(xcvm_session_get_output(k.session, 0));
    bool rounded = false;
    for (size_t j = 0; j < COLUMNS; j++) {
        double sum = sin((double)(j * 7 + 3)), size = 0;
        for (size_t p = 0; p < 3; p++) {
            const double weight = sin((double)((p * COLUMNS + j) * 7 + 3));
            sum += (double)x[p] * weight;
            size += fabs((double)x[p]);
        }
        sum = sum > 0 ? sum : 0;
        ck_assert_double_eq_tol((double)result[j], sum, forms[_i].most * size);
        rounded = rounded || fabs((double)result[j] - sum) > 1e-5;
    }
    ck_assert(rounded);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Constants that cannot be rounded, or would grow, do not change. */
START_TEST(what_stays)
{
    static float odd[ROWS * COLUMNS];
    const float strange[] = {INFINITY, NAN, 1e9f};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        compilation c;
        begin_with(&c, _i);
        odd[7] = strange[i];
        xcc_value *x = input(&c.b, "x", XCVM_F32, 2, DIMS(2, ROWS)), *z = input(&c.b, "z", XCVM_F32, 2, DIMS(2, 31));
        output(&c.b, must(&c.b, xcc_apply(&c.b, MatMul, y, .a = XCC_IN(x),
                                          .b = XCC_IN(floats(&c.b, 2, DIMS(ROWS, COLUMNS), odd)))));
        output(&c.b, must(&c.b, xcc_apply(&c.b, MatMul, y, .a = XCC_IN(z),
                                          .b = XCC_IN(weights(&c.b, 2, DIMS(31, COLUMNS))))));
        passes(&c);
        CHECK_COUNT(&c, BlockQuantizedGemm, 0);
        CHECK_COUNT(&c, PackedGemm, 2);
        ck_assert_uint_eq(c.m.compilation->uncompressed, 1);
        ck_assert_uint_eq(c.m.compilation->weight_bytes_after, c.m.compilation->weight_bytes_before);
        finish(&c);
    }
}
END_TEST

/* Rows of a table are gathered as codes and turned into floats then. */
START_TEST(tables)
{
    enum { WORDS = 600, WIDTH = 64 };
    static const int64_t words[] = {3, 599, 0};
    compilation c;
    compiled_program k;
    begin_with(&c, _i);
    xcc_value *ids = input(&c.b, "ids", XCVM_I64, 1, DIMS(3)), *t = weights(&c.b, 2, DIMS(WORDS, WIDTH));
    output(&c.b, must(&c.b, xcc_apply(&c.b, Gather, y, .x = XCC_IN(t), .indices = XCC_IN(ids))));
    /* Blocks do not divide this one's rows. */
    xcc_value *other = weights(&c.b, 2, DIMS(WORDS, 40));
    output(&c.b, must(&c.b, xcc_apply(&c.b, Gather, y, .x = XCC_IN(other), .indices = XCC_IN(ids))));
    passes(&c);
    CHECK_COUNT(&c, DequantizeLinear, 1);
    CHECK_COUNT(&c, Gather, forms[_i].offset_bytes == 0 ? 3 : 4);
    compiled_open(&k, &c);
    compiled_set_input(&k, 0, XCVM_I64, 1, DIMS(3), words);
    compiled_run(&k);
    const float *rows = xcvm_value_data(xcvm_session_get_output(k.session, 0));
    const float *whole = xcvm_value_data(xcvm_session_get_output(k.session, 1));
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < WIDTH; j++)
            ck_assert_float_eq_tol(rows[i * WIDTH + j], sinf((float)(((size_t)words[i] * WIDTH + j) * 7 + 3)),
                                   (float)forms[_i].most);
        for (size_t j = 0; j < 40; j++)
            ck_assert_float_eq(whole[i * 40 + j], sinf((float)(((size_t)words[i] * 40 + j) * 7 + 3)));
    }
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* ---- What a model has quantized ---- */

static const struct {
    xcvm_dtype dtype;
    bool zero, transposed;
} codes[] = {{XCVM_U4, true, false},  {XCVM_I4, false, true}, {XCVM_U8, true, true},
             {XCVM_I8, false, false}, {XCVM_I8, true, true},  {XCVM_U4, false, false}};

static xcc_value *bytes_of(xcc_builder *b, xcvm_dtype dtype, const int64_t *dims, unsigned seed)
{
    xcc_value *v = must(b, xcc_constant_blank(b->graph, dtype, 2, dims));
    for (size_t i = 0; i < v->type.bytes; i++)
        XCVM_DATA(uint8_t, &v->type)[i] = (uint8_t)(test_random(&seed) >> 24);
    return v;
}

static int quantized_case;

static xcc_value *small_scales(xcc_builder *b, const int64_t *dims)
{
    xcc_value *v = weights(b, 2, dims);
    for (size_t i = 0; i < xcvm_element_count(&v->type); i++)
        XCVM_DATA(float, &v->type)[i] *= 0.001f;
    return v;
}

/* x times a matrix that DequantizeLinear computes from blocks of 32, and rows of such a table. */
static void make_quantized(xcc_builder *b)
{
    const bool turned = codes[quantized_case].transposed;
    const xcvm_dtype dtype = codes[quantized_case].dtype;
    const int64_t *dims = turned ? DIMS(COLUMNS, ROWS) : DIMS(ROWS, COLUMNS);
    const int64_t *blocks = turned ? DIMS(COLUMNS, ROWS / 32) : DIMS(ROWS / 32, COLUMNS);
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(-1, ROWS)), *q = bytes_of(b, dtype, dims, 1);
    xcc_value *zero = codes[quantized_case].zero ? bytes_of(b, dtype, blocks, 2) : NULL;
    xcc_value *w = must(b, xcc_apply(b, DequantizeLinear, y, .x = XCC_IN(q), .scale = XCC_IN(small_scales(b, blocks)),
                                     .zero_point = XCC_IN(zero), .axis = turned ? 1 : 0, .block_size = 32));
    if (turned)
        w = must(b, xcc_apply(b, Transpose, y, .x = XCC_IN(w), .perm = XCC_INTS(1, 0)));
    output(b, must(b, xcc_apply(b, MatMul, y, .a = XCC_IN(x), .b = XCC_IN(w))));
    xcc_value *table = bytes_of(b, dtype, DIMS(50, 64), 3), *ids = input(b, "ids", XCVM_I64, 1, DIMS(4));
    table = must(b, xcc_apply(b, DequantizeLinear, y, .x = XCC_IN(table), .scale = XCC_IN(weights(b, 2, DIMS(50, 2))),
                              .axis = -1, .block_size = 32));
    output(b, must(b, xcc_apply(b, Gather, y, .x = XCC_IN(table), .indices = XCC_IN(ids))));
}

START_TEST(models_own)
{
    compilation c;
    quantized_case = _i;
    begin(&c, 2);
    check_results(make_quantized, &c);
    CHECK_COUNT(&c, BlockQuantizedGemm, 1);
    CHECK_COUNT(&c, DequantizeLinear, 1);
    const xcvm_BlockQuantizedGemm_args *a = XCC_ARGS(BlockQuantizedGemm, only(&c, XCVM_OP_BlockQuantizedGemm));
    ck_assert_int_eq((int)xcvm_dtype_bits((xcvm_dtype)codes[_i].dtype), (int)a->bits);
    finish(&c);
}
END_TEST

/* Scales that are missing for some blocks, and blocks that are mostly empty: neither is accepted. */
static const struct {
    int64_t rows, columns, scale_rows, scale_columns, block;
} strange_cases[] = {{ROWS, COLUMNS, 1, 1, 32},
                     {ROWS, COLUMNS, 2, COLUMNS, 32},
                     {ROWS, COLUMNS, 3, COLUMNS - 1, 32},
                     {1, 4096, 1, 4096, 65536}};

START_TEST(strange_blocks)
{
    const int64_t rows = strange_cases[_i].rows, columns = strange_cases[_i].columns;
    compilation c;
    begin(&c, 2);
    for (int axis = 0; axis < 2; axis++) {
        const bool turned = axis == 1;
        const int64_t *dims = turned ? DIMS(columns, rows) : DIMS(rows, columns);
        const int64_t *blocks = turned ? DIMS(strange_cases[_i].scale_columns, strange_cases[_i].scale_rows)
                                       : DIMS(strange_cases[_i].scale_rows, strange_cases[_i].scale_columns);
        xcc_value *x = input(&c.b, turned ? "turned" : "x", XCVM_F32, 2, DIMS(1, rows));
        xcc_value *w = must(&c.b, xcc_apply(&c.b, DequantizeLinear, y, .x = XCC_IN(bytes_of(&c.b, XCVM_U8, dims, 1)),
                                            .scale = XCC_IN(small_scales(&c.b, blocks)), .axis = axis,
                                            .block_size = strange_cases[_i].block));
        output(&c.b, must(&c.b, xcc_apply(&c.b, Gemm, y, .a = XCC_IN(x), .b = XCC_IN(w), .alpha = 1, .beta = 1,
                                          .transB = axis, .activation = XCVM_ACTIVATION_none)));
        xcc_value *ids = input(&c.b, turned ? "rows" : "ids", XCVM_I64, 1, DIMS(1));
        output(&c.b, must(&c.b, xcc_apply(&c.b, Gather, y, .x = XCC_IN(w), .indices = XCC_IN(ids))));
    }
    passes(&c);
    CHECK_COUNT(&c, BlockQuantizedGemm, 0);
    finish(&c);
}
END_TEST

/* ---- Recurrences ---- */

/* Both matrices of a recurrence of a unit more than a block has, and results near those of f32; one of fewer units
 * stays.
 */
START_TEST(recurrences)
{
    enum { STEPS = 3, INPUTS = 40, HIDDEN = 33, SMALL = 31 };
    static float x[STEPS * INPUTS];
    float results[2][STEPS * HIDDEN];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = sinf((float)i) / 4;
    for (int in_blocks = 0; in_blocks < 2; in_blocks++) {
        compilation c;
        compiled_program k;
        begin_with(&c, _i);
        if (!in_blocks)
            c.options.weights.blocks = XCC_WEIGHTS_PLAIN;
        xcc_value *a = input(&c.b, "x", XCVM_F32, 3, DIMS(STEPS, 1, INPUTS));
        xcc_value *w = weights(&c.b, 3, DIMS(1, 4 * HIDDEN, INPUTS)),
                  *r = weights(&c.b, 3, DIMS(1, 4 * HIDDEN, HIDDEN));
        output(&c.b, must(&c.b, xcc_apply(&c.b, LSTM, y, .x = XCC_IN(a), .w = XCC_IN(w), .r = XCC_IN(r),
                                          .hidden_size = HIDDEN)));
        output(&c.b,
               must(&c.b,
                    xcc_apply(&c.b, GRU, y_h, .x = XCC_IN(a), .w = XCC_IN(weights(&c.b, 3, DIMS(1, 3 * SMALL, INPUTS))),
                              .r = XCC_IN(weights(&c.b, 3, DIMS(1, 3 * SMALL, SMALL))), .hidden_size = SMALL)));
        passes(&c);
        CHECK_COUNT(&c, BlockQuantizedLSTM, (size_t)in_blocks);
        CHECK_COUNT(&c, BlockQuantizedGemm, 2 * (size_t)in_blocks);
        CHECK_COUNT(&c, PackedLSTM, 1 - (size_t)in_blocks);
        CHECK_COUNT(&c, PackedGRU, 1);
        ck_assert_uint_eq(c.m.compilation->uncompressed, 0);
        compiled_open(&k, &c);
        compiled_set_input(&k, 0, XCVM_F32, 3, DIMS(STEPS, 1, INPUTS), x);
        compiled_run(&k);
        memcpy(results[in_blocks], xcvm_value_data(xcvm_session_get_output(k.session, 0)), sizeof results[0]);
        compiled_close(&k);
        finish(&c);
    }
    bool differs = false;
    for (size_t i = 0; i < STEPS * HIDDEN; i++) {
        const double error = fabs((double)results[0][i] - (double)results[1][i]);
        ck_assert_double_lt(error, 5 * forms[_i].most);
        differs = differs || error > 0;
    }
    ck_assert(differs);
}
END_TEST

/* ---- Caches ---- */

enum { BOUND = 6, WIDTH = 2 };

/* cache' = cache with `fresh` after its first `at` rows; y = attention of fresh to these rows. */
static void make_cache(xcc_builder *b)
{
    xcc_value *fresh = input(b, "fresh", XCVM_F32, 4, DIMS(1, 1, -1, WIDTH)),
              *at = input(b, "at", XCVM_I64, 1, DIMS(1));
    xcc_value *cache = input(b, "cache", XCVM_F32, 4, DIMS(1, 1, BOUND, WIDTH));
    xcc_value *next = must(b, xcc_apply(b, TensorScatter, y, .past_cache = XCC_IN(cache), .update = XCC_IN(fresh),
                                        .write_indices = XCC_IN(at), .axis = -2));
    ok(b->graph->module, xcc_value_rename(next, "next"));
    output(b, next);
    xcc_value *y = must(b, xcc_apply(b, CachedAttention, y, .q = XCC_IN(fresh), .k = XCC_IN(fresh), .v = XCC_IN(fresh),
                                     .past_key = XCC_IN(cache), .past_value = XCC_IN(cache), .before = XCC_IN(at),
                                     .left_window_size = -1, .scale = 1));
    /* The last reader of `fresh` is the node that appends it, which is moved nevertheless. */
    output(b, must(b, xcc_apply(b, Exp, y, .x = XCC_IN(y))));
}

static xcvm_status feed(compiled_program *k, int64_t at, int64_t count, float first)
{
    float rows[2 * BOUND * WIDTH];
    for (int64_t i = 0; i < count * WIDTH; i++)
        rows[i] = first + (float)i;
    compiled_set_input(k, 0, XCVM_F32, 4, DIMS(1, 1, count, WIDTH), rows);
    compiled_set_input(k, 1, XCVM_I64, 1, DIMS(1), &at);
    xcvm_error error = {0};
    return xcvm_session_run(k->session, NULL, &error);
}

/* The state's memory is the same in every run, rows are added to it, and a run that fails changes nothing. */
START_TEST(appended_caches)
{
    static const xcc_state_pair pairs[] = {{"next", "cache"}};
    compilation c;
    compiled_program k;
    begin(&c, _i);
    c.options.states.pairs = pairs;
    c.options.states.pair_count = 1;
    make_cache(&c.b);
    ok(&c.m, xcc_pair_states(&c.m));
    passes(&c);
    CHECK_COUNT(&c, TensorScatter, 0);
    CHECK_COUNT(&c, CacheAppend, 1);
    compiled_open(&k, &c);
    ck_assert_uint_eq(xcvm_program_output_count(k.program), 1);
    float expected[BOUND * WIDTH] = {0};
    const void *memory = NULL;
    int64_t at = 0;
    for (int64_t count = 3; at + count <= BOUND; at += count, count = 1) {
        ck_assert_int_eq(feed(&k, at, count, (float)(10 * at)), XCVM_OK);
        for (int64_t i = 0; i < count * WIDTH; i++)
            expected[at * WIDTH + i] = (float)(10 * at + i);
        const void *now = xcvm_value_data(xcvm_session_get_state(k.session, 0));
        ck_assert(memory == NULL || memory == now);
        memory = now;
        ck_assert_mem_eq(now, expected, sizeof expected);
        /* Larger numbers have more weight, so attention selects the last row. */
        const xcvm_value *y = xcvm_session_get_output(k.session, 0);
        ck_assert_float_eq_tol(logf(XCVM_CDATA(float, y)[count * WIDTH - 1]), expected[(at + count) * WIDTH - 1],
                               1e-3f);
    }
    ck_assert_int_eq(feed(&k, at, 1, 0), XCVM_OUT_OF_RANGE);
    ck_assert_int_eq(feed(&k, -1, 1, 0), XCVM_OUT_OF_RANGE);
    ck_assert_int_eq(feed(&k, 4, 3, 0), XCVM_OUT_OF_RANGE);
    ck_assert_mem_eq(xcvm_value_data(xcvm_session_get_state(k.session, 0)), expected, sizeof expected);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Rows are rounded once, when they are added, and read as f32. Rows with other readers stay f32. */
START_TEST(rounded_caches)
{
    static const xcc_state_pair pairs[] = {{"next", "cache"}};
    for (int read = 0; read < 2; read++) {
        compilation c;
        compiled_program k;
        begin(&c, _i);
        c.options.states.pairs = pairs;
        c.options.states.pair_count = 1;
        c.options.states.cache_dtype = XCVM_F16;
        make_cache(&c.b);
        if (read)
            output(&c.b, must(&c.b, xcc_apply(&c.b, Neg, y, .x = xcc_type_of(c.m.graph->inputs[2]))));
        ok(&c.m, xcc_pair_states(&c.m));
        passes(&c);
        CHECK_COUNT(&c, CacheAppend, 1);
        CHECK_COUNT(&c, Cast, read ? 0 : 1);
        compiled_open(&k, &c);
        /* 0x1p-12 is below half of the last place of 1. */
        ck_assert_int_eq(feed(&k, 0, 2, 1.0f + 0x1p-12f), XCVM_OK);
        const xcvm_value *cache = xcvm_session_get_state(k.session, 0);
        ck_assert_int_eq(cache->dtype, read ? XCVM_F32 : XCVM_F16);
        for (size_t i = 0; i < 2 * WIDTH && !read; i++) {
            static const uint16_t halves[] = {0x3c00, 0x4000, 0x4200, 0x4400};
            ck_assert_uint_eq(XCVM_CDATA(uint16_t, cache)[i], halves[i]);
        }
        ck_assert_int_eq(feed(&k, 2, 1, 0), XCVM_OK);
        compiled_close(&k);
        finish(&c);
    }
}
END_TEST

/* If another node reads the stored value, it is stored. */
START_TEST(caches_that_are_read)
{
    static const xcc_state_pair pairs[] = {{"next", "cache"}};
    compilation c;
    begin(&c, 2);
    c.options.states.pairs = pairs;
    c.options.states.pair_count = 1;
    make_cache(&c.b);
    output(&c.b, must(&c.b, xcc_apply(&c.b, Neg, y, .x = XCC_IN(c.m.graph->outputs[0]))));
    ok(&c.m, xcc_pair_states(&c.m));
    passes(&c);
    CHECK_COUNT(&c, TensorScatter, 1);
    CHECK_COUNT(&c, CacheAppend, 0);
    finish(&c);
}
END_TEST

Suite *suite_compiler_block_weights(void);
Suite *suite_compiler_block_weights(void)
{
    Suite *suite = suite_create("compiler_block_weights");
    TCase *tc = tcase_create("block_weights");
    tcase_add_loop_test(tc, products, 0, FORMS);
    tcase_add_loop_test(tc, what_stays, 0, FORMS);
    tcase_add_loop_test(tc, tables, 0, FORMS);
    tcase_add_loop_test(tc, models_own, 0, (int)(sizeof codes / sizeof *codes));
    tcase_add_loop_test(tc, strange_blocks, 0, (int)(sizeof strange_cases / sizeof *strange_cases));
    tcase_add_loop_test(tc, appended_caches, 0, 3);
    tcase_add_loop_test(tc, rounded_caches, 0, 3);
    tcase_add_test(tc, caches_that_are_read);
    tcase_add_loop_test(tc, recurrences, 0, FORMS);
    suite_add_tcase(suite, tc);
    return suite;
}
