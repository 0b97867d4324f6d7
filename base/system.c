/* Functions of the system, in the forms of glibc. */
#include "base/system.h"

#include <stdlib.h>
#include <string.h>

const char *xcvm_error_text(int code, char *text, size_t size) { return strerror_r(code, text, size); }

char *xcvm_real_path(const char *path, char real[PATH_MAX]) { return realpath(path, real); }
