/* Reductions over any axes: selection of loops, partial results of threads, and their combination. */
#include "ops/reduce/reduction.h"

#include "ops/util/convert.h"

#include <math.h>

/* The tensor's axes, with adjacent ones of a kind merged: an inner axis, which is reduced or kept, and the others. */
typedef struct layout {
    bool inner_reduced;
    size_t inner;
    int kept_rank, reduced_rank; /* of the other axes */
    size_t kept_dims[XCVM_MAX_RANK], kept_strides[XCVM_MAX_RANK];
    size_t reduced_dims[XCVM_MAX_RANK], reduced_strides[XCVM_MAX_RANK];
    size_t groups;       /* product of kept_dims */
    size_t rows, stride; /* if inner is kept: the last reduced axis, separate from the others */
    size_t combinations; /* product of reduced_dims */
    size_t outputs;      /* elements of the result */
    size_t reduced;      /* elements per result */
} layout;

static void append_axis(size_t dim, size_t stride, int *rank, size_t *dims, size_t *strides)
{
    dims[*rank] = dim;
    strides[(*rank)++] = stride;
}

static void lay_out(layout *l, const xcvm_value *x, uint32_t mask)
{
    /* Merged axes, the last one first. */
    size_t dims[XCVM_MAX_RANK], strides[XCVM_MAX_RANK], stride = 1;
    bool reduced[XCVM_MAX_RANK];
    int rank = 0;
    *l = (layout){.groups = 1, .rows = 1, .combinations = 1, .outputs = 1, .reduced = 1};
    for (int d = x->rank - 1; d >= 0; d--) {
        size_t dim = (size_t)x->dims[d];
        bool is_reduced = (mask >> d & 1) != 0;
        *(is_reduced ? &l->reduced : &l->outputs) *= dim;
        if (dim == 1)
            continue;
        if (rank > 0 && reduced[rank - 1] == is_reduced) {
            dims[rank - 1] *= dim;
        } else {
            dims[rank] = dim;
            strides[rank] = stride;
            reduced[rank++] = is_reduced;
        }
        stride *= dim;
    }
    l->inner = rank > 0 ? dims[0] : 1;
    l->inner_reduced = rank == 0 || reduced[0];
    int from = 1;
    if (!l->inner_reduced && rank > 1) {
        l->rows = dims[1];
        l->stride = strides[1];
        from = 2;
    }
    for (int i = rank - 1; i >= from; i--) {
        if (reduced[i])
            append_axis(dims[i], strides[i], &l->reduced_rank, l->reduced_dims, l->reduced_strides);
        else
            append_axis(dims[i], strides[i], &l->kept_rank, l->kept_dims, l->kept_strides);
        *(reduced[i] ? &l->combinations : &l->groups) *= dims[i];
    }
}

static size_t offset_of(size_t index, int rank, const size_t *dims, const size_t *strides)
{
    if (rank == 1)
        return index * strides[0];
    size_t offset = 0;
    for (int d = rank - 1; d >= 0; d--) {
        offset += index % dims[d] * strides[d];
        index /= dims[d];
    }
    return offset;
}

/* ---- Accumulation ---- */

typedef struct reduction_loop {
    const xcvm_kernel *k;
    layout l;
    xcvm_reduce_op reduce_op;
    xcvm_dtype dtype;
    const xcvm_reduce_loops *loops;
    bool whole; /* integer arithmetic */
    const void *data;
    const double *shifts; /* one per output, or NULL */
    xcvm_partial start;
    xcvm_partial *partials; /* `chunks` times all outputs, by chunk */
    size_t blocks;          /* blocks of columns if inner is kept */
    size_t pieces;          /* number of pieces of the inner axis or the rows */
    size_t piece;           /* elements of inner, or rows, per piece */
    size_t chunks;          /* parts of one output's work that may run on different threads */
    size_t units;           /* combinations x pieces in one chunk */
} reduction_loop;

/* Processes unit `u` of the outputs of the group that begins at `base`, `count` columns from `column`. */
static void reduce_unit(const reduction_loop *t, size_t base, size_t u, size_t column, size_t count,
                        const double *shifts, xcvm_partial *acc)
{
    const layout *l = &t->l;
    size_t from = u % t->pieces * t->piece;
    size_t first =
        base +
        (l->reduced_rank != 0 ? offset_of(u / t->pieces, l->reduced_rank, l->reduced_dims, l->reduced_strides) : 0);
    if (l->inner_reduced) {
        size_t n = l->inner - from < t->piece ? l->inner - from : t->piece;
        t->loops->run(t->reduce_op, t->dtype, t->data, first + from, n, shifts != NULL ? *shifts : 0.0, acc);
    } else {
        size_t n = l->rows - from < t->piece ? l->rows - from : t->piece;
        t->loops->columns(t->reduce_op, t->dtype, t->data, first + from * l->stride + column, n, l->stride, count,
                          shifts, acc);
    }
}

