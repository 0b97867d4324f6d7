/* Python's operations on lists: a + b, s[i] = x, s[a:b:c]. */
#include "ops/util/index.h"
#include "ops/sequence/sequence.h"

/* ---- Extend ---- */

XCVM_SHAPE_RULE_OF(SequenceExtend)
{
    xcvm_dtype dtype = a->s->dtype;
    XCVM_TRY(xcvm_list_join_dtypes(t->error, &dtype, a->more));
    xcvm_set_list(a->y, XCVM_KIND_SEQUENCE, dtype);
    return XCVM_OK;
}

XCVM_KERNEL(SequenceExtend)
{
    const size_t count = a->s->count, more = a->more->count;
    XCVM_CHECK(k->error, more <= UINT32_MAX - count, OUT_OF_RANGE, "%zu and %zu items are too many for a sequence",
               count, more);
    /* An operand that was moved cannot be read again. */
    const uint32_t last_use = k->last_use;
    if (a->s == a->more)
        k->last_use = 0;
    xcvm_status status = xcvm_list_take(k, a->y, a->s, count + more);
    k->last_use = last_use;
    XCVM_TRY(status);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < more; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, XCVM_ITEM_STEPS));
        XCVM_TRY(xcvm_list_place(k, a->y, count + i, xcvm_items(a->more) + i));
        a->y->count++;
    }
    if (a->y->dtype == XCVM_NO_DTYPE)
        a->y->dtype = a->more->dtype;
    return XCVM_OK;
}

/* ---- Update ---- */

XCVM_SHAPE_RULE_OF(SequenceUpdate)
{
    xcvm_dtype dtype = a->s->dtype;
    XCVM_TRY(xcvm_list_join_dtypes(t->error, &dtype, a->x));
    xcvm_set_list(a->y, XCVM_KIND_SEQUENCE, dtype);
    return XCVM_OK;
}

XCVM_KERNEL(SequenceUpdate)
{
    size_t at;
    XCVM_TRY(xcvm_list_position(k, a->position, a->s->count, false, &at));
    /* The new item may be, or be part of, the one that it replaces. */
    xcvm_value kept = {.refs = 0}, old;
    XCVM_TRY(xcvm_kernel_keep(k, &kept, a->x));
    xcvm_status status = xcvm_list_take(k, a->y, a->s, a->s->count);
    if (status == XCVM_OK) {
        xcvm_value *item = (xcvm_value *)a->y->data + at;
        old = *item;
        *item = (xcvm_value){.refs = 0};
        status = xcvm_list_place(k, a->y, at, &kept);
        xcvm_value_clear(&old);
    }
    xcvm_value_clear(&kept);
    return status;
}

/* ---- Slice ---- */

XCVM_SHAPE_RULE_OF(SequenceGetSlice)
{
    (void)t;
    xcvm_set_list(a->y, XCVM_KIND_SEQUENCE, (xcvm_dtype)a->s->dtype);
    return XCVM_OK;
}

/* Reads a bound, counts it from the end if negative, and clamps it to [low, high]. */
static xcvm_status read_bound(xcvm_kernel *k, const xcvm_value *bound, const char *what, int64_t count, int64_t low,
                              int64_t high, int64_t *value)
{
    if (bound == NULL)
        return XCVM_OK;
    XCVM_TRY(xcvm_read_int(k->error, bound, what, value));
    *value = *value < 0 ? *value + count : *value;
    *value = *value < low ? low : *value > high ? high : *value;
    return XCVM_OK;
}

XCVM_KERNEL(SequenceGetSlice)
{
    const int64_t count = a->s->count;
    int64_t step = 1;
    if (a->step != NULL)
        XCVM_TRY(xcvm_read_int(k->error, a->step, "step", &step));
    XCVM_CHECK(k->error, step != 0, OUT_OF_RANGE, "step is 0");
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? count : count - 1;
    int64_t start = step > 0 ? low : high, end = step > 0 ? high : low;
    XCVM_TRY(read_bound(k, a->start, "start", count, low, high, &start));
    XCVM_TRY(read_bound(k, a->end, "end", count, low, high, &end));
    const uint64_t distance =
        step > 0 ? (uint64_t)(end > start ? end - start : 0) : (uint64_t)(start > end ? start - end : 0);
    const uint64_t stride = step > 0 ? (uint64_t)step : UINT64_C(0) - (uint64_t)step;
    const size_t items = (size_t)(distance / stride + (distance % stride != 0));
    XCVM_TRY(xcvm_kernel_allocate_list(k, a->y, XCVM_KIND_SEQUENCE, (xcvm_dtype)a->s->dtype, items));
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < items; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, XCVM_ITEM_STEPS));
        XCVM_TRY(xcvm_list_place(k, a->y, i, xcvm_items(a->s) + (start + (int64_t)i * step)));
    }
    return XCVM_OK;
}
