/* Determinants by Gaussian elimination with partial pivoting, in f64. */
#include "ops/util/convert.h"
#include "ops/util/kernel.h"
#include "ops/simd/lanes.h"

#include <math.h>

/* The matrix is stored transposed and padded to whole vectors, so that quotients and the rows below the pivot are
 * processed as vectors. Rows above the pivot and padding are never read again. */
enum { WIDTH = XCVM_LANES / 2 };

typedef double lanes __attribute__((vector_size(8 * WIDTH), may_alias));

/* Row of the largest magnitude in rows [first, n) of a column, the first of equal ones; `first` if that is NaN. */
static size_t find_pivot(const double *column, size_t first, size_t n)
{
    size_t pivot = first;
    double greatest = fabs(column[first]);
    for (size_t i = first + 1; i < n; i++) {
        const double v = fabs(column[i]);
        pivot = v > greatest ? i : pivot;
        greatest = v > greatest ? v : greatest;
    }
    return pivot;
}

/* Subtracts multiples of the pivot's column from another one, and swaps rows c and `pivot` in it. The swapped number is
 * stored last, because a vector load directly after a scalar store to it would stall. */
static inline void eliminate(lanes *to, const lanes *factors, size_t c, size_t pivot, size_t vectors)
{
    double *column = (double *)(void *)to;
    const double x = column[pivot], moved = column[c] - ((const double *)(const void *)factors)[pivot] * x;
    for (size_t v = (c + 1) / WIDTH; v < vectors; v++)
        to[v] -= factors[v] * x;
    column[pivot] = moved;
}

/* Overwrites the n x n matrix, whose columns are `vectors` long. Returns NaN if the run was stopped. */
static double determinant(lanes *matrix, size_t n, size_t vectors, lanes *factors, xcvm_poller *poller)
{
    double product = 1.0;
    for (size_t c = 0; c < n; c++) {
        const lanes *column = matrix + c * vectors;
        const double *numbers = (const double *)(const void *)column;
        const size_t pivot = find_pivot(numbers, c, n);
        const double p = numbers[pivot];
        product *= p;
        if (p == 0.0 || isnan(p))
            return product;
        product = pivot != c ? -product : product;
        for (size_t v = (c + 1) / WIDTH; v < vectors; v++)
            factors[v] = column[v] / p;
        ((double *)(void *)factors)[pivot] = numbers[c] / p;
        for (size_t j = c + 1; j < n; j++) {
            if (xcvm_poll_after(poller, (n - c) / WIDTH + 1) != XCVM_OK)
                return (double)NAN;
            eliminate(matrix + j * vectors, factors, c, pivot, vectors);
        }
    }
    return product;
}

/* Loads the columns of an n x n matrix from element `at` of x. */
static xcvm_status load_columns(const xcvm_value *x, size_t at, size_t n, size_t stride, double *matrix,
                                xcvm_poller *poller)
{
    double block[XCVM_BLOCK];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j += XCVM_BLOCK) {
            const size_t count = xcvm_min(n - j, XCVM_BLOCK);
            XCVM_TRY(xcvm_poll_after(poller, count));
            xcvm_load_f64((xcvm_dtype)x->dtype, x->data, at + i * n + j, count, block);
            for (size_t l = 0; l < count; l++)
                matrix[(j + l) * stride + i] = block[l];
        }
    return XCVM_OK;
}

XCVM_KERNEL(Det)
{
    const xcvm_value *x = a->x;
    const size_t n = (size_t)x->dims[x->rank - 1], count = xcvm_element_count(a->y);
    const size_t stride = xcvm_round_up(n, WIDTH);
    size_t bytes = 0;
    if (count == 0)
        return XCVM_OK;
    XCVM_CHECK(k->error, xcvm_size_mul((n + 1) * stride, sizeof(double), &bytes), OUT_OF_MEMORY,
               "a matrix of x is too large");
    double *matrix = xcvm_kernel_scratch(k, bytes);
    if (matrix == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcvm_kernel_fill(k, matrix, 0, bytes));
    lanes *columns = (lanes *)(void *)matrix;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(load_columns(x, i * n * n, n, stride, matrix, &poller));
        const double result = determinant(columns, n, stride / WIDTH, columns + n * stride / WIDTH, &poller);
        xcvm_store_f64((xcvm_dtype)x->dtype, a->y->data, i, 1, &result, false);
    }
    return xcvm_kernel_poll(k);
}
