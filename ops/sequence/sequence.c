/* Operations on single items of sequences. */
#include "ops/util/index.h"
#include "ops/sequence/sequence.h"

xcvm_status xcvm_list_join_dtypes(xcvm_error *error, xcvm_dtype *dtype, const xcvm_value *item)
{
    if (item->dtype == XCVM_NO_DTYPE)
        return XCVM_OK;
    if (*dtype == XCVM_NO_DTYPE)
        *dtype = item->dtype;
    XCVM_CHECK(error, *dtype == item->dtype, TYPE_MISMATCH, "an item has element type %s in a sequence of %s",
               xcvm_dtype_name(item->dtype), xcvm_dtype_name(*dtype));
    return XCVM_OK;
}

xcvm_status xcvm_list_place(xcvm_kernel *k, xcvm_value *list, size_t index, const xcvm_value *item)
{
    XCVM_CHECK(k->error, item != NULL && item->kind != XCVM_KIND_NULL, TYPE_MISMATCH, "an item is null");
    int64_t depth = xcvm_kind_is_list(item->kind) ? item->dims[0] + 1 : 1;
    XCVM_CHECK(k->error, depth <= XCVM_MAX_NESTING, OUT_OF_RANGE, "lists nest deeper than %d", XCVM_MAX_NESTING);
    if (depth > list->dims[0])
        list->dims[0] = depth;
    if (list->dtype == XCVM_NO_DTYPE)
        list->dtype = item->dtype;
    return xcvm_kernel_keep(k, (xcvm_value *)list->data + index, item);
}

/* ---- Construct ---- */

XCVM_SHAPE_RULE_OF(SequenceConstruct)
{
    xcvm_dtype dtype = a->dtype;
    for (size_t i = 0; i < a->xs.count; i++) {
        XCVM_CHECK(t->error, a->xs.at[i] != NULL, INVALID_ARGUMENT, "element %zu of xs is absent", i);
        XCVM_TRY(xcvm_list_join_dtypes(t->error, &dtype, a->xs.at[i]));
    }
    xcvm_set_list(a->y, XCVM_KIND_SEQUENCE, dtype);
    return XCVM_OK;
}

XCVM_KERNEL(SequenceConstruct)
{
    XCVM_TRY(xcvm_kernel_allocate_list(k, a->y, XCVM_KIND_SEQUENCE, a->y->dtype, a->xs.count));
    for (size_t i = 0; i < a->xs.count; i++)
        XCVM_TRY(xcvm_list_place(k, a->y, i, a->xs.at[i]));
    return XCVM_OK;
}

/* ---- Insert and erase ---- */

xcvm_status xcvm_list_position(xcvm_kernel *k, const xcvm_value *position, size_t count, bool one_more, size_t *index)
{
    int64_t n = (int64_t)count, at;
    XCVM_TRY(xcvm_read_int(k->error, position, "position", &at));
    XCVM_CHECK(k->error, at >= -n && at < n + one_more, OUT_OF_RANGE, "position %lld of a sequence of %lld items",
               (long long)at, (long long)n);
    *index = (size_t)(at < 0 ? at + n : at);
    return XCVM_OK;
}

/* Returns true if the items of operand 0, `s`, may be moved, because nothing else uses them afterwards. */
static bool may_take(const xcvm_kernel *k, const xcvm_value *s)
{
    return xcvm_kernel_is_last_use(k, 0) && s->memory_kind == XCVM_MEMORY_OWNED && s->storage != NULL &&
           __atomic_load_n(&s->storage->refs, __ATOMIC_ACQUIRE) == 1;
}

static size_t capacity_of(const xcvm_value *list) { return list->storage->bytes / sizeof(xcvm_value); }

