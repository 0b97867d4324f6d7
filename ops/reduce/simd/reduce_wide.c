/* Reduction loops for f64 and integers, which are combined as f64 and i64. */
#include "ops/reduce/simd/reduce_wide.h"

#include "ops/util/convert.h"
#include "ops/simd/lanes.h"
#include "ops/simd/math.h"

#include <math.h>

/* Elements that are combined in parallel, in several vectors. */
enum { SIDE = 16 };

/* ---- Loading of elements ---- */

static const double *load_f64(xcvm_dtype dtype, const void *data, size_t first, size_t count, double *copy)
{
    if (dtype == XCVM_F64)
        return (const double *)data + first;
    xcvm_load_f64(dtype, data, first, count, copy);
    return copy;
}

#define COPY(type)                                                                                                     \
    for (size_t i = 0; i < count; i++)                                                                                 \
        copy[i] = ((const type *)data)[first + i];                                                                     \
    break

/* Converts u64 to the order of i64 for comparisons. */
static const int64_t *load_i64(xcvm_reduce_op reduce_op, xcvm_dtype dtype, const void *data, size_t first, size_t count,
                               int64_t *copy)
{
    switch (dtype) {
    case XCVM_I64:
        return (const int64_t *)data + first;
    case XCVM_I32:
        COPY(int32_t);
    case XCVM_I16:
        COPY(int16_t);
    case XCVM_I8:
        COPY(int8_t);
    case XCVM_U8:
        COPY(uint8_t);
    default:
        xcvm_load_i64(dtype, data, first, count, copy);
        break;
    }
    if (dtype == XCVM_U64 && (reduce_op == XCVM_REDUCE_MAX || reduce_op == XCVM_REDUCE_MIN))
        for (size_t i = 0; i < count; i++)
            copy[i] = (int64_t)((uint64_t)copy[i] ^ UINT64_C(1) << 63);
    return copy;
}

/* ---- Rows: combines x[i] into r[i] for each of count columns ---- */

#define ROW(type, expression)                                                                                          \
    XCVM_INDEPENDENT                                                                                                   \
    for (size_t i = 0; i < count; i++) {                                                                               \
        const type v = x[i], r = acc[i];                                                                               \
        acc[i] = (expression);                                                                                         \
    }                                                                                                                  \
    break

/* `shift` has one element per column, or is NULL for zeros; only SUM_EXP uses it. */
XCVM_INLINE void row_f64(xcvm_reduce_op reduce_op, const double *x, size_t count, const double *shift, double *acc)
{
    switch (reduce_op) {
    case XCVM_REDUCE_SUM:
        ROW(double, r + v);
    case XCVM_REDUCE_SUM_SQUARE:
        ROW(double, r + v * v);
    case XCVM_REDUCE_SUM_ABS:
        ROW(double, r + fabs(v));
    case XCVM_REDUCE_SUM_EXP:
        for (size_t i = 0; i < count; i++)
            acc[i] += exp(x[i] - (shift != NULL ? shift[i] : 0.0));
        break;
    case XCVM_REDUCE_MAX:
        ROW(double, ((v > r) | (v != v)) ? v : r);
    case XCVM_REDUCE_MIN:
        ROW(double, ((v < r) | (v != v)) ? v : r);
    case XCVM_REDUCE_PROD:
        ROW(double, r *v);
    }
}

XCVM_INLINE void row_i64(xcvm_reduce_op reduce_op, const int64_t *x, size_t count, int64_t *acc)
{
    switch (reduce_op) {
    case XCVM_REDUCE_SUM_SQUARE:
        ROW(int64_t, (int64_t)((uint64_t)r + (uint64_t)v * (uint64_t)v));
    case XCVM_REDUCE_SUM_ABS:
        ROW(int64_t, (int64_t)((uint64_t)r + (v < 0 ? 0 - (uint64_t)v : (uint64_t)v)));
    case XCVM_REDUCE_MAX:
        ROW(int64_t, v > r ? v : r);
    case XCVM_REDUCE_MIN:
        ROW(int64_t, v < r ? v : r);
    case XCVM_REDUCE_PROD:
        ROW(int64_t, (int64_t)((uint64_t)r * (uint64_t)v));
    default:
        ROW(int64_t, (int64_t)((uint64_t)r + (uint64_t)v));
    }
}

/* ---- f64 ---- */

