/* Training programs: what they take, give and keep, and what one step of each kind leaves behind. */
#include "tests/compiler/support.h"

#include "compiler/ir/compose.h"

#include <stdio.h>

static void begin_training(compilation *c, const char *optimizer)
{
    begin(c, 2);
    c->options.train = optimizer;
}

static xcc_value *parameter(xcc_builder *b, const char *name, int rank, const int64_t *dims, const float *data)
{
    return must(b, xcc_parameter(b->graph, name, XCVM_F32, rank, dims, data, false));
}

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

static size_t index_of(const machine *k, const char *name)
{
    size_t i = 0;
    while (i < xcvm_program_state_count(k->program) && strcmp(xcvm_program_state(k->program, i)->name, name) != 0)
        i++;
    ck_assert_msg(i < xcvm_program_state_count(k->program), "there is no state %s", name);
    return i;
}

static void expect_state(const machine *k, const char *name, size_t count, const float *data)
{
    const xcvm_value *v = xcvm_session_state(k->session, index_of(k, name));
    ck_assert_uint_eq(xcvm_element_count(v), count);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(fabs(xcvm_element_as_double(v, i) - (double)data[i]) <= 1e-5, "%s[%zu] is %g, not %g", name, i,
                      xcvm_element_as_double(v, i), (double)data[i]);
}
#define EXPECT_STATE(k, name, ...)                                                                                     \
    expect_state((k), (name), sizeof(FLOATS(__VA_ARGS__)) / sizeof(float), FLOATS(__VA_ARGS__))

/* Gives an f32 tensor to the input of that name. */
static void give(machine *k, const char *name, int rank, const int64_t *dims, const float *data)
{
    size_t i = 0;
    while (i < xcvm_program_input_count(k->program) && strcmp(xcvm_program_input(k->program, i)->name, name) != 0)
        i++;
    ck_assert_msg(i < xcvm_program_input_count(k->program), "there is no input %s", name);
    machine_give(k, i, XCVM_F32, rank, dims, data);
}

static void open_training(compilation *c, machine *k, graph_function make)
{
    make(&c->b);
    passes(c);
    machine_open(k, c);
}

static void step(machine *k, const float *x, float rate)
{
    give(k, "x", 1, DIMS(2), x);
    give(k, "learning_rate", 0, NULL, &rate);
    machine_run(k);
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
    machine k;
    begin_training(&c, "sgd:lr=0.5,momentum=0.5");
    open_training(&c, &k, linear);
    ck_assert_uint_eq(xcvm_program_input_count(k.program), 2);
    ck_assert_str_eq(xcvm_program_input(k.program, 1)->name, "learning_rate");
    ck_assert_uint_eq(xcvm_program_output_count(k.program), 1);
    ck_assert_uint_eq(xcvm_program_state_count(k.program), 5);
    ck_assert_str_eq(c.m.optimizer, "sgd:lr=0.5,weight_decay=0,momentum=0.5,dampening=0,nesterov=false,maximize=false");
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
    machine_close(&k);
    finish(&c);
}
END_TEST

/* What each optimizer keeps of w. */
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
    machine k;
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
    const float *w = xcvm_value_data(xcvm_session_state(k.session, index_of(&k, "w")));
    ck_assert_float_lt(w[0], 1);
    ck_assert_float_gt(w[1], 2);
    machine_close(&k);
    finish(&c);
}
END_TEST

START_TEST(sums_may_begin_with_a_number)
{
    compilation c;
    machine k;
    begin_training(&c, "adagrad:initial_accumulator_value=5,eps=0");
    open_training(&c, &k, linear);
    step(&k, FLOATS(2, -2), 1.0f);
    EXPECT_STATE(&k, "optimizer@w.sum", 9, 9);
    EXPECT_STATE(&k, "w", 1.0f - 2.0f / 3, 2.0f + 2.0f / 3);
    machine_close(&k);
    finish(&c);
}
END_TEST

START_TEST(groups)
{
    static const xcc_training_group all[] = {{"*.bias", 0.5, true, 1.0}, {"w", 2.0, false, 0.0}};
    compilation c;
    machine k;
    begin_training(&c, "sgd:weight_decay=0.25");
    c.options.groups = all;
    c.options.group_count = 2;
    open_training(&c, &k, linear);
    step(&k, FLOATS(2, -4), 0.5f);
    EXPECT_STATE(&k, "w", 1 - 2.25f, 2 + 3.5f);
    EXPECT_STATE(&k, "v.bias", 3 - 0.25f * 4, 4 - 0.25f * 5);
    machine_close(&k);
    finish(&c);
}
END_TEST

