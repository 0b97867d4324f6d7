/* Lines that the compiler writes about states. */
#ifndef XCVM_TOOLS_RUN_STATE_LINES_H
#define XCVM_TOOLS_RUN_STATE_LINES_H

#include "cli/buffer.h"

#include <xcvm/compiler.h>

/* Diagnostics of the compiler on states: lines that --report prints, and notes, which are always printed. */
struct state_lines {
    const char *path; /* of the model */
    struct buffer states, notes;
};

/* A callback of xcc_diagnostics. `user` is a struct state_lines, which keeps the diagnostics on states. Prints all
 * others. */
void state_lines_add(void *user, xcc_diagnostic_kind kind, const char *text);
/* Prints the notes on standard error and clears them. */
void state_lines_print_notes(struct state_lines *lines);
void state_lines_release(struct state_lines *lines);

#endif