typedef double lanes_f64 __attribute__((vector_size(4 * XCVM_LANES)));
typedef int64_t lanes_f64_mask __attribute__((vector_size(4 * XCVM_LANES)));
typedef double lanes_f64_at __attribute__((vector_size(4 * XCVM_LANES), aligned(8), may_alias));
enum { VECTORS = 4, IN_VECTOR = XCVM_LANES / 2, STEP = VECTORS * IN_VECTOR };

/* The larger or smaller of both, lane by lane, or NaN if one is. */
XCVM_INLINE lanes_f64 better_of(lanes_f64 v, lanes_f64 r, const bool greatest)
{
    const lanes_f64_mask better = (greatest ? v > r : v < r) | (v != v);
    return (lanes_f64)(((lanes_f64_mask)v & better) | ((lanes_f64_mask)r & ~better));
}

/* The maximum or minimum of x and r, or NaN if there is one. */
XCVM_INLINE double extreme_f64(const double *x, size_t count, double r, const bool greatest)
{
    lanes_f64 best[VECTORS];
    size_t i = 0;
    for (int j = 0; j < VECTORS; j++)
        best[j] = r - (lanes_f64){0};
    for (; i + STEP <= count; i += STEP)
        for (size_t j = 0; j < VECTORS; j++)
            best[j] = better_of(*(const lanes_f64_at *)(x + i + j * IN_VECTOR), best[j], greatest);
    for (; i < count; i++)
        r = (greatest ? x[i] > r : x[i] < r) || x[i] != x[i] ? x[i] : r;
    for (size_t half = VECTORS / 2; half != 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            best[j] = better_of(best[j + half], best[j], greatest);
    for (size_t j = 0; j < IN_VECTOR; j++) {
        const double v = best[0][j];
        r = (greatest ? v > r : v < r) || v != v ? v : r;
    }
    return r;
}

static double start_f64(xcvm_reduce_op reduce_op)
{
    return reduce_op == XCVM_REDUCE_MAX    ? -(double)INFINITY
           : reduce_op == XCVM_REDUCE_MIN  ? (double)INFINITY
           : reduce_op == XCVM_REDUCE_PROD ? 1.0
                                           : 0.0;
}

/* Operation that combines two partial results; differs from that on elements, e.g. for squares. */
static xcvm_reduce_op joining(xcvm_reduce_op reduce_op)
{
    return reduce_op <= XCVM_REDUCE_SUM_EXP ? XCVM_REDUCE_SUM : reduce_op;
}

/* SIDE independent partial results, then their combination: a sum of many sums has less rounding error than one long
 * sum. */
static double reduce_f64(xcvm_reduce_op reduce_op, const double *x, size_t count, double shift)
{
    double side[SIDE], shifts[SIDE];
    size_t i = 0;
    if (reduce_op == XCVM_REDUCE_MAX)
        return extreme_f64(x, count, start_f64(reduce_op), true);
    if (reduce_op == XCVM_REDUCE_MIN)
        return extreme_f64(x, count, start_f64(reduce_op), false);
    for (size_t j = 0; j < SIDE; j++) {
        side[j] = start_f64(reduce_op);
        shifts[j] = shift;
    }
#define REDUCE_CHUNK(which)                                                                                            \
    for (; i + SIDE <= count; i += SIDE)                                                                               \
        row_f64(which, x + i, SIDE, shifts, side);                                                                     \
    row_f64(which, x + i, count - i, shifts, side);                                                                    \
    break
    switch (reduce_op) {
    case XCVM_REDUCE_SUM:
        REDUCE_CHUNK(XCVM_REDUCE_SUM);
    case XCVM_REDUCE_SUM_SQUARE:
        REDUCE_CHUNK(XCVM_REDUCE_SUM_SQUARE);
    case XCVM_REDUCE_SUM_ABS:
        REDUCE_CHUNK(XCVM_REDUCE_SUM_ABS);
    case XCVM_REDUCE_SUM_EXP:
        REDUCE_CHUNK(XCVM_REDUCE_SUM_EXP);
    default:
        REDUCE_CHUNK(XCVM_REDUCE_PROD);
    }
#undef REDUCE_CHUNK
    for (size_t half = SIDE / 2; half != 0; half /= 2)
        row_f64(joining(reduce_op), side + half, half, NULL, side);
    return side[0];
}

static void run_f64(xcvm_reduce_op reduce_op, xcvm_dtype dtype, const void *data, size_t first, size_t count,
                    double shift, xcvm_partial *acc)
{
    double copy[XCVM_BLOCK];
    const size_t chunk = dtype == XCVM_F64 ? SIDE * XCVM_BLOCK : XCVM_BLOCK;
    for (size_t done = 0; done < count; done += chunk) {
        size_t n = count - done < chunk ? count - done : chunk;
        double r = reduce_f64(reduce_op, load_f64(dtype, data, first + done, n, copy), n, shift);
        row_f64(joining(reduce_op), &r, 1, NULL, &acc->f);
    }
}

static void columns_f64(xcvm_reduce_op reduce_op, xcvm_dtype dtype, const void *data, size_t first, size_t rows,
                        size_t stride, size_t count, const double *shift, xcvm_partial *acc)
{
    double copy[XCVM_REDUCE_COLUMNS], r[XCVM_REDUCE_COLUMNS];
    for (size_t i = 0; i < count; i++)
        r[i] = acc[i].f;
    for (size_t row = 0; row < rows; row++)
        row_f64(reduce_op, load_f64(dtype, data, first + row * stride, count, copy), count, shift, r);
    for (size_t i = 0; i < count; i++)
        acc[i].f = r[i];
}

static void lines_f64(xcvm_reduce_op reduce_op, xcvm_dtype dtype, const void *data, size_t first, size_t count,
                      size_t length, const double *shift, xcvm_partial *acc)
{
    for (size_t i = 0; i < count; i++)
        run_f64(reduce_op, dtype, data, first + i * length, length, shift != NULL ? shift[i] : 0.0, &acc[i]);
}

const xcvm_reduce_loops xcvm_reduce_f64 = {run_f64, columns_f64, lines_f64};

/* ---- Integers ---- */

/* Unsigned numbers are their own absolute values. */
static xcvm_reduce_op reduce_of(xcvm_reduce_op reduce_op, xcvm_dtype dtype)
{
    return dtype == XCVM_U64 && reduce_op == XCVM_REDUCE_SUM_ABS ? XCVM_REDUCE_SUM : reduce_op;
}

static int64_t start_i64(xcvm_reduce_op reduce_op)
{
    return reduce_op == XCVM_REDUCE_MAX    ? INT64_MIN
           : reduce_op == XCVM_REDUCE_MIN  ? INT64_MAX
           : reduce_op == XCVM_REDUCE_PROD ? 1
                                           : 0;
}

static int64_t reduce_i64(xcvm_reduce_op reduce_op, const int64_t *x, size_t count)
{
    int64_t side[SIDE];
    size_t i = 0;
    for (size_t j = 0; j < SIDE; j++)
        side[j] = start_i64(reduce_op);
#define REDUCE_CHUNK(which)                                                                                            \
    for (; i + SIDE <= count; i += SIDE)                                                                               \
        row_i64(which, x + i, SIDE, side);                                                                             \
    row_i64(which, x + i, count - i, side);                                                                            \
    break
    switch (reduce_op) {
    case XCVM_REDUCE_SUM_SQUARE:
        REDUCE_CHUNK(XCVM_REDUCE_SUM_SQUARE);
    case XCVM_REDUCE_SUM_ABS:
        REDUCE_CHUNK(XCVM_REDUCE_SUM_ABS);
    case XCVM_REDUCE_MAX:
        REDUCE_CHUNK(XCVM_REDUCE_MAX);
    case XCVM_REDUCE_MIN:
        REDUCE_CHUNK(XCVM_REDUCE_MIN);
    case XCVM_REDUCE_PROD:
        REDUCE_CHUNK(XCVM_REDUCE_PROD);
    default:
        REDUCE_CHUNK(XCVM_REDUCE_SUM);
    }
#undef REDUCE_CHUNK
    for (size_t half = SIDE / 2; half != 0; half /= 2)
        row_i64(joining(reduce_op), side + half, half, side);
    return side[0];
}

/* The maximum or minimum of one or more elements of a narrow type. */
#define BETTER(a, b) (greatest ? (a) > (b) : (a) < (b))
#define EXTREME(type)                                                                                                  \
    static inline __attribute__((always_inline))                                                                       \
    type extreme_of_##type(const type *x, size_t count, const bool greatest)                                           \
    {                                                                                                                  \
        enum { STEPS = 4 * 4 * XCVM_LANES / sizeof(type), LONG = 4 * STEPS };                                          \
        type r = x[0];                                                                                                 \
        size_t i = 0;                                                                                                  \
        if (count >= LONG) {                                                                                           \
            type best[STEPS];                                                                                          \
            for (size_t j = 0; j < STEPS; j++)                                                                         \
                best[j] = r;                                                                                           \
            for (; i + STEPS <= count; i += STEPS)                                                                     \
                for (size_t j = 0; j < STEPS; j++)                                                                     \
                    best[j] = BETTER(x[i + j], best[j]) ? x[i + j] : best[j];                                          \
            for (size_t j = 0; j < STEPS; j++)                                                                         \
                r = BETTER(best[j], r) ? best[j] : r;                                                                  \
        }                                                                                                              \
        for (; i < count; i++)                                                                                         \
            r = BETTER(x[i], r) ? x[i] : r;                                                                            \
        return r;                                                                                                      \
    }                                                                                                                  \
    static type extreme_##type(const type *x, size_t count, bool greatest)                                             \
    {                                                                                                                  \
        return greatest ? extreme_of_##type(x, count, true) : extreme_of_##type(x, count, false);                      \
    }
EXTREME(uint8_t)
EXTREME(int8_t)
EXTREME(int16_t)
EXTREME(int32_t)

/* Returns true if the type is one of these. */
static bool extreme_narrow(xcvm_dtype dtype, const void *data, size_t first, size_t count, bool greatest, int64_t *r)
{
    switch (dtype) {
    case XCVM_U8:
        *r = extreme_uint8_t((const uint8_t *)data + first, count, greatest);
        return true;
    case XCVM_I8:
        *r = extreme_int8_t((const int8_t *)data + first, count, greatest);
        return true;
    case XCVM_I16:
        *r = extreme_int16_t((const int16_t *)data + first, count, greatest);
        return true;
    case XCVM_I32:
        *r = extreme_int32_t((const int32_t *)data + first, count, greatest);
        return true;
    default:
        return false;
    }
}

static void run_i64(xcvm_reduce_op reduce_op, xcvm_dtype dtype, const void *data, size_t first, size_t count,
                    double shift, xcvm_partial *acc)
{
    (void)shift;
    int64_t copy[XCVM_BLOCK], extreme;
    reduce_op = reduce_of(reduce_op, dtype);
    if (count != 0 && (reduce_op == XCVM_REDUCE_MAX || reduce_op == XCVM_REDUCE_MIN) &&
        extreme_narrow(dtype, data, first, count, reduce_op == XCVM_REDUCE_MAX, &extreme)) {
        row_i64(reduce_op, &extreme, 1, &acc->i);
        return;
    }
    for (size_t done = 0; done < count; done += XCVM_BLOCK) {
        size_t n = count - done < XCVM_BLOCK ? count - done : XCVM_BLOCK;
        int64_t r = reduce_i64(reduce_op, load_i64(reduce_op, dtype, data, first + done, n, copy), n);
        row_i64(joining(reduce_op), &r, 1, &acc->i);
    }
}

static void columns_i64(xcvm_reduce_op reduce_op, xcvm_dtype dtype, const void *data, size_t first, size_t rows,
                        size_t stride, size_t count, const double *shift, xcvm_partial *acc)
{
    (void)shift;
    int64_t copy[XCVM_REDUCE_COLUMNS], r[XCVM_REDUCE_COLUMNS];
    reduce_op = reduce_of(reduce_op, dtype);
    for (size_t i = 0; i < count; i++)
        r[i] = acc[i].i;
    for (size_t row = 0; row < rows; row++)
        row_i64(reduce_op, load_i64(reduce_op, dtype, data, first + row * stride, count, copy), count, r);
    for (size_t i = 0; i < count; i++)
        acc[i].i = r[i];
}

static void lines_i64(xcvm_reduce_op reduce_op, xcvm_dtype dtype, const void *data, size_t first, size_t count,
                      size_t length, const double *shift, xcvm_partial *acc)
{
    (void)shift;
    for (size_t i = 0; i < count; i++)
        run_i64(reduce_op, dtype, data, first + i * length, length, 0.0, &acc[i]);
}

const xcvm_reduce_loops xcvm_reduce_i64 = {run_i64, columns_i64, lines_i64};
