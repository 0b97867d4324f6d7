/* The subcommands, one file each. */
#ifndef XCVM_TOOLS_COMMANDS_COMMANDS_H
#define XCVM_TOOLS_COMMANDS_COMMANDS_H

#include "cli/options.h"

extern const struct command command_compile, command_run, command_test, command_bench, command_profile, command_dump,
    command_asm, command_strip, command_check, command_diff, command_ops, command_quantize, command_train;

#endif
