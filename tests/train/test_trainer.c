/* Trainers: steps, parameters, exports, checkpoints, and the loop over data. */
#include "tests/suites.h"
#include "tests/train/trainers.h"
#include "train/checkpoint.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

START_TEST(one_step)
{
    const xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.1"};
    xct_trainer *t = make(line_model, &(xct_trainer_options){.size = sizeof(xct_trainer_options), .compile = &compile});
    ck_assert_uint_eq(xct_trainer_input_count(t), 2);
    ck_assert_str_eq(xct_trainer_input_at(t, 1)->name, "y");
    ck_assert_uint_eq(xct_trainer_parameter_count(t), 2);
    xcvm_value *x = tensor(XCVM_F32, 2, (int64_t[]){2, 2}, (float[]){1, 2, 3, 4});
    xcvm_value *y = tensor(XCVM_F32, 2, (int64_t[]){2, 1}, (float[]){1, 2});
    const xcvm_value *batch[] = {x, y};
    xct_result result = {.size = sizeof result};
    xcvm_error error = {.message = ""};
    ck_assert_msg(xct_trainer_step(t, batch, NULL, &result, &error) == XCVM_OK, "%s", error.message);
    ck_assert(result.loss == 2.5 && result.examples == 2 && isnan(result.loss_error));
    /* dw = mean(2 d x): -(1*1 + 2*3) and -(1*2 + 2*4); db = -3. */
    check_floats(parameter(t, "w"), (float[]){0.7F, 1.0F}, 2, 1e-6F);
    check_floats(parameter(t, "b"), (float[]){0.3F}, 1, 1e-6F);
    ck_assert_uint_eq(xct_trainer_step_count(t), 1);
    /* Evaluation reads the same parameters and changes none. */
    ck_assert_msg(xct_trainer_evaluate(t, batch, &result, &error) == XCVM_OK, "%s", error.message);
    ck_assert_msg(fabs(result.loss - (4.0 + 19.36) / 2) < 1e-4, "%g", result.loss);
    check_floats(parameter(t, "w"), (float[]){0.7F, 1.0F}, 2, 1e-6F);
    /* Half the rate. */
    xcvm_value *zero = tensor(XCVM_F32, 2, (int64_t[]){2, 1}, (float[]){0, 0});
    ck_assert_int_eq(xct_trainer_set_parameter(t, "w", zero, &error), XCVM_OK);
    ck_assert_int_eq(xct_trainer_set_parameter(t, "v", zero, &error), XCVM_INVALID_ARGUMENT);
    const xct_step_options half = {.size = sizeof half, .rate_factor = 0.5};
    ck_assert_int_eq(xct_trainer_step(t, batch, &half, NULL, &error), XCVM_OK);
    check_floats(parameter(t, "w"), (float[]){(0.7F + 1.7F * 3) * 0.05F, (0.7F * 2 + 1.7F * 4) * 0.05F}, 2, 1e-5F);
    xcvm_value_release(x);
    xcvm_value_release(y);
    xcvm_value_release(zero);
    xct_trainer_destroy(t);
}
END_TEST

