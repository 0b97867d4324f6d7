/* Services for kernels: memory for results and scratch, copies, parallel loops that poll. */
#include "ops/util/kernel.h"
#include "base/clock.h"
#include "base/retain.h"

#include <stdio.h>

xcvm_status xcvm_kernel_allocate(xcvm_kernel *k, xcvm_value *tensor, xcvm_dtype dtype, int rank, const int64_t *dims)
{
    size_t count, bytes;
    xcvm_storage *storage;
    int64_t copy[XCVM_MAX_RANK];
    /* `dims` may be the tensor's own, which clearing it would overwrite. */
    if (rank > 0)
        memcpy(copy, dims, (size_t)rank * sizeof *copy);
    if (!xcvm_tensor_size(dtype, rank, copy, &count, &bytes)) {
        char text[192];
        return xcvm_error_set(k->error, XCVM_OUT_OF_RANGE, "a result %s%s is too large", xcvm_dtype_name(dtype),
                              xcvm_dims_describe(rank, copy, text, sizeof text));
    }
    xcvm_value_clear(tensor);
    XCVM_TRY(xcvm_heap_allocate(k->heap, bytes, &storage, k->error));
    xcvm_value_set_tensor(tensor, dtype, rank, copy);
    tensor->memory_kind = XCVM_MEMORY_OWNED;
    tensor->storage = storage;
    tensor->data = storage->data;
    return XCVM_OK;
}

xcvm_status xcvm_kernel_allocate_strings(xcvm_kernel *k, xcvm_value *tensor, int rank, const int64_t *dims,
                                         size_t characters, xcvm_string **spans, char **text)
{
    size_t count, bytes, total;
    xcvm_storage *storage;
    int64_t copy[XCVM_MAX_RANK];
    if (rank > 0)
        memcpy(copy, dims, (size_t)rank * sizeof *copy);
    XCVM_CHECK(k->error,
               xcvm_tensor_size(XCVM_STRING, rank, copy, &count, &bytes) && xcvm_size_add(bytes, characters, &total),
               OUT_OF_RANGE, "a result of strings is too large");
    xcvm_value_clear(tensor);
    XCVM_TRY(xcvm_heap_allocate(k->heap, total, &storage, k->error));
    xcvm_value_set_tensor(tensor, XCVM_STRING, rank, copy);
    tensor->memory_kind = XCVM_MEMORY_OWNED;
    tensor->storage = storage;
    tensor->data = storage->data;
    tensor->bytes = total;
    *spans = storage->data;
    *text = (char *)storage->data + bytes;
    return XCVM_OK;
}

xcvm_status xcvm_kernel_gather_strings(xcvm_kernel *k, xcvm_value *out, const xcvm_value *from, const int64_t *indices)
{
    size_t count, bytes, characters = 0, length;
    xcvm_string *spans;
    char *text;
    xcvm_poller poller = xcvm_poller_of(k);
    XCVM_CHECK(k->error, xcvm_tensor_size(XCVM_STRING, out->rank, out->dims, &count, &bytes), OUT_OF_RANGE,
               "a result of strings is too large");
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        if (indices[i] < 0)
            continue;
        xcvm_string_at(from, (size_t)indices[i], &length);
        XCVM_CHECK(k->error, xcvm_size_add(characters, length, &characters), OUT_OF_RANGE,
                   "a result of strings is too large");
    }
    XCVM_TRY(xcvm_kernel_allocate_strings(k, out, out->rank, out->dims, characters, &spans, &text));
    size_t offset = bytes;
    const char *end = xcvm_strings_end(out), *from_end = xcvm_strings_end(from);
    for (size_t i = 0; i < count; i++) {
        const char *string = from->data;
        length = 0;
        if (indices[i] >= 0)
            string = xcvm_string_at(from, (size_t)indices[i], &length);
        spans[i] = (xcvm_string){.offset = offset, .length = length};
        XCVM_TRY(xcvm_poll_after(&poller, 1 + length / XCVM_STEP_BYTES));
        XCVM_TRY(xcvm_kernel_copy_string(k, text + (offset - bytes), end, string, from_end, length));
        offset += length;
    }
    return XCVM_OK;
}

xcvm_status xcvm_kernel_allocate_list(xcvm_kernel *k, xcvm_value *list, xcvm_kind kind, xcvm_dtype dtype, size_t count)
{
    xcvm_storage *storage;
    XCVM_CHECK(k->error, count <= UINT32_MAX, OUT_OF_RANGE, "%zu items are too many for a list", count);
    xcvm_value_clear(list);
    XCVM_TRY(xcvm_heap_allocate_list(k->heap, count, &storage, k->error));
    list->kind = (uint8_t)kind;
    list->dtype = (uint8_t)dtype;
    list->rank = -1;
    list->dims[0] = 1;
    list->count = (uint32_t)count;
    list->memory_kind = XCVM_MEMORY_OWNED;
    list->storage = storage;
    list->data = storage->data;
    return XCVM_OK;
}

