/* Strided copies: axes are merged, transposes are tiled, and there is a loop for each element size. */
#include "ops/util/strided.h"

#include "ops/util/interleave.h"
#include "ops/util/move.h"

enum {
    GRAIN_BYTES = 128 * 1024, /* minimum bytes of a range */
    MOST_COLUMNS = 1 << 15,   /* columns of a panel between polls */
    SHORT_ROW = 16            /* maximum elements of rows that are copied several at a time */
};

void xcvm_row_major(int rank, const int64_t *dims, ptrdiff_t strides[XCVM_MAX_RANK])
{
    ptrdiff_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= (ptrdiff_t)dims[i];
    }
}

/* Returns the same block with as few axes as possible, at least one. */
static xcvm_strided simplify(const xcvm_strided *s)
{
    xcvm_strided r = {.rank = 0};
    for (int i = 0; i < s->rank; i++) {
        int last = r.rank - 1;
        if (s->dims[i] == 1)
            continue;
        if (last >= 0 && r.to[last] == s->to[i] * (ptrdiff_t)s->dims[i] &&
            r.from[last] == s->from[i] * (ptrdiff_t)s->dims[i]) {
            r.dims[last] *= s->dims[i];
            r.to[last] = s->to[i];
            r.from[last] = s->from[i];
        } else {
            xcvm_strided_axis(&r, s->dims[i], s->to[i], s->from[i]);
        }
    }
    if (r.rank == 0)
        xcvm_strided_axis(&r, 1, 1, 1);
    return r;
}

/* Treats short runs of adjacent elements as one larger element each, and returns its size. */
static size_t widen(xcvm_strided *s, size_t size)
{
    const int last = s->rank - 1;
    const size_t run = s->dims[last], bytes = run * size;
    if (last == 0 || s->to[last] != 1 || s->from[last] != 1 || (bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16))
        return size;
    for (int i = 0; i < last; i++)
        if (s->to[i] % (ptrdiff_t)run != 0 || s->from[i] % (ptrdiff_t)run != 0)
            return size;
    for (int i = 0; i < last; i++) {
        s->to[i] /= (ptrdiff_t)run;
        s->from[i] /= (ptrdiff_t)run;
    }
    s->rank--;
    return bytes;
}

/* ---- Rows: the innermost axis ---- */

/* Elements may be unaligned, because several smaller ones may have been merged. */
#define DEFINE_ELEMENT(bits, type) typedef type element_##bits __attribute__((aligned(1), may_alias));

#define DEFINE_ROW(bits, type)                                                                                         \
    static void copy_row_##bits(type *restrict to, ptrdiff_t to_stride, const type *restrict from,                     \
                                ptrdiff_t from_stride, size_t count)                                                   \
    {                                                                                                                  \
        if (to_stride == 1) {                                                                                          \
            for (size_t i = 0; i < count; i++)                                                                         \
                to[i] = from[(ptrdiff_t)i * from_stride];                                                              \
        } else {                                                                                                       \
            for (size_t i = 0; i < count; i++)                                                                         \
                to[(ptrdiff_t)i * to_stride] = from[(ptrdiff_t)i * from_stride];                                       \
        }                                                                                                              \
    }
DEFINE_ELEMENT(8, uint8_t)
DEFINE_ELEMENT(16, uint16_t)
DEFINE_ELEMENT(32, uint32_t)
DEFINE_ELEMENT(64, uint64_t)
typedef uint64_t element_128 __attribute__((vector_size(16), aligned(1), may_alias));
DEFINE_ROW(8, element_8)
DEFINE_ROW(16, element_16)
DEFINE_ROW(32, element_32)
DEFINE_ROW(64, element_64)
DEFINE_ROW(128, element_128)

