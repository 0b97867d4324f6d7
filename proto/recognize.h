/* Files that are something else than was wanted: what they are, and what to do. */
#ifndef XCVM_PROTO_RECOGNIZE_H
#define XCVM_PROTO_RECOGNIZE_H

#include "base/status.h"

#include "xcvm/files.h"

/* Where `status` is that the bytes are no `wanted`, and they are recognized as something else, the error says so in
 * place of what it said. Returns `status`. */
xcvm_status xcvm_recognize_failure(xcvm_status status, const void *bytes, size_t count, xcvm_file_kind wanted,
                                   xcvm_error *error);
/* A sentence on a folder that was named where a model or a program is wanted: a TensorFlow SavedModel, one with models
 * in it, or just a folder. */
void xcvm_recognize_folder(const char *path, char *text, size_t size);

#endif