static xcvm_status copy_bytes(void *kernel, void *to, const void *from, size_t bytes)
{
    return xcvm_kernel_copy(kernel, to, from, bytes);
}

xcvm_status xcvm_kernel_keep(xcvm_kernel *k, xcvm_value *to, const xcvm_value *from)
{
    const xcvm_retention retention = {.heap = k->heap, .share = true, .copy = copy_bytes, .user = k};
    return xcvm_value_retain_with(&retention, to, from, k->error);
}

enum {
    SOME_SCRATCH = 128 << 10,
    BEFORE = 4096 /* upper bound of the header before scratch memory */
};

void *xcvm_kernel_scratch(xcvm_kernel *k, size_t bytes)
{
    if (k->scratch != NULL && bytes <= k->scratch_bytes)
        return k->scratch;
    xcvm_heap_discard(k->heap, k->scratch_storage);
    k->scratch_storage = NULL;
    k->scratch = NULL;
    k->scratch_bytes = 0;
    /* A huge page maps as fast as some dozens of small ones, and later kernels need more scratch. The last part should
     * not be on small pages either, because their placement varies and so do the times. */
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    if (bytes >= SOME_SCRATCH && bytes <= SIZE_MAX - 2 * XCVM_HUGE_PAGE &&
        xcvm_round_up(bytes + BEFORE, XCVM_HUGE_PAGE) <= xcvm_heap_left(k->heap))
        status = xcvm_heap_allocate(k->heap, xcvm_round_up(bytes + BEFORE, XCVM_HUGE_PAGE) - BEFORE,
                                    &k->scratch_storage, NULL);
    if (status != XCVM_OK && xcvm_heap_allocate(k->heap, bytes, &k->scratch_storage, k->error) != XCVM_OK)
        return NULL;
    k->scratch = k->scratch_storage->data;
    k->scratch_bytes = k->scratch_storage->bytes;
    xcvm_memory_populate(k->scratch, k->scratch_bytes);
    return k->scratch;
}

/* Several workers may stop at the same time. Only the one that changes the status writes the message. */
static xcvm_status stop(xcvm_error *error, xcvm_status status, const char *message)
{
    if (error == NULL)
        return status;
    xcvm_status seen = __atomic_load_n(&error->status, __ATOMIC_RELAXED);
    if (seen != status &&
        __atomic_compare_exchange_n(&error->status, &seen, status, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        snprintf(error->message, sizeof error->message, "%s", message);
    return status;
}

xcvm_status xcvm_kernel_poll(const xcvm_kernel *k)
{
    if (k->cancelled != NULL && __atomic_load_n(k->cancelled, __ATOMIC_RELAXED) != 0)
        return stop(k->error, XCVM_CANCELLED, "the run was cancelled");
    if (k->deadline_ns != 0 && xcvm_clock_ns() >= k->deadline_ns)
        return stop(k->error, XCVM_OUT_OF_TIME, "the deadline has passed");
    return XCVM_OK;
}

enum {
    PORTION_GRAINS = 8,     /* grains between polls; a single item that justifies a thread is a portion by itself */
    PORTION_BYTES = 4 << 20 /* bytes copied or set between polls */
};

typedef struct portions {
    const xcvm_kernel *k;
    size_t portion;
    xcvm_range_body body;
    void *context;
} portions;

static void run_portions(void *context, size_t begin, size_t end, int worker)
{
    const portions *p = context;
    for (size_t at = begin; at < end && (at == begin || xcvm_kernel_poll(p->k) == XCVM_OK);) {
        const size_t last = end - at > p->portion ? at + p->portion : end;
        p->body(p->context, at, last, worker);
        at = last;
    }
}

xcvm_status xcvm_kernel_parallel(const xcvm_kernel *k, size_t count, size_t grain, xcvm_range_body body, void *context)
{
    portions p = {k, grain, body, context};
    if (grain != 1 && __builtin_mul_overflow(grain, (size_t)PORTION_GRAINS, &p.portion))
        p.portion = SIZE_MAX;
    if (grain == 0)
        p.portion = count;
    xcvm_parallel(k->threads, count, grain, run_portions, &p);
    return xcvm_kernel_poll(k);
}

xcvm_status xcvm_kernel_copy(const xcvm_kernel *k, void *to, const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const size_t n = bytes - at < PORTION_BYTES ? bytes - at : PORTION_BYTES;
        memcpy((char *)to + at, (const char *)from + at, n);
        at += n;
        if (n == PORTION_BYTES)
            XCVM_TRY(xcvm_kernel_poll(k));
    }
    return XCVM_OK;
}

xcvm_status xcvm_kernel_fill(const xcvm_kernel *k, void *to, int byte, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const size_t n = bytes - at < PORTION_BYTES ? bytes - at : PORTION_BYTES;
        memset((char *)to + at, byte, n);
        at += n;
        if (n == PORTION_BYTES)
            XCVM_TRY(xcvm_kernel_poll(k));
    }
    return XCVM_OK;
}
