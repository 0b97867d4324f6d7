/* `xcvm asm`: assembles a program from its text. */
#include "commands/commands.h"
#include "io/file.h"
#include "io/output.h"
#include "cli/memory.h"
#include "run/program.h"
#include "cli/report.h"
#include "run/rewrite.h"

#include <stdlib.h>

struct asm_flags {
    const char *output;
    bool any_path;
};

static const struct option options[] = {
    {"output", 'o', "PROG", OPTION_FILE, offsetof(struct asm_flags, output), 0, 0,
     "the program to write. A failure leaves an existing file as it was"},
    {"any-path", 0, NULL, OPTION_FLAG, offsetof(struct asm_flags, any_path), 0, 0,
     "allow the text to refer to any file, as text from standard input may. Its file names are then relative to the "
     "current directory"},
    END_OF_OPTIONS,
};
static const struct option_group groups[] = {{"Options", options, 0}};

static xcvm_status assemble(const void *context, const void *bytes, size_t count, xcvm_sink sink, xcvm_error *error)
{
    xcvm_status status = xcvm_assemble(bytes, count, context, sink, error);
    if (status == XCVM_INVALID_ARGUMENT)
        error_append(error, ANY_PATH_HINT);
    return status;
}

static int execute_asm(const void *own, const struct arguments *arguments)
{
    const struct asm_flags *flags = own;
    if (flags->output == NULL)
        return report_usage("the output is missing. Add -o PROG");
    if (file_is_same(flags->output, arguments->items[0]))
        return report_usage("%s is the text itself. The output must be another file", flags->output);
    if (output_check_program(flags->output) != EXIT_OK)
        return EXIT_USAGE;
    /* An empty directory allows any path. Text from a pipe may name any file, because it is often a dump of a program
     * in another directory. */
    const char *text = arguments->items[0];
    char *folder = flags->any_path || file_is_stream(text) ? memory_text("") : file_folder(text);
    int code = rewrite_file(text, flags->output, assemble, folder);
    free(folder);
    return code;
}

static const struct example examples[] = {
    {"prog.txt -o prog.bin", "assemble a text"},
    {"- -o prog.bin < prog.txt", "the same from standard input"},
};

const struct command command_asm = {
    .name = "asm",
    .summary = "turn text assembly into a program",
    .operands = "TEXT",
    .min_operands = 1,
    .max_operands = 1,
    .description = "Assembles a program from text that \"xcvm dump\" printed or that was written by hand; - is "
                   "standard input. The text may refer to constants in files of its own directory.\n\nThe assembler "
                   "does not verify the program. \"xcvm check\" and every run do.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .options_size = sizeof(struct asm_flags),
    .run = execute_asm,
};