/* For results of one contiguous piece each. The range is over groups. */
static void reduce_pieces(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const reduction_loop *t = context;
    const layout *l = &t->l;
    for (size_t i = begin; i < end; i++) {
        size_t first = l->kept_rank != 0 ? offset_of(i, l->kept_rank, l->kept_dims, l->kept_strides) : 0;
        t->partials[i] = t->start;
        t->loops->run(t->reduce_op, t->dtype, t->data, first, l->inner, t->shifts != NULL ? t->shifts[i] : 0.0,
                      &t->partials[i]);
    }
}

/* For results of short adjacent pieces. The range is over groups. */
static void reduce_lines(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const reduction_loop *t = context;
    const layout *l = &t->l;
    for (size_t i = begin; i < end; i++)
        t->partials[i] = t->start;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t u = 0; u < l->combinations; u++) {
        if (xcvm_poll_after(&poller, (end - begin) * l->inner) != XCVM_OK)
            return;
        size_t first = l->reduced_rank != 0 ? offset_of(u, l->reduced_rank, l->reduced_dims, l->reduced_strides) : 0;
        t->loops->lines(t->reduce_op, t->dtype, t->data, first + begin * l->inner, end - begin, l->inner,
                        t->shifts != NULL ? t->shifts + begin : NULL, t->partials + begin);
    }
}

static bool has_lines(const reduction_loop *t)
{
    const layout *l = &t->l;
    return l->inner_reduced && l->inner <= XCVM_REDUCE_LINE && t->chunks == 1 && l->kept_rank == 1 &&
           l->kept_strides[0] == l->inner;
}

/* The range is over chunks x groups x blocks. */
static void reduce_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const reduction_loop *t = context;
    const layout *l = &t->l;
    size_t all = l->combinations * t->pieces, width = l->inner_reduced ? 1 : l->inner;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t i = begin; i < end; i++) {
        size_t group = i / t->blocks % l->groups, chunk = i / t->blocks / l->groups;
        size_t column = i % t->blocks * XCVM_REDUCE_COLUMNS;
        size_t count = width - column < XCVM_REDUCE_COLUMNS ? width - column : XCVM_REDUCE_COLUMNS;
        size_t base = l->kept_rank != 0 ? offset_of(group, l->kept_rank, l->kept_dims, l->kept_strides) : 0;
        size_t output = group * width + column;
        xcvm_partial *acc = t->partials + chunk * l->outputs + output;
        for (size_t c = 0; c < count; c++)
            acc[c] = t->start;
        size_t last = (chunk + 1) * t->units < all ? (chunk + 1) * t->units : all;
        for (size_t u = chunk * t->units; u < last && xcvm_poll_after(&poller, t->piece * count) == XCVM_OK; u++)
            reduce_unit(t, base, u, column, count, t->shifts != NULL ? t->shifts + output : NULL, acc);
    }
}

static void merge(xcvm_reduce_op reduce_op, bool whole, xcvm_partial *acc, const xcvm_partial *more)
{
    if (whole) {
        int64_t a = acc->i, b = more->i;
        acc->i = reduce_op == XCVM_REDUCE_MAX    ? (a > b ? a : b)
                 : reduce_op == XCVM_REDUCE_MIN  ? (a < b ? a : b)
                 : reduce_op == XCVM_REDUCE_PROD ? (int64_t)((uint64_t)a * (uint64_t)b)
                                                 : (int64_t)((uint64_t)a + (uint64_t)b);
    } else {
        double a = acc->f, b = more->f;
        acc->f = reduce_op == XCVM_REDUCE_MAX    ? (a > b || isnan(a) ? a : b)
                 : reduce_op == XCVM_REDUCE_MIN  ? (a < b || isnan(a) ? a : b)
                 : reduce_op == XCVM_REDUCE_PROD ? a * b
                                                 : a + b;
    }
}

/* Elements of a unit; minimum elements per thread; number of outputs from which an output's work is not split. */
enum { PIECE = 16384, GRAIN = 16384, MANY_OUTPUTS = 32 };

