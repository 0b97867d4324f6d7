/* Functions of the system whose forms differ between platforms. */
#ifndef XCVM_BASE_SYSTEM_H
#define XCVM_BASE_SYSTEM_H

#include <limits.h>
#include <stddef.h>

/* Returns the text of an errno value, in `text` or as a constant. Thread-safe. */
const char *xcvm_error_text(int code, char *text, size_t size);
/* Resolves all links of a path. Returns `real`, or NULL with errno set. */
char *xcvm_real_path(const char *path, char real[PATH_MAX]);

#endif
