/* Softmax, LogSoftmax and Hardmax. */
#include "ops/util/index.h"

#include "ops/simd/exp_line.h"
#include "ops/simd/lines.h"
#include "ops/simd/math_f64.h"

/* Maximum, or NaN if there is one. */
static __attribute__((noinline)) float greatest_of(const float *x, size_t count)
{
    return (float)xcvm_reduce_extreme(xcvm_lanes_greater, x, count, -INFINITY);
}

/* Maximum if there is no NaN. With a NaN, the sum of exponentials is NaN for any value. */
static __attribute__((noinline)) float greatest_number(const float *x, size_t count)
{
    return (float)xcvm_reduce_extreme(xcvm_lanes_max, x, count, -INFINITY);
}

/* ---- One line ---- */

/* Elements of a line between polls, whose exponentials are summed separately. */
enum { CHUNK = 1 << 20 };

/* Maximum found by `part`, or NaN if it finds one; polls between pieces. Returns false if the kernel must stop. */
static bool greatest_of_line(const xcvm_tile *t, float (*part)(const float *x, size_t count), float *greatest)
{
    *greatest = -INFINITY;
    for (size_t at = 0; at < t->length; at += CHUNK) {
        const float next = part(t->x + at, xcvm_min(t->length - at, CHUNK));
        *greatest = next > *greatest || next != next ? next : *greatest;
        if (t->length > CHUNK && xcvm_kernel_poll(t->k) != XCVM_OK)
            return false;
    }
    return true;
}

static void softmax_line(const xcvm_tile *t)
{
    float greatest;
    double sum = 0.0;
    if (!greatest_of_line(t, greatest_number, &greatest))
        return;
    for (size_t at = 0; at < t->length; at += CHUNK) {
        sum += xcvm_exp_line(t->x + at, xcvm_min(t->length - at, CHUNK), greatest, t->y + at);
        if (t->length > CHUNK && xcvm_kernel_poll(t->k) != XCVM_OK)
            return;
    }
    const float scale = (float)(1.0 / sum);
    for (size_t at = 0; at < t->length; at += CHUNK) {
        const size_t end = at + xcvm_min(t->length - at, CHUNK);
        for (size_t i = at; i < end; i++)
            t->y[i] *= scale;
        if (t->length > CHUNK && xcvm_kernel_poll(t->k) != XCVM_OK)
            return;
    }
}

static void log_softmax_line(const xcvm_tile *t)
{
    float greatest;
    double sum = 0.0;
    if (!greatest_of_line(t, greatest_number, &greatest))
        return;
    for (size_t at = 0; at < t->length; at += CHUNK) {
        sum += xcvm_exp_line(t->x + at, xcvm_min(t->length - at, CHUNK), greatest, NULL);
        if (t->length > CHUNK && xcvm_kernel_poll(t->k) != XCVM_OK)
            return;
    }
    const float logarithm = (float)log(sum);
    for (size_t at = 0; at < t->length; at += CHUNK) {
        const size_t end = at + xcvm_min(t->length - at, CHUNK);
        XCVM_INDEPENDENT
        for (size_t i = at; i < end; i++)
            t->y[i] = (t->x[i] - greatest) - logarithm;
        if (t->length > CHUNK && xcvm_kernel_poll(t->k) != XCVM_OK)
            return;
    }
}

/* First index where x equals `value`, or is NaN if that is; the last index if there is none. */
static size_t place_of(const float *x, size_t length, float value)
{
    enum { STRIDE = 64 };
    const bool is_nan = value != value;
    size_t i = 0;
    for (; i + STRIDE <= length; i += STRIDE) {
        uint32_t found = 0;
        for (size_t j = i; j < i + STRIDE; j++)
            found |= (x[j] == value) | (is_nan & (x[j] != x[j]));
        if (found)
            break;
    }
    while (i + 1 < length && !(x[i] == value || (is_nan && x[i] != x[i])))
        i++;
    return i;
}