/* Splits the work, depending only on the shape. */
static void divide(reduction_loop *t)
{
    const layout *l = &t->l;
    size_t width = l->inner_reduced ? 1 : l->inner, length = l->inner_reduced ? l->inner : l->rows;
    size_t columns = width < XCVM_REDUCE_COLUMNS ? width : XCVM_REDUCE_COLUMNS;
    t->blocks = (width + XCVM_REDUCE_COLUMNS - 1) / XCVM_REDUCE_COLUMNS;
    t->piece = PIECE / columns;
    t->pieces = (length + t->piece - 1) / t->piece;
    t->units = l->combinations * t->pieces;
    t->chunks = 1;
    if (l->groups * t->blocks < MANY_OUTPUTS && l->reduced * columns >= 4 * (size_t)PIECE) {
        size_t work = length / t->pieces * columns + 1, least = (2 * (size_t)PIECE + work - 1) / work;
        size_t units = (t->units + MANY_OUTPUTS - 1) / MANY_OUTPUTS;
        units = units < least ? least : units;
        t->chunks = (t->units + units - 1) / units;
        t->units = units;
    }
}

static xcvm_status reduce_all(reduction_loop *t)
{
    const layout *l = &t->l;
    size_t width = l->inner_reduced ? 1 : l->inner, count = t->chunks * l->groups * t->blocks;
    size_t work = l->reduced / t->chunks * (width / t->blocks) + 16;
    bool pieces = l->inner_reduced && l->combinations * t->pieces == 1;
    xcvm_range_body body = has_lines(t) ? reduce_lines : pieces ? reduce_pieces : reduce_range;
    XCVM_TRY(xcvm_kernel_parallel(t->k, count, GRAIN / work + 1, body, t));
    for (size_t c = 1; c < t->chunks; c++)
        for (size_t i = 0; i < l->outputs; i++)
            merge(t->reduce_op, t->whole, &t->partials[i], &t->partials[c * l->outputs + i]);
    return XCVM_OK;
}

/* ---- Finishing ---- */

static xcvm_reduce_op reduce_of(xcvm_opcode opcode)
{
    switch (opcode) {
    case XCVM_OP_ReduceMax:
        return XCVM_REDUCE_MAX;
    case XCVM_OP_ReduceMin:
        return XCVM_REDUCE_MIN;
    case XCVM_OP_ReduceProd:
        return XCVM_REDUCE_PROD;
    case XCVM_OP_ReduceL1:
        return XCVM_REDUCE_SUM_ABS;
    case XCVM_OP_ReduceL2:
    case XCVM_OP_ReduceSumSquare:
        return XCVM_REDUCE_SUM_SQUARE;
    case XCVM_OP_ReduceLogSumExp:
        return XCVM_REDUCE_SUM_EXP;
    default:
        return XCVM_REDUCE_SUM;
    }
}

/* Bounds of an integer type's range, in the order of a partial. */
static int64_t extreme_of(xcvm_dtype dtype, bool highest)
{
    int bits = dtype == XCVM_BOOL ? 1 : xcvm_dtype_bits(dtype);
    if (bits == 64)
        return highest ? INT64_MAX : INT64_MIN;
    if (xcvm_dtype_in(dtype, XCVM_TYPES_SIGNED))
        return highest ? (INT64_C(1) << (bits - 1)) - 1 : -(INT64_C(1) << (bits - 1));
    return highest ? (INT64_C(1) << bits) - 1 : 0;
}

static xcvm_partial start_of(xcvm_reduce_op reduce_op, bool whole, xcvm_dtype dtype)
{
    bool extreme = reduce_op == XCVM_REDUCE_MAX || reduce_op == XCVM_REDUCE_MIN;
    if (whole)
        return (xcvm_partial){.i = extreme                         ? extreme_of(dtype, reduce_op == XCVM_REDUCE_MIN)
                                   : reduce_op == XCVM_REDUCE_PROD ? 1
                                                                   : 0};
    return (xcvm_partial){.f = reduce_op == XCVM_REDUCE_MAX    ? -(double)INFINITY
                               : reduce_op == XCVM_REDUCE_MIN  ? (double)INFINITY
                               : reduce_op == XCVM_REDUCE_PROD ? 1.0
                                                               : 0.0};
}

typedef struct finish {
    xcvm_opcode opcode;
    bool whole;
    double count; /* elements per result */
    const xcvm_partial *partials;
    const double *shifts;
    xcvm_value *y;
} finish;

static void finish_floats(const finish *f, size_t at, size_t n)
{
    double block[XCVM_BLOCK];
    for (size_t i = 0; i < n; i++)
        block[i] = f->partials[at + i].f;
    if (f->opcode == XCVM_OP_ReduceMean)
        for (size_t i = 0; i < n; i++)
            block[i] /= f->count;
    else if (f->opcode == XCVM_OP_ReduceL2)
        for (size_t i = 0; i < n; i++)
            block[i] = sqrt(block[i]);
    else if (f->opcode == XCVM_OP_ReduceLogSumExp)
        for (size_t i = 0; i < n; i++)
            block[i] = log(block[i]) + f->shifts[at + i];
    if (f->y->dtype == XCVM_F32)
        for (size_t i = 0; i < n; i++)
            XCVM_DATA(float, f->y)[at + i] = (float)block[i];
    else
        xcvm_store_f64(f->y->dtype, f->y->data, at, n, block, true);
}

