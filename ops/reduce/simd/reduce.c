/* Reduction loops for f32, f16 and bf16, and the kernels. */
#include "ops/reduce/reduction.h"

#include "ops/simd/reductions.h"
#include "ops/simd/halves.h"
#include "ops/simd/math.h"
#include "ops/reduce/simd/reduce_wide.h"

/* Running products of long runs, each r * 2^(600 * bands). Products of many numbers soon leave the range of f64, and on
 * the way become subnormal, with which some CPUs take a hundred times as long. So every STEPS steps, values outside
 * [2^-300, 2^300] are rescaled; f64 has room for STEPS f32 factors beyond that. Short lines, columns and parts of a
 * tensor are multiplied in plain f64: products whose intermediate values overflow are not guaranteed. */
enum { CHAINS = 16, STEPS = 4 };

typedef struct running_products {
    double r[CHAINS];
    ptrdiff_t bands;
    double special; /* product of factors that were 0, infinite or NaN, which were replaced by 1 */
} running_products;

static __attribute__((noinline)) void bring_back(running_products *p)
{
    int64_t bands = 0, special = 0;
    for (size_t j = 0; j < CHAINS; j++) {
        const double size = __builtin_fabs(p->r[j]);
        const int64_t small = (size < 0x1p-300) & (size > 0), large = (size > 0x1p300) & (size < (double)INFINITY);
        special |= !((size > 0) & (size < (double)INFINITY));
        bands += large - small;
        p->r[j] *= small ? 0x1p600 : large ? 0x1p-600 : 1.0;
    }
    p->bands += (ptrdiff_t)bands;
    for (size_t j = 0; special != 0 && j < CHAINS; j++)
        if (!(__builtin_fabs(p->r[j]) > 0 && __builtin_fabs(p->r[j]) < (double)INFINITY)) {
            p->special *= p->r[j];
            p->r[j] = 1.0;
        }
}

/* r is p's array in registers. */
XCVM_INLINE void keep_inside(running_products *p, double *r)
{
    typedef double eight __attribute__((vector_size(8 * sizeof(double))));
    typedef int64_t marks __attribute__((vector_size(8 * sizeof(double))));
    marks outside = {0};
    for (size_t j = 0; j < CHAINS; j += 8) {
        eight v;
        memcpy(&v, r + j, sizeof v);
        const eight size = (eight)((marks)v & INT64_MAX);
        outside |= ~((size >= 0x1p-300) & (size <= 0x1p300));
    }
    int64_t any = 0;
    for (size_t j = 0; j < 8; j++)
        any |= outside[j];
    if (any != 0) {
        for (size_t j = 0; j < CHAINS; j++)
            p->r[j] = r[j];
        bring_back(p);
        for (size_t j = 0; j < CHAINS; j++)
            r[j] = p->r[j];
    }
}

