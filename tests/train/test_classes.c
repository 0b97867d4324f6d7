/* Tests of classes: ignored labels, names in a model's metadata, and models with external weights. */
#include "tests/suites.h"
#include "tests/train/trainers.h"

#include <stdlib.h>

static const char scores_model[] = "ir 8\nopset 13\ninput x f32[Nx2]\noutput scores\n"
                                   "init w f32[2x3] 0.5 -0.25 1 0.75 0.125 -1\nscores = MatMul(x, w)\n";
static const xcc_options learning = {.size = sizeof learning, .train = "sgd:lr=0.5", .loss = "softmax_cross_entropy"};
static const xct_trainer_options usual = {.size = sizeof usual, .compile = &learning};

static double step(xct_trainer *t, int64_t count, const float *numbers, const int64_t *classes)
{
    xcvm_value *x = tensor(XCVM_F32, 2, (int64_t[]){count, 2}, numbers);
    xcvm_value *labels = tensor(XCVM_I64, 1, &count, classes);
    xct_result result = {.size = sizeof result};
    xcvm_error error = {.message = ""};
    const xcvm_status status = xct_trainer_step(t, (const xcvm_value *[]){x, labels}, NULL, &result, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    xcvm_value_release(x);
    xcvm_value_release(labels);
    return result.loss;
}

START_TEST(left_out)
{
    static const float numbers[] = {1, 2, 3, -4};
    xct_trainer *t = make(scores_model, &usual), *alone = make(scores_model, &usual);
    float before[6];
    memcpy(before, xcvm_value_data(parameter(t, "w")), sizeof before);
    ck_assert(step(t, 2, numbers, (int64_t[]){-100, -100}) == 0);
    check_floats(parameter(t, "w"), before, 6, 0);
    /* Labels that are left out have no part in the mean. */
    const double both = step(t, 2, numbers, (int64_t[]){2, -100}), one = step(alone, 1, numbers, (int64_t[]){2});
    ck_assert_msg(fabs(both - one) < 1e-6, "%g, not %g", both, one);
    check_floats(parameter(t, "w"), xcvm_value_data(parameter(alone, "w")), 6, 1e-6F);
    xct_trainer_destroy(t);
    xct_trainer_destroy(alone);
    /* Another label, which a loss of the model does not support. */
    xcc_options other = learning;
    other.training.own_ignore_label = true;
    other.training.ignore_label = 0;
    t = make(scores_model, &(xct_trainer_options){.size = sizeof(xct_trainer_options), .compile = &other});
    ck_assert(step(t, 2, numbers, (int64_t[]){0, 0}) == 0);
    xct_trainer_destroy(t);
    other.loss = NULL;
    xcvm_error error = {.message = ""};
    test_bytes model = onnx_from_text(line_model);
    t = NULL;
    ck_assert_int_eq(xct_trainer_create(model.at, model.length,
                                        &(xct_trainer_options){.size = sizeof(xct_trainer_options), .compile = &other},
                                        &t, &error),
                     XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "ignore_index") != NULL, "%s", error.message);
    test_bytes_free(&model);
}
END_TEST

static void check_classes(const xct_trainer *t)
{
    ck_assert_uint_eq(xct_trainer_class_count(t), 3);
    ck_assert_str_eq(xct_trainer_class_at(t, 0), "cat");
    ck_assert_str_eq(xct_trainer_class_at(t, 2), "emu");
    ck_assert_ptr_null(xct_trainer_class_at(t, 3));
}