/* Programs for the sizes of a batch recompute, whether the model is of one size or of any, and learn the same bits. */
START_TEST(recomputation)
{
    static const char *const sizes[] = {"N", "4"}, *const methods[] = {NULL, "none", "time", "custom:b"};
    float numbers[8], first[4];
    for (size_t i = 0; i < 8; i++)
        numbers[i] = (float)i * 0.25F - 1;
    xcvm_value *x = tensor(XCVM_F32, 2, (int64_t[]){4, 2}, numbers);
    const xcvm_value *batch[] = {x};
    for (size_t i = 0; i < 8; i++) {
        char text[600];
        (void)snprintf(text, sizeof text,
                       "ir 8\nopset 13\ninput x f32[%sx2]\noutput loss\ninit w f32[2x2] 0.5 -0.25 1 0.75\n"
                       "a = MatMul(x, w)\nb = Tanh(a)\nc = Exp(b)\nd = Sin(c)\ne = Mul(d, b)\n"
                       "loss = ReduceMean(e) keepdims=0\n",
                       sizes[i / 4]);
        xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.1", .recompute.method = methods[i % 4]};
        const xct_trainer_options options = {.size = sizeof options, .compile = &compile};
        xct_trainer *t = make(text, &options);
        xcvm_error error = {.message = ""};
        for (int step = 0; step < 3; step++)
            ck_assert_msg(xct_trainer_step(t, batch, NULL, NULL, &error) == XCVM_OK, "%s", error.message);
        const float *w = xcvm_value_data(parameter(t, "w"));
        if (i == 0)
            memcpy(first, w, sizeof first);
        ck_assert_mem_eq(w, first, sizeof first);
        ck_assert_int_eq(xct_trainer_evaluate(t, batch, NULL, &error), XCVM_OK);
        xct_trainer_destroy(t);
        if (i % 4 != 2)
            continue;
        /* A budget that no plan keeps is refused as soon as the sizes are known. */
        compile.recompute.memory_budget = 1;
        t = NULL;
        xcvm_status status =
            xct_trainer_create(models[model_count - 1].at, models[model_count - 1].length, &options, &t, &error);
        ck_assert_int_eq(status, i / 4 == 0 ? XCVM_OK : XCVM_OUT_OF_MEMORY);
        if (status == XCVM_OK)
            ck_assert_int_eq(xct_trainer_step(t, batch, NULL, NULL, &error), XCVM_OUT_OF_MEMORY);
        xct_trainer_destroy(t);
    }
    xcvm_value_release(x);
}
END_TEST

START_TEST(sizes_of_batches)
{
    const xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.01"};
    xct_trainer *t = make(line_model, &(xct_trainer_options){.size = sizeof(xct_trainer_options), .compile = &compile});
    float numbers[10] = {0};
    for (int64_t n = 1; n <= 5; n++)
        for (int again = 0; again < 2; again++) {
            xcvm_value *x = tensor(XCVM_F32, 2, (int64_t[]){n, 2}, numbers);
            xcvm_value *y = tensor(XCVM_F32, 2, (int64_t[]){n, 1}, numbers);
            xct_result result = {.size = sizeof result};
            xcvm_error error = {.message = ""};
            ck_assert_msg(xct_trainer_step(t, (const xcvm_value *[]){x, y}, NULL, &result, &error) == XCVM_OK, "%s",
                          error.message);
            ck_assert_uint_eq(result.examples, (uint64_t)n);
            xcvm_value_release(x);
            xcvm_value_release(y);
        }
    ck_assert_uint_eq(xct_trainer_step_count(t), 10);
    xct_trainer_destroy(t);
}
END_TEST

/* After the first steps nothing is allocated. */
START_TEST(steps_do_not_grow)
{
    test_allocator a;
    test_allocator_start(&a, 0);
    const xcc_options compile = {.size = sizeof compile,
                                 .train = "adam:lr=0.001",
                                 .loss = "mse",
                                 .training.clip_norm = 1,
                                 .allocator = &a.allocator};
    static const char *const metrics[] = {"mae", "mse"};
    xct_trainer *t = make(net_model, &(xct_trainer_options){.size = sizeof(xct_trainer_options),
                                                            .compile = &compile,
                                                            .label = "y",
                                                            .threads = 1,
                                                            .metrics = metrics,
                                                            .metric_count = 2});
    xcvm_value *x = tensor(XCVM_F32, 2, (int64_t[]){4, 2}, (float[]){1, 2, 3, 4, 5, 6, 7, 8});
    xcvm_value *y = tensor(XCVM_F32, 2, (int64_t[]){4, 1}, (float[]){1, 2, 3, 4});
    const xcvm_value *batch[] = {x, y};
    size_t requests = 0;
    for (int step = 0; step < 10000; step++) {
        xct_result result = {.size = sizeof result};
        ck_assert_int_eq(xct_trainer_step(t, batch, NULL, &result, NULL), XCVM_OK);
        ck_assert(isfinite(result.gradient_norm) && result.metric_count == 2);
        if (step == 2)
            requests = a.requests;
    }
    ck_assert_uint_eq(a.requests, requests);
    xcvm_value_release(x);
    xcvm_value_release(y);
    xct_trainer_destroy(t);
    ck_assert_uint_eq(a.live, 0);
}
END_TEST

