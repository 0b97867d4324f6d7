/* Opening files that a text or model refers to, without leaving the folder that it may refer to. */
#ifndef XCVM_PROTO_OPEN_BENEATH_H
#define XCVM_PROTO_OPEN_BENEATH_H

#include "base/status.h"

/* Opens a file for reading: `path` is relative to the folder `dir` and stays in it, which neither an absolute path nor
 * `..` nor a symbolic link may leave. Of any kind: a FIFO's other end is not waited for. The caller closes *fd. Fails
 * with IO, or INVALID_ARGUMENT for a path that is not allowed. */
xcvm_status xcvm_walk_beneath(const char *dir, const char *path, int *fd, xcvm_error *error);
/* The same where links may be followed, as in the cache of Hugging Face, whose models are links to files elsewhere: the
 * file that `path` leads to must lie below the folder that `dir` is, or below `other` (NULL: none). */
xcvm_status xcvm_walk_resolved(const char *dir, const char *other, const char *path, int *fd, xcvm_error *error);
/* As xcvm_walk_beneath, for regular files alone (else IO). With `dir` "" any path is taken. */
xcvm_status xcvm_open_beneath(const char *dir, const char *path, int *fd, uint64_t *size, xcvm_error *error);
/* Reads `count` bytes at `offset`; IO if there are fewer. */
xcvm_status xcvm_read_beneath(int fd, uint64_t offset, void *bytes, size_t count, xcvm_error *error);

#endif
