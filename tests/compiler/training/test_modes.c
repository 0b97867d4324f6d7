/* Losses that are added, and normalization and dropout in the forms of training and of evaluation. */
#include "compiler/ir/training_form.h"
#include "compiler/ir/compilation.h"
#include "tests/compiler/training/support.h"

static void begin_mode(compilation *c, bool evaluate)
{
    begin_training(c, "sgd");
    c->options.training.evaluate = evaluate;
}

/* ---- Losses ---- */

/* scores = x + w with w = 0, so the gradient of w is that of the loss by x. */
static void scores(xcc_builder *b, int rank, const int64_t *dims)
{
    xcc_value *x = input(b, "x", XCVM_F32, rank, dims), *w = parameter(b, "w", 1, DIMS(1), FLOATS(0));
    xcc_value *y = must(b, xcc_build_add(b, x, w));
    y->name = "scores";
    output(b, y);
}

#define X2                                                                                                             \
    {                                                                                                                  \
        0.5f, -1, 2, 1.5f, 0.25f, -0.5f                                                                                \
    }
#define X3                                                                                                             \
    {                                                                                                                  \
        0.5f, -1, 2, 1.5f, 0.25f, -0.5f, 1.5f, 0.25f, -0.5f, 0.5f, -1, 2                                               \
    }
/* Expected values are PyTorch's. */
static const struct {
    const char *loss, *labels; /* the input's name */
    int rank, label_rank;
    int64_t dims[3], label_dims[3];
    float x[12], floats[6];
    int64_t classes[6];
    xcvm_dtype dtype;
    double expected;
} losses[] = {
    {"softmax_cross_entropy", "labels", 2, 1, {2, 3}, {2}, X2, {0}, {2, 1}, XCVM_I64, 0.92163157},
    {"softmax_cross_entropy(scores,y)", "y", 3, 2, {2, 2, 3}, {2, 3}, X3, {0}, {1, 0, 1, 0, 1, 1}, XCVM_I64, 1.0480268},
    {"token_cross_entropy(,y)", "y", 3, 2, {2, 2, 3}, {2, 2}, X3, {0}, {2, 1, 0, 2}, XCVM_I64, 0.60913157},
    {"nll(scores)", "labels", 2, 1, {2, 3}, {2}, X2, {0}, {2, 1}, XCVM_I64, -1.125},
    {"mse", "labels", 2, 2, {2, 3}, {2, 3}, X2, {0.25f, -1.5f, 4, 0, 0.25f, 1}, {0}, XCVM_F32, 1.46875},
    {"l1", "labels", 2, 2, {2, 3}, {2, 3}, X2, {0.25f, -1.5f, 4, 0, 0.25f, 1}, {0}, XCVM_F32, 0.95833331},
    {"smooth_l1", "labels", 2, 2, {2, 3}, {2, 3}, X2, {0.25f, -1.5f, 4, 0, 0.25f, 1}, {0}, XCVM_F32, 0.609375},
    {"bce",
     "labels",
     2,
     2,
     {2, 3},
     {2, 3},
     {0.5f, 0, 0.9f, 0.25f, 1, 0.125f},
     {1, 0, 0.5f, 0, 1, 0.25f},
     {0},
     XCVM_F32,
     0.4674685},
    {"bce_with_logits", "labels", 2, 2, {2, 3}, {2, 3}, X2, {1, 0, 0.5f, 0, 1, 0.25f}, {0}, XCVM_F32, 0.79844934},
};

