/* Tests of derivatives of functions. */
#include "tests/tape/f64_support.h"

/* sum of x0 * sin(x1) */
static xcvm_var product(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)user;
    ck_assert_uint_eq(count, 2);
    return xcvm_ReduceSum(t, xcvm_Mul(t, xs[0], xcvm_Sin(t, xs[1])), .keepdims = 0);
}

/* Value and gradients of a function of one and several arguments; nothing stays on the tape. */
START_TEST(c1_6_value_and_gradients)
{
    xcvm_tape *t = open_tape();
    const xcvm_var xs[] = {F64S(t, 1, 2), F64S(t, 0.5, 0.25)};
    xcvm_var value, gradients[2];
    const size_t before = stats_of(t).variables;
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){product, NULL}, 2, xs, XCVM_ABSENT, &value, gradients,
                                         ok));
    CHECK_F64(t, value, sin(0.5) + 2 * sin(0.25));
    CHECK_F64(t, gradients[0], sin(0.5), sin(0.25));
    CHECK_F64(t, gradients[1], cos(0.5), 2 * cos(0.25));
    ck_assert_uint_eq(stats_of(t).variables, before + 3);
    ck_assert_uint_eq(stats_of(t).recorded, 0);
    ck_assert(!xcvm_var_requires_gradient(t, value));
    close_tape(t);
}
END_TEST

static xcvm_var constant_of(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)user;
    (void)count;
    (void)xs;
    return number(t, 7);
}

static xcvm_var elements_of(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)user;
    (void)count;
    return xcvm_Mul(t, xs[0], xcvm_Sin(t, xs[0]));
}

static xcvm_var broken(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)user;
    (void)count;
    return xcvm_Add(t, xs[0], xcvm_tape_scalar(t, XCVM_F32, 1));
}

/* An independent argument has gradient zero. A value of several elements needs a seed. After a failing function the
 * tape is usable. */
START_TEST(c1_1_no_dependence_and_errors)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = F64S(t, 1, 2);
    xcvm_var value, gradient;
    xcvm_error error;
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){constant_of, NULL}, 1, &x, XCVM_ABSENT, &value,
                                         &gradient, ok));
    ck_assert_ptr_null(gradient.at);
    CHECK_F64(t, value, 7);
    ck_assert_int_eq(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){elements_of, NULL}, 1, &x, XCVM_ABSENT,
                                                       &value, &gradient, &error),
                     XCVM_SHAPE_MISMATCH);
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){elements_of, NULL}, 1, &x, F64S(t, 1, 10), &value,
                                         &gradient, ok));
    CHECK_F64(t, gradient, sin(1) + cos(1), 10 * (sin(2) + 2 * cos(2)));
    ck_assert_int_eq(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){broken, NULL}, 1, &x, XCVM_ABSENT,
                                                       &value, &gradient, &error),
                     XCVM_TYPE_MISMATCH);
    ck_assert_str_eq(error.instruction, "Add");
    ck_assert(xcvm_tape_set_recording(t, true));
    const xcvm_var whole = xcvm_tape_scalar(t, XCVM_I64, 1);
    ck_assert_int_eq(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){elements_of, NULL}, 1, &whole,
                                                       XCVM_ABSENT, &value, &gradient, &error),
                     XCVM_TYPE_MISMATCH);
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){constant_of, NULL}, 1, &x, XCVM_ABSENT, &value,
                                         &gradient, ok));
    close_tape(t);
}
END_TEST

/* Nested derivatives, each of a function that takes the inner one. */
typedef struct nested {
    int order;
} nested;

static xcvm_var powers(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    nested *n = user;
    if (n->order == 0)
        return xcvm_Mul(t, xcvm_Mul(t, xs[0], xs[0]), xcvm_Mul(t, xs[0], xcvm_Exp(t, xs[0])));
    n->order--;
    xcvm_var value, gradient;
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){powers, n}, count, xs, XCVM_ABSENT, &value, &gradient,
                                         ok));
    n->order++;
    return gradient;
}

/* The same with an inner function that may fail; its failure is the tape's. */
static xcvm_var powers_or_fail(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    nested *n = user;
    if (n->order == 0)
        return xcvm_Mul(t, xcvm_Mul(t, xs[0], xs[0]), xs[0]);
    xcvm_error error;
    xcvm_var value, gradient;
    n->order--;
    const xcvm_status status = xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){powers_or_fail, n}, count, xs,
                                                                 XCVM_ABSENT, &value, &gradient, &error);
    n->order++;
    return status == XCVM_OK ? gradient : TAPE_FAILED;
}

