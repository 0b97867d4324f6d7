/* The splitmix64 generator. */
#include "ops/random/random.h"

#include <stddef.h>

uint64_t xcvm_random_next(uint64_t *state) { return xcvm_random_scramble(*state += XCVM_RANDOM_STEP); }

double xcvm_random_uniform(uint64_t *state) { return xcvm_random_unit(xcvm_random_next(state)); }

uint64_t xcvm_random_start(int64_t seed, uint64_t *session)
{
    if (seed == -1)
        return session != NULL ? xcvm_random_next(session) : 0;
    /* Seeds are often small and adjacent; one step makes their sequences independent. */
    uint64_t state = (uint64_t)seed;
    return xcvm_random_next(&state);
}
