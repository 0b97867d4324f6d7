/* Text output of a training. */
#ifndef XCVM_TOOLS_COMMANDS_TRAINING_TEXT_H
#define XCVM_TOOLS_COMMANDS_TRAINING_TEXT_H

#include "cli/progress.h"
#include "training/processes.h"

#include <xcvm/train.h>

/* The progress line, and at the end of an epoch a line that stays. */
void training_text_step(struct progress *progress, const xct_progress *p);
/* The figures of a training that has ended, a line for each, as scripts read them. */
void training_text_report(const xct_fit_report *report, int64_t patience, const char *output,
                          const struct processes *processes);

#endif
