/* The loops of reductions for f64 and for integers. */
#include "ops/convert.h"
#include "ops/reduction.h"

#include <math.h>

/* ---- f64 ---- */

#define FOLD(expression)                                                                                               \
    do {                                                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const double v = x[i];                                                                                     \
            r = (expression);                                                                                          \
        }                                                                                                              \
    } while (0)

static double fold_run(xcvm_fold fold, const double *x, size_t count, double shift, double r)
{
    switch (fold) {
    case XCVM_FOLD_SUM:
        FOLD(r + v);
        break;
    case XCVM_FOLD_SUM_SQUARE:
        FOLD(r + v * v);
        break;
    case XCVM_FOLD_SUM_ABS:
        FOLD(r + fabs(v));
        break;
    case XCVM_FOLD_SUM_EXP:
        FOLD(r + exp(v - shift));
        break;
    case XCVM_FOLD_MAX:
        FOLD(v > r || isnan(v) ? v : r);
        break;
    case XCVM_FOLD_MIN:
        FOLD(v < r || isnan(v) ? v : r);
        break;
    case XCVM_FOLD_PROD:
        FOLD(r * v);
        break;
    }
    return r;
}

static void run_f64(xcvm_fold fold, xcvm_dtype dtype, const void *data, size_t first, size_t count, double shift,
                    xcvm_partial *acc)
{
    double block[XCVM_BLOCK];
    for (size_t done = 0; done < count; done += XCVM_BLOCK) {
        size_t n = count - done < XCVM_BLOCK ? count - done : XCVM_BLOCK;
        xcvm_load_f64(dtype, data, first + done, n, block);
        /* A sum of blocks' sums rounds less than one long sum. */
        bool sums = fold <= XCVM_FOLD_SUM_EXP;
        double r = fold_run(fold, block, n, shift, sums ? 0.0 : acc->f);
        acc->f = sums ? acc->f + r : r;
    }
}

static void columns_f64(xcvm_fold fold, xcvm_dtype dtype, const void *data, size_t first, size_t rows, size_t stride,
                        size_t count, const double *shift, xcvm_partial *acc)
{
    double block[XCVM_FOLD_COLUMNS];
    for (size_t r = 0; r < rows; r++) {
        xcvm_load_f64(dtype, data, first + r * stride, count, block);
        for (size_t i = 0; i < count; i++)
            acc[i].f = fold_run(fold, &block[i], 1, shift != NULL ? shift[i] : 0.0, acc[i].f);
    }
}

const xcvm_fold_loops xcvm_fold_f64 = {run_f64, columns_f64};

/* ---- Integers ---- */

static int64_t fold_whole(xcvm_fold fold, int64_t r, int64_t v)
{
    switch (fold) {
    case XCVM_FOLD_SUM_SQUARE:
        return (int64_t)((uint64_t)r + (uint64_t)v * (uint64_t)v);
    case XCVM_FOLD_SUM_ABS:
        return (int64_t)(v < 0 ? (uint64_t)r - (uint64_t)v : (uint64_t)r + (uint64_t)v);
    case XCVM_FOLD_MAX:
        return v > r ? v : r;
    case XCVM_FOLD_MIN:
        return v < r ? v : r;
    case XCVM_FOLD_PROD:
        return (int64_t)((uint64_t)r * (uint64_t)v);
    default:
        return (int64_t)((uint64_t)r + (uint64_t)v);
    }
}

/* Puts u64 into the order of i64 for comparisons. */
static void load_whole(xcvm_fold fold, xcvm_dtype dtype, const void *data, size_t first, size_t count, int64_t *to)
{
    xcvm_load_i64(dtype, data, first, count, to);
    if (dtype == XCVM_U64 && (fold == XCVM_FOLD_MAX || fold == XCVM_FOLD_MIN))
        for (size_t i = 0; i < count; i++)
            to[i] = (int64_t)((uint64_t)to[i] ^ UINT64_C(1) << 63);
}

static void run_i64(xcvm_fold fold, xcvm_dtype dtype, const void *data, size_t first, size_t count, double shift,
                    xcvm_partial *acc)
{
    (void)shift;
    int64_t block[XCVM_BLOCK];
    if (dtype == XCVM_U64 && fold == XCVM_FOLD_SUM_ABS)
        fold = XCVM_FOLD_SUM;
    for (size_t done = 0; done < count; done += XCVM_BLOCK) {
        size_t n = count - done < XCVM_BLOCK ? count - done : XCVM_BLOCK;
        load_whole(fold, dtype, data, first + done, n, block);
        for (size_t i = 0; i < n; i++)
            acc->i = fold_whole(fold, acc->i, block[i]);
    }
}

static void columns_i64(xcvm_fold fold, xcvm_dtype dtype, const void *data, size_t first, size_t rows, size_t stride,
                        size_t count, const double *shift, xcvm_partial *acc)
{
    (void)shift;
    int64_t block[XCVM_FOLD_COLUMNS];
    if (dtype == XCVM_U64 && fold == XCVM_FOLD_SUM_ABS)
        fold = XCVM_FOLD_SUM;
    for (size_t r = 0; r < rows; r++) {
        load_whole(fold, dtype, data, first + r * stride, count, block);
        for (size_t i = 0; i < count; i++)
            acc[i].i = fold_whole(fold, acc[i].i, block[i]);
    }
}

const xcvm_fold_loops xcvm_fold_i64 = {run_i64, columns_i64};
