/* Permutations without memory: a key and a position determine the example at this position of the shuffled order. So an
 * epoch can start at any position. */
#ifndef XCVM_TRAIN_DATA_PERMUTATION_H
#define XCVM_TRAIN_DATA_PERMUTATION_H

#include <stdint.h>

/* A key of `seed` and up to two numbers, such as epoch and shard, that has nothing to do with that of others. */
uint64_t xct_permutation_key(uint64_t seed, uint64_t first, uint64_t second);
/* Returns the image of `place`, which is below `count`: a Feistel network over the next even number of bits, repeated
 * until the result is below `count` (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002), on average at
 * most 2 to 4 times. */
uint64_t xct_permute(uint64_t key, uint64_t count, uint64_t place);

#endif