START_TEST(c1_2_nested_functions)
{
    xcvm_tape *t = open_tape();
    const double at = 0.5, e = exp(0.5);
    /* x^3 e^x, and its derivatives */
    const double expected[] = {e * at * at * (at + 3), e * at * (at * at + 6 * at + 6),
                               e * (at * at * at + 9 * at * at + 18 * at + 6)};
    const xcvm_var x = xcvm_var_keep(t, number(t, at));
    for (int order = 0; order < 3; order++) {
        nested n = {order};
        xcvm_var value, gradient;
        OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){powers, &n}, 1, &x, XCVM_ABSENT, &value, &gradient,
                                             ok));
        CHECK_F64(t, gradient, expected[order]);
    }
    xcvm_tape_reset(t);
    ck_assert_uint_eq(stats_of(t).variables, 1);
    close_tape(t);
}
END_TEST

/* Perturbation confusion: d/dx (x * d/dy (x + y)) is 1 at y = 1, not 2. */
static xcvm_var inner(void *user, xcvm_tape *t, size_t count, const xcvm_var *ys)
{
    (void)count;
    return xcvm_Add(t, *(const xcvm_var *)user, ys[0]);
}

static xcvm_var outer(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)user;
    (void)count;
    const xcvm_var y = number(t, 1), one = number(t, 1);
    xcvm_var value, change, x = xs[0];
    OK(xcvm_tape_jacobian_vector_product(t, (xcvm_tape_function){inner, &x}, 1, &y, &one, &value, &change, ok));
    return xcvm_Mul(t, xs[0], change);
}

START_TEST(c1_2_perturbations_are_apart)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = number(t, 3), one = number(t, 1);
    xcvm_var value, change;
    OK(xcvm_tape_jacobian_vector_product(t, (xcvm_tape_function){outer, NULL}, 1, &x, &one, &value, &change, ok));
    CHECK_F64(t, value, 3);
    CHECK_F64(t, change, 1);
    close_tape(t);
}
END_TEST

/* A function captures a variable that its caller differentiates by. */
static xcvm_var captured(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)count;
    return xcvm_Mul(t, *(const xcvm_var *)user, xcvm_Mul(t, xs[0], xs[0]));
}

static xcvm_var capturing(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)user;
    (void)count;
    const xcvm_var y = number(t, 5);
    xcvm_var value, gradient, x = xs[0];
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){captured, &x}, 1, &y, XCVM_ABSENT, &value, &gradient,
                                         ok));
    return gradient; /* 2 * x * 5 */
}

static xcvm_var failing_within(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    xcvm_error error;
    xcvm_var value, gradient;
    (void)user;
    ck_assert_int_eq(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){broken, NULL}, count, xs, XCVM_ABSENT,
                                                       &value, &gradient, &error),
                     XCVM_TYPE_MISMATCH);
    return TAPE_FAILED;
}

/* The caller of the outermost derivative gets the innermost failure. */
START_TEST(c1_2_failures_within)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    xcvm_var value, gradient;
    const xcvm_var x = number(t, 1);
    ck_assert_int_eq(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){failing_within, NULL}, 1, &x,
                                                       XCVM_ABSENT, &value, &gradient, &error),
                     XCVM_TYPE_MISMATCH);
    ck_assert_str_eq(error.instruction, "Add");
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_OK);
    close_tape(t);
}
END_TEST

START_TEST(c1_6_captured_variables)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = number(t, 3);
    xcvm_var value, gradient;
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){capturing, NULL}, 1, &x, XCVM_ABSENT, &value,
                                         &gradient, ok));
    CHECK_F64(t, value, 30);
    CHECK_F64(t, gradient, 10);
    close_tape(t);
}
END_TEST

/* Jacobian-vector product, Jacobian, Hessian-vector product. */
static xcvm_var cubes(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)user;
    (void)count;
    return xcvm_ReduceSum(t, xcvm_Mul(t, xs[0], xcvm_Mul(t, xs[0], xs[0])), .keepdims = 0);
}

