/* Kernel libraries of --kernel-library and their cache. */
#ifndef XCVM_TOOLS_RUN_KERNEL_CACHE_H
#define XCVM_TOOLS_RUN_KERNEL_CACHE_H

#include <xcvm/xcvm.h>

/* A library is made in a temporary directory, which is removed with its files, also after a signal. */
struct library {
    char *folder; /* NULL: none is being made */
    char *path;   /* in that directory */
    char *cache;  /* directory of cached libraries; may be NULL */
};

/* Starts a library `name` in a new directory below `parent`. */
xcvm_status library_begin(struct library *library, const char *parent, const char *name, xcvm_error *error);
/* Moves the library to its target. *made is false if the compiler made none. */
xcvm_status library_finish(struct library *library, const char *target, bool *made, xcvm_error *error);
/* Removes the directory and its files, if there is one. */
void library_release(struct library *library);

/* PROG with the suffix .so. Release it with free. */
char *library_beside(const char *program);
/* $CC, or NULL if it is not set. */
const char *library_compiler(void);
/* $TMPDIR or /tmp. */
const char *library_temporary_folder(void);

#endif