/* Whichever request fails, nothing is lost or leaked. */
START_TEST(without_memory)
{
    test_bytes model = onnx_from_text(line_model);
    xcvm_value *x = tensor(XCVM_F32, 2, (int64_t[]){2, 2}, (float[]){1, 2, 3, 4});
    xcvm_value *y = tensor(XCVM_F32, 2, (int64_t[]){2, 1}, (float[]){1, 2});
    const xcvm_value *batch[] = {x, y};
    size_t step = 1;
    for (size_t fail_at = 1;; fail_at += step) {
        test_allocator a;
        test_allocator_start(&a, fail_at);
        const xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.1", .allocator = &a.allocator};
        const xct_trainer_options options = {.size = sizeof options, .compile = &compile, .threads = 1, .init = "he"};
        xct_trainer *t = NULL;
        xcvm_error error = {.message = ""};
        xcvm_status status = xct_trainer_create(model.at, model.length, &options, &t, &error);
        if (status == XCVM_OK)
            status = xct_trainer_step(t, batch, NULL, NULL, &error);
        xct_trainer_destroy(t);
        ck_assert_uint_eq(a.live, 0);
        if (status == XCVM_OK)
            break;
        ck_assert_msg(status == XCVM_OUT_OF_MEMORY, "request %zu: %d, %s", fail_at, status, error.message);
        step = 1 + fail_at / 40;
    }
    test_bytes_free(&model);
    xcvm_value_release(x);
    xcvm_value_release(y);
}
END_TEST

START_TEST(not_finite)
{
    const xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.1"};
    xct_trainer *t = make("ir 8\nopset 13\ninput x f32[2]\noutput loss\ninit w f32[2] 1 1\n"
                          "p = Mul(x, w)\nl = Log(p)\nloss = ReduceSum(l) keepdims=0\n",
                          &(xct_trainer_options){.size = sizeof(xct_trainer_options), .compile = &compile});
    xcvm_value *x = tensor(XCVM_F32, 1, (int64_t[]){2}, (float[]){1, -1});
    xcvm_error error = {.message = ""};
    ck_assert_int_eq(xct_trainer_step(t, (const xcvm_value *[]){x}, NULL, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "step 1: the loss is not finite; the first number that is NaN was made by") &&
                      strstr(error.message, "Log"),
                  "%s", error.message);
    check_floats(parameter(t, "w"), (float[]){1, 1}, 2, 0);
    ((float *)xcvm_value_data(x))[1] = 0;
    ck_assert_int_eq(xct_trainer_step(t, (const xcvm_value *[]){x}, NULL, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "infinite was made by") && strstr(error.message, "Log"), "%s", error.message);
    check_floats(parameter(t, "w"), (float[]){1, 1}, 2, 0);
    xcvm_value_release(x);
    xct_trainer_destroy(t);
}
END_TEST

static void take_plan(void *user, const xcc_report *report) { *(xcc_report *)user = *report; }

/* The planned effect of recomputation is reported, and equals that of a step. */
START_TEST(planned_memory)
{
    static const char model[] = "ir 8\nopset 13\ninput x f32[Nx256]\noutput loss\ninit w f32[1] 0.5\n"
                                "a = Mul(x, w)\nb = Tanh(a)\nc = Exp(b)\nd = Sin(c)\ne = Mul(d, b)\nf = Tanh(e)\n"
                                "g = Exp(f)\nh = Sin(g)\ni = Mul(h, f)\nloss = ReduceMean(i) keepdims=0\n";
    static float numbers[512 * 256];
    xcvm_value *x = tensor(XCVM_F32, 2, (int64_t[]){512, 256}, numbers);
    const xcvm_value *batch[] = {x};
    for (int i = 0; i < 2; i++) {
        xcc_report report = {.size = 0};
        const xcc_options compile = {
            .size = sizeof compile, .train = "sgd:lr=0.1", .recompute.method = i == 0 ? NULL : "time"};
        const xct_trainer_options options = {
            .size = sizeof options, .compile = &compile, .threads = 1, .planned = {take_plan, &report}};
        xct_trainer *t = make(model, &options);
        xcvm_error error = {.message = ""};
        ck_assert_msg(xct_trainer_step(t, batch, NULL, NULL, &error) == XCVM_OK, "%s", error.message);
        if (i == 1) {
            xcvm_memory_info memory = {.size = sizeof memory};
            xcvm_session_get_memory_info(t->learn[0].session, &memory);
            ck_assert_uint_lt(report.arena_bytes, report.recompute_peak_before);
            ck_assert_msg(fabs((double)memory.peak_bytes / (double)report.arena_bytes - 1) < 0.05,
                          "%zu bytes, %zu were planned", (size_t)memory.peak_bytes, (size_t)report.arena_bytes);
        }
        ck_assert_uint_eq(report.size, i == 0 ? 0 : sizeof report);
        xct_trainer_destroy(t);
    }
    xcvm_value_release(x);
}
END_TEST

