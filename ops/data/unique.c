/* Unique: sorts keys of elements or slices. */
#include "ops/util/index.h"
#include "ops/util/move.h"
#include "ops/util/order.h"

/* Up to SHORT slices, or with more than FEW_ELEMENTS elements per slice, comparison sort is faster. */
enum { SHORT = 256, FEW_ELEMENTS = 8 };

/* An axis this low means that Unique flattens x. */
static bool flattens(const xcvm_Unique_args *a) { return a->axis < -XCVM_MAX_RANK; }

XCVM_SHAPE_RULE_OF(Unique)
{
    const xcvm_value *x = a->x;
    xcvm_value *counts[3] = {a->indices, a->inverse, a->counts};
    for (int i = 0; i < 3; i++)
        if (counts[i] != NULL)
            xcvm_set_unknown(counts[i], XCVM_I64, 1);
    int axis = 0;
    if (!flattens(a) && x->rank >= 0)
        XCVM_TRY(xcvm_resolve_axis(t->error, a->axis, x->rank, &axis));
    if (a->y == NULL)
        return XCVM_OK;
    if (flattens(a) || x->rank < 0) {
        xcvm_set_unknown(a->y, x->dtype, flattens(a) ? 1 : -1);
        return XCVM_OK;
    }
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] = XCVM_ANY_DIM;
    xcvm_value_set_tensor(a->y, x->dtype, x->rank, dims);
    return XCVM_OK;
}

/* The compared slices and the results. All arrays have one entry per slice. */
typedef struct slices {
    xcvm_poller *poller; /* polls during comparisons; after the run is stopped, slices compare equal */
    const xcvm_value *x;
    xcvm_around at;
    uint64_t *keys; /* keys of x's elements; NULL for strings */
    int64_t *sorted, *spare;
    int64_t *group; /* index of the distinct slice that each slice equals */
    int64_t *first; /* for each distinct slice: its first occurrence, and its count */
    int64_t *times;
    size_t different;
} slices;

static int compare_strings(const xcvm_value *x, size_t a, size_t b, xcvm_poller *poller)
{
    size_t la, lb;
    const char *sa = xcvm_string_at(x, a, &la), *sb = xcvm_string_at(x, b, &lb);
    size_t least = la < lb ? la : lb;
    if (xcvm_poll_after(poller, least / XCVM_STEP_BYTES) != XCVM_OK)
        return 0;
    int order = least != 0 ? memcmp(sa, sb, least) : 0;
    return order != 0 ? order : (la > lb) - (la < lb);
}

static int compare_slices(const void *context, int64_t a, int64_t b)
{
    const slices *s = context;
    if (s->keys != NULL && s->at.outer == 1 && s->at.inner <= FEW_ELEMENTS) {
        const uint64_t *p = s->keys + (size_t)a * s->at.inner, *q = s->keys + (size_t)b * s->at.inner;
        size_t i = 0;
        while (i + 1 < s->at.inner && p[i] == q[i])
            i++;
        return s->at.inner == 0 ? 0 : (p[i] > q[i]) - (p[i] < q[i]);
    }
    for (size_t o = 0; o < s->at.outer && s->at.inner != 0; o++)
        for (size_t i = 0; i < s->at.inner; i++) {
            if (xcvm_poll_after(s->poller, 1) != XCVM_OK)
                return 0;
            size_t ia = (o * s->at.dim + (size_t)a) * s->at.inner + i;
            size_t ib = (o * s->at.dim + (size_t)b) * s->at.inner + i;
            int order = s->keys == NULL ? compare_strings(s->x, ia, ib, s->poller)
                                        : (s->keys[ia] > s->keys[ib]) - (s->keys[ia] < s->keys[ib]);
            if (order != 0)
                return order;
        }
    return 0;
}

/* Radix sort for slices of few elements: by one element after another, from the last. For one-element slices *keys
 * becomes their sorted keys, stored in memory of `first` and `times`; otherwise NULL. */
static xcvm_status sort_by_keys(const xcvm_kernel *k, slices *s, const uint64_t **keys)
{
    const size_t n = s->at.dim, inner = s->at.inner;
    uint64_t *sorted_keys = (uint64_t *)s->first, *spare_keys = (uint64_t *)s->times;
    for (size_t element = s->at.outer * inner; element-- > 0;) {
        const uint64_t *from = s->keys + element / inner * n * inner + element % inner;
        XCVM_TRY(xcvm_poll_after(s->poller, n));
        for (size_t i = 0; i < n; i++)
            sorted_keys[i] = from[(size_t)s->sorted[i] * inner];
        uint64_t *in_order = sorted_keys;
        int64_t *sorted = s->sorted;
        XCVM_TRY(xcvm_order_sort_keys(k, &in_order, &sorted, spare_keys, s->spare, n));
        s->spare = sorted == s->sorted ? s->spare : s->sorted;
        s->sorted = sorted;
        spare_keys = in_order == sorted_keys ? spare_keys : sorted_keys;
        sorted_keys = in_order;
    }
    *keys = s->at.outer * inner == 1 ? sorted_keys : NULL;
    return XCVM_OK;
}

