/* The weights of a model file, without import: their names, their uses by nodes, and the same model with other
 * weights. */
#ifndef XCVM_COMPILER_ONNX_MODEL_WEIGHTS_H
#define XCVM_COMPILER_ONNX_MODEL_WEIGHTS_H

#include "base/value.h"
#include "compiler/onnx_model/inference_form.h"

/* The use of a weight by the first node that reads it. */
typedef enum xcc_weight_role {
    XCC_WEIGHT_OTHER,
    XCC_WEIGHT_OUT_IN, /* a matrix or filter [out, in, ...] */
    XCC_WEIGHT_IN_OUT, /* [in, out, ...] */
    XCC_WEIGHT_GATES,  /* of a recurrent network, [directions, gates * out, in] */
    XCC_WEIGHT_SCALE,  /* of a normalization */
    XCC_WEIGHT_SHIFT,  /* an addend */
    XCC_WEIGHT_VARIANCE
} xcc_weight_role;

typedef struct xcc_weight {
    const char *name;
    xcvm_dtype dtype;
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    xcc_weight_role role;
    int64_t gates; /* of XCC_WEIGHT_GATES */
    bool external; /* its elements are in a separate file */
} xcc_weight;

/* The initializers of the model's graph, sorted by name, in memory of the arena. */
xcvm_status xcc_weights_list(const void *model, size_t count, xcvm_arena *arena, const xcc_weight **weights,
                             size_t *weight_count, xcvm_error *error);
/* Returns the value of that name, of any length; NULL if there is none. */
const xcc_weight *xcc_weights_find(const xcc_weight *weights, size_t count, const char *name, size_t length);

/* Settings for writing a model. `find` returns values for names of initializers, which are given with their length.
 * NULL: the initializer does not change. Values must have the same types and shapes. */
typedef const xcvm_value *(*xcc_weight_finder)(void *user, const char *name, size_t length);
typedef struct xcc_replacement {
    xcc_weight_finder find; /* NULL: no initializer changes */
    void *find_user;
    const xcc_model_edits *edits;           /* NULL: none */
    const char *class_names, *class_output; /* metadata; NULL class_names: the model's own stay */
    const char *location;                   /* of the file that new values of 1 KB and more go to, by `data` */
    xcvm_sink data;                         /* NULL: they are in the model */
} xcc_replacement;

/* Writes the model with other values. All other bytes are copied in order. */
xcvm_status xcc_weights_replace(const void *model, size_t count, const xcc_replacement *replacement, xcvm_sink sink,
                                xcvm_error *error);

/* Finds the nodes Identity of the model's graph that copy an initializer of a float type, if other nodes read it, too.
 * torch.onnx.export for inference stores equal tensors once so: the ones and zeros of a new network, and layers that
 * are copies. They would learn as one. Weights that are shared on purpose, as by an embedding and the last layer, have
 * one name and no Identity. The edits make each node an initializer of its result's name, and an input if the other one
 * is. The arena owns them, and they refer to nothing in the model. */
xcvm_status xcc_merged_weights_edits(const void *model, size_t count, xcvm_arena *arena, xcc_model_edits *edits,
                                     xcvm_error *error);

/* The loss of classes that a node of the model's graph computes of an input's labels. */
typedef struct xcc_label_loss {
    bool found, ignores;
    int64_t ignored; /* label, if `ignores` */
} xcc_label_loss;
xcvm_status xcc_label_loss_find(const void *model, size_t count, const char *label, xcc_label_loss *loss,
                                xcvm_error *error);

/* The names of classes in the model's metadata, in memory of the arena; 0 if there are none. */
xcvm_status xcc_classes_read(const void *model, size_t count, xcvm_arena *arena, const char ***names,
                             size_t *name_count, xcvm_error *error);

/* The external initializers of the model's graph, which are mapped until they are closed. `folder` is the model's
 * directory. */
typedef struct xcc_external_weights xcc_external_weights;
xcvm_status xcc_external_weights_open(const void *model, size_t count, const char *folder,
                                      const xcvm_allocator *allocator, xcc_external_weights **external,
                                      xcvm_error *error);
void xcc_external_weights_close(xcc_external_weights *external);
/* An xcc_weight_finder whose user they are. */
const xcvm_value *xcc_external_weights_find(void *external, const char *name, size_t length);
/* Returns the name of an external tensor of a node or body, which cannot be read here; NULL: none. */
const char *xcc_external_weights_nested(const xcc_external_weights *external);

#endif
