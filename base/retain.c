/* Keeping values: shares reference-counted storage if sharing is allowed, and copies everything else. */
#include "base/retain.h"

/* A copied value, found by its data and kind, and its first copy. Open addressing, at most half full. */
typedef struct entry {
    const xcvm_value *from;
    const xcvm_value *copy;
} entry;

typedef struct copier {
    const xcvm_retention *retention;
    xcvm_error *error;
    xcvm_storage *table; /* a power of two of entries; NULL at first */
    size_t capacity, count;
} copier;

static xcvm_status allocate_copy(const xcvm_retention *retention, size_t bytes, xcvm_storage **storage,
                                 xcvm_error *error)
{
    if (retention->heap != NULL)
        return xcvm_heap_allocate(retention->heap, bytes, storage, error);
    *storage = xcvm_storage_create(retention->allocator, bytes);
    XCVM_CHECK(error, *storage != NULL, OUT_OF_MEMORY, "no memory for a copy of %zu bytes", bytes);
    return XCVM_OK;
}

static xcvm_status allocate_list_copy(const xcvm_retention *retention, size_t count, xcvm_storage **storage,
                                      xcvm_error *error)
{
    if (retention->heap != NULL)
        return xcvm_heap_allocate_list(retention->heap, count, storage, error);
    *storage = xcvm_storage_create_list(retention->allocator, count);
    XCVM_CHECK(error, *storage != NULL, OUT_OF_MEMORY, "no memory for a list of %zu values", count);
    return XCVM_OK;
}

/* ---- Table of copied values ---- */

static bool is_same(const xcvm_value *a, const xcvm_value *b)
{
    return a->data == b->data && a->kind == b->kind && a->bytes == b->bytes && a->count == b->count;
}

static entry *find(const copier *c, const xcvm_value *from)
{
    entry *entries = c->table->data;
    const size_t mask = c->capacity - 1;
    size_t at = (size_t)((uintptr_t)from->data / 16 * UINT64_C(0x9e3779b97f4a7c15) >> 16) & mask;
    while (entries[at].from != NULL && !is_same(entries[at].from, from))
        at = (at + 1) & mask;
    return &entries[at];
}

static xcvm_status grow(copier *c)
{
    enum { FIRST = 64 };
    copier larger = *c;
    larger.capacity = c->capacity != 0 ? 2 * c->capacity : FIRST;
    XCVM_TRY(allocate_copy(c->retention, larger.capacity * sizeof(entry), &larger.table, c->error));
    memset(larger.table->data, 0, larger.capacity * sizeof(entry));
    const entry *entries = c->capacity != 0 ? c->table->data : NULL;
    for (size_t i = 0; i < c->capacity; i++)
        if (entries[i].from != NULL)
            *find(&larger, entries[i].from) = entries[i];
    xcvm_storage_release(c->table);
    *c = larger;
    return XCVM_OK;
}

/* ---- Copies ---- */

static bool is_shared(const xcvm_retention *retention, const xcvm_value *from)
{
    const xcvm_storage *storage = from->storage;
    return retention->share && storage != NULL && (!storage->single_thread || storage->owner == retention->heap);
}

/* Gives `to` the type of `from` and `storage` as its elements or items. */
static void adopt(xcvm_value *to, const xcvm_value *from, xcvm_storage *storage)
{
    /* Another thread may count references to `from` meanwhile. */
    memcpy((char *)to + sizeof to->refs, (const char *)from + sizeof from->refs, sizeof *to - sizeof to->refs);
    to->memory_kind = XCVM_MEMORY_OWNED;
    to->storage = storage;
    to->data = storage->data;
}

static xcvm_status copy_tensor(const copier *c, xcvm_value *to, const xcvm_value *from)
{
    xcvm_storage *storage;
    XCVM_TRY(allocate_copy(c->retention, from->bytes, &storage, c->error));
    adopt(to, from, storage);
    xcvm_status status = XCVM_OK;
    if (c->retention->copy != NULL)
        status = c->retention->copy(c->retention->user, to->data, from->data, from->bytes);
    else if (from->bytes != 0)
        memcpy(to->data, from->data, from->bytes);
    if (status != XCVM_OK)
        xcvm_value_clear(to);
    return status;
}

static xcvm_status retain_value(copier *c, xcvm_value *to, const xcvm_value *from, bool alone);

static xcvm_status copy_list(copier *c, xcvm_value *to, const xcvm_value *from)
{
    xcvm_storage *storage;
    XCVM_TRY(allocate_list_copy(c->retention, from->count, &storage, c->error));
    adopt(to, from, storage);
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < from->count && status == XCVM_OK; i++)
        status = retain_value(c, (xcvm_value *)storage->data + i, xcvm_items(from) + i, false);
    if (status != XCVM_OK)
        xcvm_value_clear(to);
    return status;
}

/* `alone`: the value is not in a list, so it is not looked up again. */
static xcvm_status retain_value(copier *c, xcvm_value *to, const xcvm_value *from, bool alone)
{
    if (from->kind == XCVM_KIND_NULL || is_shared(c->retention, from)) {
        xcvm_value_share(to, from);
        return XCVM_OK;
    }
    const bool list = xcvm_kind_is_list(from->kind);
    XCVM_CHECK(c->error, list || from->kind == XCVM_KIND_TENSOR, UNSUPPORTED, "an opaque value cannot be copied");
    const entry *known = c->count != 0 ? find(c, from) : NULL;
    if (known != NULL && known->from != NULL) {
        memcpy((char *)to + sizeof to->refs, (const char *)from + sizeof from->refs, sizeof *to - sizeof to->refs);
        to->memory_kind = XCVM_MEMORY_OWNED;
        to->storage = known->copy->storage;
        to->data = to->storage->data;
        xcvm_storage_retain(to->storage);
        return XCVM_OK;
    }
    XCVM_TRY(list ? copy_list(c, to, from) : copy_tensor(c, to, from));
    if (alone || from->data == NULL)
        return XCVM_OK;
    xcvm_status status = 2 * c->count >= c->capacity ? grow(c) : XCVM_OK;
    if (status != XCVM_OK) {
        xcvm_value_clear(to);
        return status;
    }
    *find(c, from) = (entry){from, to};
    c->count++;
    return XCVM_OK;
}

xcvm_status xcvm_value_retain_with(const xcvm_retention *retention, xcvm_value *to, const xcvm_value *from,
                                   xcvm_error *error)
{
    if (from->kind == XCVM_KIND_NULL || is_shared(retention, from)) {
        xcvm_value_share(to, from);
        return XCVM_OK;
    }
    copier c = {.retention = retention, .error = error};
    xcvm_status status = retain_value(&c, to, from, true);
    xcvm_storage_release(c.table);
    return status;
}
