/* Tensor files. The content decides the format, or the name if the content does not. */
#ifndef XCVM_TOOLS_TENSORS_TENSOR_FILE_H
#define XCVM_TOOLS_TENSORS_TENSOR_FILE_H

#include "cli/buffer.h"
#include "values/budget.h"

#include <xcvm/data.h>

/* The expected type of a value in a file. */
struct wanted {
    const xcvm_type *type; /* NULL: unknown */
    const char *name;      /* name of the input or output; the default key in an archive */
    bool resize;           /* resize images to the type */
    bool bytes;            /* elements of images are 0 to 255, whatever the type */
    bool note_bytes;       /* report numbers of u8 that a float takes as they are */
};

/* The limits that a budget leaves for reading a file. */
struct read_limits tensor_file_limits(const struct value_budget *budget);

/* Reads a tensor (from .pb also other values). `key` is for archives and may be NULL. The value has the type of
 * the file, except for images and .bin, which have none. `budget` (may be NULL) counts the file while it is read,
 * and the unpacked bytes. */
xcvm_status tensor_file_read(const char *path, const char *key, const struct wanted *wanted,
                             struct value_budget *budget, xcvm_value **value, xcvm_error *error);

/* Files that are written at the end of a command. Archives collect their arrays until then. */
struct tensor_files {
    struct tensor_archive {
        const char *path;
        struct buffer *content;
        xct_archive *writer;
    } * archives;
    size_t archive_count;
    struct value_budget *budget; /* for converted values; may be NULL */
};
/* Checks a target before it is written: the format and the directory. */
xcvm_status tensor_file_check_target(const char *path, xcvm_error *error);

/* True if the name is that of an archive, which contains several tensors. */
bool tensor_file_is_archive(const char *path);

/* Writes or collects a tensor. `path` must stay valid until tensor_files_finish. */
xcvm_status tensor_file_write(struct tensor_files *files, const char *path, const char *key, const char *name,
                              const xcvm_value *value, xcvm_error *error);
/* Writes the collected arrays if `keep`, and releases everything. */
xcvm_status tensor_files_finish(struct tensor_files *files, bool keep, xcvm_error *error);

#endif
