/* Tests of layers against PyTorch, and of DyNet's functions. */
#include "tests/tape/learning.h"
#include "xcvm/functions.h"

/* Checks the layer's value at x, and the gradients of its sum, weighted by wave 50, with respect to x and the
 * parameters in order. */
static void check_layer(xcvm_tape *t, xcvm_layer *l, xcvm_var x, size_t names, const char *const *paths, size_t y_count,
                        const float *expected_y, const float *expected)
{
    ck_assert_ptr_nonnull(l);
    const xcvm_var y = xcvm_layer_call(l, x);
    check_f32(t, y, y_count, expected_y);
    const xcvm_value *type = value_of(t, y);
    backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, y, wave_constant(t, 50, type->rank, type->dims)), .keepdims = 0));
    for (size_t i = 0; i <= names; i++) {
        const xcvm_var v = i == 0 ? x : xcvm_layer_get_parameter(l, paths[i - 1]);
        const size_t count = xcvm_value_count(value_of(t, v));
        check_f32(t, xcvm_var_get_gradient(t, v), count, expected);
        expected += count;
    }
}

static const char *const weight_and_bias[] = {"W", "b"}, *const gamma_and_beta[] = {"gamma", "beta"};

START_TEST(c2_5_linear_and_convolutions)
{
    float w[WAVE_ROOM], b[WAVE_ROOM];
    xcvm_tape *t = open_tape();
    xcvm_layer_options o = plain();
    o.weight = (xcvm_initializer){.kind = XCVM_INIT_DATA, .data = wave(6, w)};
    o.bias = (xcvm_initializer){.kind = XCVM_INIT_DATA, .data = wave(7, b)};
    xcvm_var x = wave_parameter(t, 5, 3, DIMS(3, 2, 4));
    xcvm_layer *l = xcvm_layer_create_linear(t, 8, 5, &o);
    check_layer(t, l, x, 2, weight_and_bias, COUNT_OF(linear_y), linear_y, linear_gradients);
    ck_assert_uint_eq(xcvm_layer_element_count(l), 45);
    xcvm_layer_destroy(l);
    xcvm_var_release(t, x);
    o.strides = XCVM_INTS(2, 1);
    o.pads = XCVM_INTS(1, 0);
    o.dilations = XCVM_INTS(1, 2);
    o.groups = 2;
    x = wave_parameter(t, 5, 4, DIMS(2, 4, 5, 6));
    l = xcvm_layer_create_convolution(t, 4, 6, XCVM_INTS(3, 2), &o);
    check_layer(t, l, x, 2, weight_and_bias, COUNT_OF(convolution_y), convolution_y, convolution_gradients);
    xcvm_layer_destroy(l);
    xcvm_var_release(t, x);
    o.strides = XCVM_INTS(2);
    o.dilations = (xcvm_int_list){0};
    o.groups = 0;
    x = wave_parameter(t, 5, 4, DIMS(2, 4, 3, 4));
    l = xcvm_layer_create_deconvolution(t, 4, 2, XCVM_INTS(3, 2), &o);
    check_layer(t, l, x, 2, weight_and_bias, COUNT_OF(deconvolution_y), deconvolution_y, deconvolution_gradients);
    xcvm_var_release(t, x);
    close_with(t, l);
}
END_TEST

START_TEST(c2_5_normalizations)
{
    float w[WAVE_ROOM], b[WAVE_ROOM];
    xcvm_tape *t = open_tape();
    xcvm_layer_options o = plain();
    o.weight = (xcvm_initializer){.kind = XCVM_INIT_DATA, .data = wave(6, w)};
    o.bias = (xcvm_initializer){.kind = XCVM_INIT_DATA, .data = wave(7, b)};
    xcvm_var x = wave_parameter(t, 5, 2, DIMS(3, 4));
    xcvm_layer *l = xcvm_layer_create_layer_normalization(t, 4, &o);
    check_layer(t, l, x, 2, gamma_and_beta, COUNT_OF(layer_norm_y), layer_norm_y, layer_norm_gradients);
    xcvm_layer_destroy(l);
    xcvm_var_release(t, x);
    x = wave_parameter(t, 5, 4, DIMS(4, 3, 2, 2));
    l = xcvm_layer_create_batch_normalization(t, 3, &o);
    xcvm_layer_call(l, wave_constant(t, 8, 4, DIMS(4, 3, 2, 2)));
    xcvm_layer_clear_gradients(l);
    check_layer(t, l, x, 2, gamma_and_beta, COUNT_OF(batch_norm_y), batch_norm_y, batch_norm_gradients);
    check_f32(t, xcvm_layer_get_parameter(l, "avg_mean"), 3, batch_norm_running);
    check_f32(t, xcvm_layer_get_parameter(l, "avg_var"), 3, batch_norm_running + 3);
    ck_assert_uint_eq(xcvm_layer_element_count(l), 6);
    xcvm_layer_set_training(l, false);
    check_f32(t, xcvm_layer_call(l, x), COUNT_OF(batch_norm_tested), batch_norm_tested);
    xcvm_var_release(t, x);
    close_with(t, l);
}
END_TEST

