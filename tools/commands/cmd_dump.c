/* `xcvm dump`: disassembles a program. */
#include "commands/commands.h"
#include "io/file.h"
#include "io/output.h"
#include "run/program.h"
#include "cli/report.h"
#include "run/rewrite.h"

#include <stdlib.h>
#include <string.h>

struct dump_flags {
    struct program_flags program;
    const char *output;
    bool explain;
    int64_t literals;
};

static const struct option options[] = {
    {"output", 'o', "FILE", OPTION_FILE, offsetof(struct dump_flags, output), 0, 0,
     "write the text to this file instead of standard output"},
    {"explain", 0, NULL, OPTION_FLAG, offsetof(struct dump_flags, explain), 0, 0,
     "append to each instruction its number, as in messages, and its meaning with the registers filled in"},
    {"literals", 0, "N", OPTION_INT, offsetof(struct dump_flags, literals), 1, INT64_MAX,
     "write out constants of up to N elements; larger ones refer to the program file (default 16)"},
    END_OF_OPTIONS,
};

static const struct option_group groups[] = {
    {"Options", options, 0},
    MODEL_GROUPS(struct dump_flags, program.model),
    LIMIT_GROUP(struct dump_flags, program.limits),
};
static const struct dump_flags defaults = {.program = PROGRAM_DEFAULTS};

static xcvm_status disassemble(const void *context, const void *bytes, size_t count, xcvm_sink sink, xcvm_error *error)
{
    return xcvm_disassemble(bytes, count, context, sink, error);
}

static int execute_dump(const void *own, const struct arguments *arguments)
{
    const struct dump_flags *flags = own;
    const char *path = arguments->items[0];
    if (output_check_name(flags->output, ".txt .xcvm", "text assembly, for example prog.txt") != EXIT_OK)
        return EXIT_USAGE;
    struct buffer bytes;
    bool made;
    xcvm_error error = {.pc = -1};
    if (program_bytes(path, &flags->program, &bytes, &made, &error) != XCVM_OK)
        return report_error(path, &error);
    /* References are relative to the directory of the text: that of the output, or the current directory. */
    const char *target = flags->output != NULL ? flags->output : "-";
    char *reference = NULL;
    if (!made && strcmp(path, "-") != 0) {
        char *folder = file_folder(target);
        reference = file_relative(path, folder);
        free(folder);
    }
    xcvm_disassemble_options dump = {.size = sizeof dump,
                                     .literal_limit = (size_t)flags->literals,
                                     .program_path = reference,
                                     .explain = flags->explain};
    int code = rewrite_bytes(path, &bytes, target, disassemble, &dump);
    free(reference);
    buffer_release(&bytes);
    return code;
}

static const struct example examples[] = {
    {"prog.bin", "print a program"},
    {"model.onnx --explain", "show the instructions of a model and their meaning"},
    {"prog.bin -o prog.txt", "write text for \"xcvm asm\""},
};

const struct command command_dump = {
    .name = "dump",
    .summary = "print a program as text assembly",
    .operands = "PROG",
    .min_operands = 1,
    .max_operands = 1,
    .description = "Prints a program as text assembly. \"xcvm asm\" turns the text into the same bytes again. The "
                   "program need not pass the verifier.\n\nLarge constants are not written out. The text refers to the "
                   "program file, which must be kept.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct dump_flags),
    .run = execute_dump,
};