/* ---- The loop ---- */

static const xcc_options net_compile = {.size = sizeof net_compile, .train = "adam:lr=0.01", .loss = "mse"};
static const xct_trainer_options net_options = {
    .size = sizeof net_options, .compile = &net_compile, .label = "y", .seed = 9};

static void stop_at(void *user, const xct_progress *progress)
{
    if (progress->step == 7)
        xct_trainer_stop(user);
}

START_TEST(learns_a_line)
{
    write_data();
    const xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.2"};
    xct_trainer *t = make(line_model, &(xct_trainer_options){.size = sizeof(xct_trainer_options), .compile = &compile});
    const xct_fit_options options = {.size = sizeof options, .epochs = 200, .batch = 8};
    const xct_fit_report report = fit(t, &options, XCVM_OK, "");
    ck_assert_uint_eq(report.steps, 1000);
    ck_assert_int_eq(report.end, XCT_END_DONE);
    ck_assert_msg(report.training.loss < 1e-4, "%g", report.training.loss);
    check_floats(parameter(t, "w"), (float[]){2, -1}, 2, 0.02F);
    check_floats(parameter(t, "b"), (float[]){0.5F}, 1, 0.01F);
    xct_trainer_destroy(t);
}
END_TEST

/* Stopped in the middle of an epoch and resumed by another trainer, with Dropout, a plateau and validation: the same
 * bits as without an interruption. */
START_TEST(resumed_bits)
{
    write_data();
    xct_fit_options options = {.size = sizeof options,
                               .epochs = 6,
                               .batch = 8,
                               .held_out = 0.2,
                               .schedule = "plateau:patience=0,factor=0.5",
                               .checkpoint_every = 3,
                               .keep = 2};
    xct_trainer *whole = make(net_model, &net_options), *first = make(net_model, &net_options),
                *second = make(net_model, &net_options);
    const xct_fit_report all = fit(whole, &options, XCVM_OK, "");
    options.checkpoints = in_folder("saved");
    options.resume = true;
    fit(first, &options, XCVM_INVALID_ARGUMENT, "there is no such folder, so there is nothing to resume");
    ck_assert_int_ne(access(options.checkpoints, F_OK), 0);
    options.resume = false;
    options.progress.call = stop_at;
    options.progress.user = first;
    const xct_fit_report stopped = fit(first, &options, XCVM_OK, "");
    ck_assert_int_eq(stopped.end, XCT_END_STOPPED);
    ck_assert_uint_eq(stopped.steps, 7);
    ck_assert_ptr_nonnull(strstr(stopped.checkpoint, "step-000000000007.safetensors"));
    options.progress.call = NULL;
    fit(second, &options, XCVM_INVALID_ARGUMENT, "has checkpoints of an earlier training");
    options.resume = true;
    const xct_fit_report rest = fit(second, &options, XCVM_OK, "");
    ck_assert_uint_eq(rest.steps, all.steps);
    ck_assert(rest.validation.loss == all.validation.loss);
    check_same(whole, second);
    /* The two latest checkpoints remain. */
    char path[XCT_PATH];
    ck_assert_int_eq(xct_checkpoints_latest(options.checkpoints, path, NULL), XCVM_OK);
    ck_assert_ptr_nonnull(strstr(path, "step-000000000024"));
    ck_assert_int_eq(access(path, R_OK), 0);
    ck_assert_int_ne(access(in_folder("saved/step-000000000018.safetensors"), R_OK), 0);
    xct_trainer_destroy(whole);
    xct_trainer_destroy(first);
    xct_trainer_destroy(second);
}
END_TEST

