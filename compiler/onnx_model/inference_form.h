/* The inference form of a model, as messages: nodes in training form change, everything else stays the same.
 *
 * - BatchNormalization (with training_mode, or before opset 14 with several results) uses its running statistics. If
 *   its further results are read, they become copies of the statistics that the node reads.
 * - Dropout, BiasDropout and the others of ONNX Runtime lose their input training_mode. Before opset 7 Dropout and
 *   BatchNormalization have is_test set. A Constant of the model's graph is left out if only these inputs read it.
 *
 * Bodies of If, Loop and Scan and the model's functions change, too. */
#ifndef XCVM_COMPILER_ONNX_MODEL_INFERENCE_FORM_H
#define XCVM_COMPILER_ONNX_MODEL_INFERENCE_FORM_H

#include "compiler/ir/training_form.h"

#include "onnx/onnx.pb-c.h"

/* Changes of a model's nodes and functions. */
typedef struct xcc_rewritten {
    struct xcc_placed {
        size_t first, count; /* the nodes of the graph that a node has become; 0: it is left out */
        bool changed;
    } * nodes;         /* of the model's graph, as they were */
    bool *functions;   /* whether they have changed */
    const char **gone; /* names of values that there are no longer */
    size_t gone_count;
    xcc_node_names names; /* of nodes that were in training form */
} xcc_rewritten;

/* Converts a model to inference form. The module's arena owns its messages, which may change. `uses` selects the kinds
 * of nodes that change, XCC_USES_BATCH and XCC_USES_RANDOM. */
xcvm_status xcc_inference_form_rewrite(xcc_module *m, Onnx__ModelProto *model, unsigned uses, xcc_rewritten *form);

/* A whole field of a message that replaces another one; NULL: the field does not change. */
typedef struct xcc_edit {
    const void *bytes;
    size_t count;
} xcc_edit;

/* Changes in the bytes of a model. */
typedef struct xcc_model_edits {
    const xcc_edit *nodes, *functions; /* of the model's graph, and of the model, in their order */
    size_t node_count, function_count;
    const char *const *gone; /* names of values that there are no longer, sorted */
    size_t gone_count;
    xcc_node_names names; /* of the nodes that change */
} xcc_model_edits;

/* Finds the edits that convert a serialized model to inference form. The arena owns them. Memory and time are limited
 * by the options. Initializers of the model are not read. */
xcvm_status xcc_inference_form_edits(const xcc_options *options, const void *model, size_t count, xcvm_arena *arena,
                                     xcc_model_edits *edits, xcvm_error *error);
/* Returns true if the value was removed. */
bool xcc_model_edits_drop(const xcc_model_edits *edits, const char *name, size_t length);

#endif
