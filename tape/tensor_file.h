/* Files of named tensors, which layers and optimizers save and load. */
#ifndef XCVM_TAPE_TENSOR_FILE_H
#define XCVM_TAPE_TENSOR_FILE_H

#include "tape/tape.h"
#include "xcvm/optimizers.h"

typedef struct tape_entry {
    const char *name;
    xcvm_value *value; /* borrowed, with elements of its own */
} tape_entry;

/* Zero-initialized apart from arena.allocator. */
typedef struct tape_entries {
    xcvm_arena arena;
    tape_entry *at;
    size_t count, capacity;
} tape_entries;

/* The name is copied. A second value of the same name is ignored if it has the same elements, and fails
 * otherwise. */
xcvm_status tape_entries_add(tape_entries *entries, const char *name, xcvm_value *value, xcvm_error *error);
void tape_entries_release(tape_entries *entries);

xcvm_status tape_entries_write(const tape_entries *entries, xcvm_tensor_format format, xcvm_sink sink,
                               xcvm_error *error);
/* Reads elements in place. A failure changes nothing, and names all entries that are missing or of another type or
 * shape. If `all`, unknown tensors fail too, except those of an optimizer. */
xcvm_status tape_entries_read(const tape_entries *entries, const void *bytes, size_t count, bool all,
                              xcvm_error *error);

#endif
