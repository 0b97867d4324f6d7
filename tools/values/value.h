/* Values as text, their statistics, and conversion between element types. */
#ifndef XCVM_TOOLS_VALUES_VALUE_H
#define XCVM_TOOLS_VALUES_VALUE_H

#include "cli/buffer.h"
#include "values/budget.h"
#include "values/number.h"
#include "values/type.h"

/* The value as a SPEC: "2x3xf32=1 2 3 4 5 6", "seq(f32=1; 2xf32=1 2)". Tensors of more than `limit` elements are
 * summarized, as "64x64xf32 min=-1 max=2 mean=0.5 first 1 2 3 ...". */
void value_print(struct buffer *text, const xcvm_value *value, size_t limit);
/* A string with quotes and escapes. */
void string_print(struct buffer *text, const char *string, size_t length);
/* Reads such a string at `text`; appends its characters. Returns what is behind it, NULL if it does not end. */
const char *string_parse(const char *text, struct buffer *characters);
/* "[2,0,1]", the position of element `index`. */
void index_print(struct buffer *text, const xcvm_value *tensor, size_t index);

/* Of a tensor's numbers; infinities count for min and max, NaNs for neither of min, max and mean. */
struct statistics {
    size_t count, nan_count, inf_count;
    size_t first_nan, first_inf; /* where they are not 0 in number */
    number min, max, mean, deviation;
};
/* false for lists, strings and empty tensors. */
bool value_statistics(const xcvm_value *value, struct statistics *statistics);
void statistics_print(struct buffer *text, const struct statistics *statistics);

/* Sets *converts to whether the value, or an item of it, is a tensor of another type. Fails at the deadline of
 * `budget`, which may be NULL. */
xcvm_status value_converts(const xcvm_value *value, xcvm_dtype dtype, const struct value_budget *budget, bool *converts,
                           xcvm_error *error);
/* `value` as a tensor of `dtype`, with a reference of its own: the same value if it has that type. Fails if an element
 * does not fit (floats may be rounded). Items of lists are converted likewise. `budget` may be NULL. */
xcvm_status value_convert(xcvm_value *value, xcvm_dtype dtype, struct value_budget *budget, xcvm_value **converted,
                          xcvm_error *error);

#endif
