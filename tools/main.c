/* The command: finds the subcommand, or prints help. */
#include "commands/commands.h"
#include "cli/completion.h"
#include "cli/manual.h"
#include "cli/interrupt.h"
#include "cli/memory.h"
#include "io/output.h"
#include "cli/report.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND_ADDRESS(name) &command_##name,
static const struct command *const commands[] = {COMMANDS(COMMAND_ADDRESS) NULL};
#undef COMMAND_ADDRESS

static const struct command *find_command(const char *name)
{
    for (const struct command *const *command = commands; *command != NULL; command++)
        if (strcmp((*command)->name, name) == 0)
            return *command;
    return NULL;
}

static int print(struct buffer *text)
{
    output_print(buffer_string(text));
    buffer_release(text);
    return EXIT_OK;
}

static int unknown_command(const char *name)
{
    static const char *names[COUNT_OF(commands) + 1];
    for (size_t i = 0; commands[i] != NULL; i++)
        names[i] = commands[i]->name;
    names[COUNT_OF(commands) - 1] = "help";
    const char *nearest = nearest_name(name, names);
    if (nearest != NULL)
        return report_usage("there is no command \"%s\". Did you mean \"%s\"?", name, nearest);
    return report_usage("there is no command \"%s\"", name);
}

/* xcvm help [COMMAND|spec] [--markdown]. The Markdown form makes docs/manual. */
static int help(int argc, char **argv)
{
    struct buffer text = {0};
    bool markdown = argc == 2 && strcmp(argv[1], "--markdown") == 0;
    const struct command *command = argc > 0 ? find_command(argv[0]) : NULL;
    if (argc > 0 && strcmp(argv[0], "spec") == 0)
        (markdown ? manual_spec_markdown : manual_spec)(&text);
    else if (argc > 0 && command == NULL && strcmp(argv[0], "help") != 0)
        return unknown_command(argv[0]);
    else if (command != NULL)
        (markdown ? manual_markdown : manual_help)(&text, command);
    else
        manual_overview(&text, commands);
    return print(&text);
}

static int run_command(const struct command *command, int argc, char **argv)
{
    struct arguments operands;
    struct buffer text = {0};
    bool wants_help;
    void *options = memory_take(1, command->options_size);
    report_set_command(command->name);
    int code;
    if (!options_parse(command, argc, argv, options, &operands, &wants_help)) {
        fprintf(stderr, "Try: xcvm help %s\n", command->name);
        code = EXIT_USAGE;
    } else if (wants_help) {
        if (command->describe != NULL && operands.count > 0)
            command->describe(options, &operands);
        manual_help(&text, command);
        code = print(&text);
    } else {
        code = command->run(options, &operands);
    }
    options_release(command, options, &operands);
    free(options);
    return code;
}

static int dispatch(int argc, char **argv)
{
    struct buffer text = {0};
    const char *first = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        manual_overview(&text, commands);
        fputs(buffer_string(&text), stderr);
        buffer_release(&text);
        return EXIT_USAGE;
    }
    if (strcmp(first, "help") == 0 || strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)
        return help(argc - 2, argv + 2);
    if (strcmp(first, "--version") == 0) {
        printf("xcvm %s\n", xcvm_version());
        return EXIT_OK;
    }
    if (strcmp(first, "--man") == 0) {
        const struct command *of = argc > 2 ? find_command(argv[2]) : NULL;
        if (argc > 2 && of == NULL)
            return unknown_command(argv[2]);
        if (of != NULL)
            manual_troff_page(&text, of);
        else
            manual_troff(&text, commands);
        return print(&text);
    }
    if (strcmp(first, "--completion") == 0) {
        if (argc < 3 || strcmp(argv[2], "bash") != 0)
            return report_usage("--completion needs a shell: bash");
        completion_bash(&text, commands);
        return print(&text);
    }
    const struct command *command = find_command(first);
    return command != NULL ? run_command(command, argc - 2, argv + 2) : unknown_command(first);
}

int main(int argc, char **argv)
{
    /* Without the signal, a write beyond the file size limit fails with a message that names the file. */
    signal(SIGXFSZ, SIG_IGN);
    const int code = output_guard_streams() ? output_check_stdout(dispatch(argc, argv)) : EXIT_IO;
    return interrupt_end(code);
}
