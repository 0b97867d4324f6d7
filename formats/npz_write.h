/* Writing NumPy's archives (.npz): ZIP files with an array file for each name, stored. */
#ifndef XCVM_FORMATS_NPZ_WRITE_H
#define XCVM_FORMATS_NPZ_WRITE_H

#include "base/value.h"

typedef struct xcvm_npz_member {
    const char *name;
    uint32_t crc, size, offset;
} xcvm_npz_member;

/* A writer that sends arrays to the sink one after the other, and the directory at the end. Zero-initialized except for
 * the sink and arena.allocator. */
typedef struct xcvm_npz_writer {
    xcvm_sink sink;
    xcvm_arena arena;
    uint64_t written;
    xcvm_npz_member *members;
    size_t count, capacity;
} xcvm_npz_writer;

/* Adds a tensor under a name, in which '/' may stand; names must differ. UNSUPPORTED for archives of 4 GB or more. An
 * error of the sink is IO. `deadline_ns` is that of xcvm_npy_write. */
xcvm_status xcvm_npz_add(xcvm_npz_writer *writer, const char *name, const xcvm_value *tensor, uint64_t deadline_ns,
                         xcvm_error *error);
/* Writes the directory. */
xcvm_status xcvm_npz_finish(xcvm_npz_writer *writer, xcvm_error *error);
/* After success and failure. */
void xcvm_npz_release(xcvm_npz_writer *writer);

#endif