/* Three steps, then a backward pass through them. */
START_TEST(c4_8_recurrent_layers)
{
    static const char *const lstm[] = {"upward/W", "upward/b", "lateral/W"}, *const gru[] = {"W_r/W", "U_r/W", "W_z/W",
                                                                                             "U_z/W", "W/W",   "U/W"};
    xcvm_tape *t = open_tape();
    xcvm_layer_options o = plain();
    xcvm_layer *l = xcvm_layer_create_lstm(t, 4, 3, &o);
    xcvm_var total = XCVM_ABSENT, h = XCVM_ABSENT;
    for (int i = 0; i < 12; i++)
        ck_assert_float_eq(((const float *)value_of(t, xcvm_layer_get_parameter(l, "upward/b"))->data)[i], i % 4 == 2);
    for (int i = 0; i < 3; i++)
        set_wave(t, xcvm_layer_get_parameter(l, lstm[i]), 6 + i);
    for (int round = 0; round < 2; round++) { /* a reset starts anew */
        for (int s = 0; s < 3; s++) {
            h = xcvm_layer_call(l, wave_constant(t, 40 + s, 2, DIMS(2, 4)));
            const xcvm_var part =
                xcvm_ReduceSum(t, xcvm_Mul(t, h, wave_constant(t, 50 + s, 2, DIMS(2, 3))), .keepdims = 0);
            total = s == 0 ? part : xcvm_Add(t, total, part);
        }
        check_f32(t, h, 6, lstm_h);
        xcvm_layer_clear_gradients(l);
        backward(t, total);
        const float *expected = lstm_gradients;
        for (int i = 0; i < 3; i++) {
            const size_t count = xcvm_value_count(value_of(t, xcvm_layer_get_parameter(l, lstm[i])));
            check_f32(t, xcvm_var_get_gradient(t, xcvm_layer_get_parameter(l, lstm[i])), count, expected);
            expected += count;
        }
        if (round == 0) {
            /* A consumed graph cannot be visited again, unless it is unchained. */
            xcvm_error error;
            const xcvm_var x = wave_constant(t, 40, 2, DIMS(2, 4));
            xcvm_var next = xcvm_ReduceSum(t, xcvm_layer_call(l, x), .keepdims = 0);
            ck_assert_int_eq(xcvm_tape_backward(t, next, NULL, &error), XCVM_INVALID_ARGUMENT);
            xcvm_layer_unchain(l);
            next = xcvm_ReduceSum(t, xcvm_layer_call(l, x), .keepdims = 0);
            backward(t, next);
        }
        xcvm_layer_reset(l);
        xcvm_tape_reset(t);
    }
    xcvm_layer_destroy(l);
    o.no_bias = true;
    l = xcvm_layer_create_gru(t, 4, 3, &o);
    for (int i = 0; i < 6; i++)
        set_wave(t, xcvm_layer_get_parameter(l, gru[i]), 60 + i);
    for (int s = 0; s < 3; s++)
        h = xcvm_layer_call(l, wave_constant(t, 40 + s, 2, DIMS(2, 4)));
    check_f32(t, h, 6, gru_h);
    backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, h, wave_constant(t, 50, 2, DIMS(2, 3))), .keepdims = 0));
    const float *expected = gru_gradients;
    for (int i = 0; i < 6; i++) {
        const size_t count = xcvm_value_count(value_of(t, xcvm_layer_get_parameter(l, gru[i])));
        check_f32(t, xcvm_var_get_gradient(t, xcvm_layer_get_parameter(l, gru[i])), count, expected);
        expected += count;
    }
    close_with(t, l);
}
END_TEST

