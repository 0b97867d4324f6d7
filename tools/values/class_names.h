/* Class names of a program, from its metadata. */
#ifndef XCVM_TOOLS_VALUES_CLASS_NAMES_H
#define XCVM_TOOLS_VALUES_CLASS_NAMES_H

#include "cli/buffer.h"

#include <xcvm/xcvm.h>

struct class_names {
    char **items;
    size_t count;       /* 0: none */
    const char *output; /* output with the scores, borrowed from the program; NULL: each output with as many elements */
    char *text;
};

/* A zero-initialized struct has no names. */
void class_names_read(struct class_names *names, const xcvm_program *program);
void class_names_release(struct class_names *names);
/* Appends lines with the greatest scores of each example, "scores[0]: class 2 "dog" 4.3, class 0 "cat" 1.2".
 * Appends nothing if the output has no scores of these classes. */
void class_names_print(const struct class_names *names, const char *output, const xcvm_value *value,
                       struct buffer *text);
/* Appends the classes with the greatest scores that differ from the expected ones, or the class of the first
 * example. */
void class_names_compare(const struct class_names *names, const char *output, const xcvm_value *actual,
                         const xcvm_value *expected, struct buffer *text);

#endif
