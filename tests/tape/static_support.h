/* Support for tests of static functions: messages, and a chain of layers. */
#ifndef XCVM_TESTS_TAPE_STATIC_SUPPORT_H
#define XCVM_TESTS_TAPE_STATIC_SUPPORT_H

#include "tests/tape/support.h"
#include "xcvm/tape_static.h"

#include <stdio.h>

/* ---- Support ---- */

typedef struct messages {
    char text[4096];
    size_t count, warnings;
} messages;

UNUSED static void take_message(void *user, int level, const char *text)
{
    messages *m = user;
    m->count++;
    m->warnings += level == 0;
    const size_t length = strlen(m->text);
    snprintf(m->text + length, sizeof m->text - length, "%d %s\n", level, text);
}

UNUSED static xcvm_static *make_static(xcvm_tape *t, xcvm_static_function f, const xcvm_static_options *options)
{
    xcvm_static *s;
    xcvm_error error = {0};
    ck_assert_msg(xcvm_static_create(t, f, options, &s, &error) == XCVM_OK, "%s", error.message);
    return s;
}

UNUSED static xcvm_static_info figures(const xcvm_static *s)
{
    xcvm_static_info stats = {.size = sizeof stats};
    xcvm_static_get_info(s, &stats);
    return stats;
}

UNUSED static xcvm_var call1(xcvm_static *s, xcvm_var x)
{
    xcvm_var y;
    return xcvm_static_call(s, 1, &x, 1, &y);
}

UNUSED static void check_bytes(xcvm_tape *a, xcvm_var x, xcvm_tape *b, xcvm_var y, double tolerance)
{
    const xcvm_value *v = value_of(a, x), *w = value_of(b, y);
    ck_assert_int_eq(xcvm_value_dtype(v), xcvm_value_dtype(w));
    ck_assert(xcvm_same_shape(v, w));
    for (size_t i = 0; i < xcvm_value_count(v); i++) {
        const double p = xcvm_element_as_double(v, i), q = xcvm_element_as_double(w, i);
        ck_assert_msg(fabs(p - q) <= tolerance * (1 + fabs(q)), "element %zu: %g, not %g", i, p, q);
    }
}

/* ---- Saving ---- */

/* A saved static function as a program with a session, which continues from the last call. */
typedef struct saved {
    test_bytes bytes;
    xcvm_program *program;
    xcvm_session *session;
} saved;

UNUSED static saved open_saved(xcvm_static *s)
{
    saved p = {.program = NULL};
    xcvm_error error = {0};
    const xcvm_static_save_options options = {.size = sizeof options, .continue_states = true};
    ck_assert_msg(xcvm_static_save(s, &options, (xcvm_sink){test_bytes_sink, &p.bytes}, &error) == XCVM_OK, "%s",
                  error.message);
    ck_assert_msg(xcvm_program_load(p.bytes.at, p.bytes.length, NULL, &p.program, &error) == XCVM_OK, "%s",
                  error.message);
    ck_assert_msg(xcvm_session_create(p.program, NULL, &p.session, &error) == XCVM_OK, "%s", error.message);
    return p;
}

UNUSED static void close_saved(saved *p)
{
    xcvm_session_destroy(p->session);
    xcvm_program_destroy(p->program);
    test_bytes_free(&p->bytes);
}

UNUSED static void set_saved(const saved *p, const char *name, const xcvm_value *value)
{
    xcvm_error error = {0};
    size_t i = 0;
    while (i < xcvm_program_input_count(p->program) && strcmp(xcvm_program_input_at(p->program, i)->name, name) != 0)
        i++;
    ck_assert_msg(xcvm_session_set_input(p->session, i, value, &error) == XCVM_OK, "%s: %s", name, error.message);
}

/* Checks that the program computes y of x. */
UNUSED static void check_saved_call(const saved *p, xcvm_tape *t, xcvm_var x, xcvm_var y)
{
    xcvm_error error = {0};
    set_saved(p, "in0", value_of(t, x));
    ck_assert_msg(xcvm_session_run(p->session, NULL, &error) == XCVM_OK, "%s: %s", error.instruction, error.message);
    check_bytes(t, xcvm_tape_value(t, xcvm_session_get_output(p->session, 0)), t, y, 1e-5);
}

/* ---- A chain of layers ---- */

typedef struct chain {
    xcvm_var w[2], b[2];
    int runs;
} chain;

UNUSED static xcvm_var cast_parameter(xcvm_tape *t, xcvm_dtype dtype, int rank, const int64_t *dims, const float *data)
{
    const xcvm_var x = xcvm_Cast(t, xcvm_tape_constant(t, XCVM_F32, rank, dims, data), .to = dtype);
    return xcvm_tape_parameter(t, dtype, rank, dims, xcvm_value_data(value_of(t, x)));
}

UNUSED static chain make_chain(xcvm_tape *t, xcvm_dtype dtype)
{
    chain c = {.runs = 0};
    float numbers[12];
    for (int i = 0; i < 12; i++)
        numbers[i] = (float)((i * 7) % 11) / 8 - 0.5f;
    c.w[0] = cast_parameter(t, dtype, 2, DIMS(3, 4), numbers);
    c.b[0] = cast_parameter(t, dtype, 1, DIMS(4), numbers + 3);
    c.w[1] = cast_parameter(t, dtype, 2, DIMS(4, 2), numbers + 1);
    c.b[1] = cast_parameter(t, dtype, 1, DIMS(2), numbers);
    return c;
}

UNUSED static xcvm_status run_chain(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                    xcvm_var *out)
{
    chain *c = user;
    ck_assert_uint_eq(in_count, 1);
    ck_assert_uint_eq(out_count, 1);
    c->runs++;
    const xcvm_var h = xcvm_Tanh(t, xcvm_Gemm(t, in[0], c->w[0], c->b[0]));
    out[0] = xcvm_Gemm(t, h, c->w[1], c->b[1]);
    return XCVM_OK;
}

UNUSED static xcvm_var batch(xcvm_tape *t, xcvm_dtype dtype, int64_t rows, float shift)
{
    float numbers[30];
    for (int i = 0; i < 30; i++)
        numbers[i] = (float)((i * 5) % 7) / 4 - 0.5f + shift;
    return xcvm_Cast(t, xcvm_tape_constant(t, XCVM_F32, 2, DIMS(rows, 3), numbers), .to = dtype);
}

UNUSED static void clear_chain(xcvm_tape *t, const chain *c)
{
    for (int i = 0; i < 2; i++) {
        xcvm_var_clear_gradient(t, c->w[i]);
        xcvm_var_clear_gradient(t, c->b[i]);
    }
}

UNUSED static void check_chain_gradients(xcvm_tape *a, const chain *x, xcvm_tape *b, const chain *y, double tolerance)
{
    for (int i = 0; i < 2; i++) {
        check_bytes(a, xcvm_var_get_gradient(a, x->w[i]), b, xcvm_var_get_gradient(b, y->w[i]), tolerance);
        check_bytes(a, xcvm_var_get_gradient(a, x->b[i]), b, xcvm_var_get_gradient(b, y->b[i]), tolerance);
    }
}

#endif