/* A perceptron trains as PyTorch's does. */
START_TEST(c2_5_learning)
{
    static const char *const names[] = {"l1/W", "l1/b", "l2/W", "l2/b", "l3/W", "l3/b"};
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    xcvm_layer *net = xcvm_layer_create_mlp(t, 4, DIMS(6, 5, 4, 3), NULL);
    xcvm_optimizer *o;
    for (int i = 0; i < 6; i++)
        set_wave(t, xcvm_layer_get_parameter(net, names[i]), 6 + i / 2 + 10 * (i % 2));
    must(xcvm_optimizer_create(t, "sgd:lr=0.3,momentum=0.5", NULL, &o, &error), &error);
    must(xcvm_optimizer_add_layer(o, net, &error), &error);
    for (int s = 0; s < (int)COUNT_OF(mlp_losses); s++) {
        const xcvm_var x = xcvm_Mul(t, wave_constant(t, s % 3, 2, DIMS(4, 6)), constant(t, 2));
        const xcvm_var target = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(4), DIMS(0, 1, 2, 1));
        const xcvm_var loss =
            xcvm_ReduceMean(t, xcvm_tape_pick_neg_log_softmax(t, xcvm_layer_call(net, x), target), .keepdims = 0);
        ck_assert_double_eq_tol(xcvm_var_get_number(t, loss), (double)mlp_losses[s], 1e-5);
        backward(t, loss);
        must(xcvm_optimizer_step(o, &error), &error);
        xcvm_optimizer_clear_gradients(o);
        xcvm_tape_reset(t);
    }
    check_f32(t, xcvm_layer_get_parameter(net, "l3/W"), 12, mlp_last);
    xcvm_optimizer_destroy(o);
    close_with(t, net);
}
END_TEST

START_TEST(dropout_and_embeddings)
{
    xcvm_tape *t = open_tape();
    xcvm_layer *net = xcvm_layer_create_chain(t);
    xcvm_layer_add(net, "embed", xcvm_layer_create_embedding(t, 5, 40, NULL));
    xcvm_layer_add(net, "drop", xcvm_layer_create_dropout(t, 0.5));
    const xcvm_var ids = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(4, 1));
    const xcvm_var y = xcvm_layer_call(net, ids);
    const xcvm_value *v = value_of(t, y), *w = value_of(t, xcvm_layer_get_parameter(net, "embed/W"));
    size_t zeros = 0;
    for (size_t i = 0; i < 80; i++) {
        const float x = ((const float *)w->data)[(i < 40 ? 160 : 0) + i];
        const float got = ((const float *)v->data)[i];
        zeros += got == 0.0f;
        ck_assert(got == 0.0f || got == 2 * x);
    }
    ck_assert_uint_gt(zeros, 15);
    ck_assert_uint_lt(zeros, 65);
    xcvm_layer_set_training(net, false);
    v = value_of(t, xcvm_layer_call(net, ids));
    ck_assert_mem_eq(v->data, (const float *)w->data + 160, 40 * sizeof(float));
    backward(t, xcvm_ReduceSum(t, y, .keepdims = 0));
    ck_assert_ptr_null(xcvm_var_get_gradient(t, xcvm_layer_get_parameter(net, "embed/W")).at);
    close_with(t, net);
}
END_TEST

/* ---- Functions ---- */

