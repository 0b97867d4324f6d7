/* Trainers of small models, data for them, and what tests look at. */
#ifndef XCVM_TESTS_TRAIN_TRAINERS_H
#define XCVM_TESTS_TRAIN_TRAINERS_H

#include "tests/compiler/import_onnx/onnx_text.h"
#include "tests/train/folder.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Access to the trainers that `make` has created and owns. */
static test_bytes models[8];
static size_t model_count;

static UNUSED void release_models(void)
{
    while (model_count > 0)
        test_bytes_free(&models[--model_count]);
}

/* Squares of a line's distances: loss = mean((x w + b - y)^2). */
static UNUSED const char line_model[] = "ir 8\nopset 13\ninput x f32[Nx2]\ninput y f32[Nx1]\noutput loss\n"
                                        "init w f32[2x1] 0 0\ninit b f32[1] 0\n"
                                        "p = MatMul(x, w)\nq = Add(p, b)\nd = Sub(q, y)\ns = Mul(d, d)\n"
                                        "loss = ReduceMean(s) keepdims=0\n";
/* The same after a layer with batch normalization. */
static UNUSED const char normal_model[] =
    "ir 8\nopset 13\ninput x f32[Nx2]\ninput y f32[Nx1]\noutput loss\n"
    "init w1 f32[2x4] 0.1 0.2 -0.3 0.4 0.5 -0.6 0.7 0.8\n"
    "init s f32[4] 1 0.5 2 1\ninit o f32[4] 0.25 0 -0.5 1\ninit m f32[4] 0 0 0 0\ninit v f32[4] 1 1 1 1\n"
    "init w2 f32[4x1] 0.3 -0.2 0.5 0.4\n"
    "h = MatMul(x, w1)\nn = BatchNormalization(h, s, o, m, v)\nr = Tanh(n)\np = MatMul(r, w2)\n"
    "d = Sub(p, y)\nq = Mul(d, d)\nloss = ReduceMean(q) keepdims=0\n";
/* The same without loss, with Dropout, for data of any number of examples. */
static UNUSED const char net_model[] =
    "ir 8\nopset 13\ninput x f32[Nx2]\noutput z\n"
    "init w1 f32[2x4] 0.1 0.2 -0.3 0.4 0.5 -0.6 0.7 0.8\ninit b1 f32[4] 0 0.1 0 0\n"
    "init w2 f32[4x1] 0.3 -0.2 0.5 0.4\ninit ratio f32[] 0.25\ninit learning bool[] 1\n"
    "h = MatMul(x, w1)\ni = Add(h, b1)\nr = Relu(i)\nk = Dropout(r, ratio, learning)\n"
    "z = MatMul(k, w2)\n";

static UNUSED xct_trainer *make(const char *text, const xct_trainer_options *options)
{
    xct_trainer *t = NULL;
    xcvm_error error = {.message = ""};
    test_bytes *model = &models[model_count++];
    *model = onnx_from_text(text);
    const xcvm_status status = xct_trainer_create(model->at, model->length, options, &t, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    return t;
}

static UNUSED xcvm_value *tensor(xcvm_dtype dtype, int rank, const int64_t *dims, const void *data)
{
    xcvm_value *value;
    ck_assert_int_eq(xcvm_tensor_create(NULL, dtype, rank, dims, &value, NULL), XCVM_OK);
    memcpy(xcvm_value_data(value), data, xcvm_value_bytes(value));
    return value;
}

static UNUSED void check_floats(const xcvm_value *value, const float *expected, size_t count, float tolerance)
{
    ck_assert_uint_eq(xcvm_value_count(value), count);
    for (size_t i = 0; i < count; i++) {
        const float is = ((const float *)xcvm_value_data(value))[i];
        ck_assert_msg(fabsf(is - expected[i]) <= tolerance, "%zu: %g, not %g", i, (double)is, (double)expected[i]);
    }
}

static UNUSED const xcvm_value *parameter(const xct_trainer *t, const char *name)
{
    for (size_t i = 0; i < xct_trainer_parameter_count(t); i++) {
        const char *own;
        const xcvm_value *value = xct_trainer_parameter_at(t, i, &own);
        if (strcmp(own, name) == 0)
            return value;
    }
    return NULL;
}

/* Examples of y = 2 x0 - x1 + 0.5, or of class 1 if that is above 0.5 and else 0; 37 of them, as a safetensors file. */
static UNUSED void write_examples(bool classes)
{
    enum { ROWS = 37 };
    float x[ROWS * 2], y[ROWS];
    for (int i = 0; i < ROWS; i++) {
        x[2 * i] = (float)(i * 7 % 11) / 11 - 0.5F;
        x[2 * i + 1] = (float)(i * 5 % 13) / 13 - 0.5F;
        y[i] = 2 * x[2 * i] - x[2 * i + 1] + 0.5F;
        if (classes)
            y[i] = y[i] > 0.5F;
    }
    const xcvm_safetensor tensors[] = {
        {.name = "x", .dtype = XCVM_F32, .rank = 2, .dims = {ROWS, 2}, .data = x, .bytes = sizeof x},
        {.name = "y", .dtype = XCVM_F32, .rank = 2, .dims = {ROWS, 1}, .data = y, .bytes = sizeof y}};
    test_bytes bytes = {NULL, 0, 0};
    ck_assert_int_eq(xcvm_safetensors_write(tensors, 2, NULL, 0, NULL, (xcvm_sink){test_bytes_sink, &bytes}, NULL),
                     XCVM_OK);
    FILE *file = fopen(in_folder("data.safetensors"), "wb");
    ck_assert_uint_eq(fwrite(bytes.at, 1, bytes.length, file), bytes.length);
    ck_assert_int_eq(fclose(file), 0);
    test_bytes_free(&bytes);
}

static UNUSED void write_data(void) { write_examples(false); }

static UNUSED xct_fit_report fit(xct_trainer *t, const xct_fit_options *options, xcvm_status expected,
                                 const char *message)
{
    const char *paths[] = {in_folder("data.safetensors")};
    xct_dataset *data;
    xct_fit_report report = {.size = sizeof report};
    xcvm_error error = {.message = ""};
    ck_assert_msg(xct_dataset_create(t, paths, 1, NULL, 0, &data, &error) == XCVM_OK, "%s", error.message);
    const xcvm_status status = xct_trainer_fit(t, data, options, &report, &error);
    ck_assert_msg(status == expected && strstr(error.message, message) != NULL, "%d: %s", status, error.message);
    xct_dataset_destroy(data);
    return report;
}

static UNUSED void check_same(const xct_trainer *a, const xct_trainer *b)
{
    for (size_t i = 0; i < xcvm_program_state_count(a->root.program); i++) {
        const xcvm_value *of_a = xcvm_session_get_state(a->root.session, i),
                         *of_b = xcvm_session_get_state(b->root.session, i);
        ck_assert_uint_eq(xcvm_value_bytes(of_a), xcvm_value_bytes(of_b));
        ck_assert_msg(memcmp(xcvm_value_data(of_a), xcvm_value_data(of_b), xcvm_value_bytes(of_a)) == 0, "%s",
                      xcvm_program_state_at(a->root.program, i)->name);
    }
}

#endif
