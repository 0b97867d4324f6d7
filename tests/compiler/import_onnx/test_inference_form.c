/* Tests of the inference form: compiled models, and models that are written in it. */
#include "compiler/onnx_model/onnx_model.h"
#include "tests/compiler/import_onnx/onnx_text.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define STATISTICS "init scale f32[2] 1 2\ninit shift f32[2] 0 1\ninit mean f32[2] 1 3\ninit var f32[2] 4 16\n"
#define X "x f32[2x2] 3 7 -1 3\n"
/* (x - mean) / sqrt(var) * scale + shift, and by the batch, whose mean is [1 5] and whose variance is [4 4]. */
#define BY_STATISTICS "f32[2x2] 1 3 -1 1\n"
#define BY_BATCH "f32[2x2] 1 3 -1 -1\n"

/* Models, their results in inference form and by ONNX's definition (NULL: random), and the number of nodes in training
 * form. */
static const struct {
    const char *text, *given, *inferred, *trained;
    size_t nodes;
    unsigned random; /* of these nodes: Dropout's */
} models[] = {
    {"ir 8\nopset 15\ninput x f32[Nx2]\noutput y\n" STATISTICS
     "y, m, v = BatchNormalization(x, scale, shift, mean, var) training_mode=1 epsilon=0.0\n",
     X, "y " BY_STATISTICS, "y " BY_BATCH, 1, 0},
    /* Somebody reads the statistics. */
    {"ir 8\nopset 15\ninput x f32[Nx2]\noutput y\noutput m2\noutput v\n" STATISTICS
     "y, m, v = BatchNormalization(x, scale, shift, mean, var) training_mode=1 epsilon=0.0 momentum=0.5\n"
     "m2 = Add(m, m)\n",
     X, "y " BY_STATISTICS "m2 f32[2] 2 6\nv f32[2] 4 16\n", "y " BY_BATCH "m2 f32[2] 2 8\nv f32[2] 4 10\n", 1, 0},
    {"ir 8\nopset 9\ninput x f32[Nx2]\noutput y\noutput sm\noutput sv\noutput v\n" STATISTICS
     "y, m, v, sm, sv = BatchNormalization(x, scale, shift, mean, var) epsilon=0.0 momentum=0.5\n",
     X, "y " BY_STATISTICS "sm f32[2] 1 3\nsv f32[2] 4 16\nv f32[2] 4 16\n",
     "y " BY_BATCH "sm f32[2] 1 5\nsv f32[2] 4 4\nv f32[2] 4 10\n", 1, 0},
    {"ir 8\nopset 13\ninput x f32[Nx2]\noutput y\n" STATISTICS
     "y, m, v, sm, sv = BatchNormalization(x, scale, shift, mean, var) epsilon=0.0\n",
     X, "y " BY_STATISTICS, "y " BY_BATCH, 1, 0},
    {"ir 3\nopset 6\ninput x f32[Nx2]\noutput y\n" STATISTICS
     "y, m, v, sm, sv = BatchNormalization(x, scale, shift, mean, var) epsilon=0.0 is_test=0\n",
     X, "y " BY_STATISTICS, "y " BY_BATCH, 1, 0},
    /* Bodies, and bodies of these. */
    {"ir 8\nopset 15\ninput x f32[Nx2]\ninput c bool[]\noutput y\n" STATISTICS
     "graph inner {\noutput a\na, m, v = BatchNormalization(x, scale, shift, mean, var) training_mode=1 "
     "epsilon=0.0\n}\n"
     "graph yes {\noutput b\nb = If(c) then_branch=@inner else_branch=@inner\n}\n"
     "graph no {\noutput d\nd = Neg(x)\n}\ny = If(c) then_branch=@yes else_branch=@no\n",
     X "c bool[] 1\n", "y " BY_STATISTICS, "y " BY_BATCH, 2, 0},
    {"ir 8\nopset 15\ninput x f32[Nx2]\ninput n i64[]\noutput y\n" STATISTICS
     "graph body {\ninput i i64[]\ninput c bool[]\ninput s\noutput c2\noutput t\nc2 = Identity(c)\n"
     "t, m, v = BatchNormalization(x, scale, shift, mean, var) training_mode=1 epsilon=0.0\n}\n"
     "y = Loop(n, _, x) body=@body\n",
     X "n i64[] 2\n", "y " BY_STATISTICS, "y " BY_BATCH, 1, 0},
    /* Functions whose attribute is set by the call. */
    {"ir 8\nopset 15\nopset own 1\ninput x f32[Nx2]\noutput y\n" STATISTICS
     "function own::norm(x, scale, shift, mean, var) -> (y) training {\nopset 15\n"
     "y, m, v = BatchNormalization(x, scale, shift, mean, var) training_mode=$training epsilon=0.0\n}\n"
     "y = own::norm(x, scale, shift, mean, var) training=1\n",
     X, "y " BY_STATISTICS, "y " BY_BATCH, 1, 0},
    /* Dropout whose input is an initializer, a constant, or an input of the model. */
    {"ir 8\nopset 13\ninput x f32[Nx2]\noutput y\noutput k\ninit r f32[] 0.9\ninit on bool[] 1\n"
     "y, k = Dropout(x, r, on)\n",
     X, "y f32[2x2] 3 7 -1 3\nk bool[2x2] 1 1 1 1\n", NULL, 1, 1},
    {"ir 8\nopset 13\ninput x f32[Nx2]\noutput y\non = Constant() value=bool[]{1}\ny = Dropout(x, _, on)\n", X,
     "y f32[2x2] 3 7 -1 3\n", NULL, 1, 1},
    {"ir 8\nopset 13\ninput x f32[Nx2]\noutput y\noutput z\non = Constant() value=bool[]{1}\ny = Dropout(x, _, on)\n"
     "z = Identity(on)\n",
     X, "y f32[2x2] 3 7 -1 3\nz bool[] 1\n", NULL, 1, 1},
    {"ir 8\nopset 13\nopset com.microsoft 1\ninput x f32[Nx2]\noutput y\ninit on bool[] 1\ninit b f32[2] 1 2\n"
     "y = com.microsoft::BiasDropout(x, b, x, _, on)\n",
     X, "y f32[2x2] 7 16 -1 8\n", NULL, 1, 1},
};
enum { MODELS = sizeof models / sizeof *models };

