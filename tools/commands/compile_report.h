/* The report of `xcvm compile`. */
#ifndef XCVM_TOOLS_COMMANDS_COMPILE_REPORT_H
#define XCVM_TOOLS_COMMANDS_COMPILE_REPORT_H

#include "run/model_options.h"
#include "run/state_lines.h"

/* Prints nodes, flops and memory, and the lines about states. */
void compile_report_print(const struct model_flags *model, const xcc_report *report, struct state_lines *lines);

#endif
