/* The subcommands. COMMANDS is their only list: help, completion, man pages and dispatch follow it. */
#ifndef XCVM_TOOLS_COMMANDS_COMMANDS_H
#define XCVM_TOOLS_COMMANDS_COMMANDS_H

#include "cli/options.h"

/* X(NAME) for each subcommand, in the order of the help. commands/cmd_NAME.c defines command_NAME. */
#define COMMANDS(X)                                                                                                    \
    X(compile)                                                                                                         \
    X(run)                                                                                                             \
    X(test)                                                                                                            \
    X(bench)                                                                                                           \
    X(profile)                                                                                                         \
    X(dump)                                                                                                            \
    X(asm)                                                                                                             \
    X(strip)                                                                                                           \
    X(check)                                                                                                           \
    X(diff)                                                                                                            \
    X(ops)                                                                                                             \
    X(quantize)                                                                                                        \
    X(train)                                                                                                           \
    X(serve)

#define DECLARE_COMMAND(name) extern const struct command command_##name;
COMMANDS(DECLARE_COMMAND)
#undef DECLARE_COMMAND

#endif
