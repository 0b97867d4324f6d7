/* Tensor files: the format is told by the content, and where that tells nothing, by the name. */
#ifndef XCVM_TOOLS_TENSORS_TENSOR_FILE_H
#define XCVM_TOOLS_TENSORS_TENSOR_FILE_H

#include "tensors/npz.h"
#include "values/budget.h"

/* What a value read from a file should be, as far as it is known. */
struct wanted {
    const xcvm_type *type; /* NULL: unknown */
    const char *name;      /* of the input or output; the key in an archive that is given none */
    bool resize;           /* images become as large as the type says */
};

/* What a budget leaves for reading a file. */
struct read_limits tensor_file_limits(const struct value_budget *budget);

/* Reads a tensor (from .pb also other values). `key` is for archives, and may be NULL. The value has the type that the
 * file says, except for images and .bin, which have none. The file counts while it is read, beside what it unpacks to;
 * `budget` may be NULL. */
xcvm_status tensor_file_read(const char *path, const char *key, const struct wanted *wanted,
                             struct value_budget *budget, xcvm_value **value, xcvm_error *error);

/* Files that are written at the end of a command: archives collect their arrays until then. */
struct tensor_files {
    struct tensor_archive {
        const char *path;
        struct npz_writer writer;
    } * archives;
    size_t archive_count;
    struct value_budget *budget; /* for what is made of the values; NULL: none */
};
/* Whether a tensor can be written there, as far as that is known beforehand: the kind of file and its folder. */
xcvm_status tensor_file_check_target(const char *path, xcvm_error *error);

/* Whether a target of that name is an archive, which takes several tensors of different keys. */
bool tensor_file_is_archive(const char *path);

/* `path` is lent until tensor_files_finish. */
xcvm_status tensor_file_write(struct tensor_files *files, const char *path, const char *key, const char *name,
                              const xcvm_value *value, xcvm_error *error);
/* Writes what is left, if `keep`; releases everything. */
xcvm_status tensor_files_finish(struct tensor_files *files, bool keep, xcvm_error *error);

#endif
