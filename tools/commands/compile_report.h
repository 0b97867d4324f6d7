/* What `xcvm compile` says of a compilation. */
#ifndef XCVM_TOOLS_COMMANDS_COMPILE_REPORT_H
#define XCVM_TOOLS_COMMANDS_COMPILE_REPORT_H

#include "cli/buffer.h"
#include "run/model_options.h"

/* Lines of xcc_options.remarks: those that --report prints, and notes, which are printed in any case. */
struct compile_lines {
    struct buffer remarks, notes;
};

/* An xcvm_sink for the lines, whose user is a struct compile_lines. */
bool compile_lines_sink(void *user, const void *bytes, size_t count);
/* Prints the notes on standard error, and forgets them. */
void compile_lines_print_notes(struct compile_lines *lines);
void compile_lines_release(struct compile_lines *lines);

/* Prints nodes, flops and memory, and the lines about states. */
void compile_report_print(const struct model_flags *model, const xcc_report *report, struct compile_lines *lines);

#endif
