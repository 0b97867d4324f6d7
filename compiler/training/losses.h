/* Losses that are added to models without one. */
#ifndef XCVM_COMPILER_TRAINING_LOSSES_H
#define XCVM_COMPILER_TRAINING_LOSSES_H

#include "compiler/ir/graph.h"

/* Whether a text asks for a loss of the table: "NAME", "NAME(OUTPUT)" or "NAME(OUTPUT,LABELS)". */
bool xcc_loss_is_known(const char *text);
/* Whether such a text asks for a loss whose labels are classes; NULL: no. */
bool xcc_loss_takes_classes(const char *text);
/* The axis of classes of the output, of `rank` axes, that it is of; -1: it has none. */
int xcc_loss_class_axis(const char *text, int rank);
/* The label that losses of classes leave out. */
int64_t xcc_loss_ignores(const xcc_options *options);
/* Builds the loss that the text asks for at the end of the top graph. The labels are the input of that name, one that
 * is added if the model has none. */
xcvm_status xcc_loss_add(xcc_module *m, const char *text, xcc_value **loss);
/* NULL if the graph has no input of that name. */
xcc_value *xcc_input_named(const xcc_graph *g, const char *name);
/* An input of the top graph, behind those that there are. NULL if the model has one of that name, or on failure. */
xcc_value *xcc_input_add(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims);

#endif
