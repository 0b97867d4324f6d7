/*
 * Networks that learn on a tape: optimizers, which update parameters by the gradients that backwards have added up, and
 * layers, which are trees of named parameters and what is computed with them. Part of the compiler's library; the
 * conventions of xcvm.h and tape.h hold here too.
 *
 *     xcvm_layer *net = xcvm_layer_mlp(t, 4, (const int64_t[]){784, 100, 100, 10}, NULL);
 *     if (xcvm_optimizer_create(t, "sgd:lr=0.01", NULL, &sgd, &error) != XCVM_OK ||
 *         xcvm_optimizer_add_layer(sgd, net, &error) != XCVM_OK) ...
 *     for (...) {
 *         xcvm_var losses = xcvm_tape_pick_neg_log_softmax(t, xcvm_layer_call(net, x), classes);
 *         xcvm_var loss = xcvm_ReduceMean(t, losses, .keepdims = 0);
 *         if (xcvm_tape_backward(t, loss, NULL, &error) != XCVM_OK || xcvm_optimizer_step(sgd, &error) != XCVM_OK) ...
 *         xcvm_optimizer_clear_grads(sgd);
 *         xcvm_tape_reset(t);
 *     }
 *
 * Layers and optimizers belong to the thread of their tape, and are destroyed before it.
 */
#ifndef XCVM_LAYERS_H
#define XCVM_LAYERS_H

#include "tape.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xcvm_layer xcvm_layer;
typedef struct xcvm_optimizer xcvm_optimizer;

/* How tensors are written under their names; both are known by their first bytes when they are read. */
typedef enum xcvm_tensor_format {
    XCVM_SAFETENSORS,
    XCVM_NPZ /* as Chainer names them, "predictor/l1/W" */
} xcvm_tensor_format;

/* ---- Gradients by rows ---- */

/* Whether backwards keep what Gather along the first axis adds to the gradient of a parameter as rows, not as a tensor
 * of the parameter's size: for tables of which few rows are used. It concerns xcvm_tape_backward without create_graph;
 * hooks of the variable are not called for rows. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_var_set_sparse(xcvm_tape *tape, xcvm_var v, bool sparse, xcvm_error *error);
/* The rows (i64) that have a gradient, each once and in ascending order, and the gradient of each, as new variables of
 * the tape; both XCVM_ABSENT if there are none. xcvm_var_clear_grad clears them, too. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_var_grad_rows(xcvm_tape *tape, xcvm_var v, xcvm_var *rows, xcvm_var *gradients,
                                                      xcvm_error *error);

/* ---- Optimizers ---- */

typedef struct xcvm_optimizer_options {
    size_t size;
    double clip_norm;  /* gradients are scaled so that the 2-norm of all is at most this; 0: they are not */
    double clip_value; /* each element is brought into [-clip_value, clip_value], behind clip_norm; 0: it is not */
    double average;    /* part of the moving average of each parameter that stays in a step; 0: none is kept */
} xcvm_optimizer_options;

/* `text` says which one, with its settings, as for training programs (compiler.h): "adam:lr=1e-3,betas=0.9/0.99". It
 * computes as PyTorch's does: in f32, or f64 for parameters of that type; those of half precision have copies in f32
 * that learn. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_create(xcvm_tape *tape, const char *text,
                                                         const xcvm_optimizer_options *options,
                                                         xcvm_optimizer **optimizer, xcvm_error *error);
/* NULL is accepted. An update hook may destroy its optimizer: it goes when the step has ended. */
XCVM_API void xcvm_optimizer_destroy(xcvm_optimizer *optimizer);
/* A parameter that is to learn: a float tensor that no call made. The name is for messages and files, and copied; it
 * must differ from others'. A parameter that is there already stays as it is. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_add(xcvm_optimizer *optimizer, const char *name, xcvm_var parameter,
                                                      xcvm_error *error);
/* All parameters of a layer, by their paths. The layer is held until the optimizer is destroyed. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_add_layer(xcvm_optimizer *optimizer, xcvm_layer *layer,
                                                            xcvm_error *error);

/* One step of all parameters that have gradients, in place, in one pass over them; one without a gradient stays as it
 * is, with its moments. Of a gradient by rows (xcvm_var_set_sparse) only those rows are read and written, of moments
 * and averages, too. Recorded calls that need what was there before fail in the backward, as behind a call in place.
 * In failure nothing has changed. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_step(xcvm_optimizer *optimizer, xcvm_error *error);
XCVM_API void xcvm_optimizer_clear_grads(xcvm_optimizer *optimizer);

/* The learning rate, from the next step on; at first it is the text's. */
XCVM_API void xcvm_optimizer_set_rate(xcvm_optimizer *optimizer, double rate);
XCVM_API double xcvm_optimizer_rate(const xcvm_optimizer *optimizer);
/* What gradients are multiplied by; at first 1. With a loss that was scaled it is the scale's reciprocal. */
XCVM_API void xcvm_optimizer_set_gradient_scale(xcvm_optimizer *optimizer, double scale);
/* Whether steps update a parameter, which they do at first. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_set_updated(xcvm_optimizer *optimizer, xcvm_var parameter,
                                                              bool updated, xcvm_error *error);
/* Of the last step that clipped by norm: the 2-norm of all gradients before that; NaN if there was none. */
XCVM_API double xcvm_optimizer_gradient_norm(const xcvm_optimizer *optimizer);

