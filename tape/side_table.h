/* Rare state of variables: gradients, hooks, packed weights. It is allocated at the first use, so that a variable
 * without any is small, and freed with the variable. */
#ifndef XCVM_TAPE_SIDE_TABLE_H
#define XCVM_TAPE_SIDE_TABLE_H

#include "tape/tape.h"

typedef struct tape_hook {
    xcvm_gradient_hook hook;
    struct tape_hook *next;
} tape_hook;

/* A row-sparse gradient of a table, as one Gather gives it. */
typedef struct tape_sparse_rows {
    tape_variable *gradient; /* one row per index; a reference */
    tape_variable *indices;  /* for the tracer; a reference, or NULL */
    struct tape_sparse_rows *next;
    size_t count;
    int64_t at[]; /* row numbers of the table */
} tape_sparse_rows;

/* A weight and its transpose, packed for the product kernel, of one version of the elements. */
typedef struct tape_panels {
    const xcvm_storage *of;
    uint32_t version;
    uint32_t uses[2];        /* products that could have used them */
    xcvm_storage *packed[2]; /* NULL: not packed yet */
} tape_panels;

struct tape_side_state {
    tape_side_state *next_free;
    tape_hook *hooks;              /* in the order in which they were added */
    tape_variable *gradient;       /* accumulated gradient; the right factor if left_factor is set */
    tape_variable *left_factor;    /* the gradient is left_factor, transposed, times `gradient`; NULL: it is not */
    tape_sparse_rows *sparse_rows; /* accumulated row-sparse gradients, the latest first */
    tape_sparse_rows *pass_rows;   /* those that the running backward pass has found */
    tape_panels *panels;           /* of a packed weight */
    tape_batch *batch;             /* whose stacked result the variable is */
    uint32_t layer_refs;           /* layers that own the variable */
};

extern const tape_side_state tape_no_side_state;
/* The rare state of v, for reading. */
static inline const tape_side_state *tape_side(const tape_variable *v)
{
    return v->has_side_state ? v->side : &tape_no_side_state;
}
/* The rare state of v, allocated if it has none; NULL with the failure set if there is no memory. */
tape_side_state *tape_side_reserve(tape_variable *v);
/* The same without a failure. */
tape_side_state *tape_side_try_reserve(tape_variable *v);
/* Frees the rare state of a variable that is being destroyed, and what it refers to. */
void tape_side_destroy(tape_variable *v);
/* Frees the pool, when no variable is left. */
void tape_side_pool_release(xcvm_tape *t);

size_t tape_hook_count(const tape_variable *v);
void tape_sparse_release(xcvm_tape *t, tape_sparse_rows **rows);
static inline size_t tape_sparse_bytes(size_t count) { return sizeof(tape_sparse_rows) + count * sizeof(int64_t); }
void tape_panels_release(tape_variable *v);
/* Frees the panels of all variables; true if there were any. */
bool tape_panels_release_all(xcvm_tape *t);
/* Frees panels when the heap is short of memory (xcvm_heap_set_reclaim). */
bool tape_panels_reclaim(void *tape);

/* ---- Accumulated gradients ---- */

/* Replaces the gradient of v, and takes the reference to `gradient`. NULL: v has none. The side state must be reserved
 * for a gradient other than NULL. */
void tape_variable_set_gradient(tape_variable *v, tape_variable *gradient);
/* Sets the gradient of v to the product of `left`, transposed, and `right`. The side state must be reserved. */
void tape_variable_set_factors(tape_variable *v, tape_variable *left, tape_variable *right);
/* The gradient of v; factors are multiplied first. NULL: none, or a failure. */
tape_variable *tape_variable_gradient(tape_variable *v);
/* Removes the gradient of v, and its rows, and informs the tracer. */
void tape_variable_clear_gradient(tape_variable *v);

#endif
