/* Tensors under names, as files: what layers and optimizers save and load. */
#ifndef XCVM_TAPE_TENSOR_FILE_H
#define XCVM_TAPE_TENSOR_FILE_H

#include "tape/tape.h"
#include "xcvm/optimizers.h"

typedef struct tape_entry {
    const char *name;
    xcvm_value *value; /* lent, with elements of its own */
} tape_entry;

/* Zero-initialized apart from arena.allocator. */
typedef struct tape_entries {
    xcvm_arena arena;
    tape_entry *at;
    size_t count, capacity;
} tape_entries;

/* The name is copied; a second value of the same name must be of the same elements, and is passed over. */
xcvm_status tape_entries_add(tape_entries *entries, const char *name, xcvm_value *value, xcvm_error *error);
void tape_entries_release(tape_entries *entries);

xcvm_status tape_entries_write(const tape_entries *entries, xcvm_tensor_format format, xcvm_sink sink,
                               xcvm_error *error);
/* Reads elements in place. In failure, which names all entries that are missing or of another type or shape, and, if
 * `all`, tensors that are no entry and not an optimizer's own, nothing has changed. */
xcvm_status tape_entries_read(const tape_entries *entries, const void *bytes, size_t count, bool all,
                              xcvm_error *error);

#endif
