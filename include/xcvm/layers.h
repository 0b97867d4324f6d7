/*
 * Layers for the tape. A layer is a tree of named parameters and the computation that uses them. Part of
 * libxcvm-compiler; the conventions of xcvm.h and tape.h apply.
 *
 *     xcvm_layer *net = xcvm_layer_create_mlp(t, 4, (const int64_t[]){784, 100, 100, 10}, NULL);
 *     if (xcvm_optimizer_create(t, "sgd:lr=0.01", NULL, &sgd, &error) != XCVM_OK ||   (optimizers.h)
 *         xcvm_optimizer_add_layer(sgd, net, &error) != XCVM_OK) ...
 *     for (...) {
 *         xcvm_var losses = xcvm_tape_pick_neg_log_softmax(t, xcvm_layer_call(net, x), classes);   (functions.h)
 *         xcvm_var loss = xcvm_ReduceMean(t, losses, .keepdims = 0);
 *         if (xcvm_tape_backward(t, loss, NULL, &error) != XCVM_OK || xcvm_optimizer_step(sgd, &error) != XCVM_OK) ...
 *         xcvm_optimizer_clear_gradients(sgd);
 *         xcvm_tape_reset(t);
 *     }
 *
 * Layers belong to the thread of their tape and must be destroyed before it.
 */
#ifndef XCVM_LAYERS_H
#define XCVM_LAYERS_H

#include "tape.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xcvm_layer xcvm_layer;

/* File formats of named tensors. Readers detect the format. */
typedef enum xcvm_tensor_format {
    XCVM_SAFETENSORS,
    XCVM_NPZ /* with Chainer's names, such as "predictor/l1/W" */
} xcvm_tensor_format;

/* Initial values of parameters. inputs and outputs are the fans of an [outputs, inputs] matrix times the filter size.
 */
typedef enum xcvm_initializer_kind {
    XCVM_INIT_DEFAULT, /* the layer's default */
    XCVM_INIT_ZERO,
    XCVM_INIT_ONE,
    XCVM_INIT_CONSTANT,       /* scale */
    XCVM_INIT_NORMAL,         /* standard deviation scale */
    XCVM_INIT_UNIFORM,        /* uniform in [-scale, scale) */
    XCVM_INIT_LECUN_NORMAL,   /* standard deviation scale * sqrt(1 / inputs) */
    XCVM_INIT_GLOROT_NORMAL,  /* scale * sqrt(2 / (inputs + outputs)) */
    XCVM_INIT_GLOROT_UNIFORM, /* within +-scale * sqrt(6 / (inputs + outputs)) */
    XCVM_INIT_HE_NORMAL,      /* scale * sqrt(2 / inputs) */
    XCVM_INIT_HE_UNIFORM,     /* within +-scale * sqrt(6 / inputs) */
    XCVM_INIT_ORTHOGONAL,     /* orthonormal rows or columns times scale (Saxe et al.) */
    XCVM_INIT_IDENTITY,       /* scale on the diagonal of a square matrix */
    XCVM_INIT_DATA            /* a copy of `data`, of the parameter's type and size */
} xcvm_initializer_kind;
typedef struct xcvm_initializer {
    xcvm_initializer_kind kind;
    double scale;     /* 0: 1 */
    uint64_t seed;    /* own generator; 0: the tape's generator */
    const void *data; /* read during the creating call */
} xcvm_initializer;

/* Options of layers. Each layer uses the fields that apply to it. */
typedef struct xcvm_layer_options {
    size_t size;
    xcvm_dtype dtype;                       /* of parameters; 0: f32 */
    xcvm_initializer weight, bias;          /* of W or gamma; of b or beta */
    bool no_bias;                           /* no b */
    xcvm_int_list strides, pads, dilations; /* of convolutions, per axis; pads apply to both ends; defaults 1, 0, 1 */
    int64_t groups;                         /* 0: 1 */
    double epsilon;                         /* of normalizations; 0: 2e-5 for batches, 1e-6 for layers */
    double decay;                           /* of running statistics; 0: 0.9 */
    double dropout;                         /* of an MLP, after each activation */
    bool dense;                             /* full instead of sparse gradient of an embedding */
} xcvm_layer_options;

/* Constructors return a layer that the caller owns. On failure they return NULL, and the tape keeps the failure.
 * Functions below accept such a NULL. `options` may be NULL. Parameter names, axis orders and defaults are Chainer's.
 */

/* Calls its children in order. Has no parameters of its own. */
XCVM_API xcvm_layer *xcvm_layer_create_chain(xcvm_tape *tape);
/* x W^T + b with the axes of x after the first flattened. W [out, in], LeCun normal; b [out], zero. */
XCVM_API xcvm_layer *xcvm_layer_create_linear(xcvm_tape *tape, int64_t in, int64_t out,
                                              const xcvm_layer_options *options);
/* Linear layers l1, l2 ... with Relu between them. `sizes` has `count` entries, input and output included. */
XCVM_API xcvm_layer *xcvm_layer_create_mlp(xcvm_tape *tape, size_t count, const int64_t *sizes,
                                           const xcvm_layer_options *options);
/* Convolution of [batch, channels, ...]. W [out, in / groups, kernel ...], LeCun normal; b [out]. */
XCVM_API xcvm_layer *xcvm_layer_create_convolution(xcvm_tape *tape, int64_t in, int64_t out, xcvm_int_list kernel,
                                                   const xcvm_layer_options *options);
