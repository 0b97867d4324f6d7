/* Accumulate and ZerosLike: sums and zeros of values of any kind, for gradients of lists. */
#include "ops/util/convert.h"
#include "ops/util/move.h"

/* Sets a result to the type of `x`, of any known kind. */
static void set_like(xcvm_value *y, const xcvm_value *x)
{
    if (xcvm_kind_is_list((xcvm_kind)x->kind)) {
        xcvm_set_list(y, (xcvm_kind)x->kind, (xcvm_dtype)x->dtype);
        return;
    }
    xcvm_value_set_tensor(y, (xcvm_dtype)x->dtype, x->rank, x->dims);
    y->kind = x->kind;
}

/* Makes a list with as many items as `x`, which the caller fills in. */
static xcvm_status make_list(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x)
{
    XCVM_CHECK(k->error, x->kind == XCVM_KIND_SEQUENCE || x->kind == XCVM_KIND_OPTIONAL, TYPE_MISMATCH,
               "x has an unsupported kind (expected a tensor, a sequence or an optional)");
    XCVM_TRY(xcvm_kernel_allocate_list(k, y, (xcvm_kind)x->kind, (xcvm_dtype)x->dtype, x->count));
    y->dims[0] = x->dims[0];
    return XCVM_OK;
}

/* ---- Sums ---- */

XCVM_SHAPE_RULE_OF(Accumulate)
{
    const bool known = a->a->kind != XCVM_KIND_NULL && a->b->kind != XCVM_KIND_NULL;
    XCVM_CHECK(t->error, !known || a->a->kind == a->b->kind, TYPE_MISMATCH,
               "a tensor and a list, or two kinds of lists, have no sum");
    set_like(a->y, a->a->kind != XCVM_KIND_NULL ? a->a : a->b);
    return XCVM_OK;
}

static xcvm_status add_tensors(xcvm_kernel *k, xcvm_value *y, const xcvm_value *a, const xcvm_value *b)
{
    enum { PORTION = 512 };
    char of_a[96], of_b[96];
    const xcvm_dtype dtype = (xcvm_dtype)a->dtype;
    XCVM_CHECK(k->error, a->dtype == b->dtype && xcvm_dtype_is_float(dtype), TYPE_MISMATCH,
               "tensors of different or unsupported types are added (%s and %s; expected two of one float type)",
               xcvm_dtype_name(dtype), xcvm_dtype_name((xcvm_dtype)b->dtype));
    XCVM_CHECK(k->error, xcvm_same_shape(a, b), SHAPE_MISMATCH, "tensors of shapes %s and %s are added, item to item",
               xcvm_dims_describe(a->rank, a->dims, of_a, sizeof of_a),
               xcvm_dims_describe(b->rank, b->dims, of_b, sizeof of_b));
    const size_t count = xcvm_element_count(a);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t done = 0, part; done < count; done += part) {
        double left[PORTION], right[PORTION];
        part = count - done < PORTION ? count - done : PORTION;
        XCVM_TRY(xcvm_poll_after(&poller, part));
        if (dtype == XCVM_F32) {
            for (size_t i = done; i < done + part; i++)
                XCVM_DATA(float, y)[i] = XCVM_CDATA(float, a)[i] + XCVM_CDATA(float, b)[i];
            continue;
        }
        xcvm_load_f64(dtype, a->data, done, part, left);
        xcvm_load_f64(dtype, b->data, done, part, right);
        for (size_t i = 0; i < part; i++)
            left[i] += right[i];
        xcvm_store_f64(dtype, y->data, done, part, left, false);
    }
    return XCVM_OK;
}

/* y is null. Values nest at most XCVM_MAX_NESTING deep. */
static xcvm_status add_items(xcvm_kernel *k, xcvm_value *y, const xcvm_value *a, const xcvm_value *b)
{
    XCVM_CHECK(k->error, a->kind == b->kind, TYPE_MISMATCH,
               "an item that is a tensor and one that is a list are added");
    if (a->kind == XCVM_KIND_TENSOR) {
        XCVM_TRY(xcvm_kernel_allocate(k, y, (xcvm_dtype)a->dtype, a->rank, a->dims));
        return add_tensors(k, y, a, b);
    }
    XCVM_CHECK(k->error, a->count == b->count, SHAPE_MISMATCH, "lists of %zu and %zu items are added", (size_t)a->count,
               (size_t)b->count);
    XCVM_TRY(make_list(k, y, a->count != 0 ? a : b));
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < a->count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, XCVM_ITEM_STEPS));
        XCVM_TRY(add_items(k, (xcvm_value *)y->data + i, xcvm_items(a) + i, xcvm_items(b) + i));
    }
    return XCVM_OK;
}

XCVM_KERNEL(Accumulate)
{
    if (a->a->kind == XCVM_KIND_TENSOR && a->b->kind == XCVM_KIND_TENSOR && a->y->data != NULL)
        return add_tensors(k, a->y, a->a, a->b);
    xcvm_value_clear(a->y);
    return add_items(k, a->y, a->a, a->b);
}

/* ---- Zeros ---- */

XCVM_SHAPE_RULE_OF(ZerosLike)
{
    (void)t;
    set_like(a->y, a->x);
    return XCVM_OK;
}

static xcvm_status clear_elements(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x)
{
    static const char zero[1];
    XCVM_CHECK(k->error, x->dtype != XCVM_STRING, TYPE_MISMATCH, "strings have no zero");
    return xcvm_move_fill(k, y->data, zero, 1, y->bytes);
}

static xcvm_status clear_items(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x)
{
    if (x->kind == XCVM_KIND_TENSOR) {
        XCVM_CHECK(k->error, x->dtype != XCVM_STRING, TYPE_MISMATCH, "strings have no zero");
        XCVM_TRY(xcvm_kernel_allocate(k, y, (xcvm_dtype)x->dtype, x->rank, x->dims));
        return clear_elements(k, y, x);
    }
    XCVM_TRY(make_list(k, y, x));
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < x->count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, XCVM_ITEM_STEPS));
        XCVM_TRY(clear_items(k, (xcvm_value *)y->data + i, xcvm_items(x) + i));
    }
    return XCVM_OK;
}

XCVM_KERNEL(ZerosLike)
{
    if (a->x->kind == XCVM_KIND_TENSOR && a->y->data != NULL)
        return clear_elements(k, a->y, a->x);
    xcvm_value_clear(a->y);
    return clear_items(k, a->y, a->x);
}
