/* Test cases in ONNX's layout: directories with model.onnx and test_data_set_N/{input,output}_N.pb. */
#ifndef XCVM_TOOLS_RUN_CASES_H
#define XCVM_TOOLS_RUN_CASES_H

#include "cli/buffer.h"
#include "values/budget.h"

struct test_case {
    char *name;   /* path relative to the directory on the command line */
    char *folder; /* a path */
    char *model;  /* a path */
};

struct test_cases {
    struct test_case *items;
    size_t count;
};

/* Adds `folder` if it is a case, otherwise all cases below it, sorted by name. A case is a directory with
 * model.onnx, or with a single other .onnx file and at least one data set. */
xcvm_status cases_find(const char *folder, struct test_cases *cases, xcvm_error *error);
void cases_release(struct test_cases *cases);

/* Paths of a case's data sets, in order, ended by NULL. */
char **data_sets_find(const char *folder);
void data_sets_release(char **sets);

/* Reads DATA_SET/KIND_N.pb (kind "input" or "output"), or the items of a sequence from KIND_N_0.pb on. *value is
 * NULL if there is neither. The budget counts values, and files while they are read. */
xcvm_status data_set_value(const char *data_set, const char *kind, size_t index, const xcvm_type *type,
                           struct value_budget *budget, xcvm_value **value, xcvm_error *error);
/* Reads a .pb file, and the name of its tensor. *value is NULL if there is no such file. */
xcvm_status data_file_load(const char *path, const xcvm_type *type, struct value_budget *budget, char name[128],
                           xcvm_value **value, xcvm_error *error);

/* The number of inputs that a data set has files for: the highest number plus one. */
size_t data_set_inputs(const char *data_set);
/* The name of a file of the kind ("input", "output") whose number is `count` or more, or which is not a .pb file;
 * NULL if there is none. Release it with free. */
char *data_set_leftover(const char *data_set, const char *kind, size_t count);

#endif
