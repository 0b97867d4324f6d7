/* Compares gradients with central differences. */
#include "ops/random/random.h"
#include "ops/util/convert.h"
#include "tape/backward/backward.h"
#include "vm/options.h"

#include <math.h>
#include <string.h>

/* The function, weighted to one number, and its derivatives along directions. */
typedef struct checked {
    xcvm_tape_function f;
    const xcvm_var *directions;
    xcvm_var weights; /* made at the first call, when the type of the value is known */
    uint64_t random;
    int order;
} checked;

static xcvm_var random_like(xcvm_tape *t, const xcvm_value *type, uint64_t *state)
{
    tape_variable *v = tape_tensor(t, (xcvm_dtype)type->dtype, type->rank, type->dims, NULL);
    for (size_t i = 0, count = v != NULL ? xcvm_element_count(type) : 0; i < count; i++) {
        const double number = 2 * xcvm_random_uniform(state) - 1;
        xcvm_store_f64((xcvm_dtype)type->dtype, v->value.type.data, i, 1, &number, false);
    }
    return v != NULL ? tape_handle(v) : TAPE_FAILED;
}

static xcvm_var inner_product(xcvm_tape *t, xcvm_var a, xcvm_var b)
{
    return xcvm_ReduceSum(t, xcvm_Mul(t, a, b), .keepdims = 0);
}

static xcvm_var derivative_value(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs);

static xcvm_var weighted_value(checked *c, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    const xcvm_var y = c->f.call(c->f.user, t, count, xs);
    tape_variable *v = tape_is_unusable(t) ? NULL : tape_resolve(t, y, "the value of the function");
    if (v == NULL)
        return TAPE_FAILED;
    if (c->weights.at == NULL)
        c->weights = xcvm_var_keep(t, random_like(t, &v->value.type, &c->random));
    return inner_product(t, y, c->weights);
}

/* The derivative of order n is the gradient of that of order n - 1, along the directions. */
static xcvm_var derivative_value(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    checked *c = user;
    if (c->order == 0)
        return weighted_value(c, t, count, xs);
    const size_t bytes = count * sizeof *xs;
    xcvm_var value, sum = XCVM_ABSENT, *gradients = tape_allocate(t, bytes);
    xcvm_error error;
    if (gradients == NULL)
        return TAPE_FAILED;
    c->order--;
    const xcvm_status status = xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){derivative_value, c}, count,
                                                                 xs, XCVM_ABSENT, &value, gradients, &error);
    c->order++;
    if (status != XCVM_OK) {
        t->error = error;
        tape_latch_failure(t, status);
    }
    for (size_t i = 0; i < count && !t->failed; i++) {
        const xcvm_var part = gradients[i].at != NULL ? inner_product(t, gradients[i], c->directions[i]) : XCVM_ABSENT;
        sum = part.at == NULL ? sum : sum.at == NULL ? part : xcvm_Add(t, sum, part);
    }
    tape_free(t, gradients, bytes);
    if (sum.at == NULL && !t->failed) /* structural zero */
        sum = xcvm_tape_scalar(t, (xcvm_dtype)value.at->value.type.dtype, 0);
    return sum;
}

/* The derivative at arguments that are moved by `step` along the directions. */
static double derivative_at(checked *c, xcvm_tape *t, size_t count, const xcvm_var *xs, double step, int order)
{
    const size_t bytes = count * sizeof *xs;
    xcvm_var *moved = t->failed ? NULL : tape_allocate(t, bytes);
    if (moved == NULL)
        return NAN;
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    for (size_t i = 0; i < count; i++) {
        const xcvm_dtype dtype = (xcvm_dtype)xs[i].at->value.type.dtype;
        moved[i] = xcvm_Add(t, xs[i], xcvm_Mul(t, c->directions[i], xcvm_tape_scalar(t, dtype, step)));
    }
    c->order = order;
    const double number = t->failed ? NAN : xcvm_var_get_number(t, derivative_value(c, t, count, moved));
    xcvm_tape_scope_end(t, scope, 0, NULL);
    tape_free(t, moved, bytes);
    return number;
}

static xcvm_var weighted_function(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    return weighted_value(user, t, count, xs);
}