static void copy_row(size_t size, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride, size_t count)
{
    if (to_stride == 1 && from_stride == 1) {
        memcpy(to, from, count * size);
        return;
    }
    switch (size) {
    case 1:
        copy_row_8(to, to_stride, from, from_stride, count);
        break;
    case 2:
        copy_row_16(to, to_stride, from, from_stride, count);
        break;
    case 4:
        copy_row_32(to, to_stride, from, from_stride, count);
        break;
    case 8:
        copy_row_64(to, to_stride, from, from_stride, count);
        break;
    default:
        copy_row_128(to, to_stride, from, from_stride, count);
        break;
    }
}

/* Copies several short rows. */
#define DEFINE_ROWS(bits, type)                                                                                        \
    static void copy_rows_##bits(type *restrict to, ptrdiff_t to_row, ptrdiff_t to_stride, const type *restrict from,  \
                                 ptrdiff_t from_row, ptrdiff_t from_stride, size_t rows, size_t count)                 \
    {                                                                                                                  \
        for (size_t r = 0; r < rows; r++, to += to_row, from += from_row)                                              \
            for (size_t i = 0; i < count; i++)                                                                         \
                to[(ptrdiff_t)i * to_stride] = from[(ptrdiff_t)i * from_stride];                                       \
    }
DEFINE_ROWS(8, element_8)
DEFINE_ROWS(16, element_16)
DEFINE_ROWS(32, element_32)
DEFINE_ROWS(64, element_64)
DEFINE_ROWS(128, element_128)

static void copy_rows(size_t size, void *to, ptrdiff_t to_row, ptrdiff_t to_stride, const void *from,
                      ptrdiff_t from_row, ptrdiff_t from_stride, size_t rows, size_t count)
{
    switch (size) {
    case 1:
        copy_rows_8(to, to_row, to_stride, from, from_row, from_stride, rows, count);
        break;
    case 2:
        copy_rows_16(to, to_row, to_stride, from, from_row, from_stride, rows, count);
        break;
    case 4:
        copy_rows_32(to, to_row, to_stride, from, from_row, from_stride, rows, count);
        break;
    case 8:
        copy_rows_64(to, to_row, to_stride, from, from_row, from_stride, rows, count);
        break;
    default:
        copy_rows_128(to, to_row, to_stride, from, from_row, from_stride, rows, count);
        break;
    }
}

/* ---- Tiles: two axes, one contiguous in `from` and the other in `to` ---- */