/* Index of the first maximum, or of the first NaN if there is one, as in NumPy. */
static void hardmax_line(const xcvm_tile *t)
{
    float greatest;
    size_t place = SIZE_MAX;
    if (!greatest_of_line(t, greatest_of, &greatest))
        return;
    for (size_t at = 0; at < t->length; at += CHUNK) {
        const size_t count = xcvm_min(t->length - at, CHUNK),
                     found = place == SIZE_MAX ? place_of(t->x + at, count, greatest) : 0;
        const float x = t->x[at + found];
        if (place == SIZE_MAX && (x == greatest || (x != x && greatest != greatest)))
            place = at + found;
        memset(t->y + at, 0, count * sizeof *t->y);
        if (t->length > CHUNK && xcvm_kernel_poll(t->k) != XCVM_OK)
            return;
    }
    t->y[place] = 1.0f;
}

/* ---- Adjacent lines, as many as a vector has lanes, so that reductions across lanes are shared ---- */

/* Maximum of each of `count` lines, at most XCVM_LANES; arbitrary for a line with a NaN. */
static void greatest_rows(const float *x, size_t length, size_t count, float greatest[XCVM_LANES])
{
    xcvm_lanes rows[XCVM_LANES];
    for (size_t j = 0; j < XCVM_LANES; j++) {
        if (j >= count) {
            rows[j] = rows[0];
            continue;
        }
        const float *line = x + j * length;
        xcvm_lanes r[2] = {xcvm_lanes_all(-INFINITY), xcvm_lanes_all(-INFINITY)};
        size_t i = 0;
        for (; i + 2 * XCVM_LANES <= length; i += 2 * XCVM_LANES) {
            r[0] = xcvm_lanes_max(r[0], xcvm_lanes_load(line + i));
            r[1] = xcvm_lanes_max(r[1], xcvm_lanes_load(line + i + XCVM_LANES));
        }
        if (i + XCVM_LANES <= length) {
            r[0] = xcvm_lanes_max(r[0], xcvm_lanes_load(line + i));
            i += XCVM_LANES;
        }
        if (i < length)
            r[1] = xcvm_lanes_max(r[1], xcvm_lanes_load_first(line + i, length - i, -INFINITY));
        rows[j] = xcvm_lanes_max(r[0], r[1]);
    }
    xcvm_lanes_store(greatest, xcvm_lanes_reduce_rows(xcvm_lanes_max, rows));
}

/* Prefetches elements. */
static void prefetch(const float *x, size_t count)
{
    enum { CACHE_LINE = 64 / sizeof(float) };
    for (size_t i = 0; i < count; i += CACHE_LINE)
        __builtin_prefetch(x + i);
}

/* y = exp(x - maximum of its line); y may be NULL. Returns the sums of the lines. Prefetches part of the `ahead`
 * elements after the lines. */
static xcvm_lanes exp_rows(const float *x, size_t length, size_t count, const float greatest[XCVM_LANES], float *y,
                           size_t ahead)
{
    xcvm_lanes rows[XCVM_LANES];
    for (size_t j = 0; j < XCVM_LANES; j++) {
        if (j >= count) {
            rows[j] = xcvm_lanes_all(1.0f);
            continue;
        }
        if (ahead > j * length)
            prefetch(x + (count + j) * length, xcvm_min(ahead - j * length, length));
        rows[j] = xcvm_exp_chunk(x + j * length, length, greatest[j], y != NULL ? y + j * length : NULL);
    }
    return xcvm_lanes_reduce_rows(xcvm_lanes_plus, rows);
}

/* At most XCVM_LANES lines shorter than a vector, kept in registers: a masked load of memory just written by a masked
 * store stalls. The sums equal those of longer lines. */
