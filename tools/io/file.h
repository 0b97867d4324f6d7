/* Files: telling what they are, and paths. */
#ifndef XCVM_TOOLS_IO_FILE_H
#define XCVM_TOOLS_IO_FILE_H

#include "io/read.h"

enum file_kind {
    FILE_PROGRAM,  /* what only a program has was found */
    FILE_ASSEMBLY, /* its text */
    FILE_MODEL,    /* ONNX */
    FILE_OTHER,    /* another system's; loader and compiler say what it is */
    FILE_UNKNOWN   /* the loader will refuse it with a reason */
};

/* By the content; what is not recognized is a model if its name ends in .onnx. A folder is a model, too, which the
 * compiler refuses with what it is. A stream is read ahead within `limits`, which may be NULL; its
 * path has to stay. */
xcvm_status file_kind_of(const char *path, const struct read_limits *limits, enum file_kind *kind, xcvm_error *error);
enum file_kind file_kind_of_bytes(const void *bytes, size_t count);

bool file_has_suffix(const char *path, const char *suffix);
bool file_is_folder(const char *path);
bool file_is_regular(const char *path);
/* Standard input ("-") or a named pipe, as a shell makes of <(...): what can be read once only. */
bool file_is_stream(const char *path);
/* Whether both paths lead to the same regular file. */
bool file_is_same(const char *a, const char *b);
/* Whether what is written to both, of which either may be NULL, would get into the same regular file, which need not
 * exist yet; "-" is none. */
bool file_is_one_target(const char *a, const char *b);
/* The part of the path before the last /, "." if there is none; release with free. */
char *file_folder(const char *path);
/* The last part of the path, without slashes behind it; release with free. */
char *file_base_name(const char *path);
/* `path` as seen from `folder`; an absolute path where that cannot be found out. Release with free. */
char *file_relative(const char *path, const char *folder);

#endif
