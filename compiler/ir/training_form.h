/* The training form of a graph: nodes whose results depend on the batch or on random numbers, as training wants them.
 */
#ifndef XCVM_COMPILER_IR_TRAINING_FORM_H
#define XCVM_COMPILER_IR_TRAINING_FORM_H

#include "compiler/ir/graph.h"

/* What the results of a node in training form depend on. */
enum {
    XCC_USES_BATCH = 1, /* BatchNormalization: mean and variance of the batch */
    XCC_USES_RANDOM = 2 /* Dropout: random numbers */
};

/* The names of the first few of some nodes, and how many nodes there are. */
typedef struct xcc_node_names {
    size_t count, named;
    unsigned uses; /* XCC_USES_... of all */
    char text[300];
    size_t length;
} xcc_node_names;

void xcc_node_names_add(xcc_node_names *names, const char *name, const char *op, unsigned uses);
/* Passes "COUNT node is|nodes are WHAT: 'a' (Op), 'b' (Op) and N more" to the options' note, if there are nodes, and if
 * there is a note. */
void xcc_node_names_note(const xcc_node_names *names, const xcc_options *options, xcc_diagnostic_kind kind,
                         const char *what);

/* XCC_USES_... of an instruction in training form; 0: it is in inference form, or an input of the model decides. */
unsigned xcc_node_training_form(const xcc_node *n);
/* Puts an instruction into inference form, if it has another. */
xcvm_status xcc_node_to_inference(xcc_node *n);
/* Puts the module's graph into inference form if the options ask for it. Otherwise counts the nodes in training form,
 * and notes them where neither gradients nor training are asked for. */
xcvm_status xcc_training_form_resolve(xcc_module *m);

#endif
