/* Opening files that a program text or model refers to, confined to a directory. */
#ifndef XCVM_PROTO_OPEN_BENEATH_H
#define XCVM_PROTO_OPEN_BENEATH_H

#include "base/status.h"

/* Opens a file for reading. `path` is relative to `dir`; absolute paths, `..` and symbolic links must not leave it.
 * Accepts files of any kind; a FIFO does not block. The caller closes *fd. Fails with IO, or INVALID_ARGUMENT for a
 * path that is not allowed. */
xcvm_status xcvm_open_any_beneath(const char *dir, const char *path, int *fd, xcvm_error *error);
/* The same, but links may be followed, as the cache of Hugging Face requires, whose models are links. The resolved file
 * must be below the resolved `dir` or below `other` (NULL: none). */
xcvm_status xcvm_open_any_resolved(const char *dir, const char *other, const char *path, int *fd, xcvm_error *error);
/* The same as xcvm_open_any_beneath, but only for regular files (else IO). If `dir` is "", any path is allowed. */
xcvm_status xcvm_open_beneath(const char *dir, const char *path, int *fd, uint64_t *size, xcvm_error *error);
/* Reads exactly `count` bytes at `offset`. Fails with IO if there are fewer. */
xcvm_status xcvm_read_beneath(int fd, uint64_t offset, void *bytes, size_t count, xcvm_error *error);

#endif
