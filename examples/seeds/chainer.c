/* In the style of Chainer: a perceptron from functions and an optimizer for its parameters. For each batch: clear
 * gradients, forward, backward, update. */
#include "seed.h"
#include "xcvm/functions.h"

#include <math.h>

enum { PIXELS = 784, HIDDEN = 100, CLASSES = 10, IMAGES = 40, BATCH = 10, EPOCHS = 5 };

/* Deterministic numbers: element i of a tensor is scale * sin(step i + seed). */
static void make(float *to, size_t count, double step, double seed, double scale)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)(scale * sin(step * (double)i + seed));
}

static xcvm_layer *linear(xcvm_tape *t, int64_t in, int64_t out, double seed)
{
    static float w[PIXELS * HIDDEN];
    make(w, (size_t)(in * out), 0.37, seed, 0.05);
    return xcvm_layer_create_linear(
        t, in, out,
        &(xcvm_layer_options){.size = sizeof(xcvm_layer_options), .weight = {.kind = XCVM_INIT_DATA, .data = w}});
}

static xcvm_var forward(xcvm_tape *t, xcvm_layer *model, xcvm_var x, xcvm_var answers)
{
    const xcvm_var h1 = xcvm_Relu(t, xcvm_layer_call(xcvm_layer_get_child(model, "l1"), x));
    const xcvm_var h2 = xcvm_Relu(t, xcvm_layer_call(xcvm_layer_get_child(model, "l2"), h1));
    const xcvm_var y = xcvm_layer_call(xcvm_layer_get_child(model, "l3"), h2);
    return xcvm_ReduceMean(t, xcvm_tape_pick_neg_log_softmax(t, y, answers), .keepdims = 0);
}

int main(void)
{
    static float images[IMAGES * PIXELS];
    static int64_t answers[IMAGES];
    make(images, sizeof images / sizeof *images, 1.7, 0.5, 1);
    for (int i = 0; i < IMAGES; i++)
        answers[i] = i * i % CLASSES;

    xcvm_tape *t = open_tape(XCVM_TAPE_EAGER);
    xcvm_error error;
    xcvm_layer *model = xcvm_layer_create_chain(t);
    xcvm_layer_add(model, "l1", linear(t, PIXELS, HIDDEN, 1));
    xcvm_layer_add(model, "l2", linear(t, HIDDEN, HIDDEN, 2));
    xcvm_layer_add(model, "l3", linear(t, HIDDEN, CLASSES, 3));
    printf("parameters %zu\n", xcvm_layer_element_count(model));

    xcvm_optimizer *opt;
    must(xcvm_optimizer_create(t, "sgd:lr=0.1", NULL, &opt, &error), &error);
    must(xcvm_optimizer_add_layer(opt, model, &error), &error);

    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double total = 0;
        for (int i = 0; i < IMAGES; i += BATCH) {
            const xcvm_var x = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(BATCH, PIXELS), images + i * PIXELS);
            const xcvm_var answer = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(BATCH), answers + i);
            xcvm_optimizer_clear_gradients(opt);
            const xcvm_var loss = forward(t, model, x, answer);
            total += xcvm_var_get_number(t, loss);
            backward(t, loss);
            must(xcvm_optimizer_step(opt, &error), &error);
            xcvm_tape_reset(t);
        }
        printf("epoch %d loss %.4f\n", epoch, total / (IMAGES / BATCH));
    }
    print(t, "l3/b", xcvm_layer_get_parameter(model, "l3/b"));
    xcvm_optimizer_destroy(opt);
    xcvm_layer_destroy(model);
    close_tape(t);
    return 0;
}
