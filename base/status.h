/* Filling in an xcvm_error, and propagating failures. */
#ifndef XCVM_BASE_STATUS_H
#define XCVM_BASE_STATUS_H

#include "xcvm/xcvm.h"

#include <stdarg.h>

/* Sets status and message (pc -1, no instruction, no node) of `error`, which may be NULL. Returns `status`. */
xcvm_status xcvm_error_set(xcvm_error *error, xcvm_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Prepends "prefix: " to the message. Callers add context this way. */
void xcvm_error_prefix(xcvm_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define XCVM_TRY(expression)                                                                                           \
    do {                                                                                                               \
        xcvm_status try_status_ = (expression);                                                                        \
        if (try_status_ != XCVM_OK)                                                                                    \
            return try_status_;                                                                                        \
    } while (0)

/* Returns from the function with a status and message: XCVM_FAIL(e, OUT_OF_RANGE, "n is %d", n). */
#define XCVM_FAIL(error, status, ...)                                                                                  \
    do {                                                                                                               \
        xcvm_error_set((error), XCVM_##status, __VA_ARGS__);                                                           \
        return XCVM_##status; /* a constant, so that the compiler sees the failure in the caller */                    \
    } while (0)
/* Fails unless `condition` holds: XCVM_CHECK(e, n > 0, OUT_OF_RANGE, "n is %d", n). */
#define XCVM_CHECK(error, condition, status, ...)                                                                      \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            XCVM_FAIL(error, status, __VA_ARGS__);                                                                     \
    } while (0)

#endif
