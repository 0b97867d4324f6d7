/* Shared by the samples: a tape that ends the program on failure, and printing. */
#ifndef XCVM_EXAMPLES_SEEDS_SEED_H
#define XCVM_EXAMPLES_SEEDS_SEED_H

#include "xcvm/optimizers.h"

#include <stdio.h>
#include <stdlib.h>

#define DIMS(...)                                                                                                      \
    (const int64_t[]) { __VA_ARGS__ }
#define F32S(...)                                                                                                      \
    (const float[]) { __VA_ARGS__ }

static inline void must(xcvm_status status, const xcvm_error *error)
{
    if (status == XCVM_OK)
        return;
    fprintf(stderr, "%s: %s\n", error->instruction, error->message);
    exit(1);
}

static inline xcvm_tape *open_tape(xcvm_tape_mode mode)
{
    const xcvm_tape_options options = {.size = sizeof options, .threads = 1, .mode = mode};
    xcvm_error error;
    xcvm_tape *t;
    must(xcvm_tape_create(&options, &t, &error), &error);
    return t;
}

static inline void close_tape(xcvm_tape *t)
{
    xcvm_error error;
    must(xcvm_tape_status(t, &error), &error);
    xcvm_tape_destroy(t);
}

/* Prints a line: the name, then the elements. */
static inline void print_value(const char *name, const xcvm_value *value)
{
    const float *elements = xcvm_value_data(value);
    printf("%s", name);
    for (size_t i = 0; i < xcvm_value_count(value); i++)
        printf(" %.4f", (double)elements[i]);
    printf("\n");
}

static inline void print(xcvm_tape *t, const char *name, xcvm_var v)
{
    xcvm_error error;
    const xcvm_value *value;
    must(xcvm_var_get_value(t, v, &value, &error), &error);
    print_value(name, value);
}

/* Creates an optimizer of `count` parameters. */
static inline xcvm_optimizer *optimize(xcvm_tape *t, const char *text, size_t count, const xcvm_var *parameters)
{
    xcvm_error error;
    xcvm_optimizer *o;
    must(xcvm_optimizer_create(t, text, NULL, &o, &error), &error);
    for (size_t i = 0; i < count; i++) {
        char name[20];
        snprintf(name, sizeof name, "p%zu", i);
        must(xcvm_optimizer_add(o, name, parameters[i], &error), &error);
    }
    return o;
}

/* Makes a step, and clears the gradients. */
static inline void learn(xcvm_optimizer *o)
{
    xcvm_error error;
    must(xcvm_optimizer_step(o, &error), &error);
    xcvm_optimizer_clear_gradients(o);
}

static inline void backward(xcvm_tape *t, xcvm_var root)
{
    xcvm_error error;
    must(xcvm_tape_backward(t, root, NULL, &error), &error);
}

#endif
