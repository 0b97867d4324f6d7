/* The options of `xcvm compile --emit`, and the files that C is. */
#ifndef XCVM_TOOLS_RUN_C_FILES_H
#define XCVM_TOOLS_RUN_C_FILES_H

#include "cli/buffer.h"
#include "cli/options.h"

struct c_flags {
    const char *emit, *weights_file, *arena_in;
    bool with_main;
};

#define C_GROUP(type, member) OPTION_GROUP("Export as C or ONNX", c_options, type, member)
extern const struct option c_options[];

bool emits_c(const struct c_flags *flags);
bool emits_onnx(const struct c_flags *flags);
/* EXIT_OK, or what to leave with where options of one kind of output are given for the other. */
/* A name of what is written that says another format is an error of usage. */
int c_flags_check_name(const struct c_flags *flags, const char *output);
int c_flags_check(const struct c_flags *flags, const char *output, bool is_fused);
/* Writes the program as C to `path`, a name in .c, with its header beside it; all files or none. `target` NULL: for any
 * processor. */
xcvm_status c_files_write(const struct c_flags *flags, const struct buffer *program, const char *target,
                          const char *path, xcvm_error *error);

#endif
