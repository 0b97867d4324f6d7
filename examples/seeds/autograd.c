/* In the style of Autograd: the gradient of a function of the host, and the gradient of the gradient. */
#include "seed.h"

/* tanh(x) = (1 - e^-2x) / (1 + e^-2x) */
static xcvm_var hyperbolic(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    const xcvm_var one = xcvm_tape_scalar(t, XCVM_F32, 1),
                   y = xcvm_Exp(t, xcvm_Mul(t, xs[0], xcvm_tape_scalar(t, XCVM_F32, -2)));
    (void)user;
    (void)count;
    return xcvm_Div(t, xcvm_Sub(t, one, y), xcvm_Add(t, one, y));
}

static xcvm_var slope(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    xcvm_error error;
    xcvm_var value, gradient;
    (void)user;
    must(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){hyperbolic, NULL}, count, xs, XCVM_ABSENT, &value,
                                           &gradient, &error),
         &error);
    return gradient;
}

int main(void)
{
    xcvm_tape *t = open_tape(XCVM_TAPE_EAGER);
    xcvm_error error;
    xcvm_var value, gradient, x = xcvm_tape_scalar(t, XCVM_F32, 1);
    must(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){hyperbolic, NULL}, 1, &x, XCVM_ABSENT, &value,
                                           &gradient, &error),
         &error);
    print(t, "tanh(1)", value);
    print(t, "slope", gradient);
    must(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){slope, NULL}, 1, &x, XCVM_ABSENT, &value, &gradient,
                                           &error),
         &error);
    print(t, "curvature", gradient);
    must(xcvm_tape_check_gradients(t, (xcvm_tape_function){slope, NULL}, 1, &x, NULL, &error), &error);
    close_tape(t);
    return 0;
}