START_TEST(c4_8_functions)
{
    xcvm_tape *t = open_tape();
    xcvm_var x = wave_parameter(t, 5, 2, DIMS(3, 4));
    const xcvm_var y = xcvm_tape_pick_neg_log_softmax(t, x, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(3), DIMS(2, 0, 3)));
    check_f32(t, y, 3, pick_y);
    backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, y, wave_constant(t, 50, 1, DIMS(3))), .keepdims = 0));
    check_f32(t, xcvm_var_get_gradient(t, x), 12, pick_gradients);
    /* One example of rank 1. */
    const xcvm_var scores = wave_parameter(t, 5, 1, DIMS(4)),
                   target = xcvm_tape_constant(t, XCVM_I64, 0, NULL, DIMS(2));
    const xcvm_var one = xcvm_tape_pick_neg_log_softmax(t, scores, target);
    ck_assert_double_eq_tol(xcvm_var_get_number(t, one), (double)pick_y[0], 1e-6);
    backward(t, one);
    ck_assert_double_eq_tol(xcvm_var_get_number(t, xcvm_tape_hinge(t, scores, target, 0.4)), (double)hinge[0], 1e-6);
    const xcvm_var b = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(2, 1), F32S(1, 2)),
                   w = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(2, 2), F32S(1, 2, 3, 4));
    CHECK_F32(t, xcvm_tape_affine_transform(t, 5, (const xcvm_var[]){b, w, b, w, b}), 11, 24);
    xcvm_tape_affine_transform(t, 2, (const xcvm_var[]){b, w});
    check_failed(t, XCVM_INVALID_ARGUMENT, "odd number");
    xcvm_tape_pick_neg_log_softmax(t, wave_constant(t, 1, 3, DIMS(2, 2, 2)), target);
    check_failed(t, XCVM_SHAPE_MISMATCH, "scores of rank 3");
    const xcvm_var p = parameter(t, 3);
    const xcvm_var flipped = xcvm_tape_scale_gradient(t, p, -2);
    ck_assert_double_eq(xcvm_var_get_number(t, flipped), 3);
    backward(t, xcvm_Mul(t, flipped, flipped));
    ck_assert_double_eq(xcvm_var_get_number(t, xcvm_var_get_gradient(t, p)), -12);
    close_tape(t);
}
END_TEST

static const float third = 1.0f / 3;

/* Linear, Fill, Mean and SGD, which does nothing without a gradient. */
START_TEST(c5_5_linear_fill_mean_sgd)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    xcvm_layer_options o = plain();
    o.weight = (xcvm_initializer){.kind = XCVM_INIT_CONSTANT, .scale = 0.5};
    o.bias = (xcvm_initializer){.kind = XCVM_INIT_ONE};
    xcvm_layer *l = xcvm_layer_create_linear(t, 2, 3, &o);
    xcvm_optimizer *sgd;
    must(xcvm_optimizer_create(t, "sgd:lr=1", NULL, &sgd, &error), &error);
    must(xcvm_optimizer_add_layer(sgd, l, &error), &error);
    const xcvm_var x = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(1, 2), F32S(2, 4));
    const xcvm_var loss = xcvm_ReduceMean(t, xcvm_Relu(t, xcvm_layer_call(l, x)), .keepdims = 0);
    ck_assert_double_eq(xcvm_var_get_number(t, loss), 4);
    must(xcvm_optimizer_step(sgd, &error), &error);
    CHECK_F32(t, xcvm_layer_get_parameter(l, "b"), 1, 1, 1);
    backward(t, loss);
    must(xcvm_optimizer_step(sgd, &error), &error);
    CHECK_F32(t, xcvm_layer_get_parameter(l, "b"), 1 - third, 1 - third, 1 - third);
    CHECK_F32(t, xcvm_layer_get_parameter(l, "W"), 0.5f - 2 * third, 0.5f - 4 * third, 0.5f - 2 * third,
              0.5f - 4 * third, 0.5f - 2 * third, 0.5f - 4 * third);
    /* Trained parameters are loaded from the optimizer's file. */
    test_bytes file = {0};
    xcvm_layer *copy = xcvm_layer_create_linear(t, 2, 3, NULL);
    must(xcvm_optimizer_save(sgd, XCVM_NPZ, (xcvm_sink){test_bytes_sink, &file}, &error), &error);
    must(xcvm_layer_load(copy, file.at, file.length, &error), &error);
    CHECK_F32(t, xcvm_layer_get_parameter(copy, "b"), 1 - third, 1 - third, 1 - third);
    test_bytes_free(&file);
    xcvm_layer_destroy(copy);
    xcvm_optimizer_destroy(sgd);
    close_with(t, l);
}
END_TEST

Suite *suite_tape_layers(void);
Suite *suite_tape_layers(void)
{
    return SUITE_OF("tape_layers", c2_5_linear_and_convolutions, c2_5_normalizations, c4_8_recurrent_layers,
                    c2_5_learning, dropout_and_embeddings, c4_8_functions, c5_5_linear_fill_mean_sgd);
}
