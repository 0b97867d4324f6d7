/* What `xcvm compile` says of a compilation. */
#ifndef XCVM_TOOLS_COMMANDS_COMPILE_REPORT_H
#define XCVM_TOOLS_COMMANDS_COMPILE_REPORT_H

#include "cli/buffer.h"
#include "run/model_options.h"

/* Diagnostics of states: lines that --report prints, and notes, which are printed in any case. */
struct compile_lines {
    struct buffer states, notes;
};

/* Keeps a diagnostic of a state; false if it is another. */
bool compile_lines_add(struct compile_lines *lines, xcc_diagnostic_kind kind, const char *text);
/* Prints the notes on standard error, and forgets them. */
void compile_lines_print_notes(struct compile_lines *lines);
void compile_lines_release(struct compile_lines *lines);

/* Prints nodes, flops and memory, and the lines about states. */
void compile_report_print(const struct model_flags *model, const xcc_report *report, struct compile_lines *lines);

#endif
