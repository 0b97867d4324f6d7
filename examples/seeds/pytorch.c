/* In the style of PyTorch: z = x**2 + x*2 + x*y + y, and its gradients. */
#include "seed.h"

int main(void)
{
    xcvm_tape *t = open_tape(XCVM_TAPE_EAGER);
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2, 2), F32S(1, 2, 3, 4));
    const xcvm_var y = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2, 2), F32S(0.5f, -1, 2, -3));
    const xcvm_var two = xcvm_tape_scalar(t, XCVM_F32, 2);
    const xcvm_var squares = xcvm_Add(t, xcvm_Pow(t, x, two), xcvm_Mul(t, x, two));
    const xcvm_var z = xcvm_Add(t, xcvm_Add(t, squares, xcvm_Mul(t, x, y)), y);
    const xcvm_backward_options ones = {.size = sizeof ones,
                                        .seed = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(2, 2), F32S(1, 1, 1, 1))};
    xcvm_error error;
    must(xcvm_tape_backward(t, z, &ones, &error), &error);
    print(t, "z", z);
    print(t, "dz/dx", xcvm_var_get_gradient(t, x));
    print(t, "dz/dy", xcvm_var_get_gradient(t, y));
    close_tape(t);
    return 0;
}
