/* The functions of the host that case files call. */
#include "tests/case_host.h"

#include "base/status.h"

/* 2 * x for each operand, all f32. */
static xcvm_status twice(void *user, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
                         xcvm_value **outputs, xcvm_error *error)
{
    (void)user;
    for (size_t i = 0; i < output_count && i < input_count; i++) {
        xcvm_status status = xcvm_tensor_create(NULL, XCVM_F32, xcvm_value_rank(inputs[i]), xcvm_value_dims(inputs[i]),
                                                &outputs[i], error);
        if (status != XCVM_OK)
            return status;
        const float *x = xcvm_value_data(inputs[i]);
        for (size_t k = 0; k < xcvm_value_count(inputs[i]); k++)
            ((float *)xcvm_value_data(outputs[i]))[k] = 2 * x[k];
    }
    return XCVM_OK;
}

static xcvm_status same(void *user, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
                        xcvm_value **outputs, xcvm_error *error)
{
    (void)user;
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < output_count && i < input_count && status == XCVM_OK; i++)
        if (i == 0)
            outputs[i] = (xcvm_value *)(uintptr_t)inputs[i];
        else
            status = xcvm_value_retain(inputs[i], &outputs[i], error);
    return status;
}

static xcvm_status fails(void *user, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
                         xcvm_value **outputs, xcvm_error *error)
{
    (void)user;
    (void)input_count;
    (void)inputs;
    (void)output_count;
    (void)outputs;
    return xcvm_error_set(error, XCVM_IO, "the disk is on fire");
}

/* Makes result i an f64 tensor of the shape of `like`. */
static xcvm_status make_like(const xcvm_value *like, xcvm_value **result, xcvm_error *error)
{
    return xcvm_tensor_create(NULL, XCVM_F64, xcvm_value_rank(like), xcvm_value_dims(like), result, error);
}

/* Returns true if all are f64 and have equal numbers of elements: the runner also tries others. */
static xcvm_status check_alike(size_t count, const xcvm_value *const *inputs, xcvm_error *error)
{
    for (size_t i = 0; i < count; i++)
        XCVM_CHECK(error,
                   xcvm_value_dtype(inputs[i]) == XCVM_F64 &&
                       xcvm_value_count(inputs[i]) == xcvm_value_count(inputs[0]),
                   SHAPE_MISMATCH, "operand %zu of the host function is not like the first", i);
    return XCVM_OK;
}

/* a * b and a * a, all f64 and of one shape. */
static xcvm_status products(void *user, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
                            xcvm_value **outputs, xcvm_error *error)
{
    (void)user;
    XCVM_CHECK(error, input_count == 2 && output_count == 2, INVALID_ARGUMENT, "products is called wrongly");
    XCVM_TRY(check_alike(input_count, inputs, error));
    const double *a = xcvm_value_data(inputs[0]), *b = xcvm_value_data(inputs[1]);
    for (size_t i = 0; i < 2; i++) {
        XCVM_TRY(make_like(inputs[0], &outputs[i], error));
        double *y = xcvm_value_data(outputs[i]);
        for (size_t k = 0; k < xcvm_value_count(inputs[0]); k++)
            y[k] = a[k] * (i == 0 ? b[k] : a[k]);
    }
    return XCVM_OK;
}

/* For a, b, the two products, and their gradients p and q: b * p + 2 * a * q and a * p. */
static xcvm_status products_vjp(void *user, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
                                xcvm_value **outputs, xcvm_error *error)
{
    (void)user;
    XCVM_CHECK(error, input_count == 6 && output_count == 2, INVALID_ARGUMENT, "products.vjp is called wrongly");
    XCVM_TRY(check_alike(input_count, inputs, error));
    const double *a = xcvm_value_data(inputs[0]), *b = xcvm_value_data(inputs[1]);
    const double *p = xcvm_value_data(inputs[4]), *q = xcvm_value_data(inputs[5]);
    for (size_t i = 0; i < 2; i++) {
        XCVM_TRY(make_like(inputs[i], &outputs[i], error));
        double *y = xcvm_value_data(outputs[i]);
        for (size_t k = 0; k < xcvm_value_count(inputs[0]); k++)
            y[k] = i == 0 ? b[k] * p[k] + 2 * a[k] * q[k] : a[k] * p[k];
    }
    return XCVM_OK;
}

/* For the operands of that function, its results, and their gradients u and v: 2 * q * u + p * v, p * u, zeros for the
 * products, b * u + a * v and 2 * a * u. */
static xcvm_status products_vjp_vjp(void *user, size_t input_count, const xcvm_value *const *inputs,
                                    size_t output_count, xcvm_value **outputs, xcvm_error *error)
{
    (void)user;
    XCVM_CHECK(error, input_count == 10 && output_count == 6, INVALID_ARGUMENT, "products.vjp.vjp is called wrongly");
    XCVM_TRY(check_alike(input_count, inputs, error));
    const double *at[10];
    for (size_t i = 0; i < 10; i++)
        at[i] = xcvm_value_data(inputs[i]);
    const double *a = at[0], *b = at[1], *p = at[4], *q = at[5], *u = at[8], *v = at[9];
    for (size_t i = 0; i < 6; i++) {
        XCVM_TRY(make_like(inputs[i], &outputs[i], error));
        double *y = xcvm_value_data(outputs[i]);
        for (size_t k = 0; k < xcvm_value_count(inputs[0]); k++) {
            const double all[] = {2 * q[k] * u[k] + p[k] * v[k], p[k] * u[k],    0, 0,
                                  b[k] * u[k] + a[k] * v[k],     2 * a[k] * u[k]};
            y[k] = all[i];
        }
    }
    return XCVM_OK;
}

const xcvm_host_function case_host_functions[] = {{"twice", twice, NULL},
                                                  {"same", same, NULL},
                                                  {"fails", fails, NULL},
                                                  {"products", products, NULL},
                                                  {"products.vjp", products_vjp, NULL},
                                                  {"products.vjp.vjp", products_vjp_vjp, NULL}};
const size_t case_host_function_count = sizeof case_host_functions / sizeof *case_host_functions;