static double plain_product(const double *from)
{
    double r[CHAINS];
    memcpy(r, from, sizeof r);
    for (size_t half = CHAINS / 2; half != 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            r[j] *= r[j + half];
    return r[0];
}

/* The product of all; 0 or infinite if far outside the range of f64. */
static double product_of(running_products *p)
{
    const double plain = plain_product(p->r), size = __builtin_fabs(plain);
    if (p->bands == 0 && p->special == 1.0 && size > 0x1p-1000 && size < 0x1p1000)
        return plain;
    for (size_t half = CHAINS / 2; half != 0; half /= 2) {
        keep_inside(p, p->r);
        for (size_t j = 0; j < half; j++) {
            p->r[j] *= p->r[j + half];
            p->r[j + half] = 1.0;
        }
    }
    keep_inside(p, p->r);
    double r = p->r[0];
    if (p->special != 1.0)
        return r < 0 ? -p->special : p->special;
    for (ptrdiff_t bands = p->bands; bands != 0 && r != 0 && __builtin_fabs(r) < (double)INFINITY;
         bands -= bands > 0 ? 1 : -1)
        r *= bands > 0 ? 0x1p600 : 0x1p-600;
    return r;
}

static double product_run(const float *x, size_t count)
{
    running_products p = {.special = 1.0};
    double r[CHAINS];
    size_t i = 0;
    for (size_t j = 0; j < CHAINS; j++)
        r[j] = 1.0;
    for (; i + STEPS * CHAINS <= count; i += STEPS * CHAINS) {
#pragma GCC unroll 4
        for (size_t step = 0; step < STEPS; step++)
            for (size_t j = 0; j < CHAINS; j++)
                r[j] *= (double)x[i + step * CHAINS + j];
        keep_inside(&p, r);
    }
    for (; i < count; i++)
        r[i % CHAINS] *= (double)x[i];
    for (size_t j = 0; j < CHAINS; j++)
        p.r[j] = r[j];
    return product_of(&p);
}

static double exp_run(const float *x, size_t count, float shift)
{
    double sum = 0.0;
    for (size_t done = 0; done < count; done += XCVM_BLOCK) {
        float block[XCVM_BLOCK];
        size_t n = count - done < XCVM_BLOCK ? count - done : XCVM_BLOCK;
        size_t padded = xcvm_round_up(n, 16);
        for (size_t i = 0; i < n; i++)
            block[i] = x[done + i] - shift;
        for (size_t i = n; i < padded; i++)
            block[i] = -INFINITY;
        for (size_t i = 0; i < padded; i++)
            block[i] = xcvm_exp_f32(block[i]);
        sum += xcvm_reduce_sum(xcvm_lanes_same, block, padded);
    }
    return sum;
}

static void run_f32(xcvm_reduce_op reduce_op, const float *x, size_t count, double shift, xcvm_partial *acc)
{
    switch (reduce_op) {
    case XCVM_REDUCE_SUM:
        acc->f += xcvm_reduce_sum(xcvm_lanes_same, x, count);
        break;
    case XCVM_REDUCE_SUM_SQUARE:
        acc->f += xcvm_reduce_sum(xcvm_lanes_square, x, count);
        break;
    case XCVM_REDUCE_SUM_ABS:
        acc->f += xcvm_reduce_sum(xcvm_lanes_absolute, x, count);
        break;
    case XCVM_REDUCE_SUM_EXP:
        acc->f += exp_run(x, count, (float)shift);
        break;
    case XCVM_REDUCE_MAX:
        acc->f = xcvm_reduce_extreme(xcvm_lanes_greater, x, count, (float)acc->f);
        break;
    case XCVM_REDUCE_MIN:
        acc->f = xcvm_reduce_extreme(xcvm_lanes_lesser, x, count, (float)acc->f);
        break;
    case XCVM_REDUCE_PROD:
        acc->f *= product_run(x, count);
        break;
    }
}

static void contiguous(xcvm_reduce_op reduce_op, xcvm_dtype dtype, const void *data, size_t first, size_t count,
                       double shift, xcvm_partial *acc)
{
    if (dtype == XCVM_F32) {
        run_f32(reduce_op, (const float *)data + first, count, shift, acc);
        return;
    }
    float block[XCVM_BLOCK];
    for (size_t done = 0; done < count; done += XCVM_BLOCK) {
        size_t n = count - done < XCVM_BLOCK ? count - done : XCVM_BLOCK;
        xcvm_halves_load(dtype, data, first + done, n, block);
        run_f32(reduce_op, block, n, shift, acc);
    }
}

/* ---- Columns ---- */

/* Rows that are summed in f32. */
enum { FEW_ROWS = 32 };

#define ROW(expression)                                                                                                \
    for (size_t i = 0; i < count; i++) {                                                                               \
        const float v = x[i];                                                                                          \
        r[i] = (expression);                                                                                           \
    }                                                                                                                  \
    break

static void reduce_row(xcvm_reduce_op reduce_op, const float *x, size_t count, const float *shift, float *r)
{
    switch (reduce_op) {
    case XCVM_REDUCE_SUM:
        ROW(r[i] + v);
    case XCVM_REDUCE_SUM_SQUARE:
        ROW(r[i] + v * v);
    case XCVM_REDUCE_SUM_ABS:
        ROW(r[i] + xcvm_f32_of(xcvm_f32_bits(v) & 0x7fffffffu));
    case XCVM_REDUCE_SUM_EXP:
        ROW(r[i] + xcvm_exp_f32(v - shift[i]));
    case XCVM_REDUCE_MAX:
        ROW(((v > r[i]) | (v != v)) ? v : r[i]);
    case XCVM_REDUCE_MIN:
        ROW(((v < r[i]) | (v != v)) ? v : r[i]);
    case XCVM_REDUCE_PROD:
        ROW(r[i] * v);
    }
}

/* Adds the sum of four rows at a time. */
static void sum_four_rows(const float *restrict x, size_t stride, size_t count, float *restrict r)
{
    for (size_t i = 0; i < count; i++)
        r[i] += (x[i] + x[stride + i]) + (x[2 * stride + i] + x[3 * stride + i]);
}

/* Sums of 16 columns, as in tensors with blocked channels. */
enum { NARROW = 16, NARROW_VECTORS = NARROW / XCVM_LANES, NARROW_SUMS = 4, NARROW_ROWS = NARROW_SUMS * FEW_ROWS };

static void sum_narrow(const float *x, size_t rows, size_t stride, xcvm_partial *acc)
{
    for (size_t done = 0; done < rows; done += NARROW_ROWS) {
        const size_t last = rows - done < NARROW_ROWS ? rows : done + NARROW_ROWS;
        xcvm_lanes sums[NARROW_SUMS][NARROW_VECTORS] = {{{0}}};
        size_t row = done;
        for (; row + NARROW_SUMS <= last; row += NARROW_SUMS)
#pragma GCC unroll 4
            for (size_t i = 0; i < NARROW_SUMS; i++)
#pragma GCC unroll 4
                for (size_t j = 0; j < NARROW_VECTORS; j++)
                    sums[i][j] += xcvm_lanes_load(x + (row + i) * stride + j * XCVM_LANES);
        for (; row < last; row++)
            for (size_t j = 0; j < NARROW_VECTORS; j++)
                sums[0][j] += xcvm_lanes_load(x + row * stride + j * XCVM_LANES);
        for (size_t j = 0; j < NARROW_VECTORS; j++) {
            float sum[XCVM_LANES];
            xcvm_lanes_store(sum, (sums[0][j] + sums[1][j]) + (sums[2][j] + sums[3][j]));
            for (size_t i = 0; i < XCVM_LANES; i++)
                acc[j * XCVM_LANES + i].f += (double)sum[i];
        }
    }
}

static void columns(xcvm_reduce_op reduce_op, xcvm_dtype dtype, const void *data, size_t first, size_t rows,
                    size_t stride, size_t count, const double *shift, xcvm_partial *acc)
{
    if (reduce_op == XCVM_REDUCE_SUM && dtype == XCVM_F32 && count == NARROW) {
        sum_narrow((const float *)data + first, rows, stride, acc);
        return;
    }
    float r[XCVM_REDUCE_COLUMNS], shifts[XCVM_REDUCE_COLUMNS] = {0}, block[XCVM_REDUCE_COLUMNS];
    for (size_t i = 0; i < count && shift != NULL; i++)
        shifts[i] = (float)shift[i];
    const bool fours = reduce_op == XCVM_REDUCE_SUM && dtype == XCVM_F32;
    const size_t few = fours ? 4 * FEW_ROWS : FEW_ROWS;
    for (size_t done = 0; done < rows; done += few) {
        size_t last = rows - done < few ? rows : done + few;
        for (size_t i = 0; i < count; i++)
            r[i] = reduce_op == XCVM_REDUCE_PROD ? 1.0f : reduce_op >= XCVM_REDUCE_MAX ? (float)acc[i].f : 0.0f;
        size_t row = done;
        for (; fours && row + 4 <= last; row += 4)
            sum_four_rows((const float *)data + first + row * stride, stride, count, r);
        for (; row < last; row++) {
            const float *x = (const float *)data + first + row * stride;
            if (dtype != XCVM_F32) {
                xcvm_halves_load(dtype, data, first + row * stride, count, block);
                x = block;
            }
            reduce_row(reduce_op, x, count, shifts, r);
        }
        for (size_t i = 0; i < count; i++)
            acc[i].f = reduce_op == XCVM_REDUCE_PROD  ? acc[i].f * (double)r[i]
                       : reduce_op >= XCVM_REDUCE_MAX ? (double)r[i]
                                                      : acc[i].f + (double)r[i];
    }
}

/* ---- Short lines ---- */

/* Reduces XCVM_LANES lines of at least as many elements: one vector of partial results per line, then a reduction of
 * the square. Lines beyond `count` repeat the last one. */
XCVM_INLINE xcvm_lanes reduce_square(xcvm_lanes (*map)(xcvm_lanes), xcvm_lanes (*pick)(xcvm_lanes, xcvm_lanes),
                                     const float *x, size_t count, size_t length, float fill)
{
    const size_t rest = length % XCVM_LANES;
    const xcvm_lanes_mask numbers = {XCVM_LANES_NUMBERS};
    const xcvm_lanes_mask wanted = numbers >= (int32_t)(XCVM_LANES - rest);
    xcvm_lanes square[XCVM_LANES];
    for (size_t j = 0; j < XCVM_LANES; j++) {
        const float *line = x + (j < count ? j : count - 1) * length;
        xcvm_lanes r = map(xcvm_lanes_load(line));
        for (size_t i = XCVM_LANES; i + XCVM_LANES <= length; i += XCVM_LANES)
            r = pick(r, map(xcvm_lanes_load(line + i)));
        if (rest != 0)
            r = pick(r,
                     xcvm_lanes_choose(wanted, map(xcvm_lanes_load(line + length - XCVM_LANES)), xcvm_lanes_all(fill)));
        square[j] = r;
    }
    return xcvm_lanes_reduce_rows(pick, square);
}

/* The same for lines shorter than a vector, if a vector may be read past the last one. */
XCVM_INLINE xcvm_lanes reduce_tiny_square(xcvm_lanes (*map)(xcvm_lanes), xcvm_lanes (*pick)(xcvm_lanes, xcvm_lanes),
                                          const float *x, size_t length, float fill)
{
    const xcvm_lanes_mask numbers = {XCVM_LANES_NUMBERS};
    const xcvm_lanes_mask wanted = numbers < (int32_t)length;
    xcvm_lanes square[XCVM_LANES];
    for (size_t j = 0; j < XCVM_LANES; j++)
        square[j] = xcvm_lanes_choose(wanted, map(xcvm_lanes_load(x + j * length)), xcvm_lanes_all(fill));
    return xcvm_lanes_reduce_rows(pick, square);
}

typedef double wide_lanes __attribute__((vector_size(8 * XCVM_LANES)));

/* acc[i] = reduction(acc[i], r[i]) for each lane. Maxima and minima are f32 values, which f64 represents. */
XCVM_INLINE void fold_lanes(xcvm_reduce_op reduce_op, xcvm_lanes r, xcvm_partial acc[XCVM_LANES])
{
    wide_lanes wide;
    memcpy(&wide, acc, sizeof wide);
    if (reduce_op == XCVM_REDUCE_MAX)
        r = xcvm_lanes_greater(__builtin_convertvector(wide, xcvm_lanes), r);
    else if (reduce_op == XCVM_REDUCE_MIN)
        r = xcvm_lanes_lesser(__builtin_convertvector(wide, xcvm_lanes), r);
    const wide_lanes widened = __builtin_convertvector(r, wide_lanes);
    wide = reduce_op == XCVM_REDUCE_MAX || reduce_op == XCVM_REDUCE_MIN ? widened : wide + widened;
    memcpy(acc, &wide, sizeof wide);
}

/* Inlined for a constant reduction; `length` may be constant too. */
XCVM_INLINE void lines_of(xcvm_reduce_op reduce_op, xcvm_lanes (*map)(xcvm_lanes),
                          xcvm_lanes (*pick)(xcvm_lanes, xcvm_lanes), float fill, const float *x, size_t count,
                          size_t length, xcvm_partial *acc)
{
    size_t done = 0;
    for (; done + XCVM_LANES <= count; done += XCVM_LANES)
        fold_lanes(reduce_op, reduce_square(map, pick, x + done * length, XCVM_LANES, length, fill), acc + done);
    if (done < count) {
        xcvm_partial rest[XCVM_LANES] = {{0}};
        memcpy(rest, acc + done, (count - done) * sizeof *rest);
        fold_lanes(reduce_op, reduce_square(map, pick, x + done * length, count - done, length, fill), rest);
        memcpy(acc + done, rest, (count - done) * sizeof *rest);
    }
}

/* The same for lines shorter than a vector. */
XCVM_INLINE void tiny_lines_of(xcvm_reduce_op reduce_op, xcvm_lanes (*map)(xcvm_lanes),
                               xcvm_lanes (*pick)(xcvm_lanes, xcvm_lanes), float fill, const float *x, size_t count,
                               size_t length, xcvm_partial *acc)
{
    size_t done = 0;
    for (; done + 2 * XCVM_LANES <= count; done += XCVM_LANES)
        fold_lanes(reduce_op, reduce_tiny_square(map, pick, x + done * length, length, fill), acc + done);
    /* Nothing may be read past the last lines. */
    while (done < count) {
        const size_t n = count - done < XCVM_LANES ? count - done : XCVM_LANES;
        float lines[XCVM_LANES * XCVM_LANES + XCVM_LANES] = {0};
        xcvm_partial rest[XCVM_LANES] = {{0}};
        memcpy(lines, x + done * length, n * length * sizeof *lines);
        memcpy(rest, acc + done, n * sizeof *rest);
        fold_lanes(reduce_op, reduce_tiny_square(map, pick, lines, length, fill), rest);
        memcpy(acc + done, rest, n * sizeof *rest);
        done += n;
    }
}

static void lines_f32(xcvm_reduce_op reduce_op, const float *x, size_t count, size_t length, xcvm_partial *acc)
{
#define LINES(reduce_op, map, pick, fill)                                                                              \
    do {                                                                                                               \
        if (length < XCVM_LANES)                                                                                       \
            tiny_lines_of(reduce_op, map, pick, fill, x, count, length, acc);                                          \
        else if (length == XCVM_LANES)                                                                                 \
            lines_of(reduce_op, map, pick, fill, x, count, XCVM_LANES, acc);                                           \
        else                                                                                                           \
            lines_of(reduce_op, map, pick, fill, x, count, length, acc);                                               \
        return;                                                                                                        \
    } while (0)
    switch (reduce_op) {
    case XCVM_REDUCE_MAX:
        LINES(XCVM_REDUCE_MAX, xcvm_lanes_same, xcvm_lanes_greater, -INFINITY);
    case XCVM_REDUCE_MIN:
        LINES(XCVM_REDUCE_MIN, xcvm_lanes_same, xcvm_lanes_lesser, INFINITY);
    case XCVM_REDUCE_SUM:
        LINES(XCVM_REDUCE_SUM, xcvm_lanes_same, xcvm_lanes_plus, 0.0f);
    case XCVM_REDUCE_SUM_ABS:
        LINES(XCVM_REDUCE_SUM, xcvm_lanes_absolute, xcvm_lanes_plus, 0.0f);
    default:
        LINES(XCVM_REDUCE_SUM, xcvm_lanes_square, xcvm_lanes_plus, 0.0f);
    }
#undef LINES
}

static void lines_product(const float *x, size_t count, size_t length, xcvm_partial *acc)
{
    enum { SIDE = 8 };
    for (size_t done = 0; done < count; done += SIDE) {
        const size_t n = count - done < SIDE ? count - done : SIDE;
        const float *line[SIDE];
        double r[SIDE];
        for (size_t j = 0; j < SIDE; j++) {
            line[j] = x + (done + (j < n ? j : n - 1)) * length;
            r[j] = 1.0;
        }
        for (size_t i = 0; i < length; i++)
#pragma GCC unroll 8
            for (size_t j = 0; j < SIDE; j++)
                r[j] *= (double)line[j][i];
        for (size_t j = 0; j < n; j++)
            acc[done + j].f *= r[j];
    }
}

static void lines(xcvm_reduce_op reduce_op, xcvm_dtype dtype, const void *data, size_t first, size_t count,
                  size_t length, const double *shift, xcvm_partial *acc)
{
    /* Lines without elements add nothing, and have no vector that may be read. */
    if (length == 0)
        return;
    if (dtype == XCVM_F32 && reduce_op != XCVM_REDUCE_PROD && reduce_op != XCVM_REDUCE_SUM_EXP) {
        lines_f32(reduce_op, (const float *)data + first, count, length, acc);
        return;
    }
    if (dtype == XCVM_F32 && reduce_op == XCVM_REDUCE_PROD) {
        lines_product((const float *)data + first, count, length, acc);
        return;
    }
    for (size_t i = 0; i < count; i++)
        contiguous(reduce_op, dtype, data, first + i * length, length, shift != NULL ? shift[i] : 0.0, &acc[i]);
}

static const xcvm_reduce_loops narrow = {contiguous, columns, lines};
static const xcvm_reduce_set set = {&narrow, &xcvm_reduce_f64, &xcvm_reduce_i64};

#define REDUCTION(Name)                                                                                                \
    XCVM_KERNEL(Name)                                                                                                  \
    {                                                                                                                  \
        return xcvm_reduce(k, XCVM_OP_##Name, &set, a->y, a->x, a->axes, a->noop_with_empty_axes != 0);                \
    }
REDUCTION(ReduceSum)
REDUCTION(ReduceMean)
REDUCTION(ReduceMax)
REDUCTION(ReduceMin)
REDUCTION(ReduceProd)
REDUCTION(ReduceL1)
REDUCTION(ReduceL2)
REDUCTION(ReduceSumSquare)
REDUCTION(ReduceLogSumExp)
