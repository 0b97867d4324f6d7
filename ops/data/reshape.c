/* Reshape, Flatten, Squeeze and Unsqueeze: the same elements in another shape. */
#include "ops/util/move.h"

/* Cancels common symbols and numbers from both products, so that the quotient may be known although dimensions are not.
 */
static void cancel(int64_t *from, int from_rank, int64_t *to, int to_rank)
{
    for (int i = 0; i < from_rank; i++) {
        if (from[i] == XCVM_ANY_DIM || from[i] == 1)
            continue;
        for (int j = 0; j < to_rank; j++)
            if (to[j] == from[i]) {
                from[i] = to[j] = 1;
                break;
            }
    }
}

/* Returns true if the product of known dimensions overflows, which is possible for an empty tensor. */
static bool overflows(const int64_t *dims, int begin, int end)
{
    for (int i = begin; i < end; i++)
        if (dims[i] < 0)
            return false;
    return xcvm_dims_product(dims, begin, end) < 0;
}

/* Product of the known dimensions; 0 on overflow if there are unknown ones. */
static int64_t known_part(const int64_t *dims, int rank)
{
    int64_t product = 1;
    for (int i = 0; i < rank; i++)
        if (dims[i] >= 0 && __builtin_mul_overflow(product, dims[i], &product))
            return 0;
    return product;
}

static int unknowns(const int64_t *dims, int rank, int64_t *last)
{
    int count = 0;
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0) {
            count++;
            if (last != NULL)
                *last = dims[i];
        }
    return count;
}

/* Finds the dimension, 1 in `to`, that makes `to` as large as `from`. Changes both. */
static xcvm_status find_rest(xcvm_error *error, int64_t *from, int from_rank, int64_t *to, int to_rank, int64_t *rest)
{
    cancel(from, from_rank, to, to_rank);
    XCVM_CHECK(error, !overflows(to, 0, to_rank) && !overflows(from, 0, from_rank), OUT_OF_RANGE,
               "the product of the dimensions overflows");
    int64_t whole = known_part(from, from_rank), part = known_part(to, to_rank), symbol = XCVM_ANY_DIM;
    int symbols = unknowns(from, from_rank, &symbol);
    if (unknowns(to, to_rank, NULL) != 0 || (symbols != 0 && (symbols != 1 || whole != part || whole == 0))) {
        *rest = XCVM_ANY_DIM;
        return XCVM_OK;
    }
    if (symbols == 1) {
        *rest = symbol;
        return XCVM_OK;
    }
    XCVM_CHECK(error, part != 0 && whole % part == 0, SHAPE_MISMATCH,
               "no dimension in place of -1 makes the shape hold the elements of x: %lld are to be a multiple of %lld",
               (long long)whole, (long long)part);
    *rest = whole / part;
    return XCVM_OK;
}

/* The dimensions requested by the elements of `shape`. */
typedef struct wanted {
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    int rest;        /* index of -1, or -1 if there is none */
    unsigned copied; /* bit mask of dimensions copied from x */
} wanted;

static xcvm_status read_shape(const xcvm_inference *t, const xcvm_Reshape_args *a, wanted *w, bool *known)
{
    const xcvm_value *x = a->x;
    size_t count;
    *w = (wanted){.rest = -1};
    XCVM_TRY(xcvm_read_shape(t->error, a->shape, w->dims, &count, known));
    w->rank = *known ? (int)count : 0;
    for (int i = 0; i < w->rank; i++) {
        int64_t *dim = &w->dims[i];
        XCVM_CHECK(t->error, *dim >= -1, OUT_OF_RANGE, "element %d of shape is %lld", i, (long long)*dim);
        if (*dim == -1) {
            XCVM_CHECK(t->error, w->rest < 0, INVALID_ARGUMENT, "shape has more than one -1");
            w->rest = i;
        } else if (*dim == 0 && !a->allowzero) {
            XCVM_CHECK(t->error, x->rank < 0 || i < x->rank, OUT_OF_RANGE,
                       "element %d of shape is 0, but x has no such dimension to take", i);
            *dim = x->rank < 0 ? XCVM_ANY_DIM : x->dims[i];
            w->copied |= 1U << i;
        }
    }
    return XCVM_OK;
}

/* Computes the dimension that replaces -1. */
static xcvm_status fill_rest(const xcvm_inference *t, const xcvm_value *x, wanted *w)
{
    int64_t from[XCVM_MAX_RANK], to[XCVM_MAX_RANK];
    memcpy(from, x->dims, sizeof from);
    memcpy(to, w->dims, sizeof to);
    to[w->rest] = 1;
    /* Copied dimensions cancel even if unknown. */
    for (int i = 0; i < w->rank; i++)
        if (w->copied >> i & 1)
            from[i] = to[i] = 1;
    return find_rest(t->error, from, x->rank, to, w->rank, &w->dims[w->rest]);
}

