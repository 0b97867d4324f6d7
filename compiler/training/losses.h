/* Losses that can be added to models. */
#ifndef XCVM_COMPILER_TRAINING_LOSSES_H
#define XCVM_COMPILER_TRAINING_LOSSES_H

#include "compiler/ir/graph.h"

/* Returns true if the text selects a loss of the table: "NAME", "NAME(OUTPUT)" or "NAME(OUTPUT,LABELS)". */
bool xcc_loss_is_known(const char *text);
/* Returns true if the text selects a loss whose labels are classes. `text` may be NULL. */
bool xcc_loss_takes_classes(const char *text);
/* Axis of the classes of an output of rank `rank`; -1: the loss has no classes. */
int xcc_loss_class_axis(const char *text, int rank);
/* Label that losses of classes ignore. */
int64_t xcc_loss_ignores(const xcc_options *options);
/* Builds the selected loss at the end of the top graph. The labels are the input of the given name, which is added if
 * the model has none. */
xcvm_status xcc_loss_add(xcc_module *m, const char *text, xcc_value **loss);
/* Returns NULL if the graph has no input of that name. */
xcc_value *xcc_input_named(const xcc_graph *g, const char *name);
/* Adds an input to the top graph after the existing ones. Returns NULL on failure, or if the model has a value of that
 * name. */
xcc_value *xcc_input_add(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims);

#endif
