/* Values: tensor sizes, storage reference counts, list items, and text for messages. */
#include "base/value.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>

/* ---- Storage ---- */

/* Header before the bytes of storage that comes from an allocator. */
typedef struct owned_storage {
    xcvm_storage storage;
    xcvm_allocator allocator;
} owned_storage;

enum {
    /* Blocks up to this size are requested with the alignment of malloc, which has them ready, while a greater
     * alignment makes it search. The elements then begin at the first suitable place behind the header. */
    SMALL_BYTES = 1024,
    SMALL_ALIGNMENT = alignof(max_align_t),
    OWNED_HEADER = (sizeof(owned_storage) + 2 * XCVM_ALIGNMENT - SMALL_ALIGNMENT - 1) / XCVM_ALIGNMENT * XCVM_ALIGNMENT
};

void xcvm_storage_retain(xcvm_storage *storage) { __atomic_fetch_add(&storage->refs, 1, __ATOMIC_RELAXED); }

void xcvm_storage_release(xcvm_storage *storage)
{
    if (storage != NULL && __atomic_fetch_sub(&storage->refs, 1, __ATOMIC_ACQ_REL) == 1)
        storage->destroy(storage);
}

static void destroy_owned(xcvm_storage *storage)
{
    owned_storage *owned = (owned_storage *)storage;
    xcvm_allocator allocator = owned->allocator;
    xcvm_deallocate(&allocator, owned, OWNED_HEADER + storage->bytes);
}

void xcvm_storage_clear_items(xcvm_storage *storage)
{
    xcvm_value *items = storage->data;
    for (size_t i = 0; i < storage->bytes / sizeof *items; i++)
        xcvm_value_clear(&items[i]);
}

static void destroy_owned_list(xcvm_storage *storage)
{
    xcvm_storage_clear_items(storage);
    destroy_owned(storage);
}

xcvm_storage *xcvm_storage_create(const xcvm_allocator *allocator, size_t bytes)
{
    size_t total;
    if (!xcvm_size_add(bytes, OWNED_HEADER, &total))
        return NULL;
    allocator = xcvm_allocator_or_default(allocator);
    owned_storage *owned = total <= SMALL_BYTES ? allocator->allocate(allocator->user, total, SMALL_ALIGNMENT)
                                                : xcvm_allocate(allocator, total);
    if (owned == NULL)
        return NULL;
    owned->allocator = *allocator;
    char *end = (char *)owned + sizeof *owned;
    owned->storage = (xcvm_storage){.refs = 1,
                                    .bytes = bytes,
                                    .data = end + (-(uintptr_t)end & (XCVM_ALIGNMENT - 1)),
                                    .destroy = destroy_owned,
                                    .owner = owned};
    return &owned->storage;
}

xcvm_storage *xcvm_storage_create_list(const xcvm_allocator *allocator, size_t count)
{
    size_t bytes;
    xcvm_storage *storage =
        xcvm_size_mul(count, sizeof(xcvm_value), &bytes) ? xcvm_storage_create(allocator, bytes) : NULL;
    if (storage != NULL) {
        memset(storage->data, 0, bytes);
        storage->destroy = destroy_owned_list;
    }
    return storage;
}

/* ---- Shapes ---- */

size_t xcvm_element_count(const xcvm_value *tensor)
{
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++)
        count *= (size_t)tensor->dims[i];
    return count;
}

bool xcvm_tensor_size(xcvm_dtype dtype, int rank, const int64_t *dims, size_t *count, size_t *bytes)
{
    size_t elements = 1;
    bool empty = false;
    if (rank < 0)
        return false;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return false;
        if (dims[i] == 0)
            empty = true;
    }
    /* The nonzero dimensions of an empty tensor are also bounded, so that kernels can multiply any of them. */
    for (int i = 0; i < rank; i++)
        if (dims[i] != 0 && ((uint64_t)dims[i] > SIZE_MAX || !xcvm_size_mul(elements, (size_t)dims[i], &elements)))
            return false;
    size_t bits = (size_t)xcvm_dtype_bits(dtype), total;
    if (bits < 8)
        total = elements / 8 * bits + (elements % 8 * bits + 7) / 8;
    else if (!xcvm_size_mul(elements, bits / 8, &total))
        return false;
    if ((uint64_t)elements > INT64_MAX || total > PTRDIFF_MAX)
        return false;
    *count = empty ? 0 : elements;
    *bytes = empty ? 0 : total;
    return true;
}