/* Without -1, checks that the element counts agree, if both are known. */
static xcvm_status check_count(const xcvm_inference *t, const xcvm_value *x, const wanted *w)
{
    char from[192], to[192];
    int64_t have = xcvm_dims_product(x->dims, 0, x->rank), want = xcvm_dims_product(w->dims, 0, w->rank);
    bool fits = !overflows(w->dims, 0, w->rank) || have < 0;
    XCVM_CHECK(t->error, fits && !xcvm_dims_differ(have, want), SHAPE_MISMATCH,
               "x of shape %s has %lld elements, the shape %s holds %lld",
               xcvm_dims_describe(x->rank, x->dims, from, sizeof from), (long long)have,
               xcvm_dims_describe(w->rank, w->dims, to, sizeof to), (long long)want);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(Reshape)
{
    wanted w;
    bool known;
    XCVM_TRY(read_shape(t, a, &w, &known));
    if (!known) {
        bool length = a->shape->rank == 1 && a->shape->dims[0] >= 0;
        xcvm_set_unknown(a->y, a->y->dtype, length ? (int)a->shape->dims[0] : -1);
        return XCVM_OK;
    }
    if (a->x->rank >= 0 && w.rest >= 0)
        XCVM_TRY(fill_rest(t, a->x, &w));
    else if (a->x->rank >= 0)
        XCVM_TRY(check_count(t, a->x, &w));
    xcvm_value_set_tensor(a->y, a->y->dtype, w.rank, w.dims);
    return XCVM_OK;
}

XCVM_KERNEL(Reshape) { return xcvm_move_all(k, a->y, a->x); }

XCVM_SHAPE_RULE_OF(Flatten)
{
    const xcvm_value *x = a->x;
    if (x->rank < 0) {
        xcvm_set_unknown(a->y, a->y->dtype, 2);
        return XCVM_OK;
    }
    XCVM_CHECK(t->error, a->axis >= -x->rank && a->axis <= x->rank, OUT_OF_RANGE, "axis %lld is not in [-%d, %d]",
               (long long)a->axis, x->rank, x->rank);
    int axis = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    XCVM_CHECK(t->error, !overflows(x->dims, 0, axis) && !overflows(x->dims, axis, x->rank), OUT_OF_RANGE,
               "the product of the dimensions overflows");
    int64_t dims[2] = {xcvm_dims_product(x->dims, 0, axis), xcvm_dims_product(x->dims, axis, x->rank)};
    xcvm_value_set_tensor(a->y, a->y->dtype, 2, dims);
    return XCVM_OK;
}

XCVM_KERNEL(Flatten) { return xcvm_move_all(k, a->y, a->x); }

/* Marks the listed axes, each at most once. */
static xcvm_status mark_axes(xcvm_error *error, const int64_t *axes, size_t count, int rank, bool marked[XCVM_MAX_RANK])
{
    memset(marked, 0, XCVM_MAX_RANK * sizeof *marked);
    for (size_t i = 0; i < count; i++) {
        int axis;
        XCVM_TRY(xcvm_resolve_axis(error, axes[i], rank, &axis));
        XCVM_CHECK(error, !marked[axis], INVALID_ARGUMENT, "axis %d is given twice", axis);
        marked[axis] = true;
    }
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(Squeeze)
{
    const xcvm_value *x = a->x;
    int64_t axes[XCVM_MAX_RANK], dims[XCVM_MAX_RANK];
    bool marked[XCVM_MAX_RANK] = {false}, known = true;
    size_t count = 0;
    if (a->axes != NULL)
        XCVM_TRY(xcvm_read_ints(t->error, a->axes, "axes", axes, XCVM_MAX_RANK, &count, &known));
    if (!known || x->rank < 0) {
        bool length = a->axes != NULL && a->axes->rank == 1 && a->axes->dims[0] >= 0 && x->rank >= a->axes->dims[0];
        xcvm_set_unknown(a->y, a->y->dtype, length && x->rank >= 0 ? x->rank - (int)a->axes->dims[0] : -1);
        return XCVM_OK;
    }
    if (a->axes != NULL) {
        XCVM_TRY(mark_axes(t->error, axes, count, x->rank, marked));
    } else if (!xcvm_dims_known(x)) {
        xcvm_set_unknown(a->y, a->y->dtype, -1);
        return XCVM_OK;
    }
    int rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (a->axes == NULL)
            marked[i] = x->dims[i] == 1;
        XCVM_CHECK(t->error, !marked[i] || x->dims[i] == 1 || x->dims[i] < 0, SHAPE_MISMATCH,
                   "dimension %d of x is %lld, only those of size 1 can be left out", i, (long long)x->dims[i]);
        if (!marked[i])
            dims[rank++] = x->dims[i];
    }
    xcvm_value_set_tensor(a->y, a->y->dtype, rank, dims);
    return XCVM_OK;
}

XCVM_KERNEL(Squeeze) { return xcvm_move_all(k, a->y, a->x); }

XCVM_SHAPE_RULE_OF(Unsqueeze)
{
    const xcvm_value *x = a->x;
    int64_t axes[XCVM_MAX_RANK], dims[XCVM_MAX_RANK];
    bool marked[XCVM_MAX_RANK], known;
    size_t count;
    XCVM_TRY(xcvm_read_ints(t->error, a->axes, "axes", axes, XCVM_MAX_RANK, &count, &known));
    if (!known || x->rank < 0) {
        int64_t length = a->axes->rank == 1 ? a->axes->dims[0] : a->axes->rank == 0 ? 1 : -1;
        bool sure = length >= 0 && x->rank >= 0 && length <= XCVM_MAX_RANK - x->rank;
        xcvm_set_unknown(a->y, a->y->dtype, sure ? x->rank + (int)length : -1);
        return XCVM_OK;
    }
    int rank = x->rank + (int)count;
    XCVM_CHECK(t->error, rank <= XCVM_MAX_RANK, UNSUPPORTED,
               "the result has an unsupported rank (%d; expected at most %d)", rank, XCVM_MAX_RANK);
    XCVM_TRY(mark_axes(t->error, axes, count, rank, marked));
    for (int i = 0, from = 0; i < rank; i++)
        dims[i] = marked[i] ? 1 : x->dims[from++];
    xcvm_value_set_tensor(a->y, a->y->dtype, rank, dims);
    return XCVM_OK;
}

XCVM_KERNEL(Unsqueeze) { return xcvm_move_all(k, a->y, a->x); }
