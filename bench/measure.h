/* Shared by all benchmarks: a clock, and pseudo-random numbers, which are the same in every run. */
#ifndef XCVM_BENCH_MEASURE_H
#define XCVM_BENCH_MEASURE_H

#include <stdint.h>
#include <time.h>

/* Seconds since some moment. */
static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The next of a linear congruential generator, whose lower bits are worse than the upper ones. */
static inline uint32_t bench_draw(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* From -0.5 to below 0.5. */
static inline double bench_number(uint32_t *state) { return (double)bench_draw(state) / 4294967296.0 - 0.5; }

/* For qsort, on double. */
static inline int bench_by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
