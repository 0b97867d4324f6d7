/* Support for tests of optimizers and layers: the values of make_learning_values.py. */
#ifndef XCVM_TESTS_TAPE_LEARNING_H
#define XCVM_TESTS_TAPE_LEARNING_H

#include "tests/tape/learning_values.h"
#include "tests/tape/support.h"
#include "xcvm/optimizers.h"

enum { WAVE_ROOM = 1024 };

/* Element i of the tensor of a seed. */
UNUSED static const float *wave(double seed, float to[WAVE_ROOM])
{
    for (int i = 0; i < WAVE_ROOM; i++)
        to[i] = (float)(sin(0.37 * i + seed) / 2);
    return to;
}

UNUSED static xcvm_var wave_constant(xcvm_tape *t, double seed, int rank, const int64_t *dims)
{
    float data[WAVE_ROOM];
    return xcvm_tape_constant(t, XCVM_F32, rank, dims, wave(seed, data));
}

UNUSED static xcvm_var wave_parameter(xcvm_tape *t, double seed, int rank, const int64_t *dims)
{
    float data[WAVE_ROOM];
    return xcvm_tape_parameter(t, XCVM_F32, rank, dims, wave(seed, data));
}

/* Sets a tensor to the wave of a seed. */
UNUSED static void set_wave(xcvm_tape *t, xcvm_var v, double seed)
{
    float data[WAVE_ROOM];
    xcvm_error error;
    const size_t bytes = xcvm_value_count(value_of(t, v)) * sizeof *data;
    ck_assert_int_eq(xcvm_var_set_data(t, v, wave(seed, data), bytes, &error), XCVM_OK);
}

UNUSED static void must(xcvm_status status, const xcvm_error *error)
{
    ck_assert_msg(status == XCVM_OK, "%s: %s", error->instruction, error->message);
}

UNUSED static void check_status(xcvm_status status, xcvm_status expected, const xcvm_error *error, const char *message)
{
    ck_assert_msg(status == expected && strstr(error->message, message) != NULL, "%d: %s", (int)status, error->message);
}

/* Checks that only scratch memory of kernels is left. */
UNUSED static void check_empty(xcvm_tape *t)
{
    xcvm_storage_release(t->kernel.scratch_storage);
    t->kernel.scratch_storage = NULL;
    t->kernel.scratch = NULL;
    t->kernel.scratch_bytes = 0;
    ck_assert_uint_eq(stats_of(t).variables, 0);
    ck_assert_uint_eq(stats_of(t).live_bytes, 0);
}

/* Adds the weighted wave of a seed to the gradient of x. */
UNUSED static void add_gradient(xcvm_tape *t, xcvm_var x, double seed)
{
    const xcvm_value *type = value_of(t, x);
    const xcvm_var g = xcvm_Cast(t, wave_constant(t, seed, type->rank, type->dims), .to = (xcvm_dtype)type->dtype);
    backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, x, g), .keepdims = 0));
}

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static UNUSED xcvm_layer_options plain(void) { return (xcvm_layer_options){.size = sizeof(xcvm_layer_options)}; }

static UNUSED void close_with(xcvm_tape *t, xcvm_layer *l)
{
    xcvm_layer_destroy(l);
    xcvm_tape_reset(t);
    check_empty(t);
    close_tape(t);
}

#endif