xcvm_status xcvm_list_take(xcvm_kernel *k, xcvm_value *y, const xcvm_value *s, size_t room)
{
    bool take = may_take(k, s);
    size_t count = s->count;
    xcvm_dtype dtype = s->dtype;
    int64_t depth = s->dims[0];
    if (take && capacity_of(s) >= room) {
        xcvm_value_clear(y);
        xcvm_value_share(y, s);
        return XCVM_OK;
    }
    /* Growth by half makes the amortized cost of an insertion constant. */
    size_t capacity = count + count / 2 + 4;
    capacity = take && room > count && capacity > room ? capacity : room;
    XCVM_TRY(xcvm_kernel_allocate_list(k, y, XCVM_KIND_SEQUENCE, dtype, capacity));
    y->count = (uint32_t)count;
    y->dims[0] = depth;
    if (take) {
        memcpy(y->data, s->data, count * sizeof(xcvm_value));
        memset(s->data, 0, count * sizeof(xcvm_value));
        return XCVM_OK;
    }
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, XCVM_ITEM_STEPS));
        XCVM_TRY(xcvm_kernel_keep(k, (xcvm_value *)y->data + i, xcvm_items(s) + i));
    }
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(SequenceInsert)
{
    xcvm_dtype dtype = a->s->dtype;
    XCVM_TRY(xcvm_list_join_dtypes(t->error, &dtype, a->x));
    xcvm_set_list(a->y, XCVM_KIND_SEQUENCE, dtype);
    return XCVM_OK;
}

XCVM_KERNEL(SequenceInsert)
{
    size_t count = a->s->count, at = count;
    if (a->position != NULL)
        XCVM_TRY(xcvm_list_position(k, a->position, count, true, &at));
    XCVM_CHECK(k->error, count < UINT32_MAX, OUT_OF_RANGE, "the sequence is full");
    /* The item is kept first: a failure must not leave the operand without its items. */
    xcvm_value item = {.refs = 0};
    int64_t depth = xcvm_kind_is_list(a->x->kind) ? a->x->dims[0] + 1 : 1;
    XCVM_CHECK(k->error, a->x->kind != XCVM_KIND_NULL, TYPE_MISMATCH, "x is null");
    XCVM_CHECK(k->error, depth <= XCVM_MAX_NESTING, OUT_OF_RANGE, "lists nest deeper than %d", XCVM_MAX_NESTING);
    XCVM_TRY(xcvm_kernel_keep(k, &item, a->x));
    xcvm_status status = xcvm_list_take(k, a->y, a->s, count + 1);
    if (status != XCVM_OK) {
        xcvm_value_clear(&item);
        return status;
    }
    xcvm_value *items = a->y->data;
    memmove(items + at + 1, items + at, (count - at) * sizeof *items);
    items[at] = item;
    a->y->count = (uint32_t)count + 1;
    if (depth > a->y->dims[0])
        a->y->dims[0] = depth;
    if (a->y->dtype == XCVM_NO_DTYPE)
        a->y->dtype = item.dtype;
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(SequenceErase)
{
    (void)t;
    xcvm_set_list(a->y, XCVM_KIND_SEQUENCE, a->s->dtype);
    return XCVM_OK;
}

XCVM_KERNEL(SequenceErase)
{
    size_t count = a->s->count, at = count - 1;
    XCVM_CHECK(k->error, count != 0, OUT_OF_RANGE, "the sequence is empty");
    if (a->position != NULL)
        XCVM_TRY(xcvm_list_position(k, a->position, count, false, &at));
    XCVM_TRY(xcvm_list_take(k, a->y, a->s, count));
    xcvm_value *items = a->y->data;
    xcvm_value_clear(&items[at]);
    memmove(items + at, items + at + 1, (count - 1 - at) * sizeof *items);
    items[count - 1] = (xcvm_value){.refs = 0};
    a->y->count = (uint32_t)count - 1;
    return XCVM_OK;
}

/* ---- Access ---- */

XCVM_SHAPE_RULE_OF(SequenceAt)
{
    (void)t;
    xcvm_set_unknown(a->y, a->s->dtype, -1);
    /* Items are assumed to be tensors, unless they are known and have another kind. */
    if (a->s->data != NULL && a->s->count != 0)
        a->y->kind = xcvm_items(a->s)->kind;
    return XCVM_OK;
}

XCVM_KERNEL(SequenceAt)
{
    size_t at;
    XCVM_TRY(xcvm_list_position(k, a->position, a->s->count, false, &at));
    xcvm_value_clear(a->y);
    return xcvm_kernel_keep(k, a->y, xcvm_items(a->s) + at);
}

XCVM_KERNEL(SequenceLength)
{
    (void)k;
    *XCVM_DATA(int64_t, a->y) = a->s->count;
    return XCVM_OK;
}
