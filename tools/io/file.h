/* Kinds of files, and paths. */
#ifndef XCVM_TOOLS_IO_FILE_H
#define XCVM_TOOLS_IO_FILE_H

#include "io/read.h"

enum file_kind {
    FILE_PROGRAM,  /* a program, by its content */
    FILE_ASSEMBLY, /* its text */
    FILE_MODEL,    /* ONNX */
    FILE_OTHER,    /* a known format of another system */
    FILE_UNKNOWN   /* unknown; the loader refuses it with a reason */
};

/* Finds the kind of a file by its content. An unknown file is a model if its name ends in .onnx. A directory
 * counts as a model, so that the compiler refuses it with a message. A stream is read ahead within `limits` (may
 * be NULL); `path` must stay valid. */
xcvm_status file_kind_of(const char *path, const struct read_limits *limits, enum file_kind *kind, xcvm_error *error);
enum file_kind file_kind_of_bytes(const void *bytes, size_t count);

bool file_is_folder(const char *path);
bool file_is_regular(const char *path);
/* True for a file that can be read only once: standard input ("-") or a named pipe, such as <(...) of a shell. */
bool file_is_stream(const char *path);
/* True if both paths lead to the same regular file. */
bool file_is_same(const char *a, const char *b);
/* True if both paths, either of which may be NULL, are the same target. The file need not exist yet. "-" is not a
 * file. */
bool file_is_one_target(const char *a, const char *b);
/* The part of the path before the last /, or ".". Release it with free. */
char *file_folder(const char *path);
/* The last part of the path, without trailing slashes. Release it with free. */
char *file_base_name(const char *path);
/* `path` relative to `folder`, or an absolute path if that is unknown. Release it with free. */
char *file_relative(const char *path, const char *folder);

#endif
