/* Public value handles: reference-counted xcvm_values. */
#include "base/retain.h"

#include <stdalign.h>
#include <stddef.h>

typedef struct handle {
    xcvm_value value;
    xcvm_allocator allocator;
} handle;

/* Allocates a struct. It needs no more alignment than malloc has, which is faster than xcvm_allocate. */
static void *allocate_struct(const xcvm_allocator *allocator, size_t bytes)
{
    return allocator->allocate(allocator->user, bytes, alignof(max_align_t));
}

static xcvm_value *handle_create(const xcvm_allocator *allocator, xcvm_error *error)
{
    allocator = xcvm_allocator_or_default(allocator);
    handle *h = allocate_struct(allocator, sizeof *h);
    if (h == NULL) {
        xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for a value");
        return NULL;
    }
    *h = (handle){.value = {.refs = 1}, .allocator = *allocator};
    return &h->value;
}

static xcvm_status check_shape(xcvm_dtype dtype, int rank, const int64_t *dims, size_t *count, size_t *bytes,
                               xcvm_error *error)
{
    XCVM_CHECK(error, xcvm_dtype_bits(dtype) != 0, INVALID_ARGUMENT, "%d is not an element type", (int)dtype);
    XCVM_CHECK(error, rank >= 0 && rank <= XCVM_MAX_RANK, INVALID_ARGUMENT, "rank %d is not in [0, %d]", rank,
               XCVM_MAX_RANK);
    XCVM_CHECK(error, rank == 0 || dims != NULL, INVALID_ARGUMENT, "dims is NULL");
    for (int i = 0; i < rank; i++)
        XCVM_CHECK(error, dims[i] >= 0, INVALID_ARGUMENT, "dimension %d is %lld", i, (long long)dims[i]);
    XCVM_CHECK(error, xcvm_tensor_size(dtype, rank, dims, count, bytes), INVALID_ARGUMENT,
               "the size of the tensor overflows");
    return XCVM_OK;
}

/* Makes `*value` a handle of a tensor in `storage`. Takes over the reference to `storage`, also on failure. */
static xcvm_status hand_out(const xcvm_allocator *allocator, xcvm_storage *storage, xcvm_dtype dtype, int rank,
                            const int64_t *dims, xcvm_value **value, xcvm_error *error)
{
    xcvm_value *created = handle_create(allocator, error);
    if (created == NULL) {
        xcvm_storage_release(storage);
        return XCVM_OUT_OF_MEMORY;
    }
    xcvm_value_set_tensor(created, dtype, rank, dims);
    created->memory_kind = XCVM_MEMORY_OWNED;
    created->storage = storage;
    created->data = storage->data;
    created->bytes = storage->bytes;
    *value = created;
    return XCVM_OK;
}

xcvm_status xcvm_tensor_create(const xcvm_allocator *allocator, xcvm_dtype dtype, int rank, const int64_t *dims,
                               xcvm_value **tensor, xcvm_error *error)
{
    size_t count, bytes;
    XCVM_CHECK(error, tensor != NULL, INVALID_ARGUMENT, "tensor is NULL");
    XCVM_TRY(check_shape(dtype, rank, dims, &count, &bytes, error));
    XCVM_CHECK(error, dtype != XCVM_STRING, INVALID_ARGUMENT, "string tensors are made with xcvm_string_tensor_create");
    xcvm_storage *storage = xcvm_storage_create(allocator, bytes);
    XCVM_CHECK(error, storage != NULL, OUT_OF_MEMORY, "no memory for a tensor of %zu bytes", bytes);
    return hand_out(allocator, storage, dtype, rank, dims, tensor, error);
}

/* Storage that wraps the caller's memory. */
typedef struct wrapped_storage {
    xcvm_storage storage;
    xcvm_finalizer release;
} wrapped_storage;

static void destroy_wrapped(xcvm_storage *storage)
{
    wrapped_storage wrapped = *(wrapped_storage *)storage;
    xcvm_deallocate(NULL, storage, sizeof wrapped);
    if (wrapped.release.call != NULL)
        wrapped.release.call(wrapped.release.user);
}

