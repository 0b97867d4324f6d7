/* The result of a training: everything that may fail when it is written is tried before the training begins. */
#ifndef XCVM_TOOLS_COMMANDS_TRAIN_OUTPUT_H
#define XCVM_TOOLS_COMMANDS_TRAIN_OUTPUT_H

#include <xcvm/train.h>

struct train_output {
    const char *path;    /* NULL: nothing is written */
    xcc_options compile; /* of a program */
    char *data;          /* the file of the weights of a model of 2 GB and more; NULL: they are in the model */
};

/* Checks before the training that the model can be written: name, model or program, and disk space. output->path and
 * compile must be set. */
xcvm_status train_output_begin(struct train_output *output, const xct_trainer *trainer, xcvm_error *error);
xcvm_status train_output_write(const struct train_output *output, const xct_trainer *trainer, xcvm_error *error);
void train_output_release(struct train_output *output);

#endif
