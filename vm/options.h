/* Option structs of the public API, which may come from an older or newer header. */
#ifndef XCVM_VM_OPTIONS_H
#define XCVM_VM_OPTIONS_H

#include "base/status.h"

#include <string.h>

/* Copies the members that both caller and library have. The first member of an option struct is its size. The rest
 * becomes zero. `from` may be NULL. */
static inline xcvm_status xcvm_options_read(void *to, size_t to_size, const void *from, xcvm_error *error)
{
    size_t size = 0;
    memset(to, 0, to_size);
    if (from == NULL)
        return XCVM_OK;
    memcpy(&size, from, sizeof size);
    XCVM_CHECK(error, size >= sizeof size, INVALID_ARGUMENT,
               "options: size is %zu; initialize the struct with { .size = sizeof(the struct) }", size);
    memcpy(to, from, size < to_size ? size : to_size);
    return XCVM_OK;
}

#endif
