/* Writing a program as a WebAssembly module with an ES module and TypeScript declarations. */
#ifndef XCVM_TOOLS_RUN_WASM_FILES_H
#define XCVM_TOOLS_RUN_WASM_FILES_H

#include "cli/buffer.h"

/* Compiles and links a small source, so that a missing compiler, linker or C library is reported before the model is
 * compiled. `compiler` may be NULL, which selects clang-19. `until` is a time of now_seconds, or 0. */
xcvm_status wasm_compiler_check(const char *compiler, double until, xcvm_error *error);
/* Writes NET.wasm, which is `path`, NET.mjs and NET.d.mts; all files or none. */
xcvm_status wasm_files_write(const struct buffer *program, const char *compiler, const char *path, double until,
                             xcvm_error *error);

#endif