START_TEST(every_loss)
{
    compilation c;
    compiled_program k;
    const int64_t *dims = losses[_i].dims;
    begin_mode(&c, false);
    c.options.loss = losses[_i].loss;
    scores(&c.b, losses[_i].rank, dims);
    passes(&c);
    compiled_open(&k, &c);
    ck_assert_str_eq(xcvm_program_input_at(k.program, 1)->name, losses[_i].labels);
    ck_assert_str_eq(xcvm_program_output_at(k.program, 0)->name, "scores");
    ck_assert_str_eq(xcvm_program_output_at(k.program, 1)->name, "loss");
    compiled_set_input(&k, 0, XCVM_F32, losses[_i].rank, dims, losses[_i].x);
    compiled_set_input(&k, 1, losses[_i].dtype, losses[_i].label_rank, losses[_i].label_dims,
                       losses[_i].dtype == XCVM_I64 ? (const void *)losses[_i].classes : losses[_i].floats);
    compiled_set_input(&k, 2, XCVM_F32, 0, NULL, FLOATS(0.5f));
    compiled_run(&k);
    expect_output(&k, 1, 0, NULL, FLOATS((float)losses[_i].expected));
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* The loss that is listed is the loss that there is. */
START_TEST(losses_are_listed)
{
    size_t listed = 0;
    for (; xcc_loss_at(listed) != NULL; listed++) {
        bool tested = false;
        for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
            tested =
                tested || strncmp(losses[i].loss, xcc_loss_at(listed)->name, strlen(xcc_loss_at(listed)->name)) == 0;
        ck_assert_msg(tested, "%s", xcc_loss_at(listed)->name);
    }
    ck_assert_uint_eq(listed, 8);
}
END_TEST

/* An autoencoder's labels are its input. */
START_TEST(labels_that_are_an_input)
{
    compilation c;
    compiled_program k;
    begin_mode(&c, false);
    c.options.loss = "mse(scores,x)";
    xcc_value *x = input(&c.b, "x", XCVM_F32, 1, DIMS(2)), *w = parameter(&c.b, "w", 1, DIMS(1), FLOATS(3));
    xcc_value *y = must(&c.b, xcc_build_mul(&c.b, x, w));
    y->name = "scores";
    output(&c.b, y);
    passes(&c);
    compiled_open(&k, &c);
    ck_assert_uint_eq(xcvm_program_input_count(k.program), 2);
    compiled_set_input(&k, 0, XCVM_F32, 1, DIMS(2), FLOATS(1, 2));
    compiled_set_input(&k, 1, XCVM_F32, 0, NULL, FLOATS(0.1f));
    compiled_run(&k);
    expect_output(&k, 1, 0, NULL, FLOATS(10));
    expect_state(&k, "w", 1, FLOATS(2));
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* ---- Normalization ---- */

static xcc_value *normalize(xcc_builder *b, xcc_value *x, xcc_value *mean, xcc_value *var, int64_t training)
{
    xcc_value *ones = must(b, xcc_constant(b->graph, NULL, XCVM_F32, 1, DIMS(2), FLOATS(1, 1), false));
    return must(b, xcc_apply(b, BatchNormalization, y, .x = XCC_IN(x), .scale = XCC_IN(ones), .b = XCC_IN(ones),
                             .mean = XCC_IN(mean), .var = XCC_IN(var), .epsilon = 0, .momentum = 0.75,
                             .training_mode = training));
}

/* Two normalizations that share their statistics, one after the other, times w. */
static void normalized(xcc_builder *b, int64_t training)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 2)), *w = parameter(b, "w", 0, NULL, FLOATS(1));
    xcc_value *mean = parameter(b, "mean", 1, DIMS(2), FLOATS(0, 4)),
              *var = parameter(b, "var", 1, DIMS(2), FLOATS(1, 4));
    xcc_value *y = normalize(b, normalize(b, x, mean, var, training), mean, var, training);
    output(b, must(b, xcc_build_reduce(b, XCVM_OP_ReduceSum, must(b, xcc_build_mul(b, y, w)), NULL, false)));
}

/* With the statistics that the model has: of channel 0 2 and 6, of channel 1 -1 and 0. */
#define RESTING (2 + 6 - 1 + 0)

