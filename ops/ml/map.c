/* Maps: lists of two tensors of rank 1, keys and items. The element type of a map is that of its items. */
#include "ops/util/keys.h"

/* ---- Construction ---- */

XCVM_SHAPE_RULE_OF(ZipMap)
{
    XCVM_CHECK(t->error, a->x->rank < 0 || a->x->rank == 2, SHAPE_MISMATCH, "x has the wrong rank (%d; expected 2)",
               a->x->rank);
    XCVM_CHECK(t->error, a->keys->rank < 0 || a->keys->rank == 1, SHAPE_MISMATCH,
               "keys has the wrong rank (%d; expected 1)", a->keys->rank);
    if (a->x->rank == 2 && a->keys->rank == 1)
        XCVM_CHECK(t->error, !xcvm_dims_differ(a->x->dims[1], a->keys->dims[0]), SHAPE_MISMATCH,
                   "x has %lld columns for %lld keys", (long long)a->x->dims[1], (long long)a->keys->dims[0]);
    xcvm_set_list(a->y, XCVM_KIND_SEQUENCE, (xcvm_dtype)a->x->dtype);
    a->y->dims[0] = 2;
    return XCVM_OK;
}

/* Makes maps [0, count) of y from keys and the rows of x. All share the storage of both. */
static xcvm_status fill_maps(xcvm_kernel *k, const xcvm_ZipMap_args *a, const xcvm_value *keys, const xcvm_value *x)
{
    const size_t width = (size_t)x->dims[1], size = xcvm_dtype_size((xcvm_dtype)x->dtype);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t row = 0; row < a->y->count; row++) {
        XCVM_TRY(xcvm_poll_after(&poller, 2 * XCVM_ITEM_STEPS));
        xcvm_value *map = (xcvm_value *)a->y->data + row;
        XCVM_TRY(xcvm_kernel_allocate_list(k, map, XCVM_KIND_MAP, (xcvm_dtype)x->dtype, 2));
        xcvm_value *pair = map->data;
        XCVM_TRY(xcvm_kernel_keep(k, &pair[0], keys));
        XCVM_TRY(xcvm_kernel_keep(k, &pair[1], x));
        xcvm_value_set_tensor(&pair[1], (xcvm_dtype)x->dtype, 1, &(int64_t){(int64_t)width});
        pair[1].data = (char *)x->data + row * width * size;
    }
    return XCVM_OK;
}

XCVM_KERNEL(ZipMap)
{
    xcvm_value keys = {.refs = 0}, x = {.refs = 0};
    XCVM_TRY(xcvm_kernel_allocate_list(k, a->y, XCVM_KIND_SEQUENCE, (xcvm_dtype)a->x->dtype, (size_t)a->x->dims[0]));
    a->y->dims[0] = 2;
    xcvm_status status = xcvm_kernel_keep(k, &keys, a->keys);
    if (status == XCVM_OK)
        status = xcvm_kernel_keep(k, &x, a->x);
    if (status == XCVM_OK)
        status = fill_maps(k, a, &keys, &x);
    xcvm_value_clear(&keys);
    xcvm_value_clear(&x);
    return status;
}

/* ---- Extraction ---- */

XCVM_SHAPE_RULE_OF(MapItems)
{
    const bool unknown = a->x->kind == XCVM_KIND_NULL && a->x->rank < 0;
    XCVM_CHECK(t->error, unknown || a->x->kind == XCVM_KIND_MAP, TYPE_MISMATCH, "x is not a map");
    if (a->keys != NULL)
        XCVM_CHECK(t->error, a->keys->rank < 0 || a->keys->rank == 1, SHAPE_MISMATCH,
                   "keys has the wrong rank (%d; expected 1)", a->keys->rank);
    /* The kernel determines the items and makes the result. */
    xcvm_set_unknown(a->y, (xcvm_dtype)a->x->dtype, 1);
    return XCVM_OK;
}

static xcvm_status sift(const xcvm_value *keys, int64_t *order, size_t root, size_t count, xcvm_poller *poller)
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        XCVM_TRY(xcvm_poll_after(poller, 2 * xcvm_keys_steps(keys, (size_t)order[root])));
        if (child + 1 < count && xcvm_keys_compare(keys, (size_t)order[child], keys, (size_t)order[child + 1]) < 0)
            child++;
        if (xcvm_keys_compare(keys, (size_t)order[root], keys, (size_t)order[child]) >= 0)
            return XCVM_OK;
        const int64_t swapped = order[root];
        order[root] = order[child];
        order[child] = swapped;
    }
    return XCVM_OK;
}