static void softmax_vectors(const float *x, float *y, size_t length, size_t count)
{
    xcvm_lanes rows[XCVM_LANES], reduced[XCVM_LANES];
    float greatest[XCVM_LANES], scale[XCVM_LANES];
    for (size_t j = 0; j < XCVM_LANES; j++)
        reduced[j] = rows[j] = xcvm_lanes_load_first(x + (j < count ? j : 0) * length, length, -INFINITY);
    xcvm_lanes_store(greatest, xcvm_lanes_reduce_rows(xcvm_lanes_max, reduced));
    for (size_t j = 0; j < XCVM_LANES; j++)
        reduced[j] = rows[j] = xcvm_lanes_exp_negative(rows[j] - xcvm_lanes_all(greatest[j]));
    xcvm_lanes_store(scale, 1.0f / xcvm_lanes_reduce_rows(xcvm_lanes_plus, reduced));
    for (size_t j = 0; j < count; j++)
        xcvm_lanes_store_first(y + j * length, length, rows[j] * scale[j]);
}

/* Lines are read three times, so only as many are processed together as stay in the first-level cache. `elements` is
 * the number of elements of x and y per line. */
static size_t lines_at_once(size_t elements)
{
    enum { FIRST_LEVEL = 32 * 1024 / sizeof(float) };
    const size_t fitting = FIRST_LEVEL / elements;
    return fitting == 0 ? 1 : fitting < XCVM_LANES ? fitting : XCVM_LANES;
}

static void softmax_rows(const void *context, const float *x, float *y, size_t length, size_t count)
{
    (void)context;
    if (length < XCVM_LANES) {
        for (size_t at = 0; at < count; at += XCVM_LANES)
            softmax_vectors(x + at * length, y + at * length, length, xcvm_min(count - at, XCVM_LANES));
        return;
    }
    const size_t most = lines_at_once(2 * length);
    for (size_t at = 0; at < count; at += most, x += most * length, y += most * length) {
        const size_t n = count - at < most ? count - at : most;
        float greatest[XCVM_LANES], scale[XCVM_LANES];
        greatest_rows(x, length, n, greatest);
        xcvm_lanes_store(scale, 1.0f / exp_rows(x, length, n, greatest, y, (count - at - n) * length));
        for (size_t j = 0; j < n; j++) {
            float *line = y + j * length;
            size_t i = 0;
            for (; i + XCVM_LANES <= length; i += XCVM_LANES)
                xcvm_lanes_store(line + i, xcvm_lanes_load(line + i) * scale[j]);
            if (i < length)
                xcvm_lanes_store_first(line + i, length - i,
                                       xcvm_lanes_load_first(line + i, length - i, 0.0f) * scale[j]);
        }
    }
}

static void log_softmax_rows(const void *context, const float *x, float *y, size_t length, size_t count)
{
    (void)context;
    const size_t most = lines_at_once(2 * length);
    for (size_t at = 0; at < count; at += most, x += most * length, y += most * length) {
        const size_t n = count - at < most ? count - at : most;
        float greatest[XCVM_LANES], logarithm[XCVM_LANES];
        greatest_rows(x, length, n, greatest);
        xcvm_lanes_store(logarithm, exp_rows(x, length, n, greatest, NULL, (count - at - n) * length));
        for (size_t j = 0; j < XCVM_LANES; j++)
            logarithm[j] = xcvm_log_f32(logarithm[j]);
        for (size_t j = 0; j < n; j++) {
            const float *from = x + j * length;
            float *to = y + j * length;
            size_t i = 0;
            for (; i + XCVM_LANES <= length; i += XCVM_LANES)
                xcvm_lanes_store(to + i, (xcvm_lanes_load(from + i) - greatest[j]) - logarithm[j]);
            if (i < length)
                xcvm_lanes_store_first(to + i, length - i,
                                       (xcvm_lanes_load_first(from + i, length - i, 0.0f) - greatest[j]) -
                                           logarithm[j]);
        }
    }
}

/* Index in a line, exact in f32: of its first NaN, minus AHEAD so that it wins, or else of the first element equal to
 * `greatest`. */
enum { AHEAD = 2 * XCVM_ROW_LENGTH };