/* What does not learn is a constant, however that is said. */
START_TEST(frozen)
{
    static const xcc_training_group none[] = {{"v*", 0.0, false, 0.0}};
    static const char *const wrt[] = {"?"};
    compilation c;
    machine k;
    begin_training(&c, "sgd");
    if (_i == 0) {
        c.options.groups = none;
        c.options.group_count = 1;
    } else {
        c.options.wrt = wrt;
        c.options.wrt_count = 1;
    }
    open_training(&c, &k, linear);
    ck_assert_uint_eq(xcvm_program_state_count(k.program), 2);
    step(&k, FLOATS(2, -4), 0.5f);
    EXPECT_STATE(&k, "w", 0, 4);
    expect_output(&k, 0, 0, NULL, FLOATS(1));
    machine_close(&k);
    finish(&c);
}
END_TEST

START_TEST(clipped)
{
    compilation c;
    machine k;
    begin_training(&c, "sgd");
    c.options.clip_norm = 2.5;
    c.options.clip_value = 1.0;
    open_training(&c, &k, linear);
    ck_assert_str_eq(xcvm_program_output(k.program, 1)->name, "gradient_norm");
    /* The norm of 3, sqrt 14, 1, 1 is 5: half of each, then at most 1. */
    step(&k, FLOATS(3, -3.7416574f), 1.0f);
    expect_output(&k, 1, 0, NULL, FLOATS(5));
    EXPECT_STATE(&k, "w", 0, 3);
    EXPECT_STATE(&k, "v.bias", 2.5f, 3.5f);
    /* A norm below the limit leaves them. */
    step(&k, FLOATS(0.5f, 0), 1.0f);
    EXPECT_STATE(&k, "w", -0.5f, 3);
    EXPECT_STATE(&k, "v.bias", 1.5f, 2.5f);
    machine_close(&k);
    finish(&c);
}
END_TEST

static void micro_step(machine *k, const float *x, bool apply)
{
    machine_give(k, 2, XCVM_BOOL, 0, NULL, &apply);
    step(k, x, 1.0f);
}

START_TEST(accumulated)
{
    compilation c;
    machine k;
    begin_training(&c, "sgd");
    c.options.accumulate = true;
    c.options.clip_norm = 1e6;
    open_training(&c, &k, linear);
    ck_assert_str_eq(xcvm_program_input(k.program, 2)->name, "apply");
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
    machine_close(&k);
    finish(&c);
}
END_TEST

START_TEST(loss_scaled)
{
    compilation c;
    machine k;
    begin_training(&c, "sgd:momentum=0.5");
    c.options.loss_scale = 0x1p100;
    open_training(&c, &k, linear);
    step(&k, FLOATS(2, -4), 0.5f);
    EXPECT_STATE(&k, "w", 0, 4);
    EXPECT_STATE(&k, "optimizer@good_steps", 1);
    expect_output(&k, 1, 0, NULL, FLOATS(4.6904158f));
    /* The gradient overflows, the loss does not: nothing moves but the factor. */
    step(&k, FLOATS(0x1p30f, -4), 0.5f);
    ck_assert(isinf(*(const float *)xcvm_value_data(xcvm_session_output(k.session, 1))));
    EXPECT_STATE(&k, "w", 0, 4);
    EXPECT_STATE(&k, "optimizer@w.momentum_buffer", 2, -4);
    EXPECT_STATE(&k, "optimizer@step", 1);
    EXPECT_STATE(&k, "optimizer@good_steps", 0);
    ck_assert_float_eq(
        *(const float *)xcvm_value_data(xcvm_session_state(k.session, index_of(&k, "optimizer@loss_scale"))), 0x1p99f);
    machine_close(&k);
    finish(&c);
}
END_TEST