/* The moving average of a parameter, as a constant of its own; XCVM_ABSENT if none is kept. */
XCVM_API xcvm_var xcvm_optimizer_average(xcvm_optimizer *optimizer, xcvm_var parameter);
/* Exchanges parameters with their averages: to evaluate with them, and back. UNSUPPORTED for half precision, which
 * averages are not of. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_swap_averages(xcvm_optimizer *optimizer, xcvm_error *error);

/* What a hook is told of a parameter that is about to be updated. Of a gradient by rows both are those rows alone. */
typedef struct xcvm_update {
    const char *name;
    xcvm_var parameter, gradient; /* constants, lent until the hook returns */
    uint64_t step;                /* of the parameter, from 1 */
} xcvm_update;
/* Gives the gradient that takes the place of the one so far, of its type (XCVM_ABSENT: it stays). Calls on the tape are
 * allowed and not recorded. */
typedef xcvm_var (*xcvm_update_hook)(void *user, xcvm_tape *tape, const xcvm_update *update);
/* Called in each step for each parameter, in the order in which hooks were added, before gradients are clipped. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_add_hook(xcvm_optimizer *optimizer, xcvm_update_hook hook, void *user,
                                                           xcvm_error *error);
/* Hooks that are ready-made; `user` is a const double *, lent, that is read in each step. */
/* Adds the number times the parameter. */
XCVM_API xcvm_var xcvm_hook_weight_decay(void *number, xcvm_tape *tape, const xcvm_update *update);
/* Adds the number times the sign of the parameter. */
XCVM_API xcvm_var xcvm_hook_lasso(void *number, xcvm_tape *tape, const xcvm_update *update);
/* Brings each element into [-number, number]. */
XCVM_API xcvm_var xcvm_hook_clip(void *number, xcvm_tape *tape, const xcvm_update *update);
/* Scales the gradient so that its own 2-norm is at most the number. */
XCVM_API xcvm_var xcvm_hook_clip_norm(void *number, xcvm_tape *tape, const xcvm_update *update);
/* Adds normal noise of variance number / step^0.55 (Neelakantan et al., "Adding Gradient Noise Improves Learning for
 * Very Deep Networks", 2015), from the tape's generator. */
XCVM_API xcvm_var xcvm_hook_noise(void *number, xcvm_tape *tape, const xcvm_update *update);

/* Writes all that learning goes on from with the same bits: parameters, and what else layers keep, under their names;
 * "optimizer@NAME.exp_avg" and the like; the rate, and the state of the tape's generator. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_save(xcvm_optimizer *optimizer, xcvm_tensor_format format,
                                                       xcvm_sink sink, void *user, xcvm_error *error);
/* Reads it back, in place. In failure, which names all tensors that are missing or of other types, nothing has
 * changed. Tensors of other names are passed over. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_optimizer_restore(xcvm_optimizer *optimizer, const void *bytes, size_t count,
                                                          xcvm_error *error);

/* ---- Layers ---- */

/* What parameters begin with. Fans are those of a matrix of [outputs, inputs], times the elements of a filter. */
typedef enum xcvm_initialiser_kind {
    XCVM_INIT_DEFAULT, /* what the layer says */
    XCVM_INIT_ZERO,
    XCVM_INIT_ONE,
    XCVM_INIT_CONSTANT,       /* scale */
    XCVM_INIT_NORMAL,         /* of deviation scale */
    XCVM_INIT_UNIFORM,        /* in [-scale, scale) */
    XCVM_INIT_LECUN_NORMAL,   /* of deviation scale * sqrt(1 / inputs) */
    XCVM_INIT_GLOROT_NORMAL,  /* scale * sqrt(2 / (inputs + outputs)) */
    XCVM_INIT_GLOROT_UNIFORM, /* in +-scale * sqrt(6 / (inputs + outputs)) */
    XCVM_INIT_HE_NORMAL,      /* scale * sqrt(2 / inputs) */
    XCVM_INIT_HE_UNIFORM,     /* in +-scale * sqrt(6 / inputs) */
    XCVM_INIT_ORTHOGONAL,     /* orthonormal rows or columns, times scale (Saxe's) */
    XCVM_INIT_IDENTITY,       /* scale on the diagonal of a square matrix */
    XCVM_INIT_DATA            /* a copy of as many elements as there are, of the parameter's type */
} xcvm_initialiser_kind;
typedef struct xcvm_initialiser {
    xcvm_initialiser_kind kind;
    double scale;     /* 0: 1 */
    uint64_t seed;    /* of a generator of its own; 0: the tape's, from which the next number is drawn */
    const void *data; /* read by the call that makes the layer */
} xcvm_initialiser;

