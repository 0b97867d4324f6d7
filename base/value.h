/* Values: the tensors and lists that registers hold. */
#ifndef XCVM_BASE_VALUE_H
#define XCVM_BASE_VALUE_H

#include "base/allocator.h"
#include "base/dtype.h"

/* Shared ownership of one block of bytes, or of the values of a list. Made by a heap (heap.h) or by value.c. */
typedef struct xcvm_storage {
    uint32_t refs;                              /* atomic */
    uint32_t version;                           /* of the elements, for who overwrites them; 0 at first */
    size_t bytes;                               /* capacity */
    void *data;                                 /* 64-byte aligned unless wrapped */
    void (*destroy)(struct xcvm_storage *self); /* called when refs reach zero */
    void *owner;                                /* for destroy */
    bool single_thread; /* the last release is for the one thread that the owner belongs to at that time */
} xcvm_storage;

/* From any thread, but the last release of single-threaded storage. */
void xcvm_storage_retain(xcvm_storage *storage);
/* NULL is accepted. */
void xcvm_storage_release(xcvm_storage *storage);

/* Storage: the counted memory that keeps the elements of a tensor alive. */
typedef enum xcvm_memory_kind {
    XCVM_MEMORY_NONE,     /* there are no elements: an unset register, or a type without data in the compiler */
    XCVM_MEMORY_OWNED,    /* `storage` does */
    XCVM_MEMORY_CONSTANT, /* the program does */
    XCVM_MEMORY_ARENA,    /* the session's arena does, until the slot is planned for something else */
    XCVM_MEMORY_BORROWED  /* whoever bound the input or output, for the run */
} xcvm_memory_kind;

/* Where ranks or dimensions may be unknown (in the compiler's types and in shape rules, never at run time): rank -1,
 * and dimensions below 0, of which equal ones are equal symbols and XCVM_ANY_DIM equals nothing, not even itself. */
enum { XCVM_ANY_DIM = -1 };

/* Lists hold lists no deeper than this, so that what walks values may recurse. */
enum { XCVM_MAX_NESTING = 16 };

struct xcvm_value {
    uint32_t refs; /* atomic; handles of the public API. 0 for a value embedded in a session, program, graph or list */
    uint8_t kind;  /* xcvm_kind */
    uint8_t memory_kind; /* xcvm_memory_kind */
    uint8_t dtype;       /* xcvm_dtype; of a list, that of the tensors in it or 0 */
    int8_t rank;         /* of a list: -1 */
    uint32_t count;      /* items of a list */
    size_t bytes;        /* of data; string tensors: spans and characters */
    void *data;          /* elements; for a list, `count` embedded xcvm_values, owned by storage */
    xcvm_storage *storage;
    int64_t dims[XCVM_MAX_RANK]; /* of a list: dims[0] is how deep lists nest in it, at least 1; behind what is asked
                                    for the most, which a line of the cache has with the first of them */
};

/* An element of a string tensor: `length` bytes at `offset` from the tensor's data, where they follow the spans. So
 * the bytes of a string tensor can be mapped, copied and moved as they are. */
typedef struct xcvm_string {
    uint64_t offset, length;
} xcvm_string;

/* Elements of a tensor whose dimensions are all known and whose product fits. */
size_t xcvm_element_count(const xcvm_value *tensor);
/* false if a dimension is unknown or negative or the product, in elements or bytes, does not fit. Packed types round up
 * to whole bytes; for strings it is the spans alone. */
bool xcvm_tensor_size(xcvm_dtype dtype, int rank, const int64_t *dims, size_t *count, size_t *bytes);
bool xcvm_dims_known(const xcvm_value *tensor);
bool xcvm_same_shape(const xcvm_value *a, const xcvm_value *b);

/* Sets kind, dtype, rank and dims, and bytes if all dims are known; leaves data, storage and memory_kind. */
void xcvm_value_set_tensor(xcvm_value *value, xcvm_dtype dtype, int rank, const int64_t *dims);
/* Makes `to` a second view of what `from` is: shares storage if there is one, else lends. `to` must be clear. */
void xcvm_value_share(xcvm_value *to, const xcvm_value *from);
/* Releases the storage and makes the value null; keeps refs. */
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
/* Storage of `bytes` bytes, 64-byte aligned, from an allocator; for a list, of `count` null values. NULL: no memory. */
xcvm_storage *xcvm_storage_create(const xcvm_allocator *allocator, size_t bytes);
xcvm_storage *xcvm_storage_create_list(const xcvm_allocator *allocator, size_t count);
/* Clears the values in storage of a list, for its `destroy`. */
void xcvm_storage_clear_items(xcvm_storage *storage);
/* Finds the element type (if it has none yet; of a map, that of its second value) and the depth of a list from its
 * items. False if it nests deeper than XCVM_MAX_NESTING. */
bool xcvm_list_update(xcvm_value *list);
/* Whether every span of a string tensor of `bytes` bytes lies inside it. */
bool xcvm_strings_valid(const void *data, size_t bytes, size_t count);

/* "f32[2x3]", "seq(f32)", "f32[Nx3]" when names are given, "null"; always NUL-terminated. Returns text. */
const char *xcvm_value_describe(const xcvm_value *value, char *text, size_t size);
const char *xcvm_dims_describe(int rank, const int64_t *dims, char *text, size_t size);

#define XCVM_DATA(type, value) ((type *)(value)->data)
#define XCVM_CDATA(type, value) ((const type *)(value)->data)

#endif
