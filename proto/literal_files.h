/* Elements of literals that are stored in files. */
#ifndef XCVM_PROTO_LITERAL_FILES_H
#define XCVM_PROTO_LITERAL_FILES_H

#include "base/value.h"
#include "proto/reader.h"

/* Files that the literals of a text may refer to. The files of tensors are kept until release, because a text may
 * refer to many tensors of one file. */
typedef struct xcvm_literal_files {
    const char *base_dir; /* NULL: literals must not refer to files */
    const xcvm_allocator *allocator;
    struct xcvm_literal_file *first;
} xcvm_literal_files;

void xcvm_literal_files_release(xcvm_literal_files *files);

/* Reads the rest of @"FILE":OFFSET, @"FILE":OFFSET+BYTES or @"FILE":TENSOR after its @, and the elements of `tensor`.
 */
xcvm_status xcvm_file_reference_read(xcvm_reader *r, xcvm_value *tensor);

#endif
