/* The arrays of data files that inputs take, from options. */
#ifndef XCVM_TOOLS_TRAINING_COLUMNS_H
#define XCVM_TOOLS_TRAINING_COLUMNS_H

#include <xcvm/train.h>

#include "cli/options.h"

struct columns {
    xct_column *items;
    size_t count;
};

/* Adds "NAME=ARRAY", "NAME=ARRAY*FACTOR" or, if `alone`, NAME, whose array has the same name. Otherwise reports
 * the form that `option` needs. */
bool columns_add(struct columns *columns, const char *option, const char *text, bool alone);
/* Adds those of --input. */
bool columns_add_inputs(struct columns *columns, const struct text_list *inputs);
/* Prints the factor that is applied to an array of u8, unless an option sets it. */
void columns_print_scales(const struct columns *columns, const xct_dataset *data, const char *input);
void columns_release(struct columns *columns);

/* Prints a note about skipped files in directories of images. */
void data_skipped_print(const xct_dataset *data);

#endif
