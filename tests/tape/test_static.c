/* Tests of static schedules: what is replayed is what define-by-run computes. */
#include "tests/tape/support.h"

/* ---- Support ---- */

typedef struct messages {
    char text[4096];
    size_t count, warnings;
} messages;

static void take_message(void *user, int level, const char *text)
{
    messages *m = user;
    m->count++;
    m->warnings += level == 0;
    const size_t length = strlen(m->text);
    snprintf(m->text + length, sizeof m->text - length, "%d %s\n", level, text);
}

static xcvm_static *make_static(xcvm_tape *t, xcvm_static_function f, void *user, const xcvm_static_options *options)
{
    xcvm_static *s;
    xcvm_error error = {0};
    ck_assert_msg(xcvm_static_create(t, f, user, options, &s, &error) == XCVM_OK, "%s", error.message);
    return s;
}

static xcvm_static_stats figures(const xcvm_static *s)
{
    xcvm_static_stats stats = {.size = sizeof stats};
    xcvm_static_get_stats(s, &stats);
    return stats;
}

static xcvm_var call1(xcvm_static *s, xcvm_var x)
{
    xcvm_var y;
    return xcvm_static_call(s, 1, &x, 1, &y);
}

static void check_bytes(xcvm_tape *a, xcvm_var x, xcvm_tape *b, xcvm_var y, double tolerance)
{
    const xcvm_value *v = value_of(a, x), *w = value_of(b, y);
    ck_assert_int_eq(xcvm_value_dtype(v), xcvm_value_dtype(w));
    ck_assert(xcvm_same_shape(v, w));
    for (size_t i = 0; i < xcvm_value_count(v); i++) {
        const double p = xcvm_element_as_double(v, i), q = xcvm_element_as_double(w, i);
        ck_assert_msg(fabs(p - q) <= tolerance * (1 + fabs(q)), "element %zu: %g, not %g", i, p, q);
    }
}

/* ---- A chain of layers ---- */

typedef struct chain {
    xcvm_var w[2], b[2];
    int runs;
} chain;

static xcvm_var cast_parameter(xcvm_tape *t, xcvm_dtype dtype, int rank, const int64_t *dims, const float *data)
{
    const xcvm_var x = xcvm_Cast(t, xcvm_tape_constant(t, XCVM_F32, rank, dims, data), .to = dtype);
    return xcvm_tape_parameter(t, dtype, rank, dims, xcvm_value_data(value_of(t, x)));
}

static chain make_chain(xcvm_tape *t, xcvm_dtype dtype)
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

static xcvm_status run_chain(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
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

static xcvm_var batch(xcvm_tape *t, xcvm_dtype dtype, int64_t rows, float shift)
{
    float numbers[30];
    for (int i = 0; i < 30; i++)
        numbers[i] = (float)((i * 5) % 7) / 4 - 0.5f + shift;
    return xcvm_Cast(t, xcvm_tape_constant(t, XCVM_F32, 2, DIMS(rows, 3), numbers), .to = dtype);
}

static void clear_chain(xcvm_tape *t, const chain *c)
{
    for (int i = 0; i < 2; i++) {
        xcvm_var_clear_grad(t, c->w[i]);
        xcvm_var_clear_grad(t, c->b[i]);
    }
}

static void check_chain_gradients(xcvm_tape *a, const chain *x, xcvm_tape *b, const chain *y, double tolerance)
{
    for (int i = 0; i < 2; i++) {
        check_bytes(a, xcvm_var_grad(a, x->w[i]), b, xcvm_var_grad(b, y->w[i]), tolerance);
        check_bytes(a, xcvm_var_grad(a, x->b[i]), b, xcvm_var_grad(b, y->b[i]), tolerance);
    }
}

/* Forward and backward, between eager calls before and behind, for three element types. */
START_TEST(a11_11_layers_as_define_by_run)
{
    const xcvm_dtype dtypes[] = {XCVM_F16, XCVM_F32, XCVM_F64};
    const double tolerances[] = {2e-2, 1e-5, 1e-12};
    for (int d = 0; d < 3; d++) {
        xcvm_tape *t = open_tape(), *eager = open_tape();
        chain c = make_chain(t, dtypes[d]), same = make_chain(eager, dtypes[d]);
        xcvm_static *s = make_static(t, run_chain, &c, NULL);
        for (int i = 0; i < 5; i++) {
            xcvm_var x = batch(t, dtypes[d], 2, (float)i / 8), y;
            xcvm_error error;
            ck_assert_int_eq(xcvm_var_require_grad(t, x, true, &error), XCVM_OK);
            const xcvm_var loss = xcvm_ReduceSum(t, xcvm_Mul(t, call1(s, xcvm_Exp(t, x)), call1(s, x)));
            backward(t, loss);
            xcvm_var z = batch(eager, dtypes[d], 2, (float)i / 8), e = xcvm_Exp(eager, z), other;
            ck_assert_int_eq(xcvm_var_require_grad(eager, z, true, &error), XCVM_OK);
            e = xcvm_Exp(eager, z);
            ck_assert_int_eq(run_chain(&same, eager, 1, &e, 1, &y), XCVM_OK);
            ck_assert_int_eq(run_chain(&same, eager, 1, &z, 1, &other), XCVM_OK);
            const xcvm_var expected = xcvm_ReduceSum(eager, xcvm_Mul(eager, y, other));
            backward(eager, expected);
            check_bytes(t, loss, eager, expected, tolerances[d]);
            check_bytes(t, xcvm_var_grad(t, x), eager, xcvm_var_grad(eager, z), tolerances[d]);
            check_chain_gradients(t, &c, eager, &same, tolerances[d]);
            if (i == 2) { /* accumulated before, cleared from here on */
                clear_chain(t, &c);
                clear_chain(eager, &same);
            }
            xcvm_tape_reset(t);
            xcvm_tape_reset(eager);
        }
        ck_assert_int_eq(c.runs, 1);
        ck_assert_uint_eq(figures(s).replayed, 9);
        ck_assert_uint_eq(figures(s).schedules, 1);
        xcvm_static_destroy(s);
        close_tape(t);
        close_tape(eager);
    }
}
END_TEST

Suite *suite_tape_static(void) { return SUITE_OF("tape_static", a11_11_layers_as_define_by_run); }