/* Transposed convolution. W [in, out / groups, kernel ...]. */
XCVM_API xcvm_layer *xcvm_layer_create_deconvolution(xcvm_tape *tape, int64_t in, int64_t out, xcvm_int_list kernel,
                                                     const xcvm_layer_options *options);
/* Per channel: gamma and beta; running statistics avg_mean, avg_var (sample variance) and N. */
XCVM_API xcvm_layer *xcvm_layer_create_batch_normalization(xcvm_tape *tape, int64_t channels,
                                                           const xcvm_layer_options *options);
/* Over the last axis: gamma, beta. */
XCVM_API xcvm_layer *xcvm_layer_create_layer_normalization(xcvm_tape *tape, int64_t size,
                                                           const xcvm_layer_options *options);
/* Rows of W [count, width], normal, at indices. The gradient is sparse. */
XCVM_API xcvm_layer *xcvm_layer_create_embedding(xcvm_tape *tape, int64_t count, int64_t width,
                                                 const xcvm_layer_options *options);
/* One LSTM step on x [batch, in]; the layer keeps h and c. upward/W [4 out, in], upward/b, lateral/W [4 out, out]. Each
 * unit's rows a, i, f, o are adjacent: c = tanh(a) sigmoid(i) + sigmoid(f) c, h = sigmoid(o) tanh(c). The bias of f
 * starts at 1. */
XCVM_API xcvm_layer *xcvm_layer_create_lstm(xcvm_tape *tape, int64_t in, int64_t out,
                                            const xcvm_layer_options *options);
/* One GRU step; the layer keeps h. Linear layers W_r, U_r, W_z, U_z, W, U; h = (1 - z) h + z tanh(W x + U (r h)). */
XCVM_API xcvm_layer *xcvm_layer_create_gru(xcvm_tape *tape, int64_t in, int64_t out, const xcvm_layer_options *options);
/* In training: zero with probability `ratio`, else x / (1 - ratio). */
XCVM_API xcvm_layer *xcvm_layer_create_dropout(xcvm_tape *tape, double ratio);

/* Adds and removes an owner. The last owner's destroy frees the layer. */
XCVM_API xcvm_layer *xcvm_layer_retain(xcvm_layer *layer);
XCVM_API void xcvm_layer_destroy(xcvm_layer *layer);
/* Transfers `child` to `parent`, also on failure, and lends it back. The name has at most 200 bytes and no '/'. Layers
 * nest at most 64 deep and must not form a cycle. */
XCVM_API xcvm_layer *xcvm_layer_add(xcvm_layer *parent, const char *name, xcvm_layer *child);
/* Adds a parameter that the caller created; the layer keeps it. */
XCVM_API xcvm_var xcvm_layer_add_parameter(xcvm_layer *layer, const char *name, xcvm_var parameter);
/* Lend a child or parameter by path, such as "l1" or "l1/W"; NULL or XCVM_ABSENT if there is none. */
XCVM_API xcvm_layer *xcvm_layer_get_child(const xcvm_layer *layer, const char *path);
XCVM_API xcvm_var xcvm_layer_get_parameter(const xcvm_layer *layer, const char *path);

/* Applies the layer to x. */
XCVM_API xcvm_var xcvm_layer_call(xcvm_layer *layer, xcvm_var x);
/* Sets training mode (the default) or inference mode for the layer and its children. */
XCVM_API void xcvm_layer_set_training(xcvm_layer *layer, bool training);
/* Sets whether the parameters of the layer and its children have gradients; they do by default. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_layer_set_frozen(xcvm_layer *layer, bool frozen, xcvm_error *error);
/* Resets h and c of the layer and its children, or makes them constants (unchain). Do one of them after a backward
 * pass. */
XCVM_API void xcvm_layer_reset(xcvm_layer *layer);
XCVM_API void xcvm_layer_unchain(xcvm_layer *layer);
XCVM_API void xcvm_layer_clear_gradients(xcvm_layer *layer);

/* Receives each tensor with its path, in the order of addition. `learned` is false for statistics. A shared tensor is
 * visited once per path. A status other than XCVM_OK ends the traversal and is its result. */
typedef struct xcvm_layer_visitor {
    xcvm_status (*call)(void *user, const char *path, xcvm_var v, bool learned);
    void *user;
} xcvm_layer_visitor;
XCVM_API xcvm_status xcvm_layer_visit(const xcvm_layer *layer, xcvm_layer_visitor visitor);
/* Returns the number of elements of all distinct parameters. */
XCVM_API size_t xcvm_layer_element_count(const xcvm_layer *layer);
/* Copies the tree with copied or, if `share`, shared parameters, and without h and c. */
XCVM_API xcvm_layer *xcvm_layer_copy(const xcvm_layer *layer, bool share);

/* Save and load all tensors under their paths. Loading requires equal paths, types and shapes; a failure names every
 * difference and changes nothing. Optimizer entries of a checkpoint are ignored. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_layer_save(const xcvm_layer *layer, xcvm_tensor_format format, xcvm_sink sink,
                                                   xcvm_error *error);
XCVM_API XCVM_MUST_USE xcvm_status xcvm_layer_load(xcvm_layer *layer, const void *bytes, size_t count,
                                                   xcvm_error *error);

#ifdef __cplusplus
}
#endif

#endif
