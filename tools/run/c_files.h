/* The options of `xcvm compile --emit`, and writing of C and WebAssembly files. */
#ifndef XCVM_TOOLS_RUN_C_FILES_H
#define XCVM_TOOLS_RUN_C_FILES_H

#include "cli/buffer.h"
#include "cli/options.h"

struct c_flags {
    const char *emit, *weights_file, *arena_in;
    bool with_main;
};

#define C_GROUP(type, member) OPTION_GROUP("Export as C, WebAssembly or ONNX", c_options, type, member)
extern const struct option c_options[];

bool emits_c(const struct c_flags *flags);
bool emits_onnx(const struct c_flags *flags);
bool emits_wasm(const struct c_flags *flags);
/* Refuses an output name of another format. Returns an exit code. */
int c_flags_check_name(const struct c_flags *flags, const char *output);
/* Refuses options of another kind of output. Returns an exit code. */
int c_flags_check(const struct c_flags *flags, const char *output, bool is_fused);
/* Writes the program as C to `path`, which ends in .c, and a header; all files or none. `target` NULL: for any
 * processor. */
xcvm_status c_files_write(const struct c_flags *flags, const struct buffer *program, const char *target,
                          const char *path, xcvm_error *error);

#endif