/* What layers are made with; each reads what it has a use for. */
typedef struct xcvm_layer_options {
    size_t size;
    xcvm_dtype dtype;              /* of parameters; 0: f32 */
    xcvm_initialiser weight, bias; /* of W, gamma; of b, beta */
    bool no_bias;                  /* there is no b */
    xcvm_int_list strides, pads,
        dilations;  /* of convolutions, for each axis; pads are those at both ends; left out: 1, 0, 1 */
    int64_t groups; /* 0: 1 */
    double epsilon; /* of normalisations; 0: 2e-5 of batches, 1e-6 of layers */
    double decay;   /* part of running statistics that stays; 0: 0.9 */
    double dropout; /* of an MLP, behind each activation */
    bool dense;     /* the gradient of an embedding is a tensor of its size, not one by rows */
} xcvm_layer_options;

/* Makers give a layer that the caller owns; NULL where one fails, whose failure stays with the tape as a call's does.
 * Functions below take NULL for a layer that failed, and then do nothing or fail. `options` may be NULL. Names of
 * parameters, orders of axes and defaults are Chainer's. */

/* A layer without parameters of its own, whose call is that of its children one after another. */
XCVM_API xcvm_layer *xcvm_layer_chain(xcvm_tape *tape);
/* x W^T + b, of all axes of x but the first: W is [out, in], LeCun normal; b [out], zero. */
XCVM_API xcvm_layer *xcvm_layer_linear(xcvm_tape *tape, int64_t in, int64_t out, const xcvm_layer_options *options);
/* Linear layers l1, l2 ... of these sizes, of which there are `count`, with Relu between them. */
XCVM_API xcvm_layer *xcvm_layer_mlp(xcvm_tape *tape, size_t count, const int64_t *sizes,
                                    const xcvm_layer_options *options);
/* Of [batch, channels, ...]: W is [out, in / groups, kernel ...], LeCun normal, b [out]. */
XCVM_API xcvm_layer *xcvm_layer_convolution(xcvm_tape *tape, int64_t in, int64_t out, xcvm_int_list kernel,
                                            const xcvm_layer_options *options);
/* Its transpose: W is [in, out / groups, kernel ...]. */
XCVM_API xcvm_layer *xcvm_layer_deconvolution(xcvm_tape *tape, int64_t in, int64_t out, xcvm_int_list kernel,
                                              const xcvm_layer_options *options);
/* By channel: gamma, beta; avg_mean, avg_var (of the sample) and N, which are measured and not learned. */
XCVM_API xcvm_layer *xcvm_layer_batch_normalization(xcvm_tape *tape, int64_t channels,
                                                    const xcvm_layer_options *options);
/* Over the last axis: gamma, beta. */
XCVM_API xcvm_layer *xcvm_layer_layer_normalization(xcvm_tape *tape, int64_t size, const xcvm_layer_options *options);
/* Rows of W, [count, width], at indices; normal. The gradient is kept by rows. */
XCVM_API xcvm_layer *xcvm_layer_embedding(xcvm_tape *tape, int64_t count, int64_t width,
                                          const xcvm_layer_options *options);
/* A step of an LSTM on x of [batch, in], which keeps h and c: upward/W [4 out, in], upward/b, lateral/W [4 out, out];
 * of each unit the rows of a, i, f and o stand together; c = tanh(a) sigmoid(i) + sigmoid(f) c, h = sigmoid(o) tanh(c).
 * The bias of f begins with 1. */
XCVM_API xcvm_layer *xcvm_layer_lstm(xcvm_tape *tape, int64_t in, int64_t out, const xcvm_layer_options *options);
/* A step of a GRU, which keeps h: W_r, U_r, W_z, U_z, W, U, linear layers; h = (1 - z) h + z tanh(W x + U (r h)). */
XCVM_API xcvm_layer *xcvm_layer_gru(xcvm_tape *tape, int64_t in, int64_t out, const xcvm_layer_options *options);
/* In training, zero with probability `ratio`, and 1 / (1 - ratio) times x elsewhere. */
XCVM_API xcvm_layer *xcvm_layer_dropout(xcvm_tape *tape, double ratio);