xcvm_status xcvm_tensor_wrap(xcvm_dtype dtype, int rank, const int64_t *dims, void *data, xcvm_finalizer release,
                             xcvm_value **tensor, xcvm_error *error)
{
    size_t count, bytes;
    XCVM_CHECK(error, tensor != NULL, INVALID_ARGUMENT, "tensor is NULL");
    XCVM_TRY(check_shape(dtype, rank, dims, &count, &bytes, error));
    XCVM_CHECK(error, dtype != XCVM_STRING, INVALID_ARGUMENT, "string tensors are made with xcvm_string_tensor_create");
    XCVM_CHECK(error, data != NULL || bytes == 0, INVALID_ARGUMENT, "data is NULL");
    size_t alignment = xcvm_dtype_size(dtype);
    /* Elements of three bytes (f24) have an alignment of one. */
    alignment = alignment > 8 ? 8 : alignment != 0 && alignment % 2 == 0 ? alignment : 1;
    XCVM_CHECK(error, (uintptr_t)data % alignment == 0, INVALID_ARGUMENT,
               "data of element type %s must be aligned to %zu bytes", xcvm_dtype_name(dtype), alignment);
    /* The handle is created first: once the storage exists, releasing it would call `release`, which must not happen on
     * failure. */
    xcvm_value *created = handle_create(NULL, error);
    if (created == NULL)
        return XCVM_OUT_OF_MEMORY;
    wrapped_storage *wrapped = allocate_struct(xcvm_allocator_or_default(NULL), sizeof *wrapped);
    if (wrapped == NULL) {
        xcvm_value_release(created);
        return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for a value");
    }
    /* An empty tensor is never read, but NULL data means "unknown" in some places. */
    *wrapped = (wrapped_storage){.storage = {.refs = 1,
                                             .bytes = bytes,
                                             .data = data != NULL ? data : (void *)wrapped,
                                             .destroy = destroy_wrapped},
                                 .release = release};
    xcvm_value_set_tensor(created, dtype, rank, dims);
    created->memory_kind = XCVM_MEMORY_OWNED;
    created->storage = &wrapped->storage;
    created->data = wrapped->storage.data;
    *tensor = created;
    return XCVM_OK;
}

xcvm_status xcvm_string_tensor_create(const xcvm_allocator *allocator, int rank, const int64_t *dims,
                                      const char *const *strings, const size_t *lengths, xcvm_value **tensor,
                                      xcvm_error *error)
{
    size_t count, spans;
    XCVM_CHECK(error, tensor != NULL, INVALID_ARGUMENT, "tensor is NULL");
    XCVM_TRY(check_shape(XCVM_STRING, rank, dims, &count, &spans, error));
    XCVM_CHECK(error, count == 0 || strings != NULL, INVALID_ARGUMENT, "strings is NULL");
    size_t bytes = spans;
    for (size_t i = 0; i < count; i++) {
        XCVM_CHECK(error, strings[i] != NULL || (lengths != NULL && lengths[i] == 0), INVALID_ARGUMENT,
                   "string %zu is NULL", i);
        XCVM_CHECK(error, xcvm_size_add(bytes, lengths != NULL ? lengths[i] : strlen(strings[i]), &bytes),
                   INVALID_ARGUMENT, "the size of the tensor overflows");
    }
    xcvm_storage *storage = xcvm_storage_create(allocator, bytes);
    XCVM_CHECK(error, storage != NULL, OUT_OF_MEMORY, "no memory for a tensor of %zu bytes", bytes);
    xcvm_string *span = storage->data;
    size_t offset = spans;
    for (size_t i = 0; i < count; i++) {
        size_t length = lengths != NULL ? lengths[i] : strlen(strings[i]);
        span[i] = (xcvm_string){.offset = offset, .length = length};
        if (length != 0)
            memcpy((char *)storage->data + offset, strings[i], length);
        offset += length;
    }
    return hand_out(allocator, storage, XCVM_STRING, rank, dims, tensor, error);
}