/* Sorts the positions of the keys in ascending order of keys. */
static xcvm_status sort_keys(const xcvm_value *keys, int64_t *order, size_t count, xcvm_poller *poller)
{
    for (size_t i = 0; i < count; i++)
        order[i] = (int64_t)i;
    for (size_t i = count / 2; i-- > 0;)
        XCVM_TRY(sift(keys, order, i, count, poller));
    for (size_t end = count; end > 1; end--) {
        const int64_t last = order[end - 1];
        order[end - 1] = order[0];
        order[0] = last;
        XCVM_TRY(sift(keys, order, 0, end - 1, poller));
    }
    return XCVM_OK;
}

static xcvm_status check_map(xcvm_kernel *k, const xcvm_value *x, const xcvm_value *wanted)
{
    XCVM_CHECK(k->error, x->kind == XCVM_KIND_MAP && x->count == 2, TYPE_MISMATCH, "x is not a map");
    const xcvm_value *keys = &xcvm_items(x)[0], *items = &xcvm_items(x)[1];
    XCVM_CHECK(k->error,
               keys->kind == XCVM_KIND_TENSOR && items->kind == XCVM_KIND_TENSOR && keys->rank == 1 &&
                   items->rank == 1 && keys->dims[0] == items->dims[0],
               SHAPE_MISMATCH, "the keys and items of x are not as many, or no tensors of rank 1");
    XCVM_CHECK(k->error, xcvm_dtype_in((xcvm_dtype)keys->dtype, XCVM_TYPES_TOKEN), TYPE_MISMATCH,
               "the keys of x have the wrong type (%s; expected i32, i64 or str)",
               xcvm_dtype_name((xcvm_dtype)keys->dtype));
    XCVM_CHECK(k->error, items->dtype == XCVM_STRING || xcvm_dtype_size((xcvm_dtype)items->dtype) > 0, TYPE_MISMATCH,
               "the items of x are %s", xcvm_dtype_name((xcvm_dtype)items->dtype));
    if (wanted != NULL)
        XCVM_CHECK(k->error, (wanted->dtype == XCVM_STRING) == (keys->dtype == XCVM_STRING), TYPE_MISMATCH,
                   "keys are %s, those of x %s", xcvm_dtype_name((xcvm_dtype)wanted->dtype),
                   xcvm_dtype_name((xcvm_dtype)keys->dtype));
    return XCVM_OK;
}

static xcvm_status take_items(xcvm_kernel *k, xcvm_value *y, const xcvm_value *items, const int64_t *positions,
                              size_t count)
{
    const int64_t dim = (int64_t)count;
    if (items->dtype == XCVM_STRING) {
        xcvm_value_set_tensor(y, XCVM_STRING, 1, &dim);
        return xcvm_kernel_gather_strings(k, y, items, positions);
    }
    XCVM_TRY(xcvm_kernel_allocate(k, y, (xcvm_dtype)items->dtype, 1, &dim));
    const size_t size = xcvm_dtype_size((xcvm_dtype)items->dtype);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        char *to = (char *)y->data + i * size;
        if (positions[i] >= 0)
            memcpy(to, (const char *)items->data + (size_t)positions[i] * size, size);
        else
            memset(to, 0, size);
    }
    return XCVM_OK;
}

XCVM_KERNEL(MapItems)
{
    XCVM_TRY(check_map(k, a->x, a->keys));
    const xcvm_value *keys = &xcvm_items(a->x)[0], *items = &xcvm_items(a->x)[1];
    const size_t count = (size_t)keys->dims[0], wanted = a->keys != NULL ? (size_t)a->keys->dims[0] : 0;
    size_t numbers, bytes;
    XCVM_CHECK(k->error, xcvm_size_add(count, wanted, &numbers) && xcvm_size_mul(numbers, sizeof(int64_t), &bytes),
               OUT_OF_RANGE, "x is too large");
    int64_t *order = xcvm_kernel_scratch(k, bytes);
    if (order == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcvm_poller poller = xcvm_poller_of(k);
    XCVM_TRY(sort_keys(keys, order, count, &poller));
    if (a->keys == NULL)
        return take_items(k, a->y, items, order, count);
    int64_t *positions = order + count;
    for (size_t i = 0; i < wanted; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, XCVM_KEYS_HALVINGS * xcvm_keys_steps(a->keys, i)));
        positions[i] = xcvm_keys_find(a->keys, i, keys, order, count);
    }
    return take_items(k, a->y, items, positions, wanted);
}