static xcvm_lanes first_places(const float *line, size_t length, float greatest)
{
    const xcvm_lanes_mask numbers = {XCVM_LANES_NUMBERS};
    xcvm_lanes place = __builtin_convertvector(numbers, xcvm_lanes), first = xcvm_lanes_all(AHEAD);
    for (size_t i = 0; i < length; i += XCVM_LANES) {
        const size_t left = length - i;
        const xcvm_lanes v =
            left >= XCVM_LANES ? xcvm_lanes_load(line + i) : xcvm_lanes_load_first(line + i, left, greatest);
        xcvm_lanes found = xcvm_lanes_choose((xcvm_lanes_mask)(v == greatest), place, xcvm_lanes_all(AHEAD));
        found = xcvm_lanes_choose((xcvm_lanes_mask)(v != v), place - (float)AHEAD, found);
        first = xcvm_lanes_min(first, found);
        place += (float)XCVM_LANES;
    }
    return first;
}

static void hardmax_rows(const void *context, const float *x, float *y, size_t length, size_t count)
{
    (void)context;
    for (size_t at = 0; at < count; at += XCVM_LANES, x += XCVM_LANES * length, y += XCVM_LANES * length) {
        const size_t n = count - at < XCVM_LANES ? count - at : XCVM_LANES;
        float greatest[XCVM_LANES], place[XCVM_LANES];
        xcvm_lanes rows[XCVM_LANES];
        greatest_rows(x, length, n, greatest);
        for (size_t j = 0; j < XCVM_LANES; j++)
            rows[j] = first_places(x + (j < n ? j : 0) * length, length, greatest[j]);
        xcvm_lanes_store(place, xcvm_lanes_reduce_rows(xcvm_lanes_min, rows));
        memset(y, 0, n * length * sizeof *y);
        for (size_t j = 0; j < n; j++)
            y[j * length + (size_t)(place[j] < 0.0f ? place[j] + (float)AHEAD : place[j])] = 1.0f;
    }
}

/* ---- Interleaved lines ---- */

static __attribute__((noinline)) void greatest_columns(const xcvm_tile *t, float *greatest)
{
    const size_t columns = t->columns;
    for (size_t j = 0; j < columns; j++)
        greatest[j] = -INFINITY;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t i = 0; i < t->length && xcvm_poll_after(&poller, columns) == XCVM_OK; i++) {
        const float *x = t->x + i * t->x_stride;
        XCVM_INDEPENDENT
        for (size_t j = 0; j < columns; j++)
            greatest[j] = ((x[j] > greatest[j]) | (x[j] != x[j])) ? x[j] : greatest[j];
    }
}

/* y[j] = exp(x[j] - greatest[j]), which is added to sum[j]. */
static __attribute__((noinline)) void exp_row(const float *x, const float *greatest, size_t columns, float *y,
                                              float *sum)
{
    XCVM_INDEPENDENT
    for (size_t j = 0; j < columns; j++) {
        float e = xcvm_exp_negative_f32(x[j] - greatest[j]);
        sum[j] += e;
        y[j] = e;
    }
}

static void softmax_columns(const xcvm_tile *t)
{
    float greatest[XCVM_TILE_COLUMNS], sum[XCVM_TILE_COLUMNS] = {0};
    xcvm_poller poller = xcvm_poller_of(t->k);
    greatest_columns(t, greatest);
    for (size_t i = 0; i < t->length && xcvm_poll_after(&poller, t->columns) == XCVM_OK; i++)
        exp_row(t->x + i * t->x_stride, greatest, t->columns, t->y + i * t->y_stride, sum);
    for (size_t j = 0; j < t->columns; j++)
        sum[j] = 1.0f / sum[j];
    for (size_t i = 0; i < t->length && xcvm_poll_after(&poller, t->columns) == XCVM_OK; i++) {
        float *y = t->y + i * t->y_stride;
        XCVM_INDEPENDENT
        for (size_t j = 0; j < t->columns; j++)
            y[j] *= sum[j];
    }
}