xcvm_status xcvm_list_create(const xcvm_allocator *allocator, xcvm_kind kind, size_t count, xcvm_value *const *items,
                             xcvm_value **list, xcvm_error *error)
{
    XCVM_CHECK(error, list != NULL, INVALID_ARGUMENT, "list is NULL");
    XCVM_CHECK(error, xcvm_kind_is_list(kind), INVALID_ARGUMENT, "kind %d is not a list", (int)kind);
    XCVM_CHECK(error, kind != XCVM_KIND_OPTIONAL || count <= 1, INVALID_ARGUMENT,
               "an optional holds at most one value, not %zu", count);
    XCVM_CHECK(error, kind != XCVM_KIND_MAP || count == 2, INVALID_ARGUMENT,
               "a map is made of two values, its keys and its items, not of %zu", count);
    XCVM_CHECK(error, count == 0 || items != NULL, INVALID_ARGUMENT, "items is NULL");
    XCVM_CHECK(error, count <= UINT32_MAX, INVALID_ARGUMENT, "%zu items are too many for a list", count);
    for (size_t i = 0; i < count; i++)
        XCVM_CHECK(error, items[i] != NULL, INVALID_ARGUMENT, "item %zu is NULL", i);
    xcvm_value *created = handle_create(allocator, error);
    if (created == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcvm_storage *storage = xcvm_storage_create_list(allocator, count);
    if (storage == NULL) {
        xcvm_value_release(created);
        return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for a list of %zu values", count);
    }
    created->kind = (uint8_t)kind;
    created->rank = -1;
    created->count = (uint32_t)count;
    created->memory_kind = XCVM_MEMORY_OWNED;
    created->storage = storage;
    created->data = storage->data;
    const xcvm_retention retention = {.allocator = allocator, .share = true};
    for (size_t i = 0; i < count; i++) {
        xcvm_status status = xcvm_value_retain_with(&retention, (xcvm_value *)storage->data + i, items[i], error);
        if (status != XCVM_OK) {
            xcvm_value_release(created);
            xcvm_error_prefix(error, "item %zu of the list", i);
            return status;
        }
    }
    if (!xcvm_list_update(created)) {
        xcvm_value_release(created);
        return xcvm_error_set(error, XCVM_INVALID_ARGUMENT, "lists nest deeper than %d", XCVM_MAX_NESTING);
    }
    *list = created;
    return XCVM_OK;
}

/* Creates a handle of the value that `retention` makes from `from`. */
static xcvm_status keep_in_handle(const xcvm_retention *retention, const xcvm_value *from, xcvm_value **value,
                                  xcvm_error *error)
{
    xcvm_value *created = handle_create(retention->allocator, error);
    if (created == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcvm_status status = xcvm_value_retain_with(retention, created, from, error);
    if (status != XCVM_OK)
        xcvm_value_release(created);
    else
        *value = created;
    return status;
}

xcvm_status xcvm_value_copy(const xcvm_allocator *allocator, const xcvm_value *value, xcvm_value **copy,
                            xcvm_error *error)
{
    XCVM_CHECK(error, value != NULL && copy != NULL, INVALID_ARGUMENT, "value or copy is NULL");
    return keep_in_handle(&(xcvm_retention){.allocator = allocator}, value, copy, error);
}

xcvm_status xcvm_value_retain(const xcvm_value *value, xcvm_value **kept, xcvm_error *error)
{
    XCVM_CHECK(error, value != NULL && kept != NULL, INVALID_ARGUMENT, "value or kept is NULL");
    /* A value without references is embedded in another object, which controls its lifetime. */
    if (__atomic_load_n(&value->refs, __ATOMIC_RELAXED) == 0)
        return keep_in_handle(&(xcvm_retention){.share = true}, value, kept, error);
    xcvm_value *counted = (xcvm_value *)(uintptr_t)value;
    __atomic_fetch_add(&counted->refs, 1, __ATOMIC_RELAXED);
    *kept = counted;
    return XCVM_OK;
}

void xcvm_value_release(xcvm_value *value)
{
    if (value == NULL || __atomic_load_n(&value->refs, __ATOMIC_RELAXED) == 0 ||
        __atomic_fetch_sub(&value->refs, 1, __ATOMIC_ACQ_REL) != 1)
        return;
    handle *h = (handle *)value;
    xcvm_allocator allocator = h->allocator;
    xcvm_value_clear(value);
    xcvm_deallocate(&allocator, h, sizeof *h);
}

xcvm_kind xcvm_value_kind(const xcvm_value *value) { return value != NULL ? value->kind : XCVM_KIND_NULL; }

xcvm_dtype xcvm_value_dtype(const xcvm_value *value) { return value != NULL ? value->dtype : XCVM_NO_DTYPE; }

int xcvm_value_rank(const xcvm_value *value)
{
    return value != NULL && value->kind == XCVM_KIND_TENSOR ? value->rank : -1;
}

const int64_t *xcvm_value_dims(const xcvm_value *value)
{
    return value != NULL && value->kind == XCVM_KIND_TENSOR ? value->dims : NULL;
}

size_t xcvm_value_count(const xcvm_value *value)
{
    if (value == NULL || value->kind == XCVM_KIND_NULL)
        return 0;
    if (value->kind != XCVM_KIND_TENSOR)
        return value->count;
    size_t count, bytes;
    return xcvm_tensor_size(value->dtype, value->rank, value->dims, &count, &bytes) ? count : 0;
}

void *xcvm_value_data(const xcvm_value *value)
{
    return value != NULL && value->kind == XCVM_KIND_TENSOR && value->dtype != XCVM_STRING ? value->data : NULL;
}

size_t xcvm_value_bytes(const xcvm_value *value)
{
    return value != NULL && value->kind == XCVM_KIND_TENSOR ? value->bytes : 0;
}

const xcvm_value *xcvm_value_item_at(const xcvm_value *value, size_t index)
{
    return value != NULL && xcvm_kind_is_list(value->kind) && index < value->count ? xcvm_items(value) + index : NULL;
}

const char *xcvm_value_string_at(const xcvm_value *value, size_t index, size_t *length)
{
    if (value == NULL || value->kind != XCVM_KIND_TENSOR || value->dtype != XCVM_STRING || value->data == NULL ||
        index >= xcvm_value_count(value))
        return NULL;
    size_t unused;
    return xcvm_string_at(value, index, length != NULL ? length : &unused);
}
