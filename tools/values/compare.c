/* Comparison of values: the greatest differences, and where they are. */
#include "values/compare.h"
#include "values/number.h"
#include "values/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void differ(struct comparison *comparison, const char *what, const xcvm_value *actual,
                   const xcvm_value *expected)
{
    struct buffer is = {0}, should = {0};
    value_type_print(&is, actual);
    value_type_print(&should, expected);
    comparison->agrees = false;
    if (comparison->worst_text[0] == '\0')
        snprintf(comparison->worst_text, sizeof comparison->worst_text, "%s: %.60s instead of %.60s", what,
                 buffer_string(&is), buffer_string(&should));
    buffer_release(&is);
    buffer_release(&should);
}

/* Records a pair of elements that do not agree. The pair with the greatest `severity` is reported. */
static void note_difference(struct comparison *comparison, const xcvm_value *actual, size_t index, double severity,
                            double *worst, const char *is, const char *should)
{
    comparison->different++;
    comparison->agrees = false;
    if (comparison->has_worst && !(severity > *worst))
        return;
    *worst = severity;
    comparison->has_worst = true;
    struct buffer at = {0};
    index_print(&at, actual, index);
    snprintf(comparison->worst_text, sizeof comparison->worst_text, "at %.40s: %.50s instead of %.50s",
             buffer_string(&at), is, should);
    buffer_release(&at);
}

static void compare_strings(const xcvm_value *actual, const xcvm_value *expected, struct comparison *comparison)
{
    double worst = 0;
    for (size_t i = 0; i < xcvm_value_count(actual); i++) {
        size_t n = 0, m = 0;
        const char *a = xcvm_value_string_at(actual, i, &n), *b = xcvm_value_string_at(expected, i, &m);
        comparison->count++;
        if (n == m && (n == 0 || memcmp(a, b, n) == 0))
            continue;
        struct buffer is = {0}, should = {0};
        string_print(&is, a, n);
        string_print(&should, b, m);
        note_difference(comparison, actual, i, 0, &worst, buffer_string(&is), buffer_string(&should));
        buffer_release(&is);
        buffer_release(&should);
    }
}

static void compare_numbers(const xcvm_value *actual, const xcvm_value *expected, struct tolerance tolerance,
                            struct comparison *comparison)
{
    xcvm_dtype type = number_type(xcvm_value_dtype(actual));
    size_t parts = number_parts(xcvm_value_dtype(actual)), count = xcvm_value_count(actual) * parts;
    const void *a = xcvm_value_data(actual), *b = xcvm_value_data(expected);
    bool floating = number_is_float(type);
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        number x = number_get(type, a, i), y = number_get(type, b, i);
        comparison->count++;
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        double absolute = (double)fabsl(x - y), size = (double)fabsl(y);
        bool finite = isfinite(x) && isfinite(y);
        double relative = finite ? absolute / size : absolute;
        comparison->worst_absolute = compare_larger(comparison->worst_absolute, absolute);
        if (!finite || size > 0)
            comparison->worst_relative = compare_larger(comparison->worst_relative, relative);
        double allowed = floating ? tolerance.absolute + tolerance.relative * size : 0;
        if (finite && absolute <= allowed)
            continue;
        char is[NUMBER_TEXT], should[NUMBER_TEXT];
        number_print(is, type, a, i);
        number_print(should, type, b, i);
        /* Excess over the allowed difference; infinite for non-finite numbers. */
        note_difference(comparison, actual, i / parts, finite ? absolute - allowed : (double)INFINITY, &worst, is,
                        should);
    }
}

static void compare(const xcvm_value *actual, const xcvm_value *expected, const struct tolerance *tolerance,
                    struct comparison *comparison)
{
    xcvm_kind kind = actual != NULL ? xcvm_value_kind(actual) : XCVM_KIND_NULL;
    xcvm_kind other = expected != NULL ? xcvm_value_kind(expected) : XCVM_KIND_NULL;
    if (kind != other) {
        differ(comparison, "another kind", actual, expected);
    } else if (kind == XCVM_KIND_TENSOR) {
        bool same = xcvm_value_rank(actual) == xcvm_value_rank(expected);
        for (int i = 0; same && i < xcvm_value_rank(actual); i++)
            same = xcvm_value_dims(actual)[i] == xcvm_value_dims(expected)[i];
        if (xcvm_value_dtype(actual) != xcvm_value_dtype(expected))
            differ(comparison, "another type", actual, expected);
        else if (!same)
            differ(comparison, "another shape", actual, expected);
        else if (tolerance != NULL && xcvm_value_dtype(actual) == XCVM_STRING)
            compare_strings(actual, expected, comparison);
        else if (tolerance != NULL)
            compare_numbers(actual, expected, *tolerance, comparison);
    } else if (kind != XCVM_KIND_NULL && kind != XCVM_KIND_OPAQUE) {
        if (xcvm_value_count(actual) != xcvm_value_count(expected)) {
            differ(comparison, "another length", actual, expected);
            return;
        }
        for (size_t i = 0; i < xcvm_value_count(actual) && comparison->agrees; i++)
            compare(xcvm_value_item_at(actual, i), xcvm_value_item_at(expected, i), tolerance, comparison);
    }
}

void compare_values(const xcvm_value *actual, const xcvm_value *expected, struct tolerance tolerance,
                    struct comparison *comparison)
{
    *comparison = (struct comparison){.agrees = true};
    compare(actual, expected, &tolerance, comparison);
}

void compare_types(const xcvm_value *actual, const xcvm_value *expected, struct comparison *comparison)
{
    *comparison = (struct comparison){.agrees = true};
    compare(actual, expected, NULL, comparison);
}

double compare_larger(double a, double b) { return isnan(a) || a > b ? a : b; }

void comparison_print(struct buffer *text, const struct comparison *comparison)
{
    if (comparison->agrees)
        buffer_format(text, "%zu elements agree, worst absolute %.3g, relative %.3g", comparison->count,
                      comparison->worst_absolute, comparison->worst_relative);
    else if (comparison->has_worst)
        buffer_format(text, "%zu of %zu elements differ, worst %s (absolute %.3g, relative %.3g)",
                      comparison->different, comparison->count, comparison->worst_text, comparison->worst_absolute,
                      comparison->worst_relative);
    else
        buffer_text(text, comparison->worst_text);
}