START_TEST(scale_doubles)
{
    compilation c;
    machine k;
    begin_training(&c, "sgd");
    c.options.loss_scale = 8;
    open_training(&c, &k, linear);
    for (int i = 0; i < 1999; i++)
        step(&k, FLOATS(0, 0), 0.0f);
    EXPECT_STATE(&k, "optimizer@loss_scale", 8);
    EXPECT_STATE(&k, "optimizer@good_steps", 1999);
    step(&k, FLOATS(0, 0), 0.0f);
    EXPECT_STATE(&k, "optimizer@loss_scale", 16);
    EXPECT_STATE(&k, "optimizer@good_steps", 0);
    machine_close(&k);
    finish(&c);
}
END_TEST

/* Averages begin as the parameters, and a program for evaluation reads them in place of these. */
START_TEST(averaged)
{
    compilation c, e;
    machine k;
    begin_training(&c, "sgd");
    begin_training(&e, "sgd");
    c.options.average = e.options.average = 0.5;
    e.options.evaluate = true;
    open_training(&c, &k, linear);
    step(&k, FLOATS(2, -4), 0.5f);
    EXPECT_STATE(&k, "w", 0, 4);
    EXPECT_STATE(&k, "optimizer@w.average", 0.5f, 3);
    machine v = {.program = NULL};
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
    give(&v, "x", 1, DIMS(2), FLOATS(1, 1));
    machine_run(&v);
    expect_output(&v, 0, 0, NULL, FLOATS(0.5f + 3 + 2.75f + 3.75f));
    step(&k, FLOATS(2, -4), 0.5f);
    machine_run(&v);
    expect_output(&v, 0, 0, NULL, FLOATS(-0.25f + 4.5f + 2.375f + 3.375f));
    machine_close(&v);
    machine_close(&k);
    finish(&e);
    finish(&c);
}
END_TEST

/* Each pass leaves a graph that is sound, whatever is asked for. */
START_TEST(sound_graphs)
{
    compilation c;
    begin_training(&c, "lars:momentum=0.9");
    c.options.accumulate = c.options.all_reduce = true;
    c.options.clip_norm = c.options.loss_scale = 1;
    c.options.average = 0.5;
    linear(&c.b);
    ok(&c.m, xcc_pass_canonicalise(&c.m));
    ok(&c.m, xcc_pass_infer(&c.m));
    ok(&c.m, xcc_pass_train(&c.m));
    ok(&c.m, xcc_graph_verify(c.m.graph));
    ok(&c.m, xcc_pass_separate(&c.m));
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
    machine k;
    begin_training(&c, "sgd");
    c.options.optimization = levels[_i];
    open_training(&c, &k, product);
    step(&k, FLOATS(0, 0), 0.5f);
    EXPECT_STATE(&k, "w", 1 - 1.5f, 2 - 2);
    EXPECT_STATE(&k, "v", 3 - 0.5f, 4 - 1);
    step(&k, FLOATS(0, 0), 1.0f);
    EXPECT_STATE(&k, "w", -0.5f - 2.5f, 0 - 3);
    EXPECT_STATE(&k, "v", 2.5f + 0.5f, 3);
    machine_close(&k);
    finish(&c);
}
END_TEST

/* Two states, of which each is the other's gradient, seen through a Reshape. */
START_TEST(views_of_states)
{
    static const int levels[] = {-1, 1, 2};
    compilation c;
    machine k;
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
    machine_open(&k, &c);
    machine_give(&k, 0, XCVM_F32, 0, NULL, FLOATS(0));
    machine_run(&k);
    EXPECT_STATE(&k, "w", 1 - 1.5f, 2 - 2);
    EXPECT_STATE(&k, "v", 3 - 0.5f, 4 - 1);
    machine_close(&k);
    finish(&c);
}
END_TEST

/* ---- Several processes ---- */

/* loss = the mean of x * w over a batch of any size, w = 1. */
static void mean_of_batch(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(-1)), *w = parameter(b, "w", 1, DIMS(1), FLOATS(1));
    xcc_value *loss = must(b, xcc_build_mul(b, x, w));
    output(b, must(b, xcc_build_reduce(b, XCVM_OP_ReduceMean, loss, NULL, false)));
}

/* The other process has what the test says, in the order of the messages. */
typedef struct other_process {
    float values[4];
    size_t messages;
} other_process;

static xcvm_status add_other(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error)
{
    other_process *o = user;
    (void)error;
    ck_assert_int_eq(dtype, XCVM_F32);
    ck_assert_uint_eq(count, 1);
    *(float *)elements += o->values[o->messages++];
    return XCVM_OK;
}

