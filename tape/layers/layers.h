/* Layers: trees of named tensors, and their functions. */
#ifndef XCVM_TAPE_LAYERS_LAYERS_H
#define XCVM_TAPE_LAYERS_LAYERS_H

#include "tape/mode.h"
#include "tape/side_table.h"
#include "tape/tensor_file.h"
#include "tape/tracer.h"
#include "xcvm/optimizers.h"

enum {
    LAYER_STATES = 2,                                /* h and c */
    LAYER_DEPTH = 64,                                /* maximal nesting */
    LAYER_NAME = 200,                                /* maximal length in bytes */
    LAYER_PATH = LAYER_DEPTH * (LAYER_NAME + 1) + 1, /* maximal length with the terminator */
    LAYER_PADS = 2 * XCVM_MAX_RANK
};

typedef struct layer_kind {
    const char *name; /* for messages */
    xcvm_var (*call)(xcvm_layer *l, xcvm_var x);
    size_t states; /* states between calls */
} layer_kind;

typedef struct layer_tensor {
    char *name;
    xcvm_var v;              /* kept */
    tape_variable *variable; /* a reference */
    bool learned;            /* trainable; otherwise a statistic */
} layer_tensor;

typedef struct layer_child {
    char *name;
    xcvm_layer *layer;
} layer_child;

/* Settings that the layer's function needs. */
typedef struct layer_settings {
    xcvm_dtype dtype;
    int64_t size; /* of the state */
    double epsilon, decay, ratio;
    int64_t strides[XCVM_MAX_RANK], pads[LAYER_PADS], dilations[XCVM_MAX_RANK], groups;
    size_t axes; /* spatial axes of a convolution */
    bool relu;   /* between children */
} layer_settings;

struct xcvm_layer {
    xcvm_tape *tape;
    const layer_kind *kind;
    uint32_t refs, level; /* level: greatest depth in a tree */
    bool training;
    layer_tensor *tensors;
    size_t tensor_count, tensor_capacity;
    layer_child *children;
    size_t child_count, child_capacity;
    layer_settings settings;
    tape_state_slot *states[LAYER_STATES]; /* kind->states slots */
};

/* Creates an empty layer; NULL with the failure set. */
xcvm_layer *layer_make(xcvm_tape *t, const layer_kind *kind);
/* Reads the options, and checks `dtype`; false with the failure set. */
bool layer_read_options(xcvm_tape *t, xcvm_layer_options *o, const xcvm_layer_options *given);
/* False with the failure set if the size is below 1. */
bool layer_check_size(xcvm_tape *t, const char *what, int64_t size);
/* Adds a tensor. `otherwise` is used for XCVM_INIT_DEFAULT. Does nothing if l is NULL. */
void layer_add_tensor(xcvm_layer *l, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                      const xcvm_initializer *initializer, xcvm_initializer otherwise, bool learned);
/* Adds a tensor of another layer, which both share. */
void layer_share_tensor(xcvm_layer *l, const layer_tensor *tensor);
/* The result of a constructor: l, or NULL after a failure, which destroys l. */
xcvm_layer *layer_made(xcvm_layer *l);
/* The tensor of a name; XCVM_ABSENT: none. */
xcvm_var layer_find_tensor(const xcvm_layer *l, const char *name);
/* Calls child `name`. */
xcvm_var layer_call_child(xcvm_layer *l, const char *name, xcvm_var x);
/* The rank of a variable; -1: unknown. */
int layer_rank_of(xcvm_tape *t, xcvm_var x);
/* A state of the last call; absent at first. */
xcvm_var layer_state(const xcvm_layer *l, size_t state);
/* Replaces a state. */
void layer_set_state(xcvm_layer *l, size_t state, xcvm_var v);

/* Fills `count` doubles by an initializer other than XCVM_INIT_DATA; false with the failure set. */
bool layer_draw(xcvm_tape *t, const xcvm_initializer *initializer, int rank, const int64_t *dims, double *to,
                size_t count);

#endif
