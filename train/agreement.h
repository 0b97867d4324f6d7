/* Whether processes that train together agree on what they do. */
#ifndef XCVM_TRAIN_AGREEMENT_H
#define XCVM_TRAIN_AGREEMENT_H

#include "train/trainer.h"

/* What one process goes by, beside its options. */
typedef struct xct_workload {
    uint64_t examples, held_examples, batch, steps;
} xct_workload;

/* Processes that differ would wait for each other in vain, or add up what does not belong together. INVALID_ARGUMENT,
 * in the processes that differ from the mean of all at least; the message names the first thing that is not the same.
 */
xcvm_status xct_agree(const xct_trainer *t, const xct_fit_options *options, const xct_workload *load,
                      xcvm_error *error);

#endif
