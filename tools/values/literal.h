/* Literals: text of tensors and of lists of tensors. */
#ifndef XCVM_TOOLS_VALUES_LITERAL_H
#define XCVM_TOOLS_VALUES_LITERAL_H

#include "values/budget.h"

/* True if the text may be a literal: nothing, numbers, strings, or a list. */
bool literal_is_one(const char *text);

/* Parses elements separated by spaces, commas or brackets, or seq(...; ...), optional(...), map(...; ...). `type`
 * is the written type, or NULL. Then `declared` (may be NULL) gives element type and shape, of which one dimension
 * may be open; without it, the elements do. One element fills the tensor. `budget` may be NULL. */
xcvm_status literal_value(const char *text, const xcvm_type *type, const xcvm_type *declared,
                          struct value_budget *budget, xcvm_value **value, xcvm_error *error);

#endif
