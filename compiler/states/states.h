/* The pairs of outputs and inputs that options make states of, by their names, and what becomes of them. */
#ifndef XCVM_COMPILER_STATES_STATES_H
#define XCVM_COMPILER_STATES_STATES_H

#include "compiler/states/growing_cache.h"

typedef struct xcc_state_pairs {
    const xcc_state_pair *at; /* those of the options, then those that their patterns found */
    size_t count;
    xcc_table inputs;  /* the pair whose input has the name */
    xcc_table outputs; /* the index of the graph's output of the name */
    const char **why;  /* of each pair: the reason why the cache is not read and appended in place; NULL: there is none,
                          or the state is no cache */
    size_t bounded;    /* caches that got room for options->cache_rows */
} xcc_state_pairs;

/* Makes states of the pairs of outputs and inputs in the options: a stage before the passes. */
xcvm_status xcc_pair_states(xcc_module *m);

/* Sets `at` and `count` of pairs, whose `outputs` is set. */
xcvm_status xcc_match_pairs(xcc_module *m, xcc_state_pairs *pairs);
/* The input of which an output is the next value, as the graph shows: rows are added to the input, or a recurrence
 * begins with it. NULL: the graph does not show one. */
const xcc_value *xcc_state_of_output(const xcc_graph *g, const xcc_value *output);
/* True if a value of the first type can be a state of the second. Sizes that are known must agree. */
bool xcc_state_types_agree(const xcvm_value *stored, const xcvm_value *state);
/* Gives the open dimensions of `count` states, inputs so far, the sizes that they begin with: that of an input which is
 * no state, where the run stores as much, or 0, where they grow. Where neither holds, INVALID_ARGUMENT. */
xcvm_status xcc_resolve_state_sizes(xcc_module *m, size_t count, xcc_value *const *states, xcc_value *const *stored);

/* The pair that makes a state of what `past` and `present` are, SIZE_MAX if there is none. */
size_t xcc_state_pair_of(const xcc_module *m, const xcc_state_pairs *pairs, const xcc_value *present,
                         const xcc_value *past);

/* Lets Attention read caches, of which the pairs make states, where they lie; before that makes them. Says of the
 * others why not. */
xcvm_status xcc_pair_caches(xcc_module *m, xcc_state_pairs *pairs);
/* The same for products, of models whose attention is written out. */
xcvm_status xcc_pair_products(xcc_module *m, xcc_state_pairs *pairs, xcc_rows_added *added);

#endif
