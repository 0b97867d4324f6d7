#include "ops/keys.h"

#include <math.h>

int xcvm_keys_compare(const xcvm_value *x, size_t i, const xcvm_value *keys, size_t j)
{
    if (x->dtype == XCVM_STRING) {
        size_t n, m;
        const char *p = xcvm_string_at(x, i, &n), *q = xcvm_string_at(keys, j, &m);
        const size_t shorter = n < m ? n : m;
        const int order = shorter > 0 ? memcmp(p, q, shorter) : 0;
        return order != 0 ? order : (n > m) - (n < m);
    }
    if (xcvm_dtype_is_float((xcvm_dtype)x->dtype)) {
        const double p = xcvm_element_as_double(x, i), q = xcvm_element_as_double(keys, j);
        if (isnan(p) || isnan(q))
            return (isnan(p) != 0) - (isnan(q) != 0);
        return (p > q) - (p < q);
    }
    const int64_t p = xcvm_element_as_int(x, i), q = xcvm_element_as_int(keys, j);
    return (p > q) - (p < q);
}

size_t xcvm_keys_steps(const xcvm_value *x, size_t i)
{
    size_t length = 0;
    if (x->dtype == XCVM_STRING)
        xcvm_string_at(x, i, &length);
    return 1 + length / XCVM_STEP_BYTES;
}

int64_t xcvm_keys_find(const xcvm_value *x, size_t i, const xcvm_value *keys, const int64_t *order, size_t count)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int64_t at = order != NULL ? order[middle] : (int64_t)middle;
        const int sign = xcvm_keys_compare(x, i, keys, (size_t)at);
        if (sign == 0)
            return at;
        if (sign < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}
