/* Permutations that need no memory: what comes at a place of the shuffled order follows from a key and the place, so
 * that any epoch's order can be entered anywhere. */
#ifndef XCVM_TRAIN_DATA_PERMUTATION_H
#define XCVM_TRAIN_DATA_PERMUTATION_H

#include <stdint.h>

/* A key of `seed` and up to two numbers, such as epoch and shard, that has nothing to do with that of others. */
uint64_t xct_permutation_key(uint64_t seed, uint64_t first, uint64_t second);
/* Where `place` (below `count`) goes: a Feistel network over the next even number of bits, walked until the result is
 * below `count` (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002), 2 to 4 times at most on average. */
uint64_t xct_permute(uint64_t key, uint64_t count, uint64_t place);

#endif