START_TEST(names)
{
    static const char *const animals[] = {"cat", "dog", "emu"}, *const wrong[][4] = {{"cat", "dog", "cat"},
                                                                                     {"cat", "", "emu"},
                                                                                     {"cat", "a\nb", "emu"},
                                                                                     {"cat", NULL, "emu"}};
    static const char *const four[] = {"cat", "dog", "emu", "fox"};
    xct_trainer *t = make(scores_model, &usual);
    xcvm_error error = {.message = ""};
    ck_assert_uint_eq(xct_trainer_class_count(t), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_int_eq(xct_trainer_set_classes(t, wrong[i], 3, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xct_trainer_set_classes(t, four, 4, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "\"fox\" would be number 3") != NULL, "%s", error.message);
    ck_assert_uint_eq(xct_trainer_class_count(t), 0);
    ck_assert_int_eq(xct_trainer_set_classes(t, animals, 3, &error), XCVM_OK);
    check_classes(t);
    /* The model has them, and so have a program and the model that is made of that model. */
    test_bytes model = {NULL, 0, 0}, program = {NULL, 0, 0}, again = {NULL, 0, 0};
    ck_assert_int_eq(xct_trainer_export(t, (xcvm_sink){test_bytes_sink, &model}, &error), XCVM_OK);
    xct_trainer_destroy(t);
    t = NULL;
    ck_assert_int_eq(xcc_compile(model.at, model.length, NULL, (xcvm_sink){test_bytes_sink, &program}, NULL, &error),
                     XCVM_OK);
    xcvm_program *loaded = NULL;
    ck_assert_int_eq(xcvm_program_load(program.at, program.length, NULL, &loaded, &error), XCVM_OK);
    ck_assert_str_eq(xcvm_program_metadata(loaded, "class_names"), "cat\ndog\nemu");
    ck_assert_str_eq(xcvm_program_metadata(loaded, "class_output"), "scores");
    ck_assert_ptr_null(xcvm_program_metadata(loaded, "nothing"));
    xcvm_program_destroy(loaded);
    ck_assert_int_eq(xct_trainer_create(model.at, model.length, &usual, &t, &error), XCVM_OK);
    check_classes(t);
    /* Other names replace the existing ones; the number of entries stays the same. */
    static const char *const others[] = {"x", "y"};
    ck_assert_int_eq(xct_trainer_set_classes(t, others, 2, &error), XCVM_OK);
    ck_assert_int_eq(xct_trainer_export(t, (xcvm_sink){test_bytes_sink, &again}, &error), XCVM_OK);
    xct_trainer_destroy(t);
    t = NULL;
    ck_assert_int_eq(xct_trainer_create(again.at, again.length, &usual, &t, &error), XCVM_OK);
    ck_assert_uint_eq(xct_trainer_class_count(t), 2);
    ck_assert_str_eq(xct_trainer_class_at(t, 1), "y");
    xct_trainer_destroy(t);
    test_bytes_free(&model);
    test_bytes_free(&program);
    test_bytes_free(&again);
}
END_TEST

static void put_file(const char *name, const test_bytes *bytes)
{
    FILE *file = fopen(in_folder(name), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes->at, 1, bytes->length, file), bytes->length);
    fclose(file);
}

/* Weights are written to a second file, and restored in a model that is written elsewhere. */
START_TEST(in_two_files)
{
    enum { WIDTH = 300 };
    static char text[WIDTH * 8 + 400];
    int length = snprintf(text, sizeof text,
                          "ir 8\nopset 13\ninput x f32[Nx1]\ninput y f32[Nx%d]\noutput loss\ninit b f32[1] 0.5\n"
                          "init w f32[1x%d]",
                          WIDTH, WIDTH);
    for (int i = 0; i < WIDTH; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, " %d", i);
    (void)snprintf(
        text + length, sizeof text - (size_t)length,
        "\np = MatMul(x, w)\nq = Add(p, b)\nd = Sub(q, y)\ns = Mul(d, d)\nloss = ReduceMean(s) keepdims=0\n");
    static const char *const bias[] = {"b"};
    const xcc_options compile = {
        .size = sizeof compile, .train = "sgd:lr=0.1", .gradients.wrt = bias, .gradients.wrt_count = 1};
    const xct_trainer_options options = {.size = sizeof options, .compile = &compile};
    xcvm_error error = {.message = ""};
    test_bytes plain = onnx_from_text(text), model = {NULL, 0, 0}, data = {NULL, 0, 0}, whole = {NULL, 0, 0};
    xct_trainer *t = NULL;
    const xcc_options all = {.size = sizeof all, .train = "sgd:lr=0.1"};
    const xct_trainer_options learn_all = {.size = sizeof learn_all, .compile = &all};
    ck_assert_int_eq(xct_trainer_create(plain.at, plain.length, &learn_all, &t, &error), XCVM_OK);
    ck_assert_msg(xct_trainer_export_external(t, "weights.bin", (xcvm_sink){test_bytes_sink, &model},
                                              (xcvm_sink){test_bytes_sink, &data}, &error) == XCVM_OK,
                  "%s", error.message);
    xct_trainer_destroy(t);
    ck_assert_uint_eq(data.length, WIDTH * sizeof(float));
    ck_assert_uint_lt(model.length, 1000);
    put_file("model.onnx", &model);
    put_file("weights.bin", &data);
    t = NULL;
    ck_assert_msg(xct_trainer_create_file(in_folder("model.onnx"), &options, &t, &error) == XCVM_OK, "%s",
                  error.message);
    ck_assert_int_eq(xct_trainer_export(t, (xcvm_sink){test_bytes_sink, &whole}, &error), XCVM_OK);
    xct_trainer_destroy(t);
    /* A model in memory, which has no other file. */
    t = NULL;
    ck_assert_msg(xct_trainer_create(whole.at, whole.length, &learn_all, &t, &error) == XCVM_OK, "%s", error.message);
    const float *w = xcvm_value_data(parameter(t, "w"));
    for (int i = 0; i < WIDTH; i++)
        ck_assert(w[i] == (float)i);
    xct_trainer_destroy(t);
    test_bytes_free(&plain);
    test_bytes_free(&model);
    test_bytes_free(&data);
    test_bytes_free(&whole);
}
END_TEST

Suite *suite_train_classes(void)
{
    Suite *suite = suite_create("train_classes");
    TCase *tests = tcase_create("classes");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_checked_fixture(tests, NULL, release_models);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, left_out);
    tcase_add_test(tests, names);
    tcase_add_test(tests, in_two_files);
    suite_add_tcase(suite, tests);
    return suite;
}
