/* States: pairs of outputs and inputs that the options select by name, and caches that are updated in place. */
#ifndef XCVM_COMPILER_STATES_STATES_H
#define XCVM_COMPILER_STATES_STATES_H

#include "compiler/states/growing_cache.h"

typedef struct xcc_state_pairs {
    const xcc_state_pair *at; /* those of the options, then those that patterns matched */
    size_t count;
    xcc_table inputs;  /* index of the pair by the name of its input */
    xcc_table outputs; /* index of the graph's output by name */
    const char **why;  /* for each pair: why the cache is copied instead of updated in place; NULL: it is updated in
                        * place, or the state is no cache */
    size_t bounded;    /* number of caches with reserved rows (options->cache_rows) */
} xcc_state_pairs;

/* Turns the pairs of the options into states. Runs before the passes. */
xcvm_status xcc_pair_states(xcc_module *m);

/* Sets `at` and `count` of pairs; `outputs` must be set. */
xcvm_status xcc_match_pairs(xcc_module *m, xcc_state_pairs *pairs);
/* Returns the input whose next value is the output according to the graph: rows are appended to the input, or the input
 * is the initial state of a recurrence. NULL if the graph shows neither. */
const xcc_value *xcc_state_of_output(const xcc_graph *g, const xcc_value *output);
/* Returns true if the value is the last state of an LSTM, GRU or RNN, or several of them, also in a branch of an If.
 * Such a state has the same size in each run. */
bool xcc_state_is_recurrent(const xcc_value *stored);
/* Returns true if a value of the first type can become a state of the second. Known sizes must agree. */
bool xcc_state_types_agree(const xcvm_value *stored, const xcvm_value *state);
/* Sets the initial sizes of open dimensions of `count` states, which are still inputs. A size is that of an input that
 * is no state if a run stores the same size, or 0 if the state grows. Fails with INVALID_ARGUMENT otherwise. */
xcvm_status xcc_resolve_state_sizes(xcc_module *m, size_t count, xcc_value *const *states, xcc_value *const *stored);

/* Returns the index of the pair that makes a state of `past` and `present`, or SIZE_MAX. */
size_t xcc_state_pair_of(const xcc_module *m, const xcc_state_pairs *pairs, const xcc_value *present,
                         const xcc_value *past);

/* Replaces Attention that reads caches of the pairs by CachedAttention, which reads them in place. Stores the reason
 * for the others. */
xcvm_status xcc_pair_caches(xcc_module *m, xcc_state_pairs *pairs);
/* The same for models whose attention is written as matrix products. */
xcvm_status xcc_pair_products(xcc_module *m, xcc_state_pairs *pairs, xcc_rows_added *added);

#endif
