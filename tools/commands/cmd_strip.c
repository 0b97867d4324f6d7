/* `xcvm strip`: removes debug data from a program. */
#include "commands/commands.h"
#include "io/output.h"
#include "run/program.h"
#include "cli/report.h"
#include "run/rewrite.h"

#include <stdio.h>
#include <string.h>

struct strip_flags {
    struct program_flags program;
    const char *output;
};

static const struct option options[] = {
    {"output", 'o', "PROG", OPTION_FILE, offsetof(struct strip_flags, output), 0, 0,
     "the program to write; it may be the same file"},
    END_OF_OPTIONS,
};
static const struct option_group groups[] = {
    {"Options", options, 0},
    MODEL_GROUPS(struct strip_flags, program.model),
    LIMIT_GROUP(struct strip_flags, program.limits),
};
static const struct strip_flags defaults = {.program = PROGRAM_DEFAULTS};

/* Compares the written program with the original. */
struct stripping {
    const char *before;
    size_t count, after;
    bool differs;
    xcvm_sink sink;
};

static bool pass_on(void *user, const void *bytes, size_t count)
{
    struct stripping *s = user;
    if (s->after + count > s->count || memcmp(s->before + s->after, bytes, count) != 0)
        s->differs = true;
    s->after += count;
    return s->sink.call(s->sink.user, bytes, count);
}

static xcvm_status strip(const void *context, const void *bytes, size_t count, xcvm_sink sink, xcvm_error *error)
{
    struct stripping *const s = *(struct stripping *const *)context;
    *s = (struct stripping){.before = bytes, .count = count, .sink = sink};
    return xcvm_strip(bytes, count, (xcvm_sink){pass_on, s}, error);
}

/* Constants start at a page boundary, so that the file may keep its size. */
static void report_removed(const struct stripping *s)
{
    if (s->differs)
        printf("removed names of nodes and values, types of results, and flops: %zu bytes, %zu before%s\n", s->after,
               s->count, s->after == s->count ? " (the constants start at the same page)" : "");
    else
        printf("removed nothing: the program of %zu bytes has no debug data\n", s->count);
}

static int execute_strip(const void *own, const struct arguments *arguments)
{
    const struct strip_flags *flags = own;
    if (flags->output == NULL)
        return report_usage("the output is missing. Add -o PROG");
    if (output_check_program(flags->output) != EXIT_OK)
        return EXIT_USAGE;
    const char *path = arguments->items[0];
    struct buffer bytes;
    bool made;
    xcvm_error error = {.pc = -1};
    if (program_bytes(path, &flags->program, &bytes, &made, &error) != XCVM_OK)
        return report_error(path, &error);
    struct stripping stripping = {0}, *const context = &stripping;
    int code = rewrite_bytes(path, &bytes, flags->output, strip, &context);
    if (code == EXIT_OK)
        report_removed(&stripping);
    buffer_release(&bytes);
    return code;
}

static const struct example examples[] = {
    {"prog.bin -o small.bin", "remove debug data"},
    {"prog.bin -o prog.bin", "the same in place"},
};

const struct command command_strip = {
    .name = "strip",
    .summary = "remove debug data from a program",
    .operands = "PROG",
    .min_operands = 1,
    .max_operands = 1,
    .description = "Writes the same program without debug data: the names of nodes and values, the types of results, "
                   "and flops. It runs as before, but errors and profiles no longer name the nodes of the model. "
                   "Prints the number of bytes before and after.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct strip_flags),
    .run = execute_strip,
};
