/* ArgMax and ArgMin: the current best element of parallel columns, and its row. Lines of adjacent elements are also
 * processed as columns: long ones with elements a fixed distance apart, short ones several lines at a time. */
#include "ops/util/index.h"
#include "ops/simd/halves.h"
#include "ops/simd/lanes.h"
#include "ops/simd/math.h"

enum {
    COLUMNS = 128,    /* columns processed together */
    SHORT = COLUMNS,  /* shorter lines are transposed to columns */
    SEGMENT = 1 << 30 /* rows that an i32 can count */
};

/* Types in which elements are compared; u32 and u64 have their highest bit inverted. */
typedef union lanes {
    float f32[COLUMNS];
    double f64[COLUMNS];
    int32_t i32[COLUMNS];
    int64_t i64[COLUMNS];
} lanes;

typedef enum carrier { AS_F32, AS_F64, AS_I32, AS_I64 } carrier;

typedef struct arg_reduce_loop {
    const xcvm_kernel *k;
    const xcvm_value *x;
    int64_t *y;
    xcvm_around around;
    carrier carrier;
    bool greatest, last;
} arg_reduce_loop;

typedef struct winners {
    lanes best;
    int64_t row[COLUMNS];
} winners;

/* ---- Comparison ---- */

/* The first NaN wins. An index has the size of an element, so that loops vectorize. */
#define DEFINE_REDUCE(name, type, index, is_nan, are_nan)                                                              \
    static inline __attribute__((always_inline)) void reduce_##name(const type *restrict x, size_t count, index row,   \
                                                                    type *restrict best, index *restrict at,           \
                                                                    const bool greatest, const bool last)              \
    {                                                                                                                  \
        for (size_t j = 0; j < count; j++) {                                                                           \
            const type v = x[j], b = best[j];                                                                          \
            const index better = (greatest ? (last ? v >= b : v > b) : (last ? v <= b : v < b)) | is_nan(v, b);        \
            best[j] = better ? v : b;                                                                                  \
            at[j] = better ? row : at[j];                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    static void row_##name(const arg_reduce_loop *t, const type *x, size_t count, index row, type *best, index *at)    \
    {                                                                                                                  \
        if (t->greatest && !t->last)                                                                                   \
            reduce_##name(x, count, row, best, at, true, false);                                                       \
        else if (t->greatest)                                                                                          \
            reduce_##name(x, count, row, best, at, true, true);                                                        \
        else if (!t->last)                                                                                             \
            reduce_##name(x, count, row, best, at, false, false);                                                      \
        else                                                                                                           \
            reduce_##name(x, count, row, best, at, false, true);                                                       \
    }                                                                                                                  \
    /* The winner of a line whose parts are columns; row[j] is the index in the line. */                               \
    static inline __attribute__((always_inline))                                                                       \
    int64_t merge_##name(const type *restrict best, const int64_t *restrict row, const bool greatest, const bool last) \
    {                                                                                                                  \
        type r[COLUMNS / 2];                                                                                           \
        for (size_t j = 0; j < COLUMNS / 2; j++) {                                                                     \
            const type v = best[j + COLUMNS / 2], b = best[j];                                                         \
            r[j] = (greatest ? v > b : v < b) | is_nan(v, b) ? v : b;                                                  \
        }                                                                                                              \
        for (size_t half = COLUMNS / 4; half != 0; half /= 2)                                                          \
            XCVM_INDEPENDENT                                                                                           \
        for (size_t j = 0; j < half; j++) {                                                                            \
            const type v = r[j + half], b = r[j];                                                                      \
            r[j] = (greatest ? v > b : v < b) | is_nan(v, b) ? v : b;                                                  \
        }                                                                                                              \
        const type of_all = r[0];                                                                                      \
        const bool behind = last && of_all == of_all;                                                                  \
        int64_t winner = INT64_MAX;                                                                                    \
        for (size_t j = 0; j < COLUMNS; j++) {                                                                         \
            const int64_t at = behind ? -row[j] : row[j];                                                              \
            const int64_t candidate = (best[j] == of_all) | are_nan(best[j], of_all) ? at : INT64_MAX;                 \
            winner = candidate < winner ? candidate : winner;                                                          \
        }                                                                                                              \
        return behind ? -winner : winner;                                                                              \
    }                                                                                                                  \
    static int64_t winner_##name(const arg_reduce_loop *t, const type *best, const int64_t *row)                       \
    {                                                                                                                  \
        if (t->greatest)                                                                                               \
            return merge_##name(best, row, true, t->last);                                                             \
        return merge_##name(best, row, false, t->last);                                                                \
    }
#define FLOAT_NAN(v, b) ((v != v) & (b == b))
#define FLOAT_NANS(v, b) ((v != v) & (b != b))
#define NO_NAN(v, b) 0
DEFINE_REDUCE(f32, float, int32_t, FLOAT_NAN, FLOAT_NANS)
DEFINE_REDUCE(f64, double, int64_t, FLOAT_NAN, FLOAT_NANS)
DEFINE_REDUCE(i32, int32_t, int32_t, NO_NAN, NO_NAN)
DEFINE_REDUCE(i64, int64_t, int64_t, NO_NAN, NO_NAN)

/* ---- Conversion to the comparison type ---- */

#define COPY(to, type, expression)                                                                                     \
    do {                                                                                                               \
        const type *from = (const type *)t->x->data + first;                                                           \
        for (size_t i = 0; i < count; i++)                                                                             \
            (to)[i] = (expression);                                                                                    \
    } while (0)

/* Returns elements [first, first + count), in place or copied. */
static const void *load(const arg_reduce_loop *t, size_t first, size_t count, lanes *copy)
{
    switch ((xcvm_dtype)t->x->dtype) {
    case XCVM_F16:
    case XCVM_BF16:
        xcvm_halves_load((xcvm_dtype)t->x->dtype, t->x->data, first, count, copy->f32);
        return copy;
    case XCVM_BOOL:
    case XCVM_U8:
        COPY(copy->i32, uint8_t, from[i]);
        return copy;
    case XCVM_I8:
        COPY(copy->i32, int8_t, from[i]);
        return copy;
    case XCVM_U16:
        COPY(copy->i32, uint16_t, from[i]);
        return copy;
    case XCVM_I16:
        COPY(copy->i32, int16_t, from[i]);
        return copy;
    case XCVM_U32:
        COPY(copy->i32, uint32_t, (int32_t)(from[i] ^ UINT32_C(1) << 31));
        return copy;
    case XCVM_U64:
        COPY(copy->i64, uint64_t, (int64_t)(from[i] ^ UINT64_C(1) << 63));
        return copy;
    default:
        return (const char *)t->x->data + first * xcvm_dtype_size((xcvm_dtype)t->x->dtype);
    }
}

static carrier carrier_of(xcvm_dtype dtype)
{
    switch (dtype) {
    case XCVM_F32:
    case XCVM_F16:
    case XCVM_BF16:
        return AS_F32;
    case XCVM_F64:
        return AS_F64;
    case XCVM_I64:
    case XCVM_U64:
        return AS_I64;
    default:
        return AS_I32;
    }
}

/* ---- Columns ---- */

/* Reduces `rows` rows of `count` columns, `stride` apart, of elements from `first` or, if copied, of `tile`. Columns
 * from `short_from` have one row less. Stays unfinished when time is up. */
static void reduce_columns(const arg_reduce_loop *t, const void *tile, size_t first, size_t rows, size_t stride,
                           size_t count, size_t short_from, winners *w, xcvm_poller *poller)
{
    const size_t size = t->carrier == AS_F32 || t->carrier == AS_I32 ? 4 : 8;
    lanes copy;
    int32_t at[COLUMNS];
    for (size_t row = 0; row < rows; row++) {
        const size_t columns = row + 1 < rows ? count : short_from;
        const void *x =
            tile != NULL ? (const char *)tile + row * stride * size : load(t, first + row * stride, columns, &copy);
        if (row == 0) {
            memcpy(&w->best, x, columns * size);
            memset(w->row, 0, sizeof w->row);
        }
        /* An i32 counts the rows of a segment; -1 means that the segment has no winner. */
        if (row % SEGMENT == 0)
            for (size_t j = 0; j < count; j++)
                at[j] = row == 0 ? 0 : -1;
        if (row != 0)
            switch (t->carrier) {
            case AS_F32:
                row_f32(t, x, columns, (int32_t)(row % SEGMENT), w->best.f32, at);
                break;
            case AS_I32:
                row_i32(t, x, columns, (int32_t)(row % SEGMENT), w->best.i32, at);
                break;
            case AS_F64:
                row_f64(t, x, columns, (int64_t)row, w->best.f64, w->row);
                break;
            case AS_I64:
                row_i64(t, x, columns, (int64_t)row, w->best.i64, w->row);
                break;
            }
        if (size == 4 && (row % SEGMENT == SEGMENT - 1 || row + 1 == rows))
            for (size_t j = 0; j < count; j++)
                w->row[j] = at[j] < 0 ? w->row[j] : (int64_t)(row / SEGMENT * SEGMENT) + at[j];
        if (xcvm_poll_after(poller, columns) != XCVM_OK)
            return;
    }
}

static int64_t winner(const arg_reduce_loop *t, const winners *w)
{
    switch (t->carrier) {
    case AS_F32:
        return winner_f32(t, w->best.f32, w->row);
    case AS_F64:
        return winner_f64(t, w->best.f64, w->row);
    case AS_I32:
        return winner_i32(t, w->best.i32, w->row);
    default:
        return winner_i64(t, w->best.i64, w->row);
    }
}

/* Reduces a line of at least COLUMNS adjacent elements. */
static int64_t long_line(const arg_reduce_loop *t, size_t first, size_t length, xcvm_poller *poller)
{
    winners w;
    const size_t rows = (length + COLUMNS - 1) / COLUMNS;
    reduce_columns(t, NULL, first, rows, COLUMNS, COLUMNS, length - (rows - 1) * COLUMNS, &w, poller);
    for (size_t j = 0; j < COLUMNS; j++)
        w.row[j] = w.row[j] * COLUMNS + (int64_t)j;
    return winner(t, &w);
}

/* Transposes elements [from, length) of `count` lines of 4-byte elements to columns of a tile. */
static void turn_32(const int32_t *x, size_t from, size_t length, size_t count, int32_t *tile)
{
    for (size_t j = 0; j < count; j++)
        for (size_t i = from; i < length; i++)
            tile[i * COLUMNS + j] = x[j * length + i];
}

/* The same for whole vectors of XCVM_LANES lines; the function above does the rest. */
static void turn_vectors(const float *x, size_t length, size_t count, float *tile)
{
    const size_t whole = length / XCVM_LANES * XCVM_LANES, lines = count / XCVM_LANES * XCVM_LANES;
    for (size_t j = 0; j < lines; j += XCVM_LANES)
        for (size_t i = 0; i < whole; i += XCVM_LANES) {
            xcvm_lanes square[XCVM_LANES];
            for (size_t r = 0; r < XCVM_LANES; r++)
                square[r] = xcvm_lanes_load(x + (j + r) * length + i);
            xcvm_lanes_transpose(square);
            for (size_t r = 0; r < XCVM_LANES; r++)
                xcvm_lanes_store(tile + (i + r) * COLUMNS + j, square[r]);
        }
    const int32_t *elements = (const int32_t *)(const void *)x;
    turn_32(elements, whole, length, lines, (int32_t *)(void *)tile);
    turn_32(elements + lines * length, 0, length, count - lines, (int32_t *)(void *)tile + lines);
}

/* Reduces `count` short lines. */
static void short_lines(const arg_reduce_loop *t, size_t first, size_t length, size_t count, int64_t *y,
                        xcvm_poller *poller)
{
    const xcvm_dtype dtype = (xcvm_dtype)t->x->dtype;
    _Alignas(64) char tile[SHORT * COLUMNS * sizeof(int64_t)];
    winners w;
    lanes copy;
    if (dtype == XCVM_F32 || dtype == XCVM_I32)
        turn_vectors(XCVM_CDATA(float, t->x) + first, length, count, (float *)(void *)tile);
    else
        for (size_t j = 0; j < count; j++) {
            const void *x = load(t, first + j * length, length, &copy);
            if (t->carrier == AS_F32 || t->carrier == AS_I32)
                turn_32(x, 0, length, 1, (int32_t *)(void *)tile + j);
            else
                for (size_t i = 0; i < length; i++)
                    ((int64_t *)(void *)tile)[i * COLUMNS + j] = ((const int64_t *)x)[i];
        }
    reduce_columns(t, tile, 0, length, COLUMNS, count, count, &w, poller);
    memcpy(y, w.row, count * sizeof *y);
}

/* The range is over results if lines are adjacent elements, else over blocks of columns. */
static void run_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const arg_reduce_loop *t = context;
    const xcvm_around *around = &t->around;
    const size_t blocks = (around->inner + COLUMNS - 1) / COLUMNS;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t i = begin, count; i < end && xcvm_poll_after(&poller, 1) == XCVM_OK; i += count) {
        count = 1;
        if (around->inner != 1) {
            const size_t outer = i / blocks, column = i % blocks * COLUMNS;
            const size_t columns = around->inner - column < COLUMNS ? around->inner - column : COLUMNS;
            winners w;
            reduce_columns(t, NULL, outer * around->dim * around->inner + column, around->dim, around->inner, columns,
                           columns, &w, &poller);
            memcpy(t->y + outer * around->inner + column, w.row, columns * sizeof *t->y);
        } else if (around->dim < SHORT) {
            count = end - i < COLUMNS ? end - i : COLUMNS;
            short_lines(t, i * around->dim, around->dim, count, t->y + i, &poller);
        } else {
            t->y[i] = long_line(t, i * around->dim, around->dim, &poller);
        }
    }
}

static xcvm_status arg_reduce(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x, int64_t axis, bool greatest,
                              bool last)
{
    int resolved;
    XCVM_TRY(xcvm_resolve_axis(k->error, axis, x->rank, &resolved));
    arg_reduce_loop t = {.k = k, .x = x, .y = y->data, .greatest = greatest, .last = last};
    t.around = xcvm_around_axis(x, resolved);
    t.carrier = carrier_of((xcvm_dtype)x->dtype);
    if (xcvm_element_count(y) == 0)
        return XCVM_OK;
    const size_t columns = t.around.inner < COLUMNS ? t.around.inner : COLUMNS;
    return xcvm_kernel_parallel(k, t.around.outer * ((t.around.inner + COLUMNS - 1) / COLUMNS),
                                32768 / (t.around.dim * columns + 1) + 1, run_range, &t);
}

XCVM_KERNEL(ArgMax) { return arg_reduce(k, a->y, a->x, a->axis, true, a->select_last_index != 0); }

XCVM_KERNEL(ArgMin) { return arg_reduce(k, a->y, a->x, a->axis, false, a->select_last_index != 0); }