static void log_softmax_columns(const xcvm_tile *t)
{
    float greatest[XCVM_TILE_COLUMNS], sum[XCVM_TILE_COLUMNS] = {0}, row[XCVM_TILE_COLUMNS];
    xcvm_poller poller = xcvm_poller_of(t->k);
    greatest_columns(t, greatest);
    for (size_t i = 0; i < t->length && xcvm_poll_after(&poller, t->columns) == XCVM_OK; i++)
        exp_row(t->x + i * t->x_stride, greatest, t->columns, row, sum);
    for (size_t j = 0; j < XCVM_TILE_COLUMNS; j++)
        sum[j] = xcvm_log_f32(sum[j]);
    for (size_t i = 0; i < t->length && xcvm_poll_after(&poller, t->columns) == XCVM_OK; i++) {
        const float *x = t->x + i * t->x_stride;
        float *y = t->y + i * t->y_stride;
        XCVM_INDEPENDENT
        for (size_t j = 0; j < t->columns; j++)
            y[j] = (x[j] - greatest[j]) - sum[j];
    }
}

static void softmax_f32(const void *context, const xcvm_tile *t)
{
    (void)context;
    if (t->columns == 1 && t->x_stride == 1)
        softmax_line(t);
    else
        softmax_columns(t);
}

static void log_softmax_f32(const void *context, const xcvm_tile *t)
{
    (void)context;
    if (t->columns == 1 && t->x_stride == 1)
        log_softmax_line(t);
    else
        log_softmax_columns(t);
}

static void hardmax_columns(const xcvm_tile *t)
{
    float greatest[XCVM_TILE_COLUMNS], left[XCVM_TILE_COLUMNS];
    greatest_columns(t, greatest);
    for (size_t j = 0; j < XCVM_TILE_COLUMNS; j++)
        left[j] = 1.0f;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t i = 0; i < t->length && xcvm_poll_after(&poller, t->columns) == XCVM_OK; i++) {
        const float *x = t->x + i * t->x_stride;
        float *y = t->y + i * t->y_stride;
        XCVM_INDEPENDENT
        for (size_t j = 0; j < t->columns; j++) {
            const int is_it = (x[j] == greatest[j]) | ((x[j] != x[j]) & (greatest[j] != greatest[j]));
            const float one = is_it ? left[j] : 0.0f;
            left[j] -= one;
            y[j] = one;
        }
    }
}

static void hardmax_f32(const void *context, const xcvm_tile *t)
{
    (void)context;
    if (t->columns == 1 && t->x_stride == 1)
        hardmax_line(t);
    else
        hardmax_columns(t);
}

/* ---- f64 ---- */

/* Fails as xcvm_kernel_poll does. */
static xcvm_status greatest_f64(xcvm_poller *poller, const double *x, size_t length, size_t *at)
{
    *at = 0;
    for (size_t i = 1; i < length && !isnan(x[*at]); i++) {
        XCVM_TRY(xcvm_poll_after(poller, 1));
        if (!(x[i] <= x[*at]))
            *at = i;
    }
    return XCVM_OK;
}

/* Number of independent partial results. */
enum { SIDE_F64 = 16 };

/* Maximum if there is no NaN. With a NaN, the sum of exponentials is NaN for any value. Fails as xcvm_kernel_poll does.
 */
