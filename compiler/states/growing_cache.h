/* Caches that are empty inputs of the model at first and grow with each run. */
#ifndef XCVM_COMPILER_STATES_GROWING_CACHE_H
#define XCVM_COMPILER_STATES_GROWING_CACHE_H

#include "compiler/ir/builder.h"

/* Number of rows that previous runs have added to caches, for `batch` entries, `length` rows per run. */
typedef struct xcc_rows_added {
    xcc_value *state;
    int64_t batch, length;
} xcc_rows_added;

/* Returns true for an f32 input [batch, heads, rows, width] whose rows alone are unknown; batch is not 0. */
bool xcc_is_growing_cache(const xcc_value *v);
/* Reserves rows for the cache, as many as the options say. */
void xcc_bound_cache(const xcc_module *m, xcc_value *past);
/* Reason for a copy in each run: the options do not say how many rows the cache holds. */
extern const char xcc_no_cache_rows[];
/* Returns the state that counts rows, one number per batch entry. Creates it if there is none of that size. The end of
 * the run adds the rows of `fresh` to it. */
xcc_value *xcc_count_rows(xcc_builder *b, xcc_value *past, xcc_value *fresh, xcc_rows_added *added);
/* Appends the rows of `fresh` to `past` after its first `before` rows. */
xcc_value *xcc_extend_cache(xcc_builder *b, const xcc_value *past, const xcc_value *fresh, const xcc_value *before);
/* Returns true if v is read only by `reader`, with at most one operand, and by Shape nodes. All are in one graph, in
 * which v is `outputs` times an output. */
bool xcc_is_read_by(const xcc_value *v, const xcc_node *reader, size_t outputs);
/* Replaces each Shape that reads `of`. This is the cache `past`, whose size is already fixed, or the cache followed by
 * the rows of `fresh` (NULL: none). All batch entries have before[0] rows. `fresh` has rank 4 and is created before the
 * Shape nodes. */
xcvm_status xcc_replace_cache_shapes(const xcc_value *of, const xcc_value *past, xcc_value *fresh, xcc_value *before);

#endif
