/*
 * Optimizers for the tape update parameters by their accumulated gradients. Part of libxcvm-compiler; the conventions
 * of xcvm.h and tape.h apply. Optimizers belong to the thread of their tape and must be destroyed before it.
 */
#ifndef XCVM_OPTIMIZERS_H
#define XCVM_OPTIMIZERS_H

#include "layers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xcvm_optimizer xcvm_optimizer;

typedef struct xcvm_optimizer_options {
    size_t size;
    double clip_norm;  /* maximum 2-norm of all gradients together; 0: no clipping */
    double clip_value; /* maximum magnitude of an element, applied after clip_norm; 0: none */
    double average;    /* decay of a moving average of each parameter; 0: none */
} xcvm_optimizer_options;

/* Creates an optimizer from a text such as "adam:lr=1e-3,betas=0.9/0.99" (xcc_options.train in compiler.h). Names and
 * formulas are PyTorch's. Half-precision parameters have f32 master copies. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_create(xcvm_tape *tape, const char *text,
                                                         const xcvm_optimizer_options *options,
                                                         xcvm_optimizer **optimizer, xcvm_error *error);
/* Accepts NULL. Within an update hook the destruction is delayed to the end of the step. */
XCVM_API void xcvm_optimizer_destroy(xcvm_optimizer *optimizer);
/* Adds a trainable parameter, a float leaf, under a unique name that is copied. Adding it again has no effect. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_add(xcvm_optimizer *optimizer, const char *name, xcvm_var parameter,
                                                      xcvm_error *error);
/* Adds all parameters of a layer under their paths. The optimizer keeps the layer until it is destroyed. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_add_layer(xcvm_optimizer *optimizer, xcvm_layer *layer,
                                                            xcvm_error *error);

/* Updates all parameters that have gradients, in place. A sparse gradient updates only its rows, also of moments and
 * averages. A later backward pass fails if it needs the old elements. A failed step changes nothing. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_step(xcvm_optimizer *optimizer, xcvm_error *error);
XCVM_API void xcvm_optimizer_clear_gradients(xcvm_optimizer *optimizer);

/* Sets and gets the learning rate, which starts with the text's. */
XCVM_API void xcvm_optimizer_set_rate(xcvm_optimizer *optimizer, double rate);
XCVM_API double xcvm_optimizer_get_rate(const xcvm_optimizer *optimizer);
/* Sets the factor of gradients, 1 by default. For a scaled loss, use the reciprocal of the scale. */
XCVM_API void xcvm_optimizer_set_gradient_scale(xcvm_optimizer *optimizer, double scale);
/* Sets whether steps update a parameter; true by default. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_set_updated(xcvm_optimizer *optimizer, xcvm_var parameter,
                                                              bool updated, xcvm_error *error);
/* Returns the gradients' 2-norm before the last clipping by norm, or NaN. */
XCVM_API double xcvm_optimizer_gradient_norm(const xcvm_optimizer *optimizer);

/* Returns the moving average of a parameter as a new constant; XCVM_ABSENT if there is none. */
XCVM_API xcvm_var xcvm_optimizer_get_average(xcvm_optimizer *optimizer, xcvm_var parameter);
/* Swaps parameters and their averages, for evaluation and back. UNSUPPORTED for half precision. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_swap_averages(xcvm_optimizer *optimizer, xcvm_error *error);

/* A pending update. For a sparse gradient, parameter and gradient contain only its rows. */
typedef struct xcvm_update {
    const char *name;
    xcvm_var parameter, gradient; /* constants, lent until the hook returns */
    uint64_t step;                /* step of the parameter, from 1 */
} xcvm_update;
/* Returns a replacement of the gradient, of the same type, or XCVM_ABSENT. Calls in a hook are not recorded. */
typedef struct xcvm_update_hook {
    xcvm_var (*call)(void *user, xcvm_tape *tape, const xcvm_update *update);
    void *user;
} xcvm_update_hook;
/* Adds a hook that each step calls for each parameter before clipping, in the order of addition. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_add_hook(xcvm_optimizer *optimizer, xcvm_update_hook hook,
                                                           xcvm_error *error);
/* Functions of ready-made hooks. `user` is a borrowed const double *, which is read in each step. */
/* Adds number * parameter. */
XCVM_API xcvm_var xcvm_hook_weight_decay(void *number, xcvm_tape *tape, const xcvm_update *update);
/* Adds number * sign(parameter). */
XCVM_API xcvm_var xcvm_hook_lasso(void *number, xcvm_tape *tape, const xcvm_update *update);
/* Clips each element to [-number, number]. */
XCVM_API xcvm_var xcvm_hook_clip(void *number, xcvm_tape *tape, const xcvm_update *update);
/* Scales the gradient so that its 2-norm is at most the number. */
XCVM_API xcvm_var xcvm_hook_clip_norm(void *number, xcvm_tape *tape, const xcvm_update *update);
/* Adds normal noise of variance number / step^0.55 (Neelakantan et al., "Adding Gradient Noise Improves Learning for
 * Very Deep Networks", 2015). */
XCVM_API xcvm_var xcvm_hook_noise(void *number, xcvm_tape *tape, const xcvm_update *update);

/* Saves a checkpoint: parameters, layer statistics, moments ("optimizer@NAME.exp_avg"), learning rate and the state of
 * the random generator. Resuming from it reproduces the uninterrupted run bit for bit. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_save(xcvm_optimizer *optimizer, xcvm_tensor_format format,
                                                       xcvm_sink sink, xcvm_error *error);
/* Restores a checkpoint in place. Other tensors are ignored. A failure names all missing or mismatched tensors and
 * changes nothing. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_load(xcvm_optimizer *optimizer, const void *bytes, size_t count,
                                                       xcvm_error *error);

#ifdef __cplusplus
}
#endif

#endif