/* An output of a normalization keeps its name though the node is replaced. */
START_TEST(normalized_output)
{
    compilation c;
    begin_mode(&c, false);
    c.options.loss = "mse";
    xcc_value *x = input(&c.b, "x", XCVM_F32, 2, DIMS(2, 2)), *w = parameter(&c.b, "w", 0, NULL, FLOATS(1));
    xcc_value *mean = parameter(&c.b, "mean", 1, DIMS(2), FLOATS(0, 4)),
              *var = parameter(&c.b, "var", 1, DIMS(2), FLOATS(1, 4));
    xcc_value *y = normalize(&c.b, must(&c.b, xcc_build_mul(&c.b, x, w)), mean, var, 1);
    y->name = "normal";
    output(&c.b, y);
    passes(&c);
    ck_assert_uint_eq(c.m.graph->output_count, 5);
    ck_assert_str_eq(c.m.graph->output_names[0], "normal");
    finish(&c);
}
END_TEST

static void normalized_once(xcc_builder *b, double momentum)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 2)), *w = parameter(b, "w", 0, NULL, FLOATS(1));
    xcc_value *mean = parameter(b, "mean", 1, DIMS(2), FLOATS(0, 4)),
              *var = parameter(b, "var", 1, DIMS(2), FLOATS(1, 4));
    xcc_value *y = normalize(b, x, mean, var, 0);
    XCC_ARGS(BatchNormalization, y->producer)->momentum = momentum;
    output(b, must(b, xcc_build_reduce(b, XCVM_OP_ReduceSum, must(b, xcc_build_mul(b, y, w)), NULL, false)));
}

static void run_normalized(compiled_program *k, bool learns)
{
    compiled_set_input(k, 0, XCVM_F32, 2, DIMS(2, 2), FLOATS(0, 2, 4, 6));
    if (learns)
        compiled_set_input(k, 1, XCVM_F32, 0, NULL, FLOATS(0));
    compiled_run(k);
}

/* The batch has means 2 and 4 and variances 4. The results of the first have mean 1 and variance 1. The second
 * continues from the statistics that the first has updated. */
