/*
 * Exporting a program as C. Part of libxcvm-compiler; the conventions of xcvm.h and compiler.h apply. docs/c-export.md
 * is the guide.
 */
#ifndef XCVM_EXPORT_C_H
#define XCVM_EXPORT_C_H

#include "xcvm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xcc_export_c_options {
    size_t size;                     /* set by the caller */
    const xcvm_allocator *allocator; /* NULL: malloc's */
    const char *name;                /* prefix of all declarations; NULL: "net" */
    const char *header_name;         /* name of the included header; NULL: "net.h" */
    /* Instruction set of vector code: "x86-64-v3", "aarch64", ...; NULL: C99 for any processor. */
    const char *target;
    /* Name of a host-defined array, or of a linker section if it contains a point, that holds the arena. Only one run
     * at a time may use it. NULL: the context holds the arena. */
    const char *arena_in;
    bool with_main;           /* add a main that reads inputs from files */
    xcvm_sink source, header; /* receive the files */
    xcvm_sink weights;        /* receives the weights; none: they are part of the source */
    /* An ES module that loads the C as a WebAssembly module, and its TypeScript declarations. The C is then for clang
     * 19 and wasm32-wasi, exports the functions that the ES module calls, and embeds its weights. Both or none. */
    xcvm_sink script, types;
    const char *weights_name; /* file that the source embeds */
    const char *module_name;  /* file of the WebAssembly module, relative to the ES module */
} xcc_export_c_options;

/* Exports a program as reentrant C99 that needs only libm and does not allocate (docs/c-export.md). UNSUPPORTED, with
 * all obstacles named and nothing written, for unsupported instructions, types or dynamic sizes. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_export_c(const void *program, size_t count, const xcc_export_c_options *options,
                                                xcvm_error *error);

#ifdef __cplusplus
}
#endif

#endif