/* The means that progress gave of whole epochs and of a part of one. */
typedef struct seen_means {
    xct_trainer *trainer;
    uint64_t stop_at; /* a step */
    double losses;    /* of steps, times examples */
    xct_result whole, part;
    size_t wholes, parts;
} seen_means;

static void note_means(void *user, const xct_progress *progress)
{
    seen_means *t = user;
    if (progress->training == NULL)
        t->losses += progress->batch->loss * (double)progress->batch->examples;
    else if (progress->epoch_ends)
        t->whole = *progress->training;
    else
        t->part = *progress->training;
    t->wholes += progress->epoch_ends;
    t->parts += progress->training != NULL && !progress->epoch_ends;
    if (progress->step == t->stop_at)
        xct_trainer_stop(t->trainer);
}

/* The means of an epoch are of all its steps, also of those before a resumption; and those of a training that is
 * stopped, of the steps it took. */
START_TEST(means_of_epochs)
{
    static const char *const metrics[][2] = {{"mae", "mse"}, {"accuracy", "f1"}};
    const xcc_options compile = {
        .size = sizeof compile, .train = "adam:lr=0.01", .loss = _i == 0 ? "mse" : "bce_with_logits"};
    xct_trainer_options trainer = net_options;
    trainer.compile = &compile;
    trainer.metrics = metrics[_i];
    trainer.metric_count = 2;
    write_examples(_i == 1);
    xct_fit_options options = {.size = sizeof options, .epochs = 1, .batch = 8, .progress.call = note_means};
    seen_means of[3] = {{.trainer = NULL}};
    for (size_t i = 0; i < 3; i++)
        of[i].trainer = make(net_model, &trainer);
    options.progress.user = &of[0];
    fit(of[0].trainer, &options, XCVM_OK, "");
    ck_assert_uint_eq(of[0].wholes, 1);
    ck_assert_uint_eq(of[0].parts, 0);
    ck_assert_uint_eq(of[0].whole.examples, 37);

    of[1].stop_at = 3;
    options.progress.user = &of[1];
    options.checkpoints = in_folder("saved");
    const xct_fit_report stopped = fit(of[1].trainer, &options, XCVM_OK, "");
    ck_assert_int_eq(stopped.end, XCT_END_STOPPED);
    ck_assert_uint_eq(of[1].wholes, 0);
    ck_assert_uint_eq(of[1].parts, 1);
    ck_assert_uint_eq(of[1].part.examples, 24);
    ck_assert_msg(fabs(of[1].part.loss - of[1].losses / 24) < 1e-12, "%g", of[1].part.loss);
    ck_assert(stopped.training.loss == of[1].part.loss && stopped.training.examples == 24);

    options.progress.user = &of[2];
    options.resume = true;
    const xct_fit_report rest = fit(of[2].trainer, &options, XCVM_OK, "");
    ck_assert_uint_eq(of[2].wholes, 1);
    ck_assert_mem_eq(&of[2].whole, &of[0].whole, sizeof of[0].whole);
    ck_assert(rest.training.loss == of[0].whole.loss && rest.training.examples == 37);
    for (size_t i = 0; i < 3; i++)
        xct_trainer_destroy(of[i].trainer);
}
END_TEST

