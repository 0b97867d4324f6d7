/* The training form of a graph: nodes whose results depend on the batch or on random numbers, as in training. */
#ifndef XCVM_COMPILER_IR_TRAINING_FORM_H
#define XCVM_COMPILER_IR_TRAINING_FORM_H

#include "compiler/ir/graph.h"

/* Dependencies of the results of a node in training form. */
enum {
    XCC_USES_BATCH = 1, /* BatchNormalization: mean and variance of the batch */
    XCC_USES_RANDOM = 2 /* Dropout: random numbers */
};

/* The names of the first few of some nodes, and the number of nodes. */
typedef struct xcc_node_names {
    size_t count, named;
    unsigned uses; /* XCC_USES_... flags of all */
    char text[300];
    size_t length;
} xcc_node_names;

void xcc_node_names_add(xcc_node_names *names, const char *name, const char *op, unsigned uses);
/* Reports "COUNT node is|nodes are WHAT: 'a' (Op), 'b' (Op) and N more" to the options' note callback, if there are
 * nodes and a callback. */
void xcc_node_names_note(const xcc_node_names *names, const xcc_options *options, xcc_diagnostic_kind kind,
                         const char *what);

/* XCC_USES_... flags of an instruction in training form; 0: it is in inference form, or an input of the model decides.
 */
unsigned xcc_node_training_form(const xcc_node *n);
/* Converts an instruction to inference form, if it has one. */
xcvm_status xcc_node_to_inference(xcc_node *n);
/* Converts the module's graph to inference form if the options request it. Otherwise counts nodes in training form, and
 * reports them if neither gradients nor training are requested. */
xcvm_status xcc_training_form_resolve(xcc_module *m);

#endif
