/* Conventions of exporters for the names of an input and of the output that is its next value. */
#ifndef XCVM_COMPILER_STATES_PAIR_NAMES_H
#define XCVM_COMPILER_STATES_PAIR_NAMES_H

#include "compiler/ir/graph.h"

/* A name as the conventions read it. */
typedef struct xcc_pair_name {
    const char *key;       /* the words that both names of a pair share, sorted; NULL: too long to be compared */
    const char *first_key; /* of an input, the key without an initial 0, as in "h0"; NULL: there is no such 0 */
    bool marked;           /* a word says which of the two it is, as "past" or "present" */
    bool memory;           /* a word says that it is kept, as "state" or "cache" */
} xcc_pair_name;

/* Reads a name of an input or of an output. */
xcvm_status xcc_pair_name_read(xcc_module *m, const char *name, bool is_input, xcc_pair_name *read);
/* True if names with equal keys belong together. */
bool xcc_pair_names_fit(const xcc_pair_name *input, const xcc_pair_name *output);

#endif