START_TEST(checkpoints_refused)
{
    write_data();
    xct_trainer *t = make(net_model, &net_options);
    xct_fit_options options = {.size = sizeof options, .steps = 3, .batch = 8, .checkpoints = in_folder("saved")};
    const xct_fit_report report = fit(t, &options, XCVM_OK, "");
    options.resume = true;
    options.batch = 4;
    fit(t, &options, XCVM_INVALID_ARGUMENT, "of a training with batches of 8 examples, this one has batches of 4");
    options.batch = 8;
    xcvm_error error;
    test_bytes bytes = test_file_read(report.checkpoint);
    static const struct {
        size_t change, cut; /* a byte from the end, and how many are left out */
        const char *message;
    } rows[] = {{1, 0, "its check sum is wrong"}, {0, 1, "it is at bytes "}, {0, 100000, "not a safetensors"}};
    for (size_t i = 0; i < 3; i++) {
        const size_t count = rows[i].cut < bytes.length ? bytes.length - rows[i].cut : 0;
        FILE *file = fopen(report.checkpoint, "wb");
        bytes.at[bytes.length - rows[i].change - (rows[i].change == 0)] ^= rows[i].change != 0;
        ck_assert_uint_eq(fwrite(bytes.at, 1, count, file), count);
        ck_assert_int_eq(fclose(file), 0);
        bytes.at[bytes.length - rows[i].change - (rows[i].change == 0)] ^= rows[i].change != 0;
        fit(t, &options, XCVM_INVALID_ARGUMENT, rows[i].message);
    }
    /* Checkpoints of another optimizer and of another seed, and a missing checkpoint. */
    FILE *file = fopen(report.checkpoint, "wb");
    ck_assert_uint_eq(fwrite(bytes.at, 1, bytes.length, file), bytes.length);
    ck_assert_int_eq(fclose(file), 0);
    const xcc_options sgd = {.size = sizeof sgd, .train = "sgd:lr=0.01", .loss = "mse"};
    xct_trainer_options other = net_options;
    other.compile = &sgd;
    xct_trainer *of_sgd = make(net_model, &other);
    ck_assert_int_eq(xct_trainer_load(of_sgd, report.checkpoint, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "of another model or optimizer") != NULL, "%s", error.message);
    other = net_options;
    other.seed = 10;
    xct_trainer *of_seed = make(net_model, &other);
    ck_assert_int_eq(xct_trainer_load(of_seed, report.checkpoint, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "seed 9, not 10") != NULL, "%s", error.message);
    ck_assert_int_eq(xct_trainer_load(t, in_folder("data.safetensors"), &error), XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "it is no checkpoint") != NULL, "%s", error.message);
    /* A checkpoint at the end of the data, restored by hand. */
    ck_assert_int_eq(xct_trainer_load(t, report.checkpoint, &error), XCVM_OK);
    t->position.place = 1000;
    options.checkpoints = NULL;
    options.resume = false;
    fit(t, &options, XCVM_INVALID_ARGUMENT, "stands behind 1000 examples");
    ck_assert_int_eq(xct_trainer_save(t, in_folder("nowhere/x"), &error), XCVM_IO);
    test_bytes_free(&bytes);
    xct_trainer_destroy(t);
    xct_trainer_destroy(of_sgd);
    xct_trainer_destroy(of_seed);
}
END_TEST

static void write_bytes(const char *path, const test_bytes *bytes)
{
    FILE *file = fopen(path, "wb");
    ck_assert_uint_eq(fwrite(bytes->at, 1, bytes->length, file), bytes->length);
    ck_assert_int_eq(fclose(file), 0);
}

/* The check sum includes the position of the training. With a valid check sum the numbers must still be consistent. */
START_TEST(positions_refused)
{
    write_data();
    xct_trainer *t = make(net_model, &net_options);
    xct_fit_options options = {.size = sizeof options, .steps = 3, .batch = 8, .checkpoints = in_folder("saved")};
    const xct_fit_report report = fit(t, &options, XCVM_OK, "");
    options.resume = true;
    test_bytes bytes = test_file_read(report.checkpoint);
    static const struct {
        const char *note, *changed;
        xcvm_status status;
        const char *message;
    } notes[] = {{"\"step\":\"3\"", "\"step\":\"4\"", XCVM_INVALID_ARGUMENT, "its check sum is wrong"},
                 {"\"place\":\"24\"", "\"place\":\"16\"", XCVM_INVALID_ARGUMENT, "its check sum is wrong"},
                 {"\"batch\":\"8\"", "\"batch\":\"0\"", XCVM_INVALID_ARGUMENT, "its check sum is wrong"},
                 {"_checkpoint\":\"4\"", "_checkpoint\":\"2\"", XCVM_UNSUPPORTED, "version 2 (4 can be read)"}};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        char *at = memmem(bytes.at, bytes.length, notes[i].note, strlen(notes[i].note));
        ck_assert_ptr_nonnull(at);
        memcpy(at, notes[i].changed, strlen(notes[i].changed));
        write_bytes(report.checkpoint, &bytes);
        memcpy(at, notes[i].note, strlen(notes[i].note));
        fit(t, &options, notes[i].status, notes[i].message);
    }
    const xct_position right = t->position;
    xct_position wrong[5] = {right, right, right, right, right};
    wrong[0].step = 4;
    wrong[1].epoch = 1;
    wrong[2].place = 16;
    wrong[3].best_step = 9;
    wrong[4].factor = (double)NAN;
    const xct_measure sums = t->epoch;
    for (size_t i = 0; i < 11; i++) {
        t->position = i < 5 ? wrong[i] : right;
        t->epoch = sums;
        if (i == 5)
            t->epoch.loss = (double)INFINITY;
        else if (i > 5)
            *(double *[]){&t->epoch.examples, &t->epoch.predicted, &t->epoch.right, &t->epoch.right5,
                          &t->epoch.batches}[i - 6] = (double[]){1e300, 0.5, 1, (double)NAN, -1}[i - 6];
        ck_assert_int_eq(xct_trainer_save(t, report.checkpoint, NULL), XCVM_OK);
        fit(t, &options, XCVM_INVALID_ARGUMENT,
            i == 0 ? "its name is of step 3, it is of step 4" : "no training stands behind 3 steps");
    }
    write_bytes(report.checkpoint, &bytes);
    options.steps = 12;
    ck_assert_uint_eq(fit(t, &options, XCVM_OK, "").steps, 12);
    test_bytes_free(&bytes);
    xct_trainer_destroy(t);
}
END_TEST

