/* Literals: tensors written out as text, and lists of them. */
#ifndef XCVM_TOOLS_VALUES_LITERAL_H
#define XCVM_TOOLS_VALUES_LITERAL_H

#include "values/budget.h"

/* Whether the text can be a literal at all: nothing, numbers, strings, or a list. */
bool literal_is_one(const char *text);

/* Elements separated by spaces, commas or brackets, or seq(...; ...), optional(...), map(...; ...). `type` is what
 * stands in front of them, or NULL; then `declared` (may be NULL too) gives element type and shape, of which one
 * dimension may be open, and without it the elements do. One element stands for all. `budget` may be NULL. */
xcvm_status literal_value(const char *text, const xcvm_type *type, const xcvm_type *declared,
                          struct value_budget *budget, xcvm_value **value, xcvm_error *error);

#endif
