/* Helpers for tests of training programs: parameters, steps, and expected states. */
#ifndef XCVM_TESTS_COMPILER_TRAINING_SUPPORT_H
#define XCVM_TESTS_COMPILER_TRAINING_SUPPORT_H

#include "tests/compiler/support.h"

#include "compiler/ir/compose.h"

static UNUSED void begin_training(compilation *c, const char *optimizer)
{
    begin(c, 2);
    c->options.train = optimizer;
}

static UNUSED xcc_value *parameter(xcc_builder *b, const char *name, int rank, const int64_t *dims, const float *data)
{
    return must(b, xcc_parameter(b->graph, name, XCVM_F32, rank, dims, data, false));
}

static UNUSED size_t index_of(const compiled_program *k, const char *name)
{
    size_t i = 0;
    while (i < xcvm_program_state_count(k->program) && strcmp(xcvm_program_state_at(k->program, i)->name, name) != 0)
        i++;
    ck_assert_msg(i < xcvm_program_state_count(k->program), "there is no state %s", name);
    return i;
}

static UNUSED void expect_state(const compiled_program *k, const char *name, size_t count, const float *data)
{
    const xcvm_value *v = xcvm_session_get_state(k->session, index_of(k, name));
    ck_assert_uint_eq(xcvm_element_count(v), count);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(fabs(xcvm_element_as_double(v, i) - (double)data[i]) <= 1e-5, "%s[%zu] is %g, not %g", name, i,
                      xcvm_element_as_double(v, i), (double)data[i]);
}
#define EXPECT_STATE(k, name, ...)                                                                                     \
    expect_state((k), (name), sizeof(FLOATS(__VA_ARGS__)) / sizeof(float), FLOATS(__VA_ARGS__))

/* Gives an f32 tensor to the input of that name. */
static UNUSED void set_input(compiled_program *k, const char *name, int rank, const int64_t *dims, const float *data)
{
    size_t i = 0;
    while (i < xcvm_program_input_count(k->program) && strcmp(xcvm_program_input_at(k->program, i)->name, name) != 0)
        i++;
    ck_assert_msg(i < xcvm_program_input_count(k->program), "there is no input %s", name);
    compiled_set_input(k, i, XCVM_F32, rank, dims, data);
}

static UNUSED void step(compiled_program *k, const float *x, float rate)
{
    set_input(k, "x", 1, DIMS(2), x);
    set_input(k, "learning_rate", 0, NULL, &rate);
    compiled_run(k);
}

#endif
