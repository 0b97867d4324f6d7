/* The kernel cache: where the command puts the kernel libraries that a compilation with --kernel-library makes. */
#ifndef XCVM_TOOLS_RUN_KERNEL_CACHE_H
#define XCVM_TOOLS_RUN_KERNEL_CACHE_H

#include <xcvm/xcvm.h>

/* A library is made in a folder of its own, which goes with what else the C compiler left there, also after a signal.
 */
struct library {
    char *folder; /* NULL: none is being made */
    char *path;   /* in that folder */
    char *cache;  /* where libraries are kept by their content, NULL for nowhere */
};

/* Begins one called `name` in a new folder below `parent`. */
xcvm_status library_begin(struct library *library, const char *parent, const char *name, xcvm_error *error);
/* Puts it in its place; *made is false if the compiler found nothing to put into one. */
xcvm_status library_finish(struct library *library, const char *target, bool *made, xcvm_error *error);
/* Removes the folder and what is in it; nothing if there is none. */
void library_release(struct library *library);

/* PROG with the ending .so in place of its own; release with free. */
char *library_beside(const char *program);
/* $CC, NULL if it says nothing. */
const char *library_compiler(void);
/* $TMPDIR or /tmp. */
const char *library_temporary_folder(void);

#endif
