/* Bash completion. */
#ifndef XCVM_TOOLS_CLI_COMPLETION_H
#define XCVM_TOOLS_CLI_COMPLETION_H

#include "cli/buffer.h"
#include "cli/options.h"

/* A script for bash that completes subcommands, options and their values. `commands` ends with NULL. */
void completion_bash(struct buffer *text, const struct command *const *commands);

#endif
