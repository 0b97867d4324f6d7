/* The weights of a model file, without importing it: which there are, what the nodes take them for, and the same model
 * with others. */
#ifndef XCVM_COMPILER_ONNX_WEIGHTS_H
#define XCVM_COMPILER_ONNX_WEIGHTS_H

#include "base/value.h"
#include "compiler/onnx/inference_form.h"

/* What the first node that takes a weight takes it for. */
typedef enum xcc_weight_role {
    XCC_WEIGHT_OTHER,
    XCC_WEIGHT_OUT_IN, /* a matrix or filter [out, in, ...] */
    XCC_WEIGHT_IN_OUT, /* [in, out, ...] */
    XCC_WEIGHT_GATES,  /* of a recurrent network, [directions, gates * out, in] */
    XCC_WEIGHT_SCALE,  /* of a normalisation */
    XCC_WEIGHT_SHIFT,  /* what is added */
    XCC_WEIGHT_VARIANCE
} xcc_weight_role;

typedef struct xcc_weight {
    const char *name;
    xcvm_dtype dtype;
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    xcc_weight_role role;
    int64_t gates; /* of XCC_WEIGHT_GATES */
} xcc_weight;

/* The initializers of the model's graph, sorted by name, in memory of the arena. */
xcvm_status xcc_weights_list(const void *model, size_t count, xcvm_arena *arena, const xcc_weight **weights,
                             size_t *weight_count, xcvm_error *error);
/* Where one of that name, of any length, is; NULL if there is none. */
const xcc_weight *xcc_weights_find(const xcc_weight *weights, size_t count, const char *name, size_t length);

/* Writes the model with the values that `find` gives for names of initializers, which end with their length (NULL: the
 * model's own stays), which must have their types and shapes, and with `edits`, if it is not NULL. Every other byte
 * stays as it is, in its order. */
typedef const xcvm_value *(*xcc_weight_finder)(void *user, const char *name, size_t length);
xcvm_status xcc_weights_replace(const void *model, size_t count, xcc_weight_finder find, void *find_user,
                                const xcc_model_edits *edits, xcvm_sink sink, void *user, xcvm_error *error);

#endif
