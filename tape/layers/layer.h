/* Layers: trees of named tensors, and what is computed with them. */
#ifndef XCVM_TAPE_LAYERS_LAYER_H
#define XCVM_TAPE_LAYERS_LAYER_H

#include "tape/tape.h"
#include "tape/tensor_file.h"
#include "xcvm/optimizers.h"

enum {
    LAYER_STATES = 2,                                /* h and c */
    LAYER_DEPTH = 64,                                /* that layers nest, at most */
    LAYER_NAME = 200,                                /* bytes of a name, at most */
    LAYER_PATH = LAYER_DEPTH * (LAYER_NAME + 1) + 1, /* of a path, with its end */
    LAYER_PADS = 2 * XCVM_MAX_RANK
};

typedef struct layer_kind {
    const char *name; /* for messages */
    xcvm_var (*call)(xcvm_layer *l, xcvm_var x);
    size_t states; /* that it keeps from call to call */
} layer_kind;

typedef struct layer_tensor {
    char *name;
    xcvm_var v;              /* kept */
    tape_variable *variable; /* with a reference of the layer's */
    bool learned;            /* else it is measured */
} layer_tensor;

typedef struct layer_child {
    char *name;
    xcvm_layer *layer;
} layer_child;

/* What a layer was made with, as far as its call has a use for it. */
typedef struct layer_settings {
    xcvm_dtype dtype;
    int64_t size; /* of its state */
    double epsilon, decay, ratio;
    int64_t strides[XCVM_MAX_RANK], pads[LAYER_PADS], dilations[XCVM_MAX_RANK], groups;
    size_t axes; /* of a convolution */
    bool relu;   /* between children */
} layer_settings;

struct xcvm_layer {
    xcvm_tape *tape;
    const layer_kind *kind;
    uint32_t refs, level; /* level: how deep below another it stands, at most */
    bool training;
    layer_tensor *tensors;
    size_t tensor_count, tensor_capacity;
    layer_child *children;
    size_t child_count, child_capacity;
    layer_settings settings;
    tape_place *states[LAYER_STATES]; /* as many as the kind has */
};

/* NULL, with the failure noted, if there is no memory, or the tape cannot be used. */
xcvm_layer *layer_make(xcvm_tape *t, const layer_kind *kind);
/* Reads the options, of which `dtype` is checked; false with the failure noted. */
bool layer_read_options(xcvm_tape *t, xcvm_layer_options *o, const xcvm_layer_options *given);
/* Fails, and is false, unless the number is at least 1. */
bool layer_check_size(xcvm_tape *t, const char *what, int64_t size);
/* Adds a tensor that an initializer makes; `otherwise` is that of the kind XCVM_INIT_DEFAULT. Fails for l of NULL. */
void layer_add_tensor(xcvm_layer *l, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                      const xcvm_initializer *initializer, xcvm_initializer otherwise, bool learned);
/* Adds the tensor of another layer, which both keep. */
void layer_share_tensor(xcvm_layer *l, const layer_tensor *tensor);
/* What a maker gives: l, or NULL if something has failed, with l gone. */
xcvm_layer *layer_made(xcvm_layer *l);
/* The tensor of that name; XCVM_ABSENT if there is none. */
xcvm_var layer_tensor_of(const xcvm_layer *l, const char *name);
/* What child `name` computes of x. */
xcvm_var layer_call_child(xcvm_layer *l, const char *name, xcvm_var x);
/* The rank of a variable; -1 if it is not known. */
int layer_rank_of(xcvm_tape *t, xcvm_var x);
/* What is kept of the last call; absent at first. */
xcvm_var layer_state(const xcvm_layer *l, size_t state);
/* v becomes a state in the place of the one so far. */
void layer_set_state(xcvm_layer *l, size_t state, xcvm_var v);

/* Elements that an initializer makes, in `count` doubles; those of XCVM_INIT_DATA are none of its. False with the
 * failure noted. */
bool layer_draw(xcvm_tape *t, const xcvm_initializer *initializer, int rank, const int64_t *dims, double *to,
                size_t count);

#endif