static int64_t mean_of(int64_t sum, double count, bool is_unsigned)
{
    uint64_t n = (uint64_t)count;
    if (n == 0)
        return 0;
    return is_unsigned ? (int64_t)((uint64_t)sum / n) : sum / (int64_t)n;
}

static void finish_ints(const finish *f, size_t at, size_t n)
{
    int64_t block[XCVM_BLOCK];
    bool is_unsigned = f->y->dtype == XCVM_U64;
    bool flipped = is_unsigned && (f->opcode == XCVM_OP_ReduceMax || f->opcode == XCVM_OP_ReduceMin);
    for (size_t i = 0; i < n; i++) {
        int64_t v = f->partials[at + i].i;
        if (f->opcode == XCVM_OP_ReduceMean)
            v = mean_of(v, f->count, is_unsigned);
        else if (f->opcode == XCVM_OP_ReduceL2)
            v = (int64_t)sqrt((double)(uint64_t)v); /* squares are summed modulo 2^64 */
        else if (flipped)
            v = (int64_t)((uint64_t)v ^ UINT64_C(1) << 63);
        block[i] = v;
    }
    xcvm_store_i64(f->y->dtype, f->y->data, at, n, block);
}

static void finish_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const finish *f = context;
    for (size_t at = begin; at < end; at += XCVM_BLOCK) {
        size_t n = end - at < XCVM_BLOCK ? end - at : XCVM_BLOCK;
        if (f->whole)
            finish_ints(f, at, n);
        else
            finish_floats(f, at, n);
    }
}

/* For the log of a sum of exponentials: the maximum is subtracted before and added after. */
static xcvm_status shift_by_greatest(reduction_loop *t, double *shifts)
{
    t->reduce_op = XCVM_REDUCE_MAX;
    t->start = start_of(t->reduce_op, false, t->dtype);
    XCVM_TRY(reduce_all(t));
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t i = 0; i < t->l.outputs; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        double greatest = t->partials[i].f;
        shifts[i] = isfinite(greatest) ? greatest : 0.0;
    }
    t->shifts = shifts;
    t->reduce_op = XCVM_REDUCE_SUM_EXP;
    return XCVM_OK;
}

xcvm_status xcvm_reduce(xcvm_kernel *k, xcvm_opcode opcode, const xcvm_reduce_set *set, xcvm_value *y,
                        const xcvm_value *x, const xcvm_value *axes, bool noop_with_empty_axes)
{
    uint32_t mask;
    bool known;
    XCVM_TRY(xcvm_reduction_axes(k->error, axes, noop_with_empty_axes, x->rank, &mask, &known));
    bool whole = !xcvm_dtype_is_float(x->dtype) && opcode != XCVM_OP_ReduceLogSumExp;
    reduction_loop t = {.k = k, .reduce_op = reduce_of(opcode), .dtype = x->dtype, .whole = whole, .data = x->data};
    bool narrow = xcvm_dtype_is_float(x->dtype) && x->dtype != XCVM_F64;
    t.loops = whole ? set->whole : narrow ? set->narrow : set->f64;
    lay_out(&t.l, x, mask);
    if (t.l.outputs == 0)
        return XCVM_OK;
    divide(&t);
    size_t arrays, bytes;
    bool fits = xcvm_size_add(t.chunks, opcode == XCVM_OP_ReduceLogSumExp, &arrays) &&
                xcvm_size_mul(arrays, t.l.outputs, &bytes) && xcvm_size_mul(bytes, sizeof(xcvm_partial), &bytes);
    XCVM_CHECK(k->error, fits, OUT_OF_RANGE, "x is too large to be reduced");
    t.partials = xcvm_kernel_scratch(k, bytes);
    if (t.partials == NULL)
        return XCVM_OUT_OF_MEMORY;
    if (opcode == XCVM_OP_ReduceLogSumExp)
        XCVM_TRY(shift_by_greatest(&t, (double *)(t.partials + t.chunks * t.l.outputs)));
    t.start = start_of(t.reduce_op, whole, x->dtype);
    XCVM_TRY(reduce_all(&t));
    finish f = {opcode, whole, (double)t.l.reduced, t.partials, t.shifts, y};
    return xcvm_kernel_parallel(k, t.l.outputs, GRAIN, finish_range, &f);
}
