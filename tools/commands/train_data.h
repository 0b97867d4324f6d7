/* Data of a training: classes with names, and notes on data and losses. */
#ifndef XCVM_TOOLS_COMMANDS_TRAIN_DATA_H
#define XCVM_TOOLS_COMMANDS_TRAIN_DATA_H

#include "cli/buffer.h"
#include "training/columns.h"

#include <xcvm/train.h>

/* Matches the class names of the model, the data and the validation data (NULL: there are none), which then have the
 * same numbers. */
xcvm_status train_data_join_classes(xct_trainer *trainer, xct_dataset *data, xct_dataset *validation, bool speaks,
                                    xcvm_error *error);
/* Says which scales the inputs' arrays have. */
void train_data_print_scales(const xct_trainer *trainer, const xct_dataset *data, const struct columns *columns);
/* Names the losses that suit the labels of the data, after a model without a loss was refused. */
void train_data_suggest_loss(const char *model, const xcc_options *options, const struct text_list *data,
                             const struct columns *columns, const char *label);
/* Says that the model looks as if it had been exported for inference, with normalizations merged. */
void train_data_warn_of_merged(const xct_trainer *trainer);

/* A model that --quantize trains, and the data that its ranges are from. */
struct train_rounding {
    const char *model;
    const struct text_list *data;
    const struct columns *columns;
    const struct dims *dims;
    int threads;
    uint64_t max_memory;
};

/* Adds rounding to the model, with ranges from the first examples of the data. */
xcvm_status train_data_put_rounding(const struct train_rounding *rounding, struct buffer *rounded, xcvm_error *error);

#endif