/* Transposes n x n elements, n per 16-byte vector, by log2 n rounds of interleaving. */
enum { LINE = 64 };
#define DEFINE_TILE(bits, type, n, stages, low, high)                                                                  \
    typedef type vector_##bits __attribute__((vector_size(16), aligned(1), may_alias));                                \
    static inline void tile_##bits(type *to, ptrdiff_t to_stride, const type *from, ptrdiff_t from_stride)             \
    {                                                                                                                  \
        vector_##bits rows[n], next[n];                                                                                \
        for (int i = 0; i < (n); i++)                                                                                  \
            rows[i] = *(const vector_##bits *)(const void *)(from + i * from_stride);                                  \
        for (int stage = 0; stage < (stages); stage++) {                                                               \
            for (int i = 0; i < (n) / 2; i++) {                                                                        \
                next[2 * i] = low(rows[i], rows[i + (n) / 2]);                                                         \
                next[2 * i + 1] = high(rows[i], rows[i + (n) / 2]);                                                    \
            }                                                                                                          \
            for (int i = 0; i < (n); i++)                                                                              \
                rows[i] = next[i];                                                                                     \
        }                                                                                                              \
        for (int i = 0; i < (n); i++)                                                                                  \
            *(vector_##bits *)(void *)(to + i * to_stride) = rows[i];                                                  \
    }                                                                                                                  \
    /* The same for LINE / size elements in both directions, through a copy: columns with a power-of-two distance      \
     * conflict in cache sets, so each of their lines is read once, and each of the rows is written at once. */        \
    static void lines_##bits(type *to, ptrdiff_t to_stride, const type *from, ptrdiff_t from_stride)                   \
    {                                                                                                                  \
        enum { SIDE = LINE / (int)sizeof(type) };                                                                      \
        _Alignas(LINE) type copy[SIDE * SIDE];                                                                         \
        for (int j = 0; j < SIDE; j++)                                                                                 \
            memcpy(copy + j * SIDE, from + j * from_stride, LINE);                                                     \
        for (int i = 0; i < SIDE; i += (n))                                                                            \
            for (int j = 0; j < SIDE; j += (n))                                                                        \
                tile_##bits(to + i * to_stride + j, to_stride, copy + j * SIDE + i, SIDE);                             \
    }                                                                                                                  \
    /* For rows of few columns. */                                                                                     \
    static void narrow_##bits(type *restrict to, ptrdiff_t to_stride, const type *restrict from,                       \
                              ptrdiff_t from_stride, size_t rows, size_t columns)                                      \
    {                                                                                                                  \
        if (columns == 3 && to_stride == 3)                                                                            \
            for (size_t i = 0; i < rows; i++)                                                                          \
                for (int c = 0; c < 3; c++)                                                                            \
                    to[3 * i + (size_t)c] = from[c * from_stride + (ptrdiff_t)i];                                      \
        else                                                                                                           \
            for (size_t i = 0; i < rows; i++)                                                                          \
                for (size_t c = 0; c < columns; c++)                                                                   \
                    to[(ptrdiff_t)i * to_stride + (ptrdiff_t)c] = from[(ptrdiff_t)c * from_stride + (ptrdiff_t)i];     \
    }                                                                                                                  \
    /* Writes `rows` rows, at most LINE / size, of `columns` elements. Row i consists of element i of each column of   \
     * `from`. */                                                                                                      \
    static void panel_##bits(type *to, ptrdiff_t to_stride, const type *from, ptrdiff_t from_stride, size_t rows,      \
                             size_t columns, bool collide)                                                             \
    {                                                                                                                  \
        const size_t side = LINE / sizeof(type);                                                                       \
        size_t i = 0, j = 0;                                                                                           \
        for (; collide && rows == side && j + side <= columns; j += side)                                              \
            lines_##bits(to + j, to_stride, from + (ptrdiff_t)j * from_stride, from_stride);                           \
        for (; j + (n) <= columns; j += (n)) {                                                                         \
            const type *source = from + (ptrdiff_t)j * from_stride;                                                    \
            for (i = 0; i + (n) <= rows; i += (n))                                                                     \
                tile_##bits(to + (ptrdiff_t)i * to_stride + j, to_stride, source + i, from_stride);                    \
            for (; i < rows; i++)                                                                                      \
                for (int c = 0; c < (n); c++)                                                                          \
                    to[(ptrdiff_t)i * to_stride + (ptrdiff_t)j + c] = source[c * from_stride + (ptrdiff_t)i];          \
        }                                                                                                              \
        if (j < columns)                                                                                               \
            narrow_##bits(to + j, to_stride, from + (ptrdiff_t)j * from_stride, from_stride, rows, columns - j);       \
    }
DEFINE_TILE(8, element_8, 16, 4, XCVM_LOW_8, XCVM_HIGH_8)
DEFINE_TILE(16, element_16, 8, 3, XCVM_LOW_16, XCVM_HIGH_16)
DEFINE_TILE(32, element_32, 4, 2, XCVM_LOW_32, XCVM_HIGH_32)
DEFINE_TILE(64, element_64, 2, 1, XCVM_LOW_64, XCVM_HIGH_64)

static void copy_panel(size_t size, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride, size_t rows,
                       size_t columns, bool collide)
{
    switch (size) {
    case 1:
        panel_8(to, to_stride, from, from_stride, rows, columns, collide);
        break;
    case 2:
        panel_16(to, to_stride, from, from_stride, rows, columns, collide);
        break;
    case 4:
        panel_32(to, to_stride, from, from_stride, rows, columns, collide);
        break;
    case 8:
        panel_64(to, to_stride, from, from_stride, rows, columns, collide);
        break;
    default:
        for (size_t i = 0; i < rows; i++)
            copy_row_128((element_128 *)to + (ptrdiff_t)i * to_stride, 1, (const element_128 *)from + i, from_stride,
                         columns);
        break;
    }
}

