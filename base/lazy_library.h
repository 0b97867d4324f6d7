/* Shared libraries that are loaded on first use. A process that needs none of them starts faster, uses less memory, and
 * does not need them installed. */
#ifndef XCVM_BASE_LAZY_LIBRARY_H
#define XCVM_BASE_LAZY_LIBRARY_H

#include "base/status.h"

typedef struct xcvm_lazy_library {
    const char *file;         /* name for the dynamic linker */
    const char *const *names; /* names of its functions */
    void *functions;          /* as many function pointers, in the same order */
    size_t count;
    int loaded; /* atomic */
} xcvm_lazy_library;

/* XCVM_LAZY_LIBRARY(jpeg, "libjpeg.so.62", LIST) declares a struct `jpeg` of function pointers and the function
 * load_jpeg(error), which must succeed before the first call. LIST(X) lists the functions as X(function); their types
 * come from the library's header. */
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

/* Loads the library once for the process. Thread-safe. Fails with UNSUPPORTED if the library or one of the functions
 * does not exist. */
xcvm_status xcvm_lazy_library_load(xcvm_lazy_library *library, xcvm_error *error);

#endif
