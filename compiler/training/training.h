/* Training programs: what the files of this folder tell each other. */
#ifndef XCVM_COMPILER_TRAINING_TRAINING_H
#define XCVM_COMPILER_TRAINING_TRAINING_H

#include "compiler/ir/builder.h"
#include "compiler/training/optimizer.h"

/* A parameter that learns. */
typedef struct xcc_trainable {
    xcc_value *parameter, *gradient;
    xcc_value *accumulator; /* of gradients of runs that do not apply; NULL: there are none */
    size_t group;           /* of the options; their number: it is in none */
} xcc_trainable;

typedef struct xcc_training {
    xcc_module *m;
    xcc_builder b;
    xcc_optimizer_spec spec;
    xcc_trainable *parameters;
    size_t count;
    xcc_value *loss, *loss_scale; /* loss_scale: NULL if the loss is not scaled */
    xcc_value *rate, *apply;      /* inputs; apply: NULL if all runs do */
    xcc_value *share;             /* of all processes' samples that this one's batch has, f32; NULL: it is alone */
} xcc_training;

/* Sums over the processes that run the program together (processes.c). The share goes in front of all that there is. */
xcvm_status xcc_processes_share(xcc_training *t);
/* BatchNormalization in training form takes the statistics of all processes' parts of a batch. */
xcvm_status xcc_processes_normalize(xcc_module *m);
/* Puts the trainable parameters in the order in which the backward will make their gradients, the same in all
 * processes. */
xcvm_status xcc_processes_order(xcc_training *t);
/* Gradients become those of the losses of all processes, which each has multiplied by its share, summed up while the
 * backward goes on, in runs that apply with what has been accumulated; those of other runs stay the process's own. So
 * do losses and running statistics become means. */
xcvm_status xcc_processes_gradients(xcc_training *t);
xcvm_status xcc_processes_results(xcc_training *t);
/* Puts BatchNormalization and Dropout into the form that the options ask for, of training, where running statistics
 * become states and are stored, or of evaluation, where they are read (modes.c). */
xcvm_status xcc_training_modes(xcc_module *m);
/* A state of the optimizer, "optimizer@NAME.WHAT", or "optimizer@WHAT" for NULL. */
xcc_value *xcc_training_state(xcc_module *m, const char *name, const char *what, xcvm_dtype dtype, int rank,
                              const int64_t *dims, const void *initial);
/* The inputs that training adds, and the accumulators, where they are needed before xcc_training_update, which makes
 * them otherwise (update.c). */
xcvm_status xcc_training_inputs(xcc_training *t);
/* Builds what updates the trainable parameters by their gradients, which have the accumulators in them already where
 * processes have summed them up (update.c). */
xcvm_status xcc_training_update(xcc_training *t);
/* The type in which the optimizer computes: f64 for f64, else f32. */
static inline xcvm_dtype xcc_training_type(const xcc_value *parameter)
{
    return parameter->type.dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32;
}
/* The elements that a parameter begins with as that type, which is lent or of the module; NULL on failure. */
const void *xcc_training_initial(xcc_module *m, const xcc_value *parameter);
/* One more output of the top graph, of that name, which must last. */
xcvm_status xcc_training_output(xcc_module *m, xcc_value *value, const char *name);

/* The passes `add_loss`, `train` and `sink_updates`. */
xcvm_status xcc_pass_add_loss(xcc_module *m);
xcvm_status xcc_pass_train(xcc_module *m);
xcvm_status xcc_pass_sink_updates(xcc_module *m);

#endif
