/* Names to differentiate by, from the command line and from files of test data. */
#ifndef XCVM_TOOLS_RUN_GRADIENTS_H
#define XCVM_TOOLS_RUN_GRADIENTS_H

#include "cli/options.h"
#include "values/budget.h"

#include <xcvm/compiler.h>

/* A list of names that it owns. */
struct names {
    const char **items;
    size_t count;
};
/* Splits texts at commas. Empty names are omitted. */
void names_split(const struct text_list *texts, struct names *names);
/* Adds a copy of a name. `names` is a struct names; the type fits callbacks. */
void names_add(void *names, const char *name);
void names_release(struct names *names);

/* Adds NAME of each tensor grad_out@NAME in DATA_SET/gradient_N.pb to `names`, once. The budget counts what is
 * read. */
xcvm_status gradient_names(const char *data_set, struct value_budget *budget, struct names *names, xcvm_error *error);
/* Reads the gradient of a data set for the program's output `output`. *value is NULL if there is none. */
xcvm_status gradient_value(const char *data_set, const char *output, struct value_budget *budget, xcvm_value **value,
                           xcvm_error *error);

#endif
