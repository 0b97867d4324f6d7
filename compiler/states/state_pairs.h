/* The pairs of outputs and inputs that options make states of, by their names, and what becomes of them. */
#ifndef XCVM_COMPILER_STATES_STATE_PAIRS_H
#define XCVM_COMPILER_STATES_STATE_PAIRS_H

#include "compiler/states/growing_cache.h"

typedef struct xcc_state_pairs {
    xcc_table inputs;  /* the pair whose input has the name */
    xcc_table outputs; /* the index of the graph's output of the name */
    const char **why;  /* of each pair: what keeps it from being a cache that is read and written where it lies; NULL:
                          nothing, or it is none */
} xcc_state_pairs;

/* Makes states of the pairs of outputs and inputs in the options: a stage before the passes. */
xcvm_status xcc_pair_states(xcc_module *m);

/* The pair that makes a state of what `past` and `present` are, SIZE_MAX if there is none. */
size_t xcc_state_pair_of(const xcc_module *m, const xcc_state_pairs *pairs, const xcc_value *present,
                         const xcc_value *past);

/* Lets Attention read caches, of which the pairs make states, where they lie; before that makes them. Says of the
 * others why not. */
xcvm_status xcc_pair_caches(xcc_module *m, xcc_state_pairs *pairs);
/* The same for products, of models whose attention is written out. */
xcvm_status xcc_pair_products(xcc_module *m, xcc_state_pairs *pairs, xcc_rows_added *added);

#endif
