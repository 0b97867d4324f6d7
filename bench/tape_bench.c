/* What calls on a tape cost: a scalar sum forward and back, recording, and a step of learning of a small network. One
 * line each: name, nanoseconds. */
#include "xcvm/layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static xcvm_error error;

static void must(xcvm_status status)
{
    if (status == XCVM_OK)
        return;
    fprintf(stderr, "tape_bench: %s: %s\n", error.instruction, error.message);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of `rounds` times of `body`, divided by `count`. */
typedef double (*timed)(xcvm_tape *t, size_t count);
static void measure(const char *name, xcvm_tape *t, timed body, size_t count, size_t rounds)
{
    double times[101];
    for (size_t i = 0; i < rounds; i++)
        times[i] = body(t, count) / (double)count;
    qsort(times, rounds, sizeof *times, compare);
    printf("%-28s %10.1f\n", name, times[rounds / 2]);
}

static xcvm_var one(xcvm_tape *t, bool parameter)
{
    const float number = 1;
    return parameter ? xcvm_tape_parameter(t, XCVM_F32, 0, NULL, &number)
                     : xcvm_tape_constant(t, XCVM_F32, 0, NULL, &number);
}

static double add(xcvm_tape *t, size_t count)
{
    const xcvm_var x = one(t, false), y = one(t, false);
    const double begun = now();
    for (size_t i = 0; i < count; i++)
        xcvm_var_release(t, xcvm_Add(t, x, y));
    const double time = now() - begun;
    xcvm_tape_reset(t);
    must(xcvm_tape_status(t, &error));
    return time;
}

/* A chain of sums on a parameter; what is timed besides is the backward, and forgetting what was recorded. */
static xcvm_var chain(xcvm_tape *t, xcvm_var x, xcvm_var y, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x = xcvm_Add(t, x, y);
    return x;
}

static double recorded(xcvm_tape *t, size_t count)
{
    const xcvm_var x = one(t, true), y = one(t, false);
    const double begun = now();
    chain(t, x, y, count);
    const double time = now() - begun;
    xcvm_tape_reset(t);
    xcvm_var_release(t, x);
    must(xcvm_tape_status(t, &error));
    return time;
}

static double backward(xcvm_tape *t, size_t count)
{
    const xcvm_var x = one(t, true), y = one(t, false), z = chain(t, x, y, count);
    const double begun = now();
    must(xcvm_tape_backward(t, z, NULL, &error));
    const double time = now() - begun;
    xcvm_tape_reset(t);
    xcvm_var_release(t, x);
    return time;
}

static double product_backward(xcvm_tape *t, size_t count)
{
    const xcvm_var x = one(t, true), y = one(t, true);
    xcvm_var z = x;
    for (size_t i = 0; i < count; i++)
        z = xcvm_Mul(t, z, y);
    const double begun = now();
    must(xcvm_tape_backward(t, z, NULL, &error));
    const double time = now() - begun;
    xcvm_tape_reset(t);
    xcvm_var_release(t, x);
    xcvm_var_release(t, y);
    return time;
}

/* ---- 784-100-100-10 ---- */

static double mlp(xcvm_tape *t, size_t count)
{
    enum { PIXELS = 784 };
    float pixels[PIXELS];
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = (float)(i % 7) / 7;
    xcvm_layer *net = xcvm_layer_mlp(t, 4, (const int64_t[]){PIXELS, 100, 100, 10}, NULL);
    xcvm_optimizer *sgd;
    must(xcvm_optimizer_create(t, "sgd:lr=0.01", NULL, &sgd, &error));
    must(xcvm_optimizer_add_layer(sgd, net, &error));
    const xcvm_var x = xcvm_var_keep(t, xcvm_tape_constant(t, XCVM_F32, 2, (const int64_t[]){1, PIXELS}, pixels));
    const xcvm_var target =
        xcvm_var_keep(t, xcvm_tape_constant(t, XCVM_I64, 1, (const int64_t[]){1}, (const int64_t[]){3}));
    const double begun = now();
    for (size_t n = 0; n < count; n++) {
        const xcvm_var scores = xcvm_LogSoftmax(t, xcvm_layer_call(net, x));
        xcvm_optimizer_clear_grads(sgd);
        must(xcvm_tape_backward(t, xcvm_NegativeLogLikelihoodLoss(t, scores, target), NULL, &error));
        must(xcvm_optimizer_step(sgd, &error));
        xcvm_tape_reset(t);
    }
    const double time = now() - begun;
    xcvm_optimizer_destroy(sgd);
    xcvm_layer_destroy(net);
    xcvm_var_release(t, x);
    xcvm_var_release(t, target);
    must(xcvm_tape_status(t, &error));
    return time;
}

int main(void)
{
    const xcvm_tape_options options = {.size = sizeof options, .threads = 1};
    xcvm_tape *t;
    must(xcvm_tape_create(&options, &t, &error));
    measure("scalar_add", t, add, 100000, 21);
    measure("scalar_add_recorded", t, recorded, 10000, 101);
    measure("scalar_add_backward", t, backward, 10000, 101);
    measure("scalar_mul_backward", t, product_backward, 10000, 101);
    measure("million_recorded", t, recorded, 1000000, 3);
    measure("mlp_step", t, mlp, 2000, 11);
    xcvm_tape_destroy(t);
    return 0;
}
