/* Shared libraries that are loaded when they are first needed: a process that needs none of them starts sooner, holds
 * less memory, and does not have to have them. */
#ifndef XCVM_BASE_LAZY_LIBRARY_H
#define XCVM_BASE_LAZY_LIBRARY_H

#include "base/status.h"

typedef struct xcvm_lazy_library {
    const char *file;         /* as the dynamic linker finds it */
    const char *const *names; /* of its functions */
    void *functions;          /* that many function pointers, in the same order */
    size_t count;
    int loaded; /* atomic */
} xcvm_lazy_library;

/* XCVM_LAZY_LIBRARY(jpeg, "libjpeg.so.62", LIST) makes the functions that LIST(X) names, as X(function), members of the
 * struct `jpeg`, of the types that the library's header declares; load_jpeg(error) must have succeeded before a call.
 */
#define XCVM_LAZY_MEMBER(function) __typeof__(&function) function;
#define XCVM_LAZY_NAME(function) #function,
#define XCVM_LAZY_LIBRARY(library, file, LIST)                                                                         \
    static struct {                                                                                                    \
        LIST(XCVM_LAZY_MEMBER)                                                                                         \
    } library;                                                                                                         \
    static xcvm_status load_##library(xcvm_error *error)                                                               \
    {                                                                                                                  \
        static const char *const names[] = {LIST(XCVM_LAZY_NAME)};                                                     \
        static xcvm_lazy_library lazy = {file, names, &library, sizeof names / sizeof *names, 0};                      \
        return xcvm_lazy_library_load(&lazy, error);                                                                   \
    }

/* Loads the library for the rest of the process, the first time; any thread may call it. UNSUPPORTED if the machine
 * does not have it, or not with those functions. */
xcvm_status xcvm_lazy_library_load(xcvm_lazy_library *library, xcvm_error *error);

#endif