/* ---- Iteration over the outer axes ---- */

typedef struct strided_copy {
    const xcvm_kernel *k;
    xcvm_strided outer; /* the iterated axes, one unit per step */
    size_t size;
    char *to;
    const char *from;
    /* Axes within a unit. For tiles, columns are contiguous in `to`. */
    size_t columns;
    ptrdiff_t column_to, column_from;
    size_t rows, panel; /* tiles only: total rows and rows of a unit */
    ptrdiff_t row_to;
    xcvm_strided_panel panel_of_four; /* tiles of four-byte elements; NULL: generic tiles */
    bool collide;                     /* rows or columns have power-of-two distances that conflict in caches */
} strided_copy;

xcvm_position xcvm_position_at(const xcvm_strided *s, size_t unit)
{
    xcvm_position p = {.to = 0};
    for (int i = s->rank - 1; i >= 0; i--) {
        p.index[i] = unit % s->dims[i];
        unit /= s->dims[i];
        p.to += (ptrdiff_t)p.index[i] * s->to[i];
        p.from += (ptrdiff_t)p.index[i] * s->from[i];
    }
    return p;
}

/* Advances past `rows` units on the last axis. */
static void finish_rows(const xcvm_strided *outer, xcvm_position *p, size_t rows)
{
    const int last = outer->rank - 1;
    p->index[last] += rows - 1;
    p->to += (ptrdiff_t)(rows - 1) * outer->to[last];
    p->from += (ptrdiff_t)(rows - 1) * outer->from[last];
    xcvm_position_advance(outer, p);
}

/* Units are elements here, so that a few long rows are distributed as evenly as many short ones. */
static void copy_row_range(void *context, size_t begin, size_t end, int worker)
{
    const strided_copy *w = context;
    (void)worker;
    xcvm_position p = xcvm_position_at(&w->outer, begin / w->columns);
    size_t column = begin % w->columns;
    const int last = w->outer.rank - 1;
    while (begin < end) {
        if (column == 0 && w->columns <= SHORT_ROW && last >= 0) {
            const size_t left = w->outer.dims[last] - p.index[last], whole = (end - begin) / w->columns;
            const size_t rows = left < whole ? left : whole;
            copy_rows(w->size, w->to + p.to * (ptrdiff_t)w->size, w->outer.to[last], w->column_to,
                      w->from + p.from * (ptrdiff_t)w->size, w->outer.from[last], w->column_from, rows, w->columns);
            if (rows != 0) {
                finish_rows(&w->outer, &p, rows);
                begin += rows * w->columns;
                continue;
            }
        }
        if (column == 0 && last >= 0 && w->column_to == 1 && w->column_from <= 1 && w->column_from >= 0) {
            const size_t left = w->outer.dims[last] - p.index[last], whole = (end - begin) / w->columns;
            const size_t rows = left < whole ? left : whole, bytes = w->columns * w->size;
            char *to = w->to + p.to * (ptrdiff_t)w->size;
            const char *from = w->from + p.from * (ptrdiff_t)w->size;
            for (size_t r = 0; r < rows; r++) {
                if (w->column_from == 0)
                    (void)xcvm_move_fill(w->k, to, from, w->size, w->columns);
                else
                    memcpy(to, from, bytes);
                to += w->outer.to[last] * (ptrdiff_t)w->size;
                from += w->outer.from[last] * (ptrdiff_t)w->size;
            }
            if (rows != 0) {
                finish_rows(&w->outer, &p, rows);
                begin += rows * w->columns;
                continue;
            }
        }
        size_t count = w->columns - column < end - begin ? w->columns - column : end - begin;
        ptrdiff_t to = p.to + (ptrdiff_t)column * w->column_to, from = p.from + (ptrdiff_t)column * w->column_from;
        if (w->column_to == 1 && w->column_from == 0)
            (void)xcvm_move_fill(w->k, w->to + to * (ptrdiff_t)w->size, w->from + from * (ptrdiff_t)w->size, w->size,
                                 count);
        else
            copy_row(w->size, w->to + to * (ptrdiff_t)w->size, w->column_to, w->from + from * (ptrdiff_t)w->size,
                     w->column_from, count);
        begin += count;
        column = 0;
        xcvm_position_advance(&w->outer, &p);
    }
}