START_TEST(c1_6_products_and_matrices)
{
    xcvm_tape *t = open_tape();
    const xcvm_var xs[] = {F64S(t, 1, 2), F64S(t, 0.5, 0.25)}, directions[] = {F64S(t, 3, 4), XCVM_ABSENT};
    xcvm_var value, change, matrix;
    OK(xcvm_tape_jacobian_vector_product(t, (xcvm_tape_function){product, NULL}, 2, xs, directions, &value, &change,
                                         ok));
    CHECK_F64(t, change, 3 * sin(0.5) + 4 * sin(0.25));
    const xcvm_var none[] = {XCVM_ABSENT, XCVM_ABSENT};
    OK(xcvm_tape_jacobian_vector_product(t, (xcvm_tape_function){product, NULL}, 2, xs, none, &value, &change, ok));
    ck_assert_ptr_null(change.at);
    OK(xcvm_tape_jacobian(t, (xcvm_tape_function){elements_of, NULL}, xs[0], &matrix, ok));
    CHECK_F64(t, matrix, sin(1) + cos(1), 0, 0, sin(2) + 2 * cos(2));
    ck_assert_int_eq(xcvm_value_rank(value_of(t, matrix)), 2);
    OK(xcvm_tape_hessian_vector_product(t, (xcvm_tape_function){cubes, NULL}, xs[0], directions[0], &matrix, ok));
    CHECK_F64(t, matrix, 6 * 1 * 3, 6 * 2 * 4);
    ck_assert_uint_eq(stats_of(t).recorded, 0);
    close_tape(t);
}
END_TEST

/* ---- Host operations ---- */

typedef struct doubled {
    double factor; /* of the gradient; 2 is correct */
    bool fail_forward, fail_backward, wrong_shape;
} doubled;

static xcvm_status double_forward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                  xcvm_var *out)
{
    const doubled *d = user;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_Add(t, xcvm_Mul(t, in[0], in[0]), xcvm_Mul(t, in[0], in[0]));
    return d->fail_forward ? XCVM_IO : XCVM_OK;
}

/* d(2 x^2) = 4 x, for a factor of 2 */
static xcvm_status double_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                   const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    const doubled *d = user;
    (void)in_count;
    (void)out_count;
    (void)out;
    if (d->fail_backward)
        return XCVM_IO;
    in_gradients[0] = xcvm_Mul(t, out_gradients[0], xcvm_Mul(t, in[0], number(t, 2 * d->factor)));
    if (d->wrong_shape)
        in_gradients[0] = number(t, 1);
    return XCVM_OK;
}

static xcvm_operation operation_of(doubled *d)
{
    return (xcvm_operation){.size = sizeof(xcvm_operation),
                            .name = "double",
                            .forward = double_forward,
                            .backward = double_backward,
                            .user = d};
}

static xcvm_var doubled_sum(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    xcvm_var y;
    (void)count;
    return xcvm_Sin(t, xcvm_tape_call_operation(t, user, 1, xs, 1, &y));
}

/* Host gradients of any order; a check finds a wrong one. */
START_TEST(c1_7_operations_and_checks)
{
    xcvm_tape *t = open_tape();
    doubled right = {.factor = 2}, wrong = {.factor = 1};
    xcvm_operation good = operation_of(&right), bad = operation_of(&wrong);
    const xcvm_var x = F64S(t, 1, 0.5);
    xcvm_var value, gradient;
    xcvm_error error;
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){doubled_sum, &good}, 1, &x, F64S(t, 1, 1), &value,
                                         &gradient, ok));
    CHECK_F64(t, gradient, 4 * cos(2), 2 * cos(0.5));
    const xcvm_gradient_check_options second = {.size = sizeof second, .order = 3, .rtol = 1e-5, .atol = 1e-5};
    OK(xcvm_tape_check_gradients(t, (xcvm_tape_function){doubled_sum, &good}, 1, &x, &second, ok));
    ck_assert_int_eq(xcvm_tape_check_gradients(t, (xcvm_tape_function){doubled_sum, &bad}, 1, &x, NULL, &error),
                     XCVM_OUT_OF_RANGE);
    ck_assert_ptr_nonnull(strstr(error.message, "the derivative of order 1 (reverse) is"));
    const xcvm_var xs[] = {F64S(t, 1, 2), F64S(t, 0.5, 0.25)};
    OK(xcvm_tape_check_gradients(t, (xcvm_tape_function){product, NULL}, 2, xs, &second, ok));
    OK(xcvm_tape_check_gradients(t, (xcvm_tape_function){constant_of, NULL}, 2, xs, NULL, ok));
    close_tape(t);
}
END_TEST

/* An operation that releases its operand, and resets the tape, keeps the operand for the backward pass. */
static xcvm_status releasing_forward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                     xcvm_var *out)
{
    const xcvm_status status = double_forward(user, t, in_count, in, out_count, out);
    xcvm_var_keep(t, out[0]);
    xcvm_var_release(t, in[0]);
    xcvm_tape_reset(t);
    float clutter[16] = {0};
    for (int i = 0; i < 4; i++)
        xcvm_tape_constant(t, XCVM_F32, 1, DIMS(16), clutter);
    return status;
}

