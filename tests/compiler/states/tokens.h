/* What tests of key/value caches share: the operands of tokens, and the state of a cache that is updated in place. */
#ifndef XCVM_TESTS_COMPILER_STATES_TOKENS_H
#define XCVM_TESTS_COMPILER_STATES_TOKENS_H

#include "tests/compiler/support.h"

/* The caches of keys and values: output and input. */
extern const xcc_state_pair cache_pairs[2];

/* Names a value, and returns it. */
xcc_value *named(xcc_builder *b, xcc_value *v, const char *name);

/* A number of a token for query, key or value (operand 0, 1 or 2). Columns run over all heads. */
float token_element(size_t operand, int64_t token, int64_t column);

/* Checks state "past_value" of `bound` rows of `width` per head after `count` tokens from `first` on: it has the
 * tokens' rows, zeros after them, and the same memory in each run. `*memory` is NULL before the first run. */
void check_value_cache(const compiled_program *k, int64_t bound, int64_t width, int64_t first, int64_t count,
                       const void **memory);

#endif