/* Numbers the groups of equal slices in sorted order or in order of first occurrence. */
static xcvm_status group_slices(const xcvm_kernel *k, slices *s, bool in_order)
{
    size_t n = s->at.dim;
    for (size_t i = 0; i < n; i++)
        s->sorted[i] = (int64_t)i;
    const uint64_t *keys = NULL;
    if (n > SHORT && s->keys != NULL && s->at.inner != 0 && s->at.outer * s->at.inner <= FEW_ELEMENTS)
        XCVM_TRY(sort_by_keys(k, s, &keys));
    else
        XCVM_TRY(xcvm_order_sort(k, s->sorted, s->spare, n, compare_slices, s));
    int64_t groups = 0;
    for (size_t i = 0; i < n; i++) {
        XCVM_TRY(xcvm_poll_after(s->poller, 1));
        if (i == 0 || (keys != NULL ? keys[i] != keys[i - 1] : compare_slices(s, s->sorted[i - 1], s->sorted[i]) != 0))
            groups++;
        s->group[s->sorted[i]] = groups - 1;
    }
    XCVM_TRY(xcvm_kernel_poll(k));
    s->different = (size_t)groups;
    if (!in_order) {
        int64_t next = 0;
        for (size_t i = 0; i < s->different; i++)
            s->spare[i] = -1;
        for (size_t i = 0; i < n; i++) {
            XCVM_TRY(xcvm_poll_after(s->poller, 1));
            int64_t *renamed = &s->spare[s->group[i]];
            if (*renamed < 0)
                *renamed = next++;
            s->group[i] = *renamed;
        }
    }
    for (size_t i = 0; i < s->different; i++)
        s->times[i] = 0;
    for (size_t i = 0; i < n; i++) {
        XCVM_TRY(xcvm_poll_after(s->poller, 1));
        if (s->times[s->group[i]]++ == 0)
            s->first[s->group[i]] = (int64_t)i;
    }
    return XCVM_OK;
}

static xcvm_status pick(const xcvm_moving *m, const void *context)
{
    const slices *s = context;
    size_t run = s->at.inner * m->size;
    char *to = m->to[0];
    for (size_t o = 0; o < s->at.outer && run != 0 && s->different != 0; o++)
        for (size_t i = 0; i < s->different; i++, to += run) {
            XCVM_TRY(xcvm_poll_after(s->poller, 1 + run / XCVM_STEP_BYTES));
            XCVM_TRY(xcvm_kernel_copy(m->k, to, (const char *)m->from[0] + (o * s->at.dim + (size_t)s->first[i]) * run,
                                      run));
        }
    return XCVM_OK;
}

static xcvm_status set_list(xcvm_kernel *k, xcvm_value *result, const int64_t *numbers, size_t count)
{
    if (result == NULL)
        return XCVM_OK;
    XCVM_TRY(xcvm_kernel_allocate(k, result, XCVM_I64, 1, &(int64_t){(int64_t)count}));
    return xcvm_kernel_copy(k, result->data, numbers, count * sizeof *numbers);
}

static xcvm_status write_results(xcvm_kernel *k, const xcvm_Unique_args *a, const slices *s, int axis)
{
    XCVM_TRY(set_list(k, a->indices, s->first, s->different));
    XCVM_TRY(set_list(k, a->inverse, s->group, s->at.dim));
    XCVM_TRY(set_list(k, a->counts, s->times, s->different));
    if (a->y == NULL)
        return XCVM_OK;
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, a->x->dims, sizeof dims);
    dims[axis] = (int64_t)s->different;
    int rank = flattens(a) ? 1 : a->x->rank;
    if (a->x->dtype == XCVM_STRING)
        xcvm_value_set_tensor(a->y, XCVM_STRING, rank, dims);
    else
        XCVM_TRY(xcvm_kernel_allocate(k, a->y, a->x->dtype, rank, dims));
    return xcvm_move_one(k, a->x, a->y, pick, s);
}

XCVM_KERNEL(Unique)
{
    xcvm_poller poller = xcvm_poller_of(k);
    slices s = {.poller = &poller, .x = a->x};
    size_t count = xcvm_element_count(a->x), bytes, arrays;
    int axis = 0;
    if (!flattens(a))
        XCVM_TRY(xcvm_resolve_axis(k->error, a->axis, a->x->rank, &axis));
    s.at = flattens(a) ? (xcvm_around){1, count, 1} : xcvm_around_axis(a->x, axis);
    bool fits = xcvm_size_mul(count, sizeof(uint64_t), &bytes) &&
                xcvm_size_mul(s.at.dim, 5 * sizeof(int64_t), &arrays) && xcvm_size_add(bytes, arrays, &bytes);
    XCVM_CHECK(k->error, fits, OUT_OF_RANGE, "x is too large");
    /* Not the kernel's scratch, which moving the slices needs. */
    xcvm_storage *storage;
    XCVM_TRY(xcvm_heap_allocate(k->heap, bytes, &storage, k->error));
    int64_t *at = storage->data;
    int64_t **parts[5] = {&s.sorted, &s.spare, &s.group, &s.first, &s.times};
    for (int i = 0; i < 5; i++, at += s.at.dim)
        *parts[i] = at;
    xcvm_status status = XCVM_OK;
    if (a->x->dtype != XCVM_STRING) {
        s.keys = (uint64_t *)at;
        for (size_t done = 0; done < count && status == XCVM_OK; done += XCVM_POLL_STEPS) {
            xcvm_order_keys(a->x, done, 1, xcvm_min(count - done, XCVM_POLL_STEPS), s.keys + done);
            status = xcvm_kernel_poll(k);
        }
    }
    if (status == XCVM_OK)
        status = group_slices(k, &s, a->sorted != 0);
    if (status == XCVM_OK)
        status = write_results(k, a, &s, axis);
    xcvm_storage_release(storage);
    return status;
}
