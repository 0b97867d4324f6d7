/* Determinants by Gaussian elimination with partial pivoting, in f64. */
#include "ops/convert.h"
#include "ops/kernel.h"

#include <math.h>

XCVM_SHAPE_RULE_OF(Det)
{
    const xcvm_value *x = a->x;
    XCVM_CHECK(t->error, x->rank < 0 || x->rank >= 2, SHAPE_MISMATCH, "x has rank %d, 2 or more is needed", x->rank);
    if (x->rank >= 2) {
        const int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
        XCVM_CHECK(t->error, rows < 0 || columns < 0 || rows == columns, SHAPE_MISMATCH,
                   "the matrices of x are %lld x %lld, not square", (long long)rows, (long long)columns);
    }
    xcvm_value_set_tensor(a->y, a->y->dtype, x->rank < 0 ? -1 : x->rank - 2, x->dims);
    return XCVM_OK;
}

/* Overwrites the n x n matrix m. NaN if the run was stopped. */
static double determinant(double *m, size_t n, xcvm_poller *poller)
{
    double product = 1.0;
    for (size_t c = 0; c < n; c++) {
        size_t pivot = c;
        for (size_t i = c + 1; i < n; i++)
            if (fabs(m[i * n + c]) > fabs(m[pivot * n + c]))
                pivot = i;
        const double p = m[pivot * n + c];
        product *= p;
        if (p == 0.0 || isnan(p))
            return product;
        if (pivot != c) {
            product = -product;
            for (size_t j = c; j < n; j++) {
                const double t = m[pivot * n + j];
                m[pivot * n + j] = m[c * n + j];
                m[c * n + j] = t;
            }
        }
        for (size_t i = c + 1; i < n; i++) {
            const double factor = m[i * n + c] / p;
            if (xcvm_poll_after(poller, n - c) != XCVM_OK)
                return (double)NAN;
            for (size_t j = c + 1; j < n; j++)
                m[i * n + j] -= factor * m[c * n + j];
        }
    }
    return product;
}

XCVM_KERNEL(Det)
{
    const xcvm_value *x = a->x;
    const size_t n = (size_t)x->dims[x->rank - 1], count = xcvm_element_count(a->y);
    size_t bytes = 0;
    XCVM_CHECK(k->error, xcvm_size_mul(n * n, sizeof(double), &bytes), OUT_OF_MEMORY, "a matrix of x is too large");
    double *matrix = xcvm_kernel_scratch(k, bytes);
    if (matrix == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < count; i++) {
        for (size_t row = 0; row < n; row++) {
            XCVM_TRY(xcvm_poll_after(&poller, n));
            xcvm_load_f64((xcvm_dtype)x->dtype, x->data, (i * n + row) * n, n, matrix + row * n);
        }
        const double result = determinant(matrix, n, &poller);
        xcvm_store_f64((xcvm_dtype)x->dtype, a->y->data, i, 1, &result, false);
    }
    return xcvm_kernel_poll(k);
}
