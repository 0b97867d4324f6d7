/* EyeLike and Trilu: matrices defined by their diagonals. */
#include "ops/util/index.h"
#include "ops/util/move.h"

XCVM_SHAPE_RULE_OF(EyeLike)
{
    XCVM_CHECK(t->error, a->x->rank < 0 || a->x->rank == 2, SHAPE_MISMATCH, "x has the wrong rank (%d; expected 2)",
               a->x->rank);
    xcvm_dtype dtype = a->dtype != XCVM_NO_DTYPE ? a->dtype : a->x->dtype;
    XCVM_CHECK(t->error, dtype == XCVM_NO_DTYPE || xcvm_dtype_in(dtype, XCVM_TYPES_REAL_OR_BOOL), TYPE_MISMATCH,
               "a result of element type %s is not possible", xcvm_dtype_name(dtype));
    if (a->x->rank < 0)
        xcvm_set_unknown(a->y, dtype, 2);
    else
        xcvm_value_set_tensor(a->y, dtype, 2, a->x->dims);
    return XCVM_OK;
}

/* Writes the bytes of the number 1. */
static void one(xcvm_dtype dtype, unsigned char bytes[8])
{
    uint64_t integer = 1;
    uint16_t half = dtype == XCVM_F16 ? 0x3c00 : 0x3f80;
    float single = 1;
    double real = 1;
    memset(bytes, 0, 8);
    if (dtype == XCVM_F32)
        memcpy(bytes, &single, sizeof single);
    else if (dtype == XCVM_F64)
        memcpy(bytes, &real, sizeof real);
    else if (dtype == XCVM_F16 || dtype == XCVM_BF16)
        memcpy(bytes, &half, sizeof half);
    else if (xcvm_dtype_size(dtype) == 1)
        bytes[0] = 1;
    else if (xcvm_dtype_size(dtype) == 2)
        memcpy(bytes, &(uint16_t){1}, 2);
    else if (xcvm_dtype_size(dtype) == 4)
        memcpy(bytes, &(uint32_t){1}, 4);
    else
        memcpy(bytes, &integer, sizeof integer);
}

/* Number of elements of row `row`, among `columns`, before column row + k; in [0, columns]. */
static int64_t diagonal(int64_t row, int64_t k, int64_t columns)
{
    int64_t column;
    if (__builtin_add_overflow(row, k, &column))
        return columns;
    return column < 0 ? 0 : column > columns ? columns : column;
}

XCVM_KERNEL(EyeLike)
{
    unsigned char element[16] = {0};
    size_t size = xcvm_dtype_size(a->y->dtype);
    int64_t rows = a->y->dims[0], columns = a->y->dims[1];
    one(a->y->dtype, element);
    XCVM_TRY(xcvm_kernel_fill(k, a->y->data, 0, a->y->bytes));
    xcvm_poller poller = xcvm_poller_of(k);
    for (int64_t i = 0; i < rows; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        int64_t column = diagonal(i, a->k, columns);
        int64_t exact;
        if (column < columns && !__builtin_add_overflow(i, a->k, &exact) && exact == column)
            xcvm_move_element(XCVM_DATA(char, a->y) + (size_t)(i * columns + column) * size, element, size);
    }
    return XCVM_OK;
}

typedef struct triangle {
    const xcvm_kernel *kernel;
    const xcvm_Trilu_args *a;
    int64_t rows, columns, k;
    size_t size;
} triangle;

static void trilu_rows(void *context, size_t begin, size_t end, int worker)
{
    const triangle *s = context;
    (void)worker;
    size_t row_bytes = (size_t)s->columns * s->size;
    for (size_t i = begin; i < end; i++) {
        const char *from = XCVM_CDATA(char, s->a->x) + i * row_bytes;
        char *to = XCVM_DATA(char, s->a->y) + i * row_bytes;
        int64_t row = (int64_t)i % s->rows;
        /* The lower triangle includes the diagonal, so it ends before the next one. */
        int64_t cut = diagonal(s->a->upper ? row : row + 1, s->k, s->columns);
        size_t first = (size_t)cut * s->size, second = row_bytes - first;
        (void)xcvm_kernel_fill(s->kernel, s->a->upper ? to : to + first, 0, s->a->upper ? first : second);
        if (s->a->upper)
            (void)xcvm_kernel_copy(s->kernel, to + first, from + first, second);
        else
            (void)xcvm_kernel_copy(s->kernel, to, from, first);
    }
}

XCVM_KERNEL(Trilu)
{
    const xcvm_value *x = a->x;
    XCVM_CHECK(k->error, x->rank >= 2, SHAPE_MISMATCH, "x has the wrong rank (%d; expected at least 2)", x->rank);
    triangle s = {.kernel = k, .a = a, .rows = x->dims[x->rank - 2], .columns = x->dims[x->rank - 1]};
    s.size = xcvm_dtype_size(x->dtype);
    if (a->k != NULL)
        XCVM_TRY(xcvm_read_int(k->error, a->k, "k", &s.k));
    if (xcvm_element_count(x) == 0)
        return XCVM_OK;
    return xcvm_kernel_parallel(k, xcvm_element_count(x) / (size_t)s.columns, 65536 / ((size_t)s.columns * s.size) + 1,
                                trilu_rows, &s);
}