/* This process has the samples 1 and 3, the other one 8: together a mean and a gradient of 4. */
START_TEST(parts_of_a_batch)
{
    compilation c;
    machine k = {.program = NULL};
    other_process other = {.values = {1, 8.0f / 3, 8.0f / 3}};
    begin_training(&c, "sgd");
    c.options.all_reduce = true;
    mean_of_batch(&c.b);
    passes(&c);
    k.bytes = emit(&c);
    xcvm_load_options load = {.size = sizeof load};
    xcvm_session_options options = {
        .size = sizeof options, .threads = 1, .all_reduce = add_other, .all_reduce_user = &other};
    xcvm_error error = {0};
    ck_assert_msg(xcvm_program_load(k.bytes.at, k.bytes.length, &load, &k.program, &error) == XCVM_OK, "%s",
                  error.message);
    ck_assert_int_eq(xcvm_session_create(k.program, &options, &k.session, &error), XCVM_OK);
    step(&k, FLOATS(1, 3), 0.125f);
    ck_assert_uint_eq(other.messages, 3);
    expect_output(&k, 0, 0, NULL, FLOATS(4));
    ck_assert_str_eq(xcvm_program_output(k.program, 0)->name, c.m.graph->output_names[0]);
    EXPECT_STATE(&k, "w", 0.5f);
    machine_close(&k);
    finish(&c);
}
END_TEST

/* Three layers, each of a matrix of 4.7 MB and a bias that the model names first. */
static void layers(xcc_builder *b, int64_t batch)
{
    enum { WIDTH = 1088 };
    static const float zeros[WIDTH * WIDTH];
    static const char *const names[][2] = {{"b1", "w1"}, {"b2", "w2"}, {"b3", "w3"}};
    xcc_value *parameters[3][2], *x = input(b, "x", XCVM_F32, 2, DIMS(batch, WIDTH));
    for (int i = 0; i < 3; i++) {
        /* The model has them in another order than the layers. */
        const int layer = (i + 1) % 3;
        parameters[layer][0] = parameter(b, names[layer][0], 1, DIMS(WIDTH), zeros);
        parameters[layer][1] = parameter(b, names[layer][1], 2, DIMS(WIDTH, WIDTH), zeros);
    }
    for (int i = 0; i < 3; i++) {
        b->name = names[i][1];
        x = must(b, xcc_build_call(b, XCVM_OP_MatMul, 2, (xcc_value *[]){x, parameters[i][1]}));
        x = must(b, xcc_build_unary(b, XCVM_OP_Tanh, must(b, xcc_build_add(b, x, parameters[i][0]))));
    }
    output(b, must(b, xcc_build_reduce(b, XCVM_OP_ReduceMean, x, NULL, false)));
}

static void compile_layers(compilation *c, int64_t batch, xcc_scheduling scheduling)
{
    begin_training(c, "sgd");
    c->options.all_reduce = true;
    c->options.scheduling = scheduling;
    layers(&c->b, batch);
    passes(c);
    xcc_graph_number(c->m.graph);
}

/* The matrices' sums begin, that of the last layer first, each before the gradients of the layer in front of it are
 * made; all are waited for when they are. Biases travel with the matrix behind them, or alone. */
START_TEST(sums_beside_the_backward)
{
    compilation c;
    uint32_t begins[4], ends[4], producers[4];
    size_t begun = 0, ended = 0;
    compile_layers(&c, 2, _i == 0 ? XCC_SCHEDULE_MEMORY : XCC_SCHEDULE_NAIVE);
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next) {
        if (xcc_is(n, XCVM_OP_AllReduceBegin)) {
            ck_assert_uint_lt(begun, 4);
            producers[begun] = 0;
            for (size_t i = 0; i < xcc_node_input_count(n); i++)
                if (xcc_node_input(n, i)->producer->order > producers[begun])
                    producers[begun] = xcc_node_input(n, i)->producer->order;
            begins[begun++] = n->order;
        }
        if (xcc_is(n, XCVM_OP_AllReduceEnd)) {
            ck_assert_uint_lt(ended, 4);
            ends[ended++] = n->order;
        }
    }
    ck_assert_uint_eq(begun, 4);
    ck_assert_uint_eq(ended, 4);
    ck_assert_uint_lt(begins[0], producers[1]);
    ck_assert_uint_lt(begins[1], producers[2]);
    ck_assert_uint_lt(begins[3], ends[0]);
    finish(&c);
}
END_TEST