/* Diagnostics of the compiler. */
typedef struct noted {
    size_t count;
    xcc_diagnostic_kind kind;
    char text[800];
} noted;

static void keep_note(void *user, xcc_diagnostic_kind kind, const char *text)
{
    noted *n = user;
    n->count++;
    n->kind = kind;
    ck_assert_uint_lt(strlen(text), sizeof n->text);
    strcpy(n->text, text);
}

static const xcvm_value *keep_weight(void *user, const char *name, size_t length)
{
    (void)user;
    (void)name;
    (void)length;
    return NULL;
}

static test_bytes inference_form_of(const test_bytes *model, size_t *changed)
{
    xcvm_arena arena = {.allocator = xcvm_allocator_or_default(NULL)};
    xcc_model_edits edits;
    xcvm_error error = {.pc = -1};
    test_bytes written = {0};
    xcvm_status status = xcc_inference_form_edits(NULL, model->at, model->length, &arena, &edits, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    const xcc_replacement how = {.find = keep_weight, .edits = &edits};
    status = xcc_weights_replace(model->at, model->length, &how, (xcvm_sink){test_bytes_sink, &written}, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    *changed = edits.names.count;
    xcvm_arena_release(&arena);
    return written;
}

static size_t training_nodes(const test_bytes *model, const xcc_options *options)
{
    test_bytes program = {0};
    xcc_report report = {.size = sizeof report};
    xcvm_error error = {.pc = -1};
    const xcvm_status status =
        xcc_compile(model->at, model->length, options, (xcvm_sink){test_bytes_sink, &program}, &report, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    test_bytes_free(&program);
    return report.training_nodes;
}

START_TEST(compiled)
{
    noted n = {.count = 0};
    const xcc_options letter = {.size = sizeof letter, .diagnostics = {keep_note, &n}};
    xcc_options inference = letter;
    inference.inference = true;
    test_bytes model = onnx_from_text(models[_i].text);
    if (models[_i].trained != NULL)
        onnx_expect_model(&model, NULL, models[_i].text, models[_i].given, models[_i].trained);
    ck_assert_uint_eq(training_nodes(&model, &letter), models[_i].nodes);
    ck_assert_uint_eq(n.count, 1);
    ck_assert_int_eq(n.kind, XCC_DIAGNOSTIC_TRAINING_FORM);
    const char *about = models[_i].random > 0 ? "results depend on random numbers" : "results depend on the batch";
    ck_assert_msg(strstr(n.text, about) != NULL, "%s", n.text);
    n.count = 0;
    ck_assert_uint_eq(training_nodes(&model, &inference), 0);
    ck_assert_uint_eq(n.count, 0);
    onnx_expect_model(&model, &inference, models[_i].text, models[_i].given, models[_i].inferred);
    test_bytes_free(&model);
}
END_TEST

START_TEST(written_anew)
{
    size_t changed;
    test_bytes model = onnx_from_text(models[_i].text), written = inference_form_of(&model, &changed);
    ck_assert_uint_gt(changed, 0);
    ck_assert_uint_eq(training_nodes(&written, NULL), 0);
    /* A constant stays if something else reads it. */
    const bool constant = memmem(written.at, written.length, "Constant", strlen("Constant")) != NULL;
    ck_assert(constant == (strstr(models[_i].text, "Identity(on)") != NULL));
    onnx_expect_model(&written, NULL, models[_i].text, models[_i].given, models[_i].inferred);
    /* The model does not change. */
    test_bytes again = inference_form_of(&written, &changed);
    ck_assert_uint_eq(changed, 0);
    ck_assert(test_bytes_equal(&again, &written));
    test_bytes_free(&again);
    test_bytes_free(&written);
    test_bytes_free(&model);
}
END_TEST

/* The caller of the program decides, so it is in no form; the inference form of it drops nothing. */
START_TEST(decided_by_an_input)
{
    static const char text[] =
        "ir 8\nopset 13\ninput x f32[Nx2]\ninput on bool[]\noutput y\ninit r f32[] 0.9\ny = Dropout(x, r, on)\n";
    const xcc_options inference = {.size = sizeof inference, .inference = true};
    size_t changed;
    test_bytes model = onnx_from_text(text), written = inference_form_of(&model, &changed);
    ck_assert_uint_eq(training_nodes(&model, NULL), 0);
    ck_assert_uint_eq(changed, 1);
    onnx_expect_model(&model, NULL, text, X "on bool[] 0\n", "y f32[2x2] 3 7 -1 3\n");
    onnx_expect_model(&model, &inference, text, X "on bool[] 1\n", "y f32[2x2] 3 7 -1 3\n");
    onnx_expect_model(&written, NULL, text, X "on bool[] 1\n", "y f32[2x2] 3 7 -1 3\n");
    test_bytes_free(&written);
    test_bytes_free(&model);
}
END_TEST

/* Every byte of a model in inference form stays. */
START_TEST(nothing_to_change)
{
    static const char *const texts[] = {
        "ir 8\nopset 15\ninput x f32[Nx2]\noutput y\n" STATISTICS
        "y = BatchNormalization(x, scale, shift, mean, var) training_mode=0\n",
        "ir 8\nopset 9\ninput x f32[Nx2]\noutput y\n" STATISTICS "y = BatchNormalization(x, scale, shift, mean, var)\n",
        "ir 8\nopset 13\ninput x f32[Nx2]\noutput y\ninit off bool[] 0\ny = Dropout(x, _, off)\n",
        "ir 8\nopset 10\ninput x f32[Nx2]\noutput y\ny = Dropout(x) ratio=0.9\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t changed;
        test_bytes model = onnx_from_text(texts[i]), written = inference_form_of(&model, &changed);
        ck_assert_uint_eq(training_nodes(&model, NULL), 0);
        ck_assert_uint_eq(changed, 0);
        ck_assert(test_bytes_equal(&model, &written));
        test_bytes_free(&written);
        test_bytes_free(&model);
    }
}
END_TEST

/* Neither training programs nor gradients are a reason for a note, and training has no inference form. */
START_TEST(training_is_meant)
{
    static const char text[] = "ir 8\nopset 15\ninput x f32[Nx2]\noutput loss\n" STATISTICS
                               "y, m, v = BatchNormalization(x, scale, shift, mean, var) training_mode=1\n"
                               "loss = ReduceMean(y) keepdims=0\n";
    noted n = {.count = 0};
    xcvm_error error = {.pc = -1};
    xcc_options options = {.size = sizeof options, .diagnostics = {keep_note, &n}, .train = "sgd"};
    test_bytes model = onnx_from_text(text), program = {0};
    ck_assert_uint_eq(training_nodes(&model, &options), 1);
    ck_assert_uint_eq(n.count, 0);
    options.inference = true;
    ck_assert_int_eq(
        xcc_compile(model.at, model.length, &options, (xcvm_sink){test_bytes_sink, &program}, NULL, &error),
        XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "inference form") != NULL, "%s", error.message);
    options.train = NULL;
    options.inference = false;
    options.backprop = true;
    ck_assert_uint_eq(training_nodes(&model, &options), 1);
    ck_assert_uint_eq(n.count, 0);
    test_bytes_free(&model);
}
END_TEST

/* Momentum 1 means nothing in inference, and would leave statistics where they are in training. */
START_TEST(momentum)
{
    static const char *const momenta[] = {"1.0", "0.5"};
    for (size_t i = 0; i < 2; i++) {
        char text[600];
        noted n = {.count = 0};
        (void)snprintf(text, sizeof text,
                       "ir 8\nopset 13\ninput x f32[Nx2]\noutput loss\n" STATISTICS
                       "y = BatchNormalization(x, scale, shift, mean, var) momentum=%s\n"
                       "loss = ReduceMean(y) keepdims=0\n",
                       momenta[i]);
        const xcc_options options = {.size = sizeof options,
                                     .diagnostics = {keep_note, &n},
                                     .train = "sgd",
                                     .training.train_batch_normalization = true};
        test_bytes model = onnx_from_text(text);
        (void)training_nodes(&model, &options);
        ck_assert_uint_eq(n.count, i == 0);
        if (i == 0) {
            ck_assert_int_eq(n.kind, XCC_DIAGNOSTIC_MOMENTUM);
            ck_assert_msg(strstr(n.text, "momentum 0.9 in place of 1") != NULL, "%s", n.text);
        }
        test_bytes_free(&model);
    }
}
END_TEST

/* Wherever memory ends, all of it comes back. */
START_TEST(without_memory)
{
    test_bytes model = onnx_from_text(models[1].text);
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    for (size_t fail_at = 1; status != XCVM_OK; fail_at++) {
        test_allocator a;
        xcc_model_edits edits;
        xcvm_error error = {.pc = -1};
        test_allocator_start(&a, fail_at);
        const xcc_options options = {.size = sizeof options, .allocator = &a.allocator};
        xcvm_arena arena = {.allocator = &a.allocator};
        status = xcc_inference_form_edits(&options, model.at, model.length, &arena, &edits, &error);
        ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY, "%s", error.message);
        xcvm_arena_release(&arena);
        ck_assert_uint_eq(a.live, 0);
        ck_assert_uint_lt(fail_at, 10000);
    }
    test_bytes_free(&model);
}
END_TEST

/* Statistics of nodes in bodies stay as they are, which is said. */
START_TEST(statistics_in_bodies)
{
    static const char text[] =
        "ir 8\nopset 15\ninput x f32[Nx2]\ninput c bool[]\noutput loss\n" STATISTICS
        "graph yes {\noutput a\na, m, v = BatchNormalization(x, scale, shift, mean, var) training_mode=1\n}\n"
        "graph no {\noutput b\nb = Mul(x, scale)\n}\ny = If(c) then_branch=@yes else_branch=@no\n"
        "loss = ReduceMean(y) keepdims=0\n";
    noted n = {.count = 0};
    const xcc_options options = {.size = sizeof options, .diagnostics = {keep_note, &n}, .train = "sgd"};
    test_bytes model = onnx_from_text(text);
    (void)training_nodes(&model, &options);
    ck_assert_uint_eq(n.count, 1);
    ck_assert_int_eq(n.kind, XCC_DIAGNOSTIC_STATISTICS);
    ck_assert_msg(strstr(n.text, "'a' (BatchNormalization)") != NULL, "%s", n.text);
    test_bytes_free(&model);
}
END_TEST

Suite *suite_compiler_inference_form(void);
Suite *suite_compiler_inference_form(void)
{
    Suite *suite = suite_create("compiler_inference_form");
    TCase *tests = tcase_create("models");
    tcase_add_loop_test(tests, compiled, 0, MODELS);
    tcase_add_loop_test(tests, written_anew, 0, MODELS);
    tcase_add_test(tests, decided_by_an_input);
    tcase_add_test(tests, nothing_to_change);
    tcase_add_test(tests, training_is_meant);
    tcase_add_test(tests, momentum);
    tcase_add_test(tests, statistics_in_bodies);
    tcase_add_test(tests, without_memory);
    suite_add_tcase(suite, tests);
    return suite;
}
