/* Training programs: declarations that the files of this directory share. */
#ifndef XCVM_COMPILER_TRAINING_TRAINING_H
#define XCVM_COMPILER_TRAINING_TRAINING_H

#include "compiler/ir/builder.h"
#include "compiler/training/optimizer.h"

/* A trainable parameter. */
typedef struct xcc_trainable {
    xcc_value *parameter, *gradient;
    xcc_value *accumulator; /* accumulated gradient of runs without update; NULL: none */
    size_t group;           /* index of the group in the options; the number of groups if it is in none */
} xcc_trainable;

typedef struct xcc_training {
    xcc_module *m;
    xcc_builder b;
    xcc_optimizer_spec spec;
    xcc_trainable *parameters;
    size_t count;
    xcc_value *loss, *loss_scale; /* factor of the loss (loss_scale); NULL if the loss is not scaled */
    xcc_value *rate, *apply;      /* inputs; apply is NULL if each run updates */
    xcc_value *share;             /* the share of this process in the samples of all, f32; NULL: a single process */
} xcc_training;

/* Sums over the processes that run the program together (processes.c). Adds the share before all nodes. */
xcvm_status xcc_processes_share(xcc_training *t);
/* Lets BatchNormalization in training form use the statistics of the whole batch of all processes. */
xcvm_status xcc_processes_normalize(xcc_module *m);
/* Sorts the trainable parameters by the order in which the backward pass computes their gradients. All processes have
 * the same order. */
xcvm_status xcc_processes_order(xcc_training *t);
/* Sums gradients, already multiplied by the shares, over all processes, while the backward pass goes on. Runs that
 * update sum the accumulated gradients. Other runs accumulate within the process. Losses and running statistics become
 * means over the processes. */
xcvm_status xcc_processes_gradients(xcc_training *t);
xcvm_status xcc_processes_results(xcc_training *t);
/* Converts BatchNormalization and Dropout to the form that the options select (modes.c). In training form running
 * statistics become states and are stored. In evaluation form they are read. */
xcvm_status xcc_training_modes(xcc_module *m);
/* Creates a state of the optimizer, named "optimizer@NAME.WHAT", or "optimizer@WHAT" if the parameter is NULL. */
xcc_value *xcc_training_state(xcc_module *m, const char *name, const char *what, xcvm_dtype dtype, int rank,
                              const int64_t *dims, const void *initial);
/* Adds the inputs of training, and accumulators that are needed before xcc_training_update, which otherwise creates
 * them (update.c). */
xcvm_status xcc_training_inputs(xcc_training *t);
/* Builds the update of the trainable parameters (update.c). If processes have summed the gradients, accumulators are
 * already included. */
xcvm_status xcc_training_update(xcc_training *t);
/* The type in which the optimizer computes: f64 for f64, else f32. */
static inline xcvm_dtype xcc_training_type(const xcc_value *parameter)
{
    return parameter->type.dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32;
}
/* Returns the initial elements of a parameter in that type, lent or owned by the module; NULL on failure. */
const void *xcc_training_initial(xcc_module *m, const xcc_value *parameter);
/* Adds an output of the given name, which later passes must not remove, to the top graph. */
xcvm_status xcc_training_output(xcc_module *m, xcc_value *value, const char *name);

/* The passes `add_loss`, `train` and `sink_updates`. */
xcvm_status xcc_pass_add_loss(xcc_module *m);
xcvm_status xcc_pass_train(xcc_module *m);
xcvm_status xcc_pass_sink_updates(xcc_module *m);

#endif
