/* Permutations by a Feistel network. */
#include "train/data/permutation.h"

#include "ops/random/random.h"

static uint64_t mix(uint64_t x) { return xcvm_random_scramble(x + XCVM_RANDOM_STEP); }

uint64_t xct_permutation_key(uint64_t seed, uint64_t first, uint64_t second)
{
    return mix(mix(mix(seed) ^ first) ^ second);
}

uint64_t xct_permute(uint64_t key, uint64_t count, uint64_t place)
{
    enum { ROUNDS = 8 };
    unsigned half = 1;
    while (half < 32 && (UINT64_C(1) << (2 * half)) < count)
        half++;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = place >> half, right = place & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            const uint64_t next = left ^ (mix(key ^ mix(right + (round << 40))) & mask);
            left = right;
            right = next;
        }
        place = left << half | right;
    } while (place >= count);
    return place;
}
