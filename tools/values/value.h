/* Values as text, their statistics, and conversion between element types. */
#ifndef XCVM_TOOLS_VALUES_VALUE_H
#define XCVM_TOOLS_VALUES_VALUE_H

#include "cli/buffer.h"
#include "values/budget.h"
#include "values/number.h"
#include "values/type.h"

/* Appends the value as a SPEC: "2x3xf32=1 2 3 4 5 6", "seq(f32=1; 2xf32=1 2)". A tensor of more than `limit`
 * elements is summarized: "64x64xf32 min=-1 max=2 mean=0.5 first 1 2 3 ...". */
void value_print(struct buffer *text, const xcvm_value *value, size_t limit);
/* Appends a string with quotes and escapes. */
void string_print(struct buffer *text, const char *string, size_t length);
/* Reads such a string at `text` and appends its characters. Returns the end, or NULL if the closing quote is
 * missing. */
const char *string_parse(const char *text, struct buffer *characters);
/* Appends the position of element `index`, "[2,0,1]". */
void index_print(struct buffer *text, const xcvm_value *tensor, size_t index);

/* Statistics of a tensor's numbers. min and max include infinities; NaNs are excluded. */
struct statistics {
    size_t count, nan_count, inf_count;
    size_t first_nan, first_inf; /* valid if the counts are not 0 */
    number min, max, mean, deviation;
};
/* Returns false for lists, strings and empty tensors. */
bool value_statistics(const xcvm_value *value, struct statistics *statistics);
void statistics_print(struct buffer *text, const struct statistics *statistics);

/* Sets *converts to true if the value, or an item of it, is a tensor of another type. Fails at the deadline of
 * `budget` (may be NULL). */
xcvm_status value_converts(const xcvm_value *value, xcvm_dtype dtype, const struct value_budget *budget, bool *converts,
                           xcvm_error *error);
/* Returns `value` converted to `dtype`, as a new reference; it is the same value if it has that type. Fails if an
 * element cannot be represented (floats may be rounded). Items of lists are converted too. `budget` may be NULL. */
xcvm_status value_convert(xcvm_value *value, xcvm_dtype dtype, struct value_budget *budget, xcvm_value **converted,
                          xcvm_error *error);

#endif
