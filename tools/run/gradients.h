/* What is differentiated by: from the command line, and from the files of test data that name it. */
#ifndef XCVM_TOOLS_RUN_GRADIENTS_H
#define XCVM_TOOLS_RUN_GRADIENTS_H

#include "cli/options.h"
#include "values/budget.h"

#include <xcvm/compiler.h>

/* Names, which are owned. */
struct names {
    const char **items;
    size_t count;
};
/* Takes texts apart at commas; empty names are left out. */
void names_split(const struct text_list *texts, struct names *names);
/* Adds a copy of a name; `names` is a struct names, so that this can be a callback. */
void names_add(void *names, const char *name);
void names_release(struct names *names);

/* Adds to `names` what the files DATA_SET/gradient_N.pb, whose tensors are named grad_out@NAME, are gradients by,
 * unless it is among them already. What is read counts. */
xcvm_status gradient_names(const char *data_set, struct value_budget *budget, struct names *names, xcvm_error *error);
/* The gradient that a data set has for the program's output `output`; *value is NULL if it has none. */
xcvm_status gradient_value(const char *data_set, const char *output, struct value_budget *budget, xcvm_value **value,
                           xcvm_error *error);

#endif