START_TEST(operations_that_release)
{
    xcvm_tape *t = open_tape();
    doubled d = {.factor = 2};
    xcvm_operation operation = operation_of(&d);
    operation.forward = releasing_forward;
    xcvm_var y;
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F64, 1, DIMS(2), (const double[]){1, 3});
    const size_t before = stats_of(t).variables;
    xcvm_tape_call_operation(t, &operation, 1, &x, 1, &y);
    CHECK_F64(t, y, 2, 18);
    ck_assert(xcvm_var_requires_gradient(t, y));
    backward(t, xcvm_ReduceSum(t, y));
    xcvm_tape_reset(t);
    ck_assert_uint_le(stats_of(t).variables, before + 1);
    close_tape(t);
}
END_TEST

START_TEST(operations_that_fail)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    xcvm_var y;
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F64, 1, DIMS(2), NULL);
    doubled d = {.fail_forward = true};
    xcvm_operation operation = operation_of(&d);
    xcvm_tape_call_operation(t, &operation, 1, &x, 1, &y);
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_IO);
    ck_assert_str_eq(error.instruction, "double");
    d = (doubled){.fail_backward = true};
    ck_assert_int_eq(
        xcvm_tape_backward(t, xcvm_ReduceSum(t, xcvm_tape_call_operation(t, &operation, 1, &x, 1, &y)), NULL, &error),
        XCVM_IO);
    ck_assert_str_eq(error.instruction, "double");
    d = (doubled){.wrong_shape = true};
    ck_assert_int_eq(
        xcvm_tape_backward(t, xcvm_ReduceSum(t, xcvm_tape_call_operation(t, &operation, 1, &x, 1, &y)), NULL, &error),
        XCVM_SHAPE_MISMATCH);
    operation.backward = NULL;
    ck_assert_int_eq(
        xcvm_tape_backward(t, xcvm_ReduceSum(t, xcvm_tape_call_operation(t, &operation, 1, &x, 1, &y)), NULL, &error),
        XCVM_UNSUPPORTED);
    ck_assert_str_eq(error.message, "double cannot be differentiated");
    xcvm_tape_call_operation(t, NULL, 1, &x, 1, &y);
    check_failed(t, XCVM_INVALID_ARGUMENT, "an operation needs a function");
    xcvm_tape_reset(t);
    ck_assert_uint_eq(stats_of(t).variables, 1);
    close_tape(t);
}
END_TEST

/* Each failed allocation is an error that leaves nothing behind, and the tape is usable. */
static xcvm_status everything(xcvm_tape *t, xcvm_error *error)
{
    doubled d = {.factor = 2};
    xcvm_operation operation = operation_of(&d);
    nested n = {1};
    xcvm_var value, result, y;
    const double numbers[] = {1, 0.5};
    const xcvm_var x = xcvm_tape_constant(t, XCVM_F64, 1, DIMS(2), numbers), one = number(t, 0.5);
    xcvm_status status = xcvm_tape_jacobian_vector_product(t, (xcvm_tape_function){elements_of, NULL}, 1, &x, &x,
                                                           &value, &result, error);
    if (status == XCVM_OK)
        status = xcvm_tape_jacobian(t, (xcvm_tape_function){elements_of, NULL}, x, &result, error);
    if (status == XCVM_OK)
        status = xcvm_tape_hessian_vector_product(t, (xcvm_tape_function){cubes, NULL}, x, x, &result, error);
    if (status == XCVM_OK)
        status = xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){powers_or_fail, &n}, 1, &one, XCVM_ABSENT,
                                                   &value, &result, error);
    if (status == XCVM_OK)
        status = xcvm_tape_check_gradients(t, (xcvm_tape_function){doubled_sum, &operation}, 1, &x, NULL, error);
    const xcvm_var p = xcvm_tape_parameter(t, XCVM_F64, 1, DIMS(2), numbers);
    const xcvm_var loss = xcvm_ReduceSum(t, xcvm_tape_call_operation(t, &operation, 1, &p, 1, &y));
    const xcvm_status learned = xcvm_tape_backward(t, loss, NULL, status == XCVM_OK ? error : NULL);
    xcvm_var_release(t, p);
    xcvm_tape_reset(t);
    return status == XCVM_OK ? learned : status;
}

START_TEST(out_of_memory_anywhere) { starve(&(starvation){.work = everything, .least = 20}); }
END_TEST

Suite *suite_tape_autograd(void);
Suite *suite_tape_autograd(void)
{
    return SUITE_OF("tape_autograd", c1_6_value_and_gradients, c1_1_no_dependence_and_errors, c1_2_nested_functions,
                    c1_2_perturbations_are_apart, c1_2_failures_within, c1_6_captured_variables,
                    c1_6_products_and_matrices, c1_7_operations_and_checks, operations_that_release,
                    operations_that_fail, out_of_memory_anywhere);
}