static xcvm_status greatest_number_f64(xcvm_poller *poller, const double *x, size_t length, double *greatest)
{
    double r[SIDE_F64];
    for (size_t j = 0; j < SIDE_F64; j++)
        r[j] = -(double)INFINITY;
    for (size_t at = 0; at < length; at += XCVM_REDUCE_CHUNK) {
        const size_t end = at + xcvm_min(length - at, XCVM_REDUCE_CHUNK);
        XCVM_TRY(xcvm_poll_after(poller, end - at));
        size_t i = at;
        for (; i + SIDE_F64 <= end; i += SIDE_F64)
            for (size_t j = 0; j < SIDE_F64; j++)
                r[j] = x[i + j] > r[j] ? x[i + j] : r[j];
        for (; i < end; i++)
            r[i % SIDE_F64] = x[i] > r[i % SIDE_F64] ? x[i] : r[i % SIDE_F64];
    }
    for (size_t half = SIDE_F64 / 2; half != 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            r[j] = r[j + half] > r[j] ? r[j + half] : r[j];
    *greatest = r[0];
    return XCVM_OK;
}

/* y[i] = exp(x[i] - greatest); *sum is their sum. Fails as xcvm_kernel_poll does. */
static xcvm_status exp_f64(xcvm_poller *poller, const double *x, size_t length, double greatest, double *y, double *sum)
{
    double r[SIDE_F64] = {0};
    for (size_t at = 0; at < length; at += XCVM_REDUCE_CHUNK) {
        const size_t end = at + xcvm_min(length - at, XCVM_REDUCE_CHUNK);
        XCVM_TRY(xcvm_poll_after(poller, end - at));
        XCVM_INDEPENDENT
        for (size_t i = at; i < end; i++)
            y[i] = xcvm_exp_f64(x[i] - greatest);
        size_t i = at;
        for (; i + SIDE_F64 <= end; i += SIDE_F64)
            for (size_t j = 0; j < SIDE_F64; j++)
                r[j] += y[i + j];
        for (; i < end; i++)
            r[i % SIDE_F64] += y[i];
    }
    for (size_t half = SIDE_F64 / 2; half != 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            r[j] += r[j + half];
    *sum = r[0];
    return XCVM_OK;
}

static void softmax_f64(const xcvm_kernel *k, const void *context, const double *x, double *y, size_t length,
                        size_t index)
{
    (void)context;
    (void)index;
    xcvm_poller poller = xcvm_poller_of(k);
    double greatest, sum;
    if (greatest_number_f64(&poller, x, length, &greatest) != XCVM_OK ||
        exp_f64(&poller, x, length, greatest, y, &sum) != XCVM_OK)
        return;
    for (size_t at = 0; at < length && xcvm_poll_after(&poller, XCVM_REDUCE_CHUNK) == XCVM_OK;
         at += XCVM_REDUCE_CHUNK) {
        const size_t end = at + xcvm_min(length - at, XCVM_REDUCE_CHUNK);
        for (size_t i = at; i < end; i++)
            y[i] /= sum;
    }
}

static void log_softmax_f64(const xcvm_kernel *k, const void *context, const double *x, double *y, size_t length,
                            size_t index)
{
    (void)context;
    (void)index;
    xcvm_poller poller = xcvm_poller_of(k);
    double greatest, sum;
    if (greatest_number_f64(&poller, x, length, &greatest) != XCVM_OK ||
        exp_f64(&poller, x, length, greatest, y, &sum) != XCVM_OK)
        return;
    sum = log(sum);
    for (size_t at = 0; at < length && xcvm_poll_after(&poller, XCVM_REDUCE_CHUNK) == XCVM_OK;
         at += XCVM_REDUCE_CHUNK) {
        const size_t end = at + xcvm_min(length - at, XCVM_REDUCE_CHUNK);
        XCVM_INDEPENDENT
        for (size_t i = at; i < end; i++)
            y[i] = (x[i] - greatest) - sum;
    }
}

static void hardmax_f64(const xcvm_kernel *k, const void *context, const double *x, double *y, size_t length,
                        size_t index)
{
    (void)context;
    (void)index;
    xcvm_poller poller = xcvm_poller_of(k);
    size_t at;
    if (greatest_f64(&poller, x, length, &at) != XCVM_OK || xcvm_kernel_fill(k, y, 0, length * sizeof *y) != XCVM_OK)
        return;
    y[at] = 1.0;
}

XCVM_KERNEL(Softmax)
{
    return xcvm_lines_along(k, a->y, a->x, a->axis,
                            (xcvm_lines){.f32 = softmax_f32, .rows = softmax_rows, .f64 = softmax_f64, .cost = 4});
}

XCVM_KERNEL(LogSoftmax)
{
    return xcvm_lines_along(
        k, a->y, a->x, a->axis,
        (xcvm_lines){.f32 = log_softmax_f32, .rows = log_softmax_rows, .f64 = log_softmax_f64, .cost = 4});
}

XCVM_KERNEL(Hardmax)
{
    return xcvm_lines_along(k, a->y, a->x, a->axis,
                            (xcvm_lines){.f32 = hardmax_f32, .rows = hardmax_rows, .f64 = hardmax_f64, .cost = 4});
}
