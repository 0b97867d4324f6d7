/* Tests of training programs: inputs, outputs and states, and the effect of one step of each kind. */
#include "compiler/training/training.h"
#include "compiler/ir/compilation.h"
#include "tests/compiler/training/support.h"

#include <stdio.h>

static xcc_value *sum(xcc_builder *b, xcc_value *x)
{
    return must(b, xcc_build_reduce(b, XCVM_OP_ReduceSum, x, NULL, false));
}

/* loss = the sum of x * w + v, with x of two elements, w = 1 2 and v = 3 4: the gradients are x and 1 1. */
static void linear(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(2)), *w = parameter(b, "w", 1, DIMS(2), FLOATS(1, 2));
    xcc_value *v = parameter(b, "v.bias", 1, DIMS(2), FLOATS(3, 4));
    output(b, sum(b, must(b, xcc_build_add(b, must(b, xcc_build_mul(b, x, w)), v))));
}

static void open_training(compilation *c, compiled_program *k, graph_function make)
{
    make(&c->b);
    passes(c);
    compiled_open(k, c);
}

static void check_refused(compilation *c, xcvm_status status, const char *part)
{
    ck_assert_int_eq(xcc_passes_run(&c->m), status);
    ck_assert_msg(strstr(c->error.message, part) != NULL, "%s", c->error.message);
    finish(c);
}

/* ---- Steps ---- */

