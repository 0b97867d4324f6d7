/* Checks that processes that train together have the same options and data. */
#ifndef XCVM_TRAIN_AGREEMENT_H
#define XCVM_TRAIN_AGREEMENT_H

#include "train/trainer.h"

/* The amount of work of a process. */
typedef struct xct_workload {
    uint64_t examples, held_examples, batch, steps;
} xct_workload;

/* Compares the settings of all processes, which would otherwise deadlock or add unrelated numbers. Fails with
 * INVALID_ARGUMENT at least in the processes that differ from the mean. The message names the first difference. */
xcvm_status xct_agree(const xct_trainer *t, const xct_fit_options *options, const xct_workload *load,
                      xcvm_error *error);

#endif