/* A process whose batch is a single sample sums up in the same order as one that has several. */
START_TEST(same_order_for_all_sizes)
{
    static const char *const expected[] = {"w3", "b3", "w2", "b2", "w1", "b1"};
    for (int64_t batch = 1; batch <= 3; batch++) {
        compilation c;
        size_t count = 0;
        compile_layers(&c, batch, XCC_SCHEDULE_MEMORY);
        const xcc_node *update = c.m.graph->last;
        ck_assert(xcc_is(update, XCVM_OP_SGD));
        for (size_t i = 0; i < xcc_node_input_count(update); i++) {
            const xcc_value *v = xcc_node_input(update, i);
            if (v == NULL || !xcc_is(v->producer, XCVM_OP_AllReduceEnd))
                continue;
            const xcvm_field *field = xcc_node_input_field(update, i);
            ck_assert_str_eq(field->name, "gradients");
            /* The gradients are as many as the parameters, and in their order. */
            size_t at = 0;
            while (strcmp(xcc_node_input_field(update, at)->name, "parameters") != 0)
                at++;
            ck_assert_str_eq(xcc_node_input(update, at + count)->name, expected[count]);
            ck_assert_int_eq(v->type.rank, xcc_node_input(update, at + count)->type.rank);
            count++;
        }
        ck_assert_uint_eq(count, 6);
        finish(&c);
    }
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

/* Steps that f16 cannot tell add up in the masters. */
START_TEST(masters)
{
    compilation c;
    machine k;
    begin_training(&c, "sgd");
    open_training(&c, &k, halves);
    for (int i = 0; i < 64; i++)
        step(&k, FLOATS(-1, 1), 0x1p-13f);
    EXPECT_STATE(&k, "optimizer@w.master", 1 + 0x1p-7f, 2 - 0x1p-7f);
    EXPECT_STATE(&k, "w", 1 + 0x1p-7f, 2 - 0x1p-7f);
    EXPECT_STATE(&k, "v", 3 - 0x1p-7f, 4 - 0x1p-7f);
    machine_close(&k);
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
    c.options.wrt = &refused[_i].wrt;
    c.options.wrt_count = refused[_i].wrt != NULL;
    refused[_i].make(&c.b);
    check_refused(&c, refused[_i].status, refused[_i].message);
}
END_TEST

/* Options that xcc_compile refuses before it reads a model. */
static const struct {
    xcc_options options;
    const char *message;
} wrong[] = {
    {{.clip_norm = 1}, "there is no optimizer"},
    {{.evaluate = true}, "there is no optimizer"},
    {{.train = "sgd", .backprop = true}, "ask for one of the two"},
    {{.train = "sgd", .clip_norm = -1}, "cannot be clipped to -1"},
    {{.train = "sgd", .clip_value = (double)NAN}, "cannot be clipped to"},
    {{.train = "sgd", .average = 1}, "the decay of averages cannot be 1"},
    {{.train = "sgd", .loss_scale = (double)INFINITY}, "the loss cannot be scaled by inf"},
    {{.train = "sgd", .groups = &(xcc_training_group){.pattern = NULL}, .group_count = 1}, "has no pattern"},
    {{.train = "sgd", .groups = &(xcc_training_group){"*", -1, false, 0}, .group_count = 1}, "group '*': rate"},
};

START_TEST(options_that_are_wrong)
{
    xcc_options options = wrong[_i].options;
    options.size = sizeof options;
    xcvm_error error = {0};
    ck_assert_int_eq(xcc_compile("", 0, &options, test_full_sink, NULL, NULL, &error), XCVM_INVALID_ARGUMENT);
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
    tcase_add_test(steps, parts_of_a_batch);
    tcase_add_loop_test(steps, sums_beside_the_backward, 0, 2);
    tcase_add_test(steps, same_order_for_all_sizes);
    tcase_add_test(steps, masters);
    suite_add_tcase(suite, steps);
    TCase *refusals = tcase_create("refusals");
    tcase_add_loop_test(refusals, what_is_wrong_is_said, 0, sizeof refused / sizeof *refused);
    tcase_add_loop_test(refusals, options_that_are_wrong, 0, sizeof wrong / sizeof *wrong);
    suite_add_tcase(suite, refusals);
    return suite;
}