/* However many are too many, the latest alone stay. */
START_TEST(many_checkpoints)
{
    write_data();
    xct_trainer *t = make(net_model, &net_options);
    const xct_fit_options options = {.size = sizeof options, .steps = 1, .batch = 8, .checkpoints = in_folder("saved")};
    const xct_fit_report report = fit(t, &options, XCVM_OK, "");
    for (int i = 2; i < 3000; i++) {
        char name[64];
        snprintf(name, sizeof name, "saved/step-%012d.safetensors", i);
        ck_assert_int_eq(link(report.checkpoint, in_folder(name)), 0);
    }
    char path[XCT_PATH];
    t->position.step = 3000;
    ck_assert_int_eq(xct_checkpoints_write(t, in_folder("saved"), 2, path, NULL), XCVM_OK);
    ck_assert_int_eq(access(in_folder("saved/step-000000003000.safetensors"), R_OK), 0);
    ck_assert_int_eq(access(in_folder("saved/step-000000002999.safetensors"), R_OK), 0);
    ck_assert_str_eq(path, in_folder("saved/step-000000003000.safetensors"));
    /* No other model is accepted. */
    DIR *saved = opendir(in_folder("saved"));
    ck_assert_ptr_nonnull(saved);
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(saved)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(saved);
    ck_assert_uint_eq(count, 2);
    xct_trainer_destroy(t);
}
END_TEST

/* Files of the data stay as they are. */
START_TEST(targets_refused)
{
    write_data();
    xct_trainer *t = make(net_model, &net_options);
    test_bytes before = test_file_read(in_folder("data.safetensors"));
    ck_assert_int_eq(symlink(in_folder("data.safetensors"), in_folder("link.csv")), 0);
    const xct_fit_options log = {.size = sizeof log, .log = in_folder("link.csv")};
    fit(t, &log, XCVM_INVALID_ARGUMENT, "link.csv is a file of the data; the log wants one of its own");
    const xct_fit_options curve = {.size = sizeof curve, .curve = in_folder("data.safetensors")};
    fit(t, &curve, XCVM_INVALID_ARGUMENT, "the curve wants one of its own");
    test_bytes after = test_file_read(in_folder("data.safetensors"));
    ck_assert_uint_eq(before.length, after.length);
    ck_assert_mem_eq(before.at, after.at, after.length);
    test_bytes_free(&before);
    test_bytes_free(&after);
    xct_trainer_destroy(t);
}
END_TEST

