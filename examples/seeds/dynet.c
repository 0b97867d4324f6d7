/* In the style of DyNet: a classifier of word pairs, W * concatenate([E[a], E[b]]) + b, with the negative logarithm of
 * the softmax at the answer. There is one graph per example. The gradient of the table E has rows for these two words
 * only. */
#include "seed.h"
#include "xcvm/functions.h"

enum { WORDS = 4, WIDTH = 2, CLASSES = 2, PAIRS = 4, ROUNDS = 20 };
static const int64_t pairs[PAIRS][2] = {{0, 1}, {1, 2}, {2, 3}, {3, 0}}, answers[PAIRS] = {0, 1, 1, 0};

static xcvm_var loss_of(xcvm_tape *t, xcvm_layer *e, xcvm_var w, xcvm_var b, int i)
{
    const xcvm_var words = xcvm_layer_call(e, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), pairs[i]));
    const xcvm_var x = xcvm_Reshape(t, words, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(1, 2 * WIDTH)));
    const xcvm_var answer = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), &answers[i]);
    return xcvm_tape_pick_neg_log_softmax(t, xcvm_Gemm(t, x, w, b), answer);
}

int main(void)
{
    xcvm_tape *t = open_tape(XCVM_TAPE_EAGER);
    xcvm_error error;
    xcvm_layer *e = xcvm_layer_create_embedding(
        t, WORDS, WIDTH,
        &(xcvm_layer_options){
            .size = sizeof(xcvm_layer_options),
            .weight = {.kind = XCVM_INIT_DATA, .data = F32S(0.1f, -0.2f, 0.3f, 0.4f, -0.5f, 0.6f, 0.7f, -0.8f)}});
    const xcvm_var w = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2 * WIDTH, CLASSES),
                                           F32S(0.1f, 0.2f, -0.3f, 0.4f, 0.5f, -0.6f, 0.7f, 0.8f));
    const xcvm_var b = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(CLASSES), F32S(0, 0));
    xcvm_optimizer *trainer;
    must(xcvm_optimizer_create(t, "sgd:lr=0.5", NULL, &trainer, &error), &error);
    must(xcvm_optimizer_add_layer(trainer, e, &error), &error);
    must(xcvm_optimizer_add(trainer, "w", w, &error), &error);
    must(xcvm_optimizer_add(trainer, "b", b, &error), &error);
    for (int round = 0; round < ROUNDS; round++) {
        double total = 0;
        for (int i = 0; i < PAIRS; i++) {
            const xcvm_var loss = loss_of(t, e, w, b, i);
            total += xcvm_var_get_number(t, loss);
            backward(t, loss);
            must(xcvm_optimizer_step(trainer, &error), &error);
            xcvm_optimizer_clear_gradients(trainer);
            xcvm_tape_reset(t);
        }
        if (round == 0 || round == ROUNDS - 1)
            printf("round %d loss %.4f\n", round, total);
    }
    print(t, "b", b);
    xcvm_optimizer_destroy(trainer);
    xcvm_layer_destroy(e);
    close_tape(t);
    return 0;
}