START_TEST(one_step)
{
    compilation c;
    compiled_program k;
    begin_training(&c, "sgd:lr=0.5,momentum=0.5");
    open_training(&c, &k, linear);
    ck_assert_uint_eq(xcvm_program_input_count(k.program), 2);
    ck_assert_str_eq(xcvm_program_input_at(k.program, 1)->name, "learning_rate");
    ck_assert_uint_eq(xcvm_program_output_count(k.program), 1);
    ck_assert_uint_eq(xcvm_program_state_count(k.program), 5);
    ck_assert_str_eq(c.m.compilation->optimizer,
                     "sgd:lr=0.5,weight_decay=0,momentum=0.5,dampening=0,nesterov=false,maximize=false");
    step(&k, FLOATS(2, -4), 0.5f);
    expect_output(&k, 0, 0, NULL, FLOATS(1));
    EXPECT_STATE(&k, "w", 0, 4);
    EXPECT_STATE(&k, "v.bias", 2.5f, 3.5f);
    EXPECT_STATE(&k, "optimizer@w.momentum_buffer", 2, -4);
    EXPECT_STATE(&k, "optimizer@step", 1);
    step(&k, FLOATS(2, -4), 1.0f);
    EXPECT_STATE(&k, "w", -3, 10);
    EXPECT_STATE(&k, "optimizer@v.bias.momentum_buffer", 1.5f, 1.5f);
    EXPECT_STATE(&k, "optimizer@step", 2);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Moments of w for each optimizer. */
static const struct {
    const char *optimizer, *kept[4];
} kept[] = {
    {"sgd", {NULL}},
    {"adam", {"exp_avg", "exp_avg_sq", NULL}},
    {"adamw:amsgrad=true", {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", NULL}},
    {"rmsprop", {"square_avg", NULL}},
    {"rmsprop:centered=true,momentum=0.9", {"square_avg", "grad_avg", "momentum_buffer", NULL}},
    {"adagrad", {"sum", NULL}},
    {"adadelta", {"square_avg", "acc_delta", NULL}},
    {"lars:momentum=0.9", {"momentum_buffer", NULL}},
    {"lars", {NULL}},
    {"lion", {"exp_avg", NULL}},
};

START_TEST(every_optimizer)
{
    compilation c;
    compiled_program k;
    char name[64];
    size_t count = 0;
    begin_training(&c, kept[_i].optimizer);
    open_training(&c, &k, linear);
    for (; kept[_i].kept[count] != NULL; count++) {
        snprintf(name, sizeof name, "optimizer@w.%s", kept[_i].kept[count]);
        (void)index_of(&k, name);
    }
    ck_assert_uint_eq(xcvm_program_state_count(k.program), 3 + 2 * count);
    step(&k, FLOATS(2, -4), 0.125f);
    const float *w = xcvm_value_data(xcvm_session_get_state(k.session, index_of(&k, "w")));
    ck_assert_float_lt(w[0], 1);
    ck_assert_float_gt(w[1], 2);
    compiled_close(&k);
    finish(&c);
}
END_TEST

START_TEST(sums_may_begin_with_a_number)
{
    compilation c;
    compiled_program k;
    begin_training(&c, "adagrad:initial_accumulator_value=5,eps=0");
    open_training(&c, &k, linear);
    step(&k, FLOATS(2, -2), 1.0f);
    EXPECT_STATE(&k, "optimizer@w.sum", 9, 9);
    EXPECT_STATE(&k, "w", 1.0f - 2.0f / 3, 2.0f + 2.0f / 3);
    compiled_close(&k);
    finish(&c);
}
END_TEST

START_TEST(groups)
{
    static const xcc_training_group all[] = {{"*.bias", 0.5, true, 1.0}, {"w", 2.0, false, 0.0}};
    compilation c;
    compiled_program k;
    begin_training(&c, "sgd:weight_decay=0.25");
    c.options.training.groups = all;
    c.options.training.group_count = 2;
    open_training(&c, &k, linear);
    step(&k, FLOATS(2, -4), 0.5f);
    EXPECT_STATE(&k, "w", 1 - 2.25f, 2 + 3.5f);
    EXPECT_STATE(&k, "v.bias", 3 - 0.25f * 4, 4 - 0.25f * 5);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* A parameter that is not trained is a constant, whichever option excludes it. */
START_TEST(frozen)
{
    static const xcc_training_group none[] = {{"v*", 0.0, false, 0.0}};
    static const char *const wrt[] = {"?"};
    compilation c;
    compiled_program k;
    begin_training(&c, "sgd");
    if (_i == 0) {
        c.options.training.groups = none;
        c.options.training.group_count = 1;
    } else {
        c.options.gradients.wrt = wrt;
        c.options.gradients.wrt_count = 1;
    }
    open_training(&c, &k, linear);
    ck_assert_uint_eq(xcvm_program_state_count(k.program), 2);
    step(&k, FLOATS(2, -4), 0.5f);
    EXPECT_STATE(&k, "w", 0, 4);
    expect_output(&k, 0, 0, NULL, FLOATS(1));
    compiled_close(&k);
    finish(&c);
}
END_TEST

START_TEST(clipped)
{
    compilation c;
    compiled_program k;
    begin_training(&c, "sgd");
    c.options.training.clip_norm = 2.5;
    c.options.training.clip_value = 1.0;
    open_training(&c, &k, linear);
    ck_assert_str_eq(xcvm_program_output_at(k.program, 1)->name, "gradient_norm");
    /* The norm of 3, sqrt 14, 1, 1 is 5: half of each, then at most 1. */
    step(&k, FLOATS(3, -3.7416574f), 1.0f);
    expect_output(&k, 1, 0, NULL, FLOATS(5));
    EXPECT_STATE(&k, "w", 0, 3);
    EXPECT_STATE(&k, "v.bias", 2.5f, 3.5f);
    /* A norm below the limit leaves them. */
    step(&k, FLOATS(0.5f, 0), 1.0f);
    EXPECT_STATE(&k, "w", -0.5f, 3);
    EXPECT_STATE(&k, "v.bias", 1.5f, 2.5f);
    compiled_close(&k);
    finish(&c);
}
END_TEST

static void micro_step(compiled_program *k, const float *x, bool apply)
{
    compiled_set_input(k, 2, XCVM_BOOL, 0, NULL, &apply);
    step(k, x, 1.0f);
}

START_TEST(accumulated)
{
    compilation c;
    compiled_program k;
    begin_training(&c, "sgd");
    c.options.training.accumulate = true;
    c.options.training.clip_norm = 1e6;
    open_training(&c, &k, linear);
    ck_assert_str_eq(xcvm_program_input_at(k.program, 2)->name, "apply");
    micro_step(&k, FLOATS(1, 2), false);
    micro_step(&k, FLOATS(3, 4), false);
    EXPECT_STATE(&k, "w", 1, 2);
    EXPECT_STATE(&k, "optimizer@w.accumulator", 4, 6);
    EXPECT_STATE(&k, "optimizer@micro_batches", 2);
    EXPECT_STATE(&k, "optimizer@step", 0);
    micro_step(&k, FLOATS(5, 0), true);
    EXPECT_STATE(&k, "w", 1 - 3, 2 - 2);
    EXPECT_STATE(&k, "v.bias", 2, 3);
    EXPECT_STATE(&k, "optimizer@w.accumulator", 0, 0);
    EXPECT_STATE(&k, "optimizer@micro_batches", 0);
    EXPECT_STATE(&k, "optimizer@step", 1);
    expect_output(&k, 1, 0, NULL, FLOATS(3.8729833f)); /* of 3 2 1 1, the means */
    micro_step(&k, FLOATS(1, 1), true);
    EXPECT_STATE(&k, "w", -3, -1);
    compiled_close(&k);
    finish(&c);
}
END_TEST

START_TEST(loss_scaled)
{
    compilation c;
    compiled_program k;
    begin_training(&c, "sgd:momentum=0.5");
    c.options.training.loss_scale = 0x1p100;
    open_training(&c, &k, linear);
    step(&k, FLOATS(2, -4), 0.5f);
    EXPECT_STATE(&k, "w", 0, 4);
    EXPECT_STATE(&k, "optimizer@good_steps", 1);
    expect_output(&k, 1, 0, NULL, FLOATS(4.6904158f));
    /* The gradient overflows, the loss does not: nothing moves but the factor. */
    step(&k, FLOATS(0x1p30f, -4), 0.5f);
    ck_assert(isinf(*(const float *)xcvm_value_data(xcvm_session_get_output(k.session, 1))));
    EXPECT_STATE(&k, "w", 0, 4);
    EXPECT_STATE(&k, "optimizer@w.momentum_buffer", 2, -4);
    EXPECT_STATE(&k, "optimizer@step", 1);
    EXPECT_STATE(&k, "optimizer@good_steps", 0);
    ck_assert_float_eq(
        *(const float *)xcvm_value_data(xcvm_session_get_state(k.session, index_of(&k, "optimizer@loss_scale"))),
        0x1p99f);
    compiled_close(&k);
    finish(&c);
}
END_TEST

START_TEST(scale_doubles)
{
    compilation c;
    compiled_program k;
    begin_training(&c, "sgd");
    c.options.training.loss_scale = 8;
    open_training(&c, &k, linear);
    for (int i = 0; i < 1999; i++)
        step(&k, FLOATS(0, 0), 0.0f);
    EXPECT_STATE(&k, "optimizer@loss_scale", 8);
    EXPECT_STATE(&k, "optimizer@good_steps", 1999);
    step(&k, FLOATS(0, 0), 0.0f);
    EXPECT_STATE(&k, "optimizer@loss_scale", 16);
    EXPECT_STATE(&k, "optimizer@good_steps", 0);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Averages begin as the parameters, and a program for evaluation reads them in place of these. */
START_TEST(averaged)
{
    compilation c, e;
    compiled_program k;
    begin_training(&c, "sgd");
    begin_training(&e, "sgd");
    c.options.training.average = e.options.training.average = 0.5;
    e.options.training.evaluate = true;
    open_training(&c, &k, linear);
    step(&k, FLOATS(2, -4), 0.5f);
    EXPECT_STATE(&k, "w", 0, 4);
    EXPECT_STATE(&k, "optimizer@w.average", 0.5f, 3);
    compiled_program v = {.program = NULL};
    linear(&e.b);
    passes(&e);
    v.bytes = emit(&e);
    xcvm_load_options load = {.size = sizeof load};
    xcvm_session_options options = {.size = sizeof options, .threads = 1, .states_of = k.session};
    xcvm_error error = {0};
    ck_assert_msg(xcvm_program_load(v.bytes.at, v.bytes.length, &load, &v.program, &error) == XCVM_OK, "%s",
                  error.message);
    ck_assert_msg(xcvm_session_create(v.program, &options, &v.session, &error) == XCVM_OK, "%s", error.message);
    ck_assert_uint_eq(xcvm_program_state_count(v.program), 2);
    ck_assert_uint_eq(xcvm_program_input_count(v.program), 1);
    set_input(&v, "x", 1, DIMS(2), FLOATS(1, 1));
    compiled_run(&v);
    expect_output(&v, 0, 0, NULL, FLOATS(0.5f + 3 + 2.75f + 3.75f));
    step(&k, FLOATS(2, -4), 0.5f);
    compiled_run(&v);
    expect_output(&v, 0, 0, NULL, FLOATS(-0.25f + 4.5f + 2.375f + 3.375f));
    compiled_close(&v);
    compiled_close(&k);
    finish(&e);
    finish(&c);
}
END_TEST

/* Each pass leaves a valid graph for all options. */
START_TEST(sound_graphs)
{
    compilation c;
    begin_training(&c, "lars:momentum=0.9");
    c.options.training.accumulate = c.options.training.all_reduce = true;
    c.options.training.clip_norm = c.options.training.loss_scale = 1;
    c.options.training.average = 0.5;
    linear(&c.b);
    ok(&c.m, xcc_pass_canonicalize(&c.m));
    ok(&c.m, xcc_pass_infer(&c.m));
    ok(&c.m, xcc_pass_train(&c.m));
    ok(&c.m, xcc_graph_verify(c.m.graph));
    ok(&c.m, xcc_pass_sink_updates(&c.m));
    ok(&c.m, xcc_graph_verify(c.m.graph));
    ck_assert(xcc_is(c.m.graph->last, XCVM_OP_LARS));
    finish(&c);
}
END_TEST

/* ---- Gradients that are other parameters ---- */

/* loss = sum(w * v): the gradient of each is the other, as it was. */
static void product(xcc_builder *b)
{
    (void)input(b, "x", XCVM_F32, 1, DIMS(2));
    xcc_value *w = parameter(b, "w", 1, DIMS(2), FLOATS(1, 2)), *v = parameter(b, "v", 2, DIMS(2, 1), FLOATS(3, 4));
    output(b, sum(b, must(b, xcc_build_mul(b, w, must(b, xcc_build_reshape(b, v, ints(b, 1, DIMS(2))))))));
}

START_TEST(gradients_that_are_parameters)
{
    static const int levels[] = {-1, 1, 2};
    compilation c;
    compiled_program k;
    begin_training(&c, "sgd");
    c.options.optimization = levels[_i];
    open_training(&c, &k, product);
    step(&k, FLOATS(0, 0), 0.5f);
    EXPECT_STATE(&k, "w", 1 - 1.5f, 2 - 2);
    EXPECT_STATE(&k, "v", 3 - 0.5f, 4 - 1);
    step(&k, FLOATS(0, 0), 1.0f);
    EXPECT_STATE(&k, "w", -0.5f - 2.5f, 0 - 3);
    EXPECT_STATE(&k, "v", 2.5f + 0.5f, 3);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Two states, each of which is the other's gradient through a Reshape. */
START_TEST(views_of_states)
{
    static const int levels[] = {-1, 1, 2};
    compilation c;
    compiled_program k;
    begin(&c, levels[_i]);
    output(&c.b, must(&c.b, xcc_build_unary(&c.b, XCVM_OP_Neg, input(&c.b, "x", XCVM_F32, 0, NULL))));
    xcc_value *w = must(&c.b, xcc_state(c.m.graph, "w", XCVM_F32, 1, DIMS(2), FLOATS(1, 2), false));
    xcc_value *v = must(&c.b, xcc_state(c.m.graph, "v", XCVM_F32, 2, DIMS(2, 1), FLOATS(3, 4), false));
    xcc_value *of_w = must(&c.b, xcc_build_reshape(&c.b, v, ints(&c.b, 1, DIMS(2))));
    xcc_value *of_v = must(&c.b, xcc_build_reshape(&c.b, w, ints(&c.b, 2, DIMS(2, 1))));
    const xcvm_value *const gradients[] = {XCC_IN(of_w), XCC_IN(of_v)}, *const parameters[] = {XCC_IN(w), XCC_IN(v)};
    ck_assert_ptr_nonnull(xcc_emit(&c.b, SGD, .gradients = {gradients, 2}, .rate = XCC_IN(number(&c.b, 0.5)),
                                   .parameters = {parameters, 2}));
    passes(&c);
    compiled_open(&k, &c);
    compiled_set_input(&k, 0, XCVM_F32, 0, NULL, FLOATS(0));
    compiled_run(&k);
    EXPECT_STATE(&k, "w", 1 - 1.5f, 2 - 2);
    EXPECT_STATE(&k, "v", 3 - 0.5f, 4 - 1);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* ---- Half precision ---- */

static void halves(xcc_builder *b)
{
    static const uint16_t one_two[] = {0x3c00, 0x4000};
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(2));
    xcc_value *w = must(b, xcc_parameter(b->graph, "w", XCVM_F16, 1, DIMS(2), one_two, false));
    xcc_value *v = parameter(b, "v", 1, DIMS(2), FLOATS(3, 4));
    xcc_value *y = must(b, xcc_build_mul(b, must(b, xcc_build_cast(b, x, XCVM_F16)), w));
    output(b, sum(b, must(b, xcc_build_add(b, must(b, xcc_build_cast(b, y, XCVM_F32)), v))));
}

/* Steps that are too small for f16 accumulate in the master copies. */
START_TEST(masters)
{
    compilation c;
    compiled_program k;
    begin_training(&c, "sgd");
    open_training(&c, &k, halves);
    for (int i = 0; i < 64; i++)
        step(&k, FLOATS(-1, 1), 0x1p-13f);
    EXPECT_STATE(&k, "optimizer@w.master", 1 + 0x1p-7f, 2 - 0x1p-7f);
    EXPECT_STATE(&k, "w", 1 + 0x1p-7f, 2 - 0x1p-7f);
    EXPECT_STATE(&k, "v", 3 - 0x1p-7f, 4 - 0x1p-7f);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* ---- What is refused ---- */

static void with_rate(xcc_builder *b)
{
    linear(b);
    (void)input(b, "learning_rate", XCVM_F32, 0, NULL);
}

static void with_state(xcc_builder *b)
{
    xcc_value *step_too = parameter(b, "optimizer@step", 1, DIMS(1), FLOATS(1));
    output(b, sum(b, step_too));
}

static void without_parameters(xcc_builder *b) { output(b, sum(b, input(b, "x", XCVM_F32, 1, DIMS(2)))); }

static void of_many_numbers(xcc_builder *b)
{
    output(b,
           must(b, xcc_build_mul(b, input(b, "x", XCVM_F32, 1, DIMS(2)), parameter(b, "w", 1, DIMS(2), FLOATS(1, 2)))));
}

static const struct {
    graph_function make;
    const char *optimizer, *loss, *wrt;
    xcvm_status status;
    const char *message;
} refused[] = {
    {linear, "sdg", NULL, NULL, XCVM_INVALID_ARGUMENT, "there is no optimizer 'sdg'"},
    {linear, "sgd", "loss", NULL, XCVM_INVALID_ARGUMENT,
     "the model has no output 'loss' to be the loss; losses that can be added are softmax_cross_entropy,"},
    {linear, "sgd", "mse(loss)", NULL, XCVM_INVALID_ARGUMENT, "the model has no output 'loss' to have a loss"},
    {linear, "sgd", "mse(", NULL, XCVM_INVALID_ARGUMENT, "'mse(' is no loss"},
    {linear, "sgd", "softmax_cross_entropy", NULL, XCVM_INVALID_ARGUMENT,
     "softmax_cross_entropy needs an output of at least two axes"},
    {linear, "sgd", NULL, "u*", XCVM_INVALID_ARGUMENT, "no parameter is called 'u*'"},
    {with_rate, "sgd", NULL, NULL, XCVM_INVALID_ARGUMENT,
     "the model has an input 'learning_rate', which training adds"},
    {with_state, "sgd", NULL, NULL, XCVM_INVALID_MODEL, "the model has a value 'optimizer@step'"},
    {without_parameters, "sgd", NULL, NULL, XCVM_INVALID_ARGUMENT, "nothing learns"},
    {of_many_numbers, "sgd", NULL, NULL, XCVM_INVALID_ARGUMENT, "it has to be one number"},
};

START_TEST(what_is_wrong_is_said)
{
    compilation c;
    begin_training(&c, refused[_i].optimizer);
    c.options.loss = refused[_i].loss;
    c.options.gradients.wrt = &refused[_i].wrt;
    c.options.gradients.wrt_count = refused[_i].wrt != NULL;
    refused[_i].make(&c.b);
    check_refused(&c, refused[_i].status, refused[_i].message);
}
END_TEST

/* Options that xcc_compile refuses before it reads a model. */
static const struct {
    xcc_options options;
    const char *message;
} wrong[] = {
    {{.training.clip_norm = 1}, "without an optimizer"},
    {{.training.evaluate = true}, "without an optimizer"},
    {{.train = "sgd", .backprop = true}, "ask for one of the two"},
    {{.train = "sgd", .training.clip_norm = -1}, "cannot be clipped to -1"},
    {{.train = "sgd", .training.clip_value = (double)NAN}, "cannot be clipped to"},
    {{.train = "sgd", .training.average = 1}, "the decay of averages cannot be 1"},
    {{.train = "sgd", .training.loss_scale = (double)INFINITY}, "the loss cannot be scaled by inf"},
    {{.train = "sgd", .training.groups = &(xcc_training_group){.pattern = NULL}, .training.group_count = 1},
     "has no pattern"},
    {{.train = "sgd", .training.groups = &(xcc_training_group){"*", -1, false, 0}, .training.group_count = 1},
     "group '*': rate"},
};

START_TEST(options_that_are_wrong)
{
    xcc_options options = wrong[_i].options;
    options.size = sizeof options;
    xcvm_error error = {0};
    ck_assert_int_eq(xcc_compile("", 0, &options, (xcvm_sink){test_full_sink, NULL}, NULL, &error),
                     XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, wrong[_i].message) != NULL, "%s", error.message);
}
END_TEST

Suite *suite_compiler_train(void);
Suite *suite_compiler_train(void)
{
    Suite *suite = suite_create("compiler_train");
    TCase *steps = tcase_create("steps");
    tcase_add_test(steps, one_step);
    tcase_add_loop_test(steps, every_optimizer, 0, sizeof kept / sizeof *kept);
    tcase_add_test(steps, sums_may_begin_with_a_number);
    tcase_add_test(steps, groups);
    tcase_add_loop_test(steps, frozen, 0, 2);
    tcase_add_test(steps, clipped);
    tcase_add_test(steps, accumulated);
    tcase_add_test(steps, loss_scaled);
    tcase_add_test(steps, scale_doubles);
    tcase_add_test(steps, averaged);
    tcase_add_test(steps, sound_graphs);
    tcase_add_loop_test(steps, gradients_that_are_parameters, 0, 3);
    tcase_add_loop_test(steps, views_of_states, 0, 3);
    tcase_add_test(steps, masters);
    suite_add_tcase(suite, steps);
    TCase *refusals = tcase_create("refusals");
    tcase_add_loop_test(refusals, what_is_wrong_is_said, 0, sizeof refused / sizeof *refused);
    tcase_add_loop_test(refusals, options_that_are_wrong, 0, sizeof wrong / sizeof *wrong);
    suite_add_tcase(suite, refusals);
    return suite;
}