START_TEST(log_and_curve)
{
    write_data();
    xct_trainer *t = make(net_model, &net_options);
    const xct_fit_options options = {.size = sizeof options,
                                     .epochs = 2,
                                     .batch = 16,
                                     .held_out = 0.1,
                                     .log = in_folder("log.csv"),
                                     .curve = in_folder("curve.svg"),
                                     .title = "<a & b>"};
    fit(t, &options, XCVM_OK, "");
    test_bytes log = test_file_read(options.log), curve = test_file_read(options.curve);
    size_t lines = 0;
    for (size_t i = 0; i < log.length; i++)
        lines += log.at[i] == '\n';
    ck_assert_uint_eq(lines, 7);
    ck_assert_int_eq(strncmp(log.at, "step,epoch,loss,validation_loss,learning_rate\n1,1,", 50), 0);
    ck_assert_ptr_nonnull(memmem(curve.at, curve.length, "&lt;a &amp; b>", 14));
    ck_assert_ptr_nonnull(memmem(curve.at, curve.length, "</svg>\n", 7));
    test_bytes_free(&log);
    test_bytes_free(&curve);
    xct_trainer_destroy(t);
}
END_TEST

START_TEST(fit_refused)
{
    write_data();
    xct_trainer *t = make(net_model, &net_options);
    const xct_fit_options large = {.size = sizeof large, .batch = 100};
    fit(t, &large, XCVM_INVALID_ARGUMENT, "a batch of 100 examples is larger than the data set, which has 37");
    const xct_fit_options schedule = {.size = sizeof schedule, .schedule = "sine"};
    fit(t, &schedule, XCVM_INVALID_ARGUMENT, "there is no schedule \"sine\"");
    const xct_fit_options gather = {.size = sizeof gather, .accumulate = 2};
    fit(t, &gather, XCVM_INVALID_ARGUMENT, "accumulate");
    const xct_fit_options share = {.size = sizeof share, .held_out = 1};
    fit(t, &share, XCVM_INVALID_ARGUMENT, "from 0 to below 1");
    xct_trainer_destroy(t);
    static const struct {
        xcc_options compile;
        const char *label, *metric, *init;
        const char *message;
    } rows[] = {
        {{.train = "adm", .loss = "mse"}, "y", "mse", NULL, "adm"},
        {{.train = "adam:rate=1", .loss = "mse"}, "y", "mse", NULL, "rate"},
        {{.train = "adam", .loss = "mse"}, "y", "accuracy", NULL, "accuracy cannot be measured"},
        {{.train = "adam", .loss = "mse"}, "y", "auc", NULL, "there is no metric \"auc\""},
        {{.train = "adam", .loss = "mse"}, "y", "mse", "xavier", "there is no way \"xavier\""},
        {{.train = "adam", .loss = "mean"}, "y", "mse", NULL, "mean"},
        {{.train = "adam"}, "q", "mse", NULL, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        xcc_options compile = rows[i].compile;
        compile.size = sizeof compile;
        const xct_trainer_options options = {.size = sizeof options,
                                             .compile = &compile,
                                             .label = rows[i].label,
                                             .metrics = &rows[i].metric,
                                             .metric_count = 1,
                                             .init = rows[i].init};
        test_bytes model = onnx_from_text(net_model);
        xcvm_error error = {.message = ""};
        ck_assert_int_ne(xct_trainer_create(model.at, model.length, &options, &t, &error), XCVM_OK);
        ck_assert_msg(strstr(error.message, rows[i].message) != NULL, "row %zu: %s", i, error.message);
        test_bytes_free(&model);
    }
}
END_TEST

Suite *suite_train_trainer(void)
{
    Suite *suite = suite_create("train_trainer");
    TCase *tests = tcase_create("trainer");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_checked_fixture(tests, NULL, release_models);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, one_step);
    tcase_add_test(tests, recomputation);
    tcase_add_test(tests, planned_memory);
    tcase_add_test(tests, sizes_of_batches);
    tcase_add_test(tests, steps_do_not_grow);
    tcase_add_test(tests, without_memory);
    tcase_add_test(tests, not_finite);
    tcase_add_test(tests, learns_a_line);
    tcase_add_test(tests, resumed_bits);
    tcase_add_loop_test(tests, means_of_epochs, 0, 2);
    tcase_add_test(tests, checkpoints_refused);
    tcase_add_test(tests, positions_refused);
    tcase_add_test(tests, many_checkpoints);
    tcase_add_test(tests, targets_refused);
    tcase_add_test(tests, log_and_curve);
    tcase_add_test(tests, fit_refused);
    suite_add_tcase(suite, tests);
    return suite;
}
