/* Values: the tensors and lists that registers hold. */
#ifndef XCVM_BASE_VALUE_H
#define XCVM_BASE_VALUE_H

#include "base/allocator.h"
#include "base/dtype.h"

/* Reference-counted ownership of a block of bytes or of the values of a list. Created by a heap (heap.h) or value.c. */
typedef struct xcvm_storage {
    uint32_t refs;                              /* atomic */
    uint32_t version;                           /* modification counter of the elements; 0 at first */
    size_t bytes;                               /* capacity in bytes */
    void *data;                                 /* 64-byte aligned unless wrapped */
    void (*destroy)(struct xcvm_storage *self); /* called when refs reach zero */
    void *owner;                                /* context of destroy */
    bool single_thread; /* the last release must be on the thread that owns the owner at that time */
} xcvm_storage;

/* Thread-safe, except for the last release of single-threaded storage. */
void xcvm_storage_retain(xcvm_storage *storage);
/* Accepts NULL. */
void xcvm_storage_release(xcvm_storage *storage);

/* The owner of a tensor's elements. */
typedef enum xcvm_memory_kind {
    XCVM_MEMORY_NONE,     /* no elements: an unset register, or a compiler type without data */
    XCVM_MEMORY_OWNED,    /* `storage` */
    XCVM_MEMORY_CONSTANT, /* the program */
    XCVM_MEMORY_ARENA,    /* the session's arena, until its slot is reused */
    XCVM_MEMORY_BORROWED  /* whoever bound the input or output, for one run */
} xcvm_memory_kind;

/* Unknown ranks and dimensions, in compiler types and shape rules, never at run time. The rank is -1. Dimensions below
 * 0 are symbols: equal ones are the same symbol, except XCVM_ANY_DIM, which equals nothing, not even itself. */
enum { XCVM_ANY_DIM = -1 };

/* Maximum nesting depth of lists, so that functions on values may recurse. */
enum { XCVM_MAX_NESTING = 16 };

struct xcvm_value {
    uint32_t refs;       /* atomic; for public handles. 0 for a value embedded in a session, program, graph or list */
    uint8_t kind;        /* xcvm_kind */
    uint8_t memory_kind; /* xcvm_memory_kind */
    uint8_t dtype;       /* xcvm_dtype; for a list, of its tensors, or 0 */
    int8_t rank;         /* -1 for a list */
    uint32_t count;      /* number of items of a list */
    size_t bytes;        /* bytes of data; for string tensors, spans and characters */
    void *data;          /* elements; for a list, `count` embedded xcvm_values owned by storage */
    xcvm_storage *storage;
    int64_t dims[XCVM_MAX_RANK]; /* for a list, dims[0] is its nesting depth, at least 1; last, so that frequently used
                                    members share a cache line with the first dimensions */
};

/* An element of a string tensor: `length` bytes at `offset` from the tensor's data. Characters follow the spans, so the
 * bytes of a string tensor can be mapped, copied and moved. */
typedef struct xcvm_string {
    uint64_t offset, length;
} xcvm_string;

/* Number of elements of a tensor whose dimensions are known and whose product fits. */
size_t xcvm_element_count(const xcvm_value *tensor);
/* Returns false if a dimension is unknown or negative, or if elements or bytes overflow. Packed types are rounded up to
 * whole bytes. For strings, only the spans count. */
bool xcvm_tensor_size(xcvm_dtype dtype, int rank, const int64_t *dims, size_t *count, size_t *bytes);
bool xcvm_dims_known(const xcvm_value *tensor);
bool xcvm_same_shape(const xcvm_value *a, const xcvm_value *b);

/* Sets kind, dtype, rank and dims, and bytes if all dims are known. Does not change data, storage and memory_kind. */
void xcvm_value_set_tensor(xcvm_value *value, xcvm_dtype dtype, int rank, const int64_t *dims);
/* Makes `to`, which must be clear, a view of `from`: shares its storage if there is one, otherwise borrows its data. */
void xcvm_value_share(xcvm_value *to, const xcvm_value *from);
/* Releases the storage and makes the value null. Keeps refs. */
void xcvm_value_clear(xcvm_value *value);
static inline const char *xcvm_string_at(const xcvm_value *tensor, size_t index, size_t *length)
{
    const xcvm_string *s = (const xcvm_string *)tensor->data + index;
    *length = (size_t)s->length;
    return (const char *)tensor->data + s->offset;
}
static inline const xcvm_value *xcvm_items(const xcvm_value *list) { return (const xcvm_value *)list->data; }
static inline bool xcvm_kind_is_list(xcvm_kind kind)
{
    return kind == XCVM_KIND_SEQUENCE || kind == XCVM_KIND_OPTIONAL || kind == XCVM_KIND_MAP;
}
/* Allocates storage of `bytes` bytes, 64-byte aligned, or of `count` null values for a list. Returns NULL if there is
 * no memory. */
xcvm_storage *xcvm_storage_create(const xcvm_allocator *allocator, size_t bytes);
xcvm_storage *xcvm_storage_create_list(const xcvm_allocator *allocator, size_t count);
/* Clears the values in a list's storage; called by its `destroy`. */
void xcvm_storage_clear_items(xcvm_storage *storage);
/* Sets the element type of a list, if it has none, and its depth from its items. A map's element type is that of its
 * second value. Returns false if it nests deeper than XCVM_MAX_NESTING. */
bool xcvm_list_update(xcvm_value *list);
/* Returns true if every span of a string tensor of `bytes` bytes is inside it. */
bool xcvm_strings_valid(const void *data, size_t bytes, size_t count);

/* Writes "f32[2x3]", "seq(f32)", "f32[Nx3]" if names are given, or "null", NUL-terminated. Returns `text`. */
const char *xcvm_value_describe(const xcvm_value *value, char *text, size_t size);
const char *xcvm_dims_describe(int rank, const int64_t *dims, char *text, size_t size);

#define XCVM_DATA(type, value) ((type *)(value)->data)
#define XCVM_CDATA(type, value) ((const type *)(value)->data)

#endif
