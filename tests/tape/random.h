/* Support for random programs on tapes: drawing and comparing numbers. */
#ifndef XCVM_TESTS_TAPE_RANDOM_H
#define XCVM_TESTS_TAPE_RANDOM_H

#include "tests/tape/support.h"

/* From 31 bits. */
UNUSED static uint64_t draw(uint64_t *state) { return test_random_wide(state) >> 33; }

/* Reads the elements of a variable, and their count; none if it is absent. */
UNUSED static size_t read_floats(xcvm_tape *t, xcvm_var v, float *to)
{
    if (v.at == NULL)
        return 0;
    const xcvm_value *value = value_of(t, v);
    memcpy(to, xcvm_value_data(value), xcvm_value_count(value) * sizeof(float));
    return xcvm_value_count(value);
}

/* Compares the numbers of program `seed` in one of the ways to run it. */
UNUSED static void check_numbers(uint64_t seed, size_t way, const float *got, const float *expected, size_t count,
                                 float tolerance)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(fabsf(got[i] - expected[i]) <= tolerance * fmaxf(1, fabsf(expected[i])),
                      "program %d, way %zu, number %zu: %.9g, not %.9g", (int)seed, way, i, (double)got[i],
                      (double)expected[i]);
}

#endif
