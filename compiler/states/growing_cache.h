/* Caches that the model has without rows at first, and longer after each run. */
#ifndef XCVM_COMPILER_STATES_GROWING_CACHE_H
#define XCVM_COMPILER_STATES_GROWING_CACHE_H

#include "compiler/ir/builder.h"

/* How many rows the runs so far have added to caches of so many batch entries, so many at a time. */
typedef struct xcc_rows_added {
    xcc_value *state;
    int64_t batch, length;
} xcc_rows_added;

/* An input of f32 of which all but the number of rows is known, [batch, heads, rows, width]; batch is not 0. */
bool xcc_is_growing_cache(const xcc_value *v);
/* Reserves room for as many rows as the options say. */
void xcc_bound_cache(const xcc_module *m, xcc_value *past);
/* Why a cache is copied in each run: the options do not say how many rows it holds. */
extern const char xcc_no_cache_rows[];
/* The state that counts rows, one number for each batch entry, begun if there is none of that size, and raised at the
 * end of the run by the rows of `fresh`. */
xcc_value *xcc_count_rows(xcc_builder *b, xcc_value *past, xcc_value *fresh, xcc_rows_added *added);
/* `past` with the rows of `fresh` behind its first `before`. */
xcc_value *xcc_extend_cache(xcc_builder *b, const xcc_value *past, const xcc_value *fresh, const xcc_value *before);
/* Whether nothing reads v but `reader`, by at most one operand, and Shape, both in one graph, which has it for so many
 * outputs. */
bool xcc_is_read_by(const xcc_value *v, const xcc_node *reader, size_t outputs);
/* Replaces each Shape that reads `of`, which is the cache `past`, bounded already, or that with the rows of `fresh`
 * behind it (NULL: none): the first before[0] rows are there in all batch entries. `fresh` is of rank 4, and made in
 * front of the Shapes. */
xcvm_status xcc_replace_cache_shapes(const xcc_value *of, const xcc_value *past, xcc_value *fresh, xcc_value *before);

#endif
