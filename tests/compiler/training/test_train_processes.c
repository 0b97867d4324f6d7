/* Tests of training programs for several processes: parts of a batch, and sums of gradients during the backward
 * pass. */
#include "tests/compiler/training/support.h"

/* loss = the mean of x * w over a batch of any size, w = 1. */
static void mean_of_batch(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(-1)), *w = parameter(b, "w", 1, DIMS(1), FLOATS(1));
    xcc_value *loss = must(b, xcc_build_mul(b, x, w));
    output(b, must(b, xcc_build_reduce(b, XCVM_OP_ReduceMean, loss, NULL, false)));
}

/* The other process has the values of the test, in the order of the messages. */
typedef struct other_process {
    float values[8];
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

static void open_beside(compilation *c, compiled_program *k, other_process *other)
{
    c->options.training.all_reduce = true;
    mean_of_batch(&c->b);
    passes(c);
    k->bytes = emit(c);
    xcvm_load_options load = {.size = sizeof load};
    xcvm_session_options options = {
        .size = sizeof options, .threads = 1, .all_reduce.sum = add_other, .all_reduce.user = other};
    xcvm_error error = {0};
    ck_assert_msg(xcvm_program_load(k->bytes.at, k->bytes.length, &load, &k->program, &error) == XCVM_OK, "%s",
                  error.message);
    ck_assert_int_eq(xcvm_session_create(k->program, &options, &k->session, &error), XCVM_OK);
}

/* This process has the samples 1 and 3, the other one 8: together a mean and a gradient of 4. */
START_TEST(parts_of_a_batch)
{
    compilation c;
    compiled_program k = {.program = NULL};
    other_process other = {.values = {1, 8.0f / 3, 8.0f / 3}};
    begin_training(&c, "sgd");
    open_beside(&c, &k, &other);
    step(&k, FLOATS(1, 3), 0.125f);
    ck_assert_uint_eq(other.messages, 3);
    expect_output(&k, 0, 0, NULL, FLOATS(4));
    ck_assert_str_eq(xcvm_program_output_at(k.program, 0)->name, c.m.graph->output_names[0]);
    EXPECT_STATE(&k, "w", 0.5f);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Gradients of a run that does not apply stay the process's own, and go with those of the next that does: one sum for
 * both. The other process has as many samples; its gradients are 6 together, its parts of the losses 3 each. */
START_TEST(summed_when_applied)
{
    compilation c;
    compiled_program k = {.program = NULL};
    other_process other = {.values = {2, 3, 2, 6, 3}};
    bool apply = false;
    begin_training(&c, "sgd");
    c.options.training.accumulate = true;
    open_beside(&c, &k, &other);
    ck_assert_str_eq(xcvm_program_input_at(k.program, 2)->name, "apply");
    compiled_set_input(&k, 2, XCVM_BOOL, 0, NULL, &apply);
    step(&k, FLOATS(1, 3), 0.125f);
    ck_assert_uint_eq(other.messages, 2);
    expect_output(&k, 0, 0, NULL, FLOATS(4));
    EXPECT_STATE(&k, "w", 1);
    EXPECT_STATE(&k, "optimizer@w.accumulator", 1);
    apply = true;
    compiled_set_input(&k, 2, XCVM_BOOL, 0, NULL, &apply);
    step(&k, FLOATS(5, 7), 0.125f);
    ck_assert_uint_eq(other.messages, 5);
    expect_output(&k, 0, 0, NULL, FLOATS(6));
    EXPECT_STATE(&k, "w", 1 - 0.125f * (1 + 3 + 6) / 2);
    EXPECT_STATE(&k, "optimizer@w.accumulator", 0);
    EXPECT_STATE(&k, "optimizer@step", 1);
    compiled_close(&k);
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
    c->options.training.all_reduce = true;
    c->options.debug.scheduling = scheduling;
    layers(&c->b, batch);
    passes(c);
    xcc_graph_number(c->m.graph);
}

/* Sums of the matrices begin with the last layer, each before the gradients of the previous layer are computed. All are
 * finished before the update. A bias is in the message of the next matrix, or in its own. */
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
            for (size_t i = 0; i < xcc_node_input_count(n); i++) {
                const xcc_value *v = xcc_node_input(n, i);
                if (v != NULL && v->producer != NULL && v->producer->order > producers[begun])
                    producers[begun] = v->producer->order;
            }
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

Suite *suite_compiler_train_processes(void);
Suite *suite_compiler_train_processes(void)
{
    Suite *suite = suite_create("compiler_train_processes");
    TCase *steps = tcase_create("steps");
    tcase_add_test(steps, parts_of_a_batch);
    tcase_add_test(steps, summed_when_applied);
    tcase_add_loop_test(steps, sums_beside_the_backward, 0, 2);
    tcase_add_test(steps, same_order_for_all_sizes);
    suite_add_tcase(suite, steps);
    return suite;
}