/* A layer may have several owners: it goes with the last. */
XCVM_API xcvm_layer *xcvm_layer_retain(xcvm_layer *layer);
XCVM_API void xcvm_layer_destroy(xcvm_layer *layer);
/* Gives `child` to `parent` under a name of up to 200 bytes without '/', whether this succeeds or not, and gives it
 * back, lent. Layers nest 64 deep at most, and never in themselves. */
XCVM_API xcvm_layer *xcvm_layer_add(xcvm_layer *parent, const char *name, xcvm_layer *child);
/* A parameter of the layer's own, made by the caller, which the layer keeps from here on. */
XCVM_API xcvm_var xcvm_layer_add_parameter(xcvm_layer *layer, const char *name, xcvm_var parameter);
/* Lent; NULL, or XCVM_ABSENT, if there is none of that path, "l1" or "l1/W". */
XCVM_API xcvm_layer *xcvm_layer_child(const xcvm_layer *layer, const char *path);
XCVM_API xcvm_var xcvm_layer_parameter(const xcvm_layer *layer, const char *path);

/* What the layer computes of x. */
XCVM_API xcvm_var xcvm_layer_call(xcvm_layer *layer, xcvm_var x);
/* Whether it trains, which it does at first, or is tested, with all below it: Dropout, BatchNormalization. */
XCVM_API void xcvm_layer_set_training(xcvm_layer *layer, bool training);
/* Whether parameters have gradients, which they have at first, with all below. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_layer_set_frozen(xcvm_layer *layer, bool frozen, xcvm_error *error);
/* Forgets h and c, with all below. Between a backward and the next call they are reset, or stay as constants
 * (xcvm_layer_unchain). */
XCVM_API void xcvm_layer_reset(xcvm_layer *layer);
XCVM_API void xcvm_layer_unchain(xcvm_layer *layer);
XCVM_API void xcvm_layer_clear_grads(xcvm_layer *layer);

/* Called with each tensor, by its path, in the order in which they were added; `learned` is false for what is measured.
 * One that is shared comes by each of its paths. A status other than XCVM_OK ends the walk, and is its result. */
typedef xcvm_status (*xcvm_layer_visitor)(void *user, const char *path, xcvm_var v, bool learned);
XCVM_API xcvm_status xcvm_layer_visit(const xcvm_layer *layer, xcvm_layer_visitor visitor, void *user);
/* Elements of all parameters, each counted once. */
XCVM_API size_t xcvm_layer_element_count(const xcvm_layer *layer);
/* A tree of its own with copies of the parameters, or with the same ones if `share`; without h and c. */
XCVM_API xcvm_layer *xcvm_layer_copy(const xcvm_layer *layer, bool share);

/* Writes all tensors under their paths, and reads them back in place; paths, types and shapes must be the same, and
 * what is not is named, all at once; then nothing has changed. Of a file of xcvm_optimizer_save what is the optimizer's
 * is passed over. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_layer_save(const xcvm_layer *layer, xcvm_tensor_format format, xcvm_sink sink,
                                                   void *user, xcvm_error *error);
XCVM_API XCVM_MUST_USE xcvm_status xcvm_layer_load(xcvm_layer *layer, const void *bytes, size_t count,
                                                   xcvm_error *error);

/* ---- Functions, as DyNet has them ---- */

/* The negative logarithm of the softmax of scores, over their last axis, at `target`: of [classes] and an index of rank
 * 0, or for each of a batch, of [batch, classes] and [batch]. */
XCVM_API xcvm_var xcvm_tape_pick_neg_log_softmax(xcvm_tape *tape, xcvm_var scores, xcvm_var target);
/* b + W1 x1 + W2 x2 ...: terms are b, W1, x1 and so on, an odd number; matrices and columns. */
XCVM_API xcvm_var xcvm_tape_affine_transform(xcvm_tape *tape, size_t count, const xcvm_var *terms);
/* The sum over i != target of max(0, margin - scores[target] + scores[i]), of [classes] and an index of rank 0. */
XCVM_API xcvm_var xcvm_tape_hinge(xcvm_tape *tape, xcvm_var scores, xcvm_var target, double margin);
/* x, whose gradient is `scale` times that of the result: 0 as for a constant, -1 flips it. */
XCVM_API xcvm_var xcvm_tape_scale_gradient(xcvm_tape *tape, xcvm_var x, double scale);

#ifdef __cplusplus
}
#endif

#endif
