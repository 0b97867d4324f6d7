/* In the style of Paddle's tape: two linear layers and a mean. The tape is reset in each iteration. SGD follows the
 * backward pass. */
#include "seed.h"

typedef struct linear {
    xcvm_var w, b;
} linear;

static linear make_linear(xcvm_tape *t, float scale)
{
    float w[9];
    for (int i = 0; i < 9; i++)
        w[i] = scale * (float)(i % 4 - 1);
    return (linear){xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(3, 3), w),
                    xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(3), F32S(0.1f, 0.2f, 0.3f))};
}

static xcvm_var apply(xcvm_tape *t, const linear *l, xcvm_var x) { return xcvm_Relu(t, xcvm_Gemm(t, x, l->w, l->b)); }

int main(void)
{
    xcvm_tape *t = open_tape(XCVM_TAPE_EAGER);
    const linear first = make_linear(t, 0.5f), second = make_linear(t, 0.25f);
    const xcvm_var all[] = {first.w, first.b, second.w, second.b};
    const char *const names[] = {"w1", "b1", "w2", "b2"};
    xcvm_optimizer *sgd;
    xcvm_error error;
    must(xcvm_optimizer_create(t, "sgd:lr=0.1", NULL, &sgd, &error), &error);
    for (int k = 0; k < 4; k++)
        must(xcvm_optimizer_add(sgd, names[k], all[k], &error), &error);
    for (int i = 0; i < 3; i++) {
        xcvm_tape_reset(t);
        const xcvm_var input = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(2, 3), F32S(1, 2, 3, -1, 0.5f, 2));
        const xcvm_var loss = xcvm_ReduceMean(t, apply(t, &second, apply(t, &first, input)), .keepdims = 0);
        backward(t, loss);
        print(t, "loss", loss);
        print(t, "db", xcvm_var_get_gradient(t, first.b));
        must(xcvm_optimizer_step(sgd, &error), &error);
        xcvm_optimizer_clear_gradients(sgd);
    }
    xcvm_optimizer_destroy(sgd);
    close_tape(t);
    return 0;
}
