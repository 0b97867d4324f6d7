/* Comparison of values within a tolerance. */
#ifndef XCVM_TOOLS_VALUES_COMPARE_H
#define XCVM_TOOLS_VALUES_COMPARE_H

#include "cli/buffer.h"

struct tolerance {
    double relative, absolute;
};

/* The result of a comparison. Numbers agree as in NumPy's assert_allclose: |actual - expected| <= absolute +
 * relative * |expected|, NaN with NaN, an infinity with itself. Integers, bools and strings must be equal. Kinds,
 * element types and shapes must be the same. */
struct comparison {
    bool agrees;
    size_t different;                      /* elements that do not agree */
    size_t count;                          /* elements compared */
    double worst_absolute, worst_relative; /* infinite or NaN if one number alone is so */
    bool has_worst;                        /* there is a worst disagreement: */
    char worst_text[160]; /* "at [0,3]: 1.5 instead of 1.4", or the reason why values cannot be compared */
};

void compare_values(const xcvm_value *actual, const xcvm_value *expected, struct tolerance tolerance,
                    struct comparison *comparison);
/* Compares kinds, element types and shapes only. */
void compare_types(const xcvm_value *actual, const xcvm_value *expected, struct comparison *comparison);
/* The larger of two errors. NaN is the largest. */
double compare_larger(double a, double b);
/* Appends for example "3 of 10 elements differ, worst at [2]: 1.5 instead of 1.4 (absolute 0.1, relative 0.07)". */
void comparison_print(struct buffer *text, const struct comparison *comparison);

#endif
