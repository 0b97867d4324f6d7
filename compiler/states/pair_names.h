/* Naming conventions of exporters for an input and the output that is its next value. */
#ifndef XCVM_COMPILER_STATES_PAIR_NAMES_H
#define XCVM_COMPILER_STATES_PAIR_NAMES_H

#include "compiler/ir/graph.h"

/* A name, parsed by the conventions. */
typedef struct xcc_pair_name {
    const char *key;       /* the words that both names of a pair share, sorted; NULL: too long to compare */
    const char *first_key; /* of an input: the key without an initial 0, as in "h0"; NULL: there is no such 0 */
    bool marked;           /* a word marks one side of the pair, such as "past" or "present" */
    bool memory;           /* a word marks a state, such as "state" or "cache" */
} xcc_pair_name;

/* Parses the name of an input or output. */
xcvm_status xcc_pair_name_read(xcc_module *m, const char *name, bool is_input, xcc_pair_name *read);
/* Returns true if names with equal keys are a pair. */
bool xcc_pair_names_fit(const xcc_pair_name *input, const xcc_pair_name *output);

#endif