START_TEST(running_statistics)
{
    compilation c;
    compiled_program k;
    begin_mode(&c, false);
    c.options.training.train_batch_normalization = _i == 1;
    /* With a single process sums are those of its batch. */
    c.options.training.all_reduce = _i >= 2;
    c.options.training.local_batch_normalization = _i == 3;
    normalized(&c.b, _i != 1);
    passes(&c);
    compiled_open(&k, &c);
    ck_assert_uint_eq(xcvm_program_output_count(k.program), 1);
    /* The number of samples is one message, the loss and all statistics are another. */
    ck_assert_uint_eq(count_in(c.m.graph, XCVM_OP_AllReduce), _i >= 2 ? 2 : 0);
    ck_assert_uint_eq(count_in(c.m.graph, XCVM_OP_SyncBatchNormalization), _i == 2 ? 2 : 0);
    run_normalized(&k, true);
    expect_output(&k, 0, 0, NULL, FLOATS(4));
    expect_state(&k, "mean", 2, FLOATS(0.5f * 0.75f + 0.25f, 4 * 0.75f + 0.25f));
    expect_state(&k, "var", 2, FLOATS(1.75f * 0.75f + 0.25f, 4 * 0.75f + 0.25f));
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Momentum 1 of an export for inference would not change the statistics, so 0.9 is used instead. */
START_TEST(momentum_of_one)
{
    compilation c;
    compiled_program k;
    begin_mode(&c, false);
    c.options.training.train_batch_normalization = true;
    normalized_once(&c.b, 1.0);
    passes(&c);
    compiled_open(&k, &c);
    run_normalized(&k, true);
    expect_state(&k, "mean", 2, FLOATS(0.2f, 4));
    expect_state(&k, "var", 2, FLOATS(1.3f, 4));
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* In the form of inference nothing is stored, as where a model with frozen normalization is fine-tuned. */
START_TEST(statistics_at_rest)
{
    compilation c;
    compiled_program k;
    begin_mode(&c, false);
    normalized(&c.b, 0);
    passes(&c);
    compiled_open(&k, &c);
    ck_assert_uint_eq(xcvm_program_state_count(k.program), 2);
    run_normalized(&k, true);
    expect_output(&k, 0, 0, NULL, FLOATS(RESTING));
    compiled_close(&k);
    finish(&c);
}
END_TEST

START_TEST(evaluation_reads_statistics)
{
    compilation c;
    compiled_program k;
    begin_mode(&c, true);
    c.options.training.train_batch_normalization = _i == 1;
    normalized(&c.b, _i == 0);
    passes(&c);
    compiled_open(&k, &c);
    ck_assert_uint_eq(xcvm_program_input_count(k.program), 1);
    ck_assert_uint_eq(xcvm_program_state_count(k.program), 3);
    run_normalized(&k, false);
    expect_output(&k, 0, 0, NULL, FLOATS(RESTING));
    expect_state(&k, "mean", 2, FLOATS(0, 4));
    compiled_close(&k);
    finish(&c);
}
END_TEST

START_TEST(no_normalization)
{
    compilation c;
    begin_mode(&c, false);
    c.options.training.train_batch_normalization = true;
    c.options.loss = "mse";
    scores(&c.b, 1, DIMS(2));
    ck_assert_int_eq(xcc_passes_run(&c.m), XCVM_UNSUPPORTED);
    ck_assert_msg(strstr(c.error.message, "exporters for inference merge it into convolutions") != NULL, "%s",
                  c.error.message);
    finish(&c);
}
END_TEST

/* ---- Dropout ---- */

static void dropped(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(1000)), *w = parameter(b, "w", 0, NULL, FLOATS(1));
    xcc_value *all = must(b, xcc_build_mul(b, x, w));
    xcc_value *y = must(b, xcc_apply(b, Dropout, y, .x = XCC_IN(all), .ratio = XCC_IN(number(b, 0.5)),
                                     .training_mode = XCC_IN(must(b, xcc_scalar(b->graph, XCVM_BOOL, 1))), .seed = -1));
    output(b, must(b, xcc_build_reduce(b, XCVM_OP_ReduceMax, y, NULL, false)));
}

START_TEST(dropout)
{
    float ones[1000];
    compilation c;
    compiled_program k;
    for (int i = 0; i < 1000; i++)
        ones[i] = 1;
    begin_mode(&c, _i == 1);
    dropped(&c.b);
    passes(&c);
    compiled_open(&k, &c);
    compiled_set_input(&k, 0, XCVM_F32, 1, DIMS(1000), ones);
    if (_i == 0)
        compiled_set_input(&k, 1, XCVM_F32, 0, NULL, FLOATS(0));
    compiled_run(&k);
    expect_output(&k, 0, 0, NULL, FLOATS(_i == 0 ? 2.0f : 1.0f));
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* A graph that was built, not imported, has an inference form, too. */
START_TEST(built_for_inference)
{
    compilation c;
    begin_mode(&c, false);
    c.options.train = NULL;
    c.options.inference = _i == 1;
    normalized(&c.b, 1);
    dropped(&c.b);
    ck_assert_int_eq(xcc_training_form_resolve(&c.m), XCVM_OK);
    ck_assert_uint_eq(c.m.compilation->training_nodes, _i == 1 ? 0 : 3);
    finish(&c);
}
END_TEST

Suite *suite_compiler_modes(void);
Suite *suite_compiler_modes(void)
{
    Suite *suite = suite_create("compiler_modes");
    TCase *added = tcase_create("losses");
    tcase_add_loop_test(added, every_loss, 0, sizeof losses / sizeof *losses);
    tcase_add_test(added, losses_are_listed);
    tcase_add_test(added, labels_that_are_an_input);
    suite_add_tcase(suite, added);
    TCase *forms = tcase_create("forms");
    tcase_add_loop_test(forms, running_statistics, 0, 4);
    tcase_add_test(forms, statistics_at_rest);
    tcase_add_test(forms, momentum_of_one);
    tcase_add_test(forms, normalized_output);
    tcase_add_loop_test(forms, evaluation_reads_statistics, 0, 2);
    tcase_add_test(forms, no_normalization);
    tcase_add_loop_test(forms, dropout, 0, 2);
    tcase_add_loop_test(forms, built_for_inference, 0, 2);
    suite_add_tcase(suite, forms);
    return suite;
}
