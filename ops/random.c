#include "ops/random.h"

#include <math.h>
#include <stddef.h>

uint64_t xcvm_random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

double xcvm_random_uniform(uint64_t *state) { return (double)(xcvm_random_next(state) >> 11) * 0x1p-53; }

double xcvm_random_normal(uint64_t *state)
{
    /* 1 - u is in (0, 1], where the logarithm is finite. */
    double radius = sqrt(-2.0 * log(1.0 - xcvm_random_uniform(state)));
    return radius * cos(6.283185307179586 * xcvm_random_uniform(state));
}

uint64_t xcvm_random_start(int64_t seed, uint64_t *session)
{
    if (seed == -1)
        return session != NULL ? xcvm_random_next(session) : 0;
    /* Seeds are often small and neighbours; one step takes their sequences apart. */
    uint64_t state = (uint64_t)seed;
    return xcvm_random_next(&state);
}