/* A unit is a panel of rows. */
static void copy_panel_range(void *context, size_t begin, size_t end, int worker)
{
    const strided_copy *w = context;
    (void)worker;
    size_t panels = (w->rows + w->panel - 1) / w->panel;
    xcvm_position p = xcvm_position_at(&w->outer, begin / panels);
    size_t panel = begin % panels;
    for (; begin < end; begin++) {
        size_t row = panel * w->panel;
        size_t rows = w->rows - row < w->panel ? w->rows - row : w->panel;
        ptrdiff_t to = p.to + (ptrdiff_t)row * w->row_to, from = p.from + (ptrdiff_t)row;
        for (size_t column = 0; column < w->columns && (column == 0 || xcvm_kernel_poll(w->k) == XCVM_OK);
             column += MOST_COLUMNS) {
            const ptrdiff_t place = from + (ptrdiff_t)column * w->column_from;
            char *panel_to = w->to + (to + (ptrdiff_t)column) * (ptrdiff_t)w->size;
            const char *panel_from = w->from + place * (ptrdiff_t)w->size;
            const size_t columns = xcvm_min(w->columns - column, MOST_COLUMNS);
            if (w->size != 4 || w->panel_of_four == NULL ||
                !w->panel_of_four(panel_to, w->row_to, panel_from, w->column_from, rows, columns))
                copy_panel(w->size, panel_to, w->row_to, panel_from, w->column_from, rows, columns, w->collide);
        }
        if (++panel == panels) {
            panel = 0;
            xcvm_position_advance(&w->outer, &p);
        }
    }
}

xcvm_status xcvm_strided_copy(const xcvm_kernel *k, const xcvm_strided *s, size_t size, void *to, const void *from)
{
    return xcvm_strided_copy_by(k, s, size, to, from, NULL);
}

xcvm_status xcvm_strided_copy_by(const xcvm_kernel *k, const xcvm_strided *s, size_t size, void *to, const void *from,
                                 xcvm_strided_panel panel)
{
    size_t count = 1;
    for (int i = 0; i < s->rank; i++)
        count *= s->dims[i];
    if (count == 0)
        return XCVM_OK;
    strided_copy w = {.k = k, .outer = simplify(s), .to = to, .from = from, .panel_of_four = panel};
    xcvm_strided *o = &w.outer;
    count *= size;
    w.size = size = widen(o, size);
    count /= size;
    int last = --o->rank;
    w.columns = o->dims[last];
    w.column_to = o->to[last];
    w.column_from = o->from[last];
    int rows = -1;
    for (int i = 0; i < last && w.column_to == 1 && w.column_from != 1 && w.column_from != 0; i++)
        if (o->from[i] == 1)
            rows = i;
    if (rows < 0)
        return xcvm_kernel_parallel(k, count, GRAIN_BYTES / size, copy_row_range, &w);
    w.rows = o->dims[rows];
    w.row_to = o->to[rows];
    for (int i = rows; i + 1 < o->rank; i++) {
        o->dims[i] = o->dims[i + 1];
        o->to[i] = o->to[i + 1];
        o->from[i] = o->from[i + 1];
    }
    o->rank--;
    /* One cache line of `from` at a time, written to as many rows. */
    w.panel = size < 16 ? LINE / size : 4;
    if (w.columns < 16 / size)
        w.panel = 1024;
    w.collide = w.row_to * (ptrdiff_t)size % 512 == 0 || w.column_from * (ptrdiff_t)size % 512 == 0;
    size_t units = count / (w.rows * w.columns) * ((w.rows + w.panel - 1) / w.panel);
    size_t unit_bytes = w.panel * w.columns * size;
    return xcvm_kernel_parallel(k, units, GRAIN_BYTES / unit_bytes + 1, copy_panel_range, &w);
}