bool xcvm_dims_known(const xcvm_value *tensor)
{
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->dims[i] < 0)
            return false;
    return tensor->rank >= 0;
}

bool xcvm_same_shape(const xcvm_value *a, const xcvm_value *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

/* ---- Values ---- */

void xcvm_value_set_tensor(xcvm_value *value, xcvm_dtype dtype, int rank, const int64_t *dims)
{
    value->kind = XCVM_KIND_TENSOR;
    value->dtype = (uint8_t)dtype;
    value->rank = (int8_t)rank;
    value->count = 0;
    if (rank > 0)
        memmove(value->dims, dims, (size_t)rank * sizeof *dims);
    for (int i = rank < 0 ? 0 : rank; i < XCVM_MAX_RANK; i++)
        value->dims[i] = 0;
    size_t count, bytes;
    value->bytes = xcvm_tensor_size(dtype, rank, value->dims, &count, &bytes) ? bytes : 0;
}

void xcvm_value_share(xcvm_value *to, const xcvm_value *from)
{
    /* Another thread may count references to `from` meanwhile. */
    memcpy((char *)to + sizeof to->refs, (const char *)from + sizeof from->refs, sizeof *to - sizeof to->refs);
    if (to->storage != NULL)
        xcvm_storage_retain(to->storage);
}

void xcvm_value_clear(xcvm_value *value)
{
    xcvm_storage *storage = value->storage;
    *value = (xcvm_value){.refs = value->refs};
    xcvm_storage_release(storage);
}

bool xcvm_list_update(xcvm_value *list)
{
    const xcvm_value *items = xcvm_items(list);
    list->dims[0] = 1;
    if (list->kind == XCVM_KIND_MAP && list->count == 2)
        list->dtype = items[1].dtype;
    for (size_t i = 0; i < list->count; i++) {
        if (list->dtype == XCVM_NO_DTYPE)
            list->dtype = items[i].dtype;
        if (xcvm_kind_is_list(items[i].kind) && items[i].dims[0] >= list->dims[0])
            list->dims[0] = items[i].dims[0] + 1;
    }
    return list->dims[0] <= XCVM_MAX_NESTING;
}

bool xcvm_strings_valid(const void *data, size_t bytes, size_t count)
{
    size_t spans;
    if (!xcvm_size_mul(count, sizeof(xcvm_string), &spans) || spans > bytes)
        return false;
    const xcvm_string *strings = data;
    for (size_t i = 0; i < count; i++)
        if (strings[i].offset < spans || strings[i].offset > bytes || strings[i].length > bytes - strings[i].offset)
            return false;
    return true;
}

static size_t append(char *text, size_t size, size_t length, const char *piece)
{
    int written = length < size ? snprintf(text + length, size - length, "%s", piece) : -1;
    return written < 0 ? length : length + (size_t)written;
}

const char *xcvm_dims_describe(int rank, const int64_t *dims, char *text, size_t size)
{
    if (size == 0)
        return text;
    text[0] = '\0';
    size_t length = append(text, size, 0, "[");
    for (int i = 0; i < rank; i++) {
        char dim[24];
        snprintf(dim, sizeof dim, "%lld", (long long)dims[i]);
        length = append(text, size, length, i == 0 ? "" : "x");
        length = append(text, size, length, dims[i] < 0 ? "?" : dim);
    }
    append(text, size, length, rank < 0 ? "...]" : "]");
    return text;
}

const char *xcvm_value_describe(const xcvm_value *value, char *text, size_t size)
{
    char dims[192];
    switch ((xcvm_kind)value->kind) {
    case XCVM_KIND_TENSOR:
        xcvm_dims_describe(value->rank, value->dims, dims, sizeof dims);
        snprintf(text, size, "%s%s", xcvm_dtype_name(value->dtype), dims);
        break;
    case XCVM_KIND_SEQUENCE:
        snprintf(text, size, "seq(%s)", xcvm_dtype_name(value->dtype));
        break;
    case XCVM_KIND_OPTIONAL:
        snprintf(text, size, "optional(%s)", xcvm_dtype_name(value->dtype));
        break;
    case XCVM_KIND_MAP:
        snprintf(text, size, "map(%s)", xcvm_dtype_name(value->dtype));
        break;
    case XCVM_KIND_OPAQUE:
        snprintf(text, size, "opaque");
        break;
    case XCVM_KIND_NULL:
        snprintf(text, size, "null");
        break;
    }
    return text;
}
