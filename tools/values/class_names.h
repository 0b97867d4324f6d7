/* Names of the classes that a program's scores are of, from its metadata. */
#ifndef XCVM_TOOLS_VALUES_CLASS_NAMES_H
#define XCVM_TOOLS_VALUES_CLASS_NAMES_H

#include "cli/buffer.h"

#include <xcvm/xcvm.h>

struct class_names {
    char **items;
    size_t count;       /* 0: there are none */
    const char *output; /* that has the scores, lent by the program; NULL: each that has as many */
    char *text;
};

/* Zero-initialized it has none. */
void class_names_read(struct class_names *names, const xcvm_program *program);
void class_names_release(struct class_names *names);
/* Lines with the greatest scores of each example, "scores[0]: class 2 "dog" 4.3, class 0 "cat" 1.2"; nothing if the
 * output has no scores of these classes. */
void class_names_print(const struct class_names *names, const char *output, const xcvm_value *value,
                       struct buffer *text);
/* The classes that scores are greatest of, where they are not the expected ones, else that of the first example. */
void class_names_compare(const struct class_names *names, const char *output, const xcvm_value *actual,
                         const xcvm_value *expected, struct buffer *text);

#endif
