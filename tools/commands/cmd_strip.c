/* `xcvm strip`: leaves debug data out of a program. */
#include "commands/commands.h"
#include "run/program.h"
#include "cli/report.h"
#include "run/rewrite.h"

struct strip_flags {
    struct program_flags program;
    const char *output;
};

static const struct option options[] = {
    {"output", 'o', "PROG", OPTION_FILE, offsetof(struct strip_flags, output), 0, 0,
     "where the result goes; it may be the same file"},
    END_OF_OPTIONS,
};
static const struct option_group groups[] = {
    {"Options", options, 0},
    MODEL_GROUPS(struct strip_flags, program.model),
    LIMIT_GROUP(struct strip_flags, program.limits),
};
static const struct strip_flags defaults = {.program = PROGRAM_DEFAULTS};

static xcvm_status strip(const void *context, const void *bytes, size_t count, xcvm_sink sink, void *user,
                         xcvm_error *error)
{
    (void)context;
    return xcvm_strip(bytes, count, sink, user, error);
}

static int execute_strip(const void *own, const struct arguments *arguments)
{
    const struct strip_flags *flags = own;
    if (flags->output == NULL)
        return report_usage("wants an output: -o PROG");
    const char *path = arguments->items[0];
    struct buffer bytes;
    bool made;
    xcvm_error error = {.pc = -1};
    if (program_bytes(path, &flags->program, &bytes, &made, &error) != XCVM_OK)
        return report_error(path, &error);
    int code = rewrite_bytes(path, &bytes, flags->output, strip, NULL);
    buffer_release(&bytes);
    return code;
}

static const struct example examples[] = {
    {"prog.bin -o small.bin", "remove what only people need"},
    {"prog.bin -o prog.bin", "the same in place"},
};

const struct command command_strip = {
    .name = "strip",
    .summary = "remove debug data from a program",
    .operands = "PROG",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "Writes the same program without debug data: the names of nodes and values, the types of results, and "
        "flops. It runs as before, but errors and profiles no longer name the model's nodes.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct strip_flags),
    .run = execute_strip,
};
