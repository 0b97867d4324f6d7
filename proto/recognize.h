/* Recognition of files of unexpected formats, for better error messages. */
#ifndef XCVM_PROTO_RECOGNIZE_H
#define XCVM_PROTO_RECOGNIZE_H

#include "base/status.h"

#include "xcvm/files.h"

/* If `status` says that the bytes are not a `wanted` file and another format is recognized, replaces the message of the
 * error with one that names it. Returns `status`. */
xcvm_status xcvm_recognize_failure(xcvm_status status, const void *bytes, size_t count, xcvm_file_kind wanted,
                                   xcvm_error *error);
/* Writes a sentence about a directory that was passed as a model or program: a TensorFlow SavedModel, a directory with
 * models, or any other. */
void xcvm_recognize_folder(const char *path, char *text, size_t size);

#endif
