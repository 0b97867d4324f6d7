/* Functions of the system, in the forms of wasi-libc. */
#include "base/system.h"

#include <errno.h>
#include <string.h>

const char *xcvm_error_text(int code, char *text, size_t size)
{
    return strerror_r(code, text, size) == 0 ? text : "unknown error";
}

/* WASI has no function that returns a resolved path. */
char *xcvm_real_path(const char *path, char real[PATH_MAX])
{
    (void)path;
    (void)real;
    errno = ENOSYS;
    return NULL;
}