/* The first derivative, computed in forward mode. */
static double change_at(checked *c, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    xcvm_var value, change;
    xcvm_error error;
    const xcvm_status status = xcvm_tape_jacobian_vector_product(t, (xcvm_tape_function){weighted_function, c}, count,
                                                                 xs, c->directions, &value, &change, &error);
    if (status != XCVM_OK) {
        t->error = error;
        tape_latch_failure(t, status);
    }
    const double number = status != XCVM_OK ? NAN : change.at != NULL ? xcvm_var_get_number(t, change) : 0;
    xcvm_tape_scope_end(t, scope, 0, NULL);
    return number;
}

static void compare_derivatives(xcvm_tape *t, const xcvm_gradient_check_options *o, const char *mode, int order,
                                double got, double expected)
{
    if (!t->failed && !(fabs(got - expected) <= o->atol + o->rtol * fmax(fabs(expected), fabs(got))))
        tape_fail(t, XCVM_OUT_OF_RANGE, "the derivative of order %d (%s) is %.10g, the difference quotient %.10g",
                  order, mode, got, expected);
}

static void check_all(checked *c, xcvm_tape *t, size_t count, const xcvm_var *xs, const xcvm_gradient_check_options *o)
{
    for (int order = 1; order <= o->order && !t->failed; order++) {
        const double got = derivative_at(c, t, count, xs, 0, order),
                     above = derivative_at(c, t, count, xs, o->step, order - 1),
                     below = derivative_at(c, t, count, xs, -o->step, order - 1),
                     expected = (above - below) / (2 * o->step);
        compare_derivatives(t, o, "reverse", order, got, expected);
        if (order == 1 && !t->failed)
            compare_derivatives(t, o, "forward", order, change_at(c, t, count, xs), expected);
    }
}

xcvm_status xcvm_tape_check_gradients(xcvm_tape *tape, xcvm_tape_function f, size_t count, const xcvm_var *xs,
                                      const xcvm_gradient_check_options *check, xcvm_error *error)
{
    xcvm_gradient_check_options o;
    TAPE_BEGIN(tape, xcvm_tape_check_gradients, error);
    XCVM_TRY(xcvm_options_read(&o, sizeof o, check, error));
    XCVM_CHECK(error, f.call != NULL && count > 0 && count < SIZE_MAX / 64 && xs != NULL, INVALID_ARGUMENT,
               "there is no function, or it has no arguments");
    XCVM_CHECK(error, o.order >= 0 && o.order <= 8, INVALID_ARGUMENT, "order is %d, not from 1 to 8", o.order);
    const size_t bytes = count * sizeof *xs;
    xcvm_var *directions = tape_allocate(tape, bytes);
    if (directions == NULL)
        return tape_report(tape, error);
    checked c = {.f = f, .directions = directions, .random = o.seed};
    const xcvm_scope scope = xcvm_tape_scope_begin(tape);
    const bool recording = xcvm_tape_set_recording(tape, false);
    bool exact = true;
    for (size_t i = 0; i < count && !tape->failed; i++) {
        const tape_variable *x = tape_resolve(tape, xs[i], "an argument of the function");
        char text[192];
        if (x != NULL && (x->value.type.kind != XCVM_KIND_TENSOR || !tape_variable_can_have_gradient(x)))
            tape_fail(tape, XCVM_TYPE_MISMATCH,
                      "argument %zu of the function is %s; only tensors of float types have gradients", i,
                      xcvm_value_describe(&x->value.type, text, sizeof text));
        if (tape->failed)
            break;
        exact = exact && x->value.type.dtype == XCVM_F64;
        directions[i] = random_like(tape, &x->value.type, &c.random);
    }
    o.order = o.order != 0 ? o.order : 1;
    o.step = o.step != 0 ? o.step : exact ? 1e-5 : 1e-2;
    if (o.rtol == 0 && o.atol == 0)
        o.rtol = o.atol = exact ? 1e-6 : 2e-2;
    if (!tape->failed)
        check_all(&c, tape, count, xs, &o);
    tape->recording = recording;
    xcvm_var_release(tape, c.weights);
    xcvm_tape_scope_end(tape, scope, 0, NULL);
    tape_free(tape, directions, bytes);
    return tape_report(tape, error);
}
