/* `xcvm check`: verifies a program, or lists the reasons why a model does not compile. */
#include "commands/commands.h"
#include "io/file.h"
#include "io/output.h"
#include "cli/memory.h"
#include "values/parameters.h"
#include "run/program.h"
#include "run/state_lines.h"
#include "cli/report.h"
#include "cli/table.h"
#include "values/value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check_flags {
    struct program_flags program;
    const char *loss;
    bool backprop;
};

static const struct option options[] = {
    BACKPROP_OPTION(struct check_flags,
                    "for a model, also list the nodes without a gradient, and the memory and flops of training"),
    {"loss", 0, "LOSS", OPTION_TEXT, offsetof(struct check_flags, loss), 0, 0,
     "with --backprop, the output to differentiate, or a loss to add, as in xcvm train: for example "
     "'softmax_cross_entropy(scores,labels)', or only softmax_cross_entropy if output and labels are clear. The only "
     "float output need not be named"},
    END_OF_OPTIONS,
};

static const struct option_group groups[] = {
    {"Options", options, 0},
    MODEL_GROUPS(struct check_flags, program.model),
    LIMIT_GROUP(struct check_flags, program.limits),
    LOADING_GROUP(struct check_flags, program),
};
static const struct check_flags defaults = {.program = PROGRAM_DEFAULTS};

static bool print_text(void *user, const void *bytes, size_t count)
{
    char *text = memory_text_n(bytes, count);
    make_printable(text);
    bool printed = fputs(text, user) >= 0;
    free(text);
    return printed;
}

/* `file` is the file to read, `path` its name in messages. */
static int check_model(const char *file, const char *path, const struct check_flags *own)
{
    const struct program_flags *flags = &own->program;
    struct dims dims;
    struct names patterns = {0};
    struct state_lines lines = {.path = path};
    xcvm_error error = {.pc = -1};
    if (state_options_check(&flags->model.states, false, &error) != XCVM_OK ||
        dims_parse(&flags->model.dims, &dims, &error) != XCVM_OK)
        return report_usage("%s", error.message);
    xcc_options compiler = compiler_options(&flags->model, &flags->limits, &dims);
    compiler.backprop = own->backprop;
    compiler.loss = own->loss;
    state_options_use(&flags->model.states, &patterns, &compiler);
    compiler.diagnostics = (xcc_diagnostics){state_lines_add, &lines};
    xcvm_status status = xcc_check_file(file, &compiler, (xcvm_sink){print_text, stdout}, &error);
    dims_release(&dims);
    names_release(&patterns);
    if (status == XCVM_OK && lines.states.length != 0) {
        make_printable(lines.states.data);
        output_print(buffer_string(&lines.states));
    }
    state_lines_print_notes(&lines);
    state_lines_release(&lines);
    if (status != XCVM_UNSUPPORTED)
        return status == XCVM_OK ? EXIT_OK : report_error(path, &error);
    /* The text lists all reasons already. */
    report_line("%s: the model does not compile, for the reasons above", path);
    return EXIT_UNSUPPORTED;
}

static void print_program(const struct program *program)
{
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_get_info(program->handle, &info);
    struct table table = {0};
    table_cell(&table, "%s: valid program, format %u, produced by %s", program->path, info.format,
               info.producer != NULL && *info.producer != '\0' ? info.producer : "an unnamed producer");
    table_end_row(&table);
    table_print(&table, stdout);
    parameters_print(program->handle);
    printf("instructions %zu, registers %zu, constants %zu of %zu bytes, ", info.instruction_count, info.register_count,
           info.constant_count, info.constant_bytes);
    if (info.arena_bytes != 0)
        printf("planned memory of %zu bytes\n", info.arena_bytes);
    else
        puts("no planned memory");
}

/* Copies a model from a pipe into a temporary file, because the check reads files only. */
static int check_piped_model(const char *path, const struct check_flags *flags)
{
    struct buffer bytes = {0};
    xcvm_error error = {.pc = -1};
    const struct read_limits limits = reading_limits(&flags->program.limits);
    if (file_read(path, &limits, &bytes, &error) != XCVM_OK)
        return report_error(NULL, &error);
    FILE *file = tmpfile();
    bool kept =
        file != NULL && fwrite(buffer_string(&bytes), 1, bytes.length, file) == bytes.length && fflush(file) == 0;
    int code = EXIT_IO;
    if (kept) {
        char *name = memory_format("/proc/self/fd/%d", fileno(file));
        code = check_model(name, path, flags);
        free(name);
    } else {
        report_line("%s: cannot write a temporary file: %s", path, strerror(errno));
    }
    if (file != NULL)
        fclose(file);
    buffer_release(&bytes);
    return code;
}

static int execute_check(const void *own, const struct arguments *arguments)
{
    const struct check_flags *flags = own;
    const char *path = arguments->items[0];
    struct program program;
    enum file_kind kind;
    xcvm_error error = {.pc = -1};
    const struct read_limits limits = reading_limits(&flags->program.limits);
    if (file_kind_of(path, &limits, &kind, &error) != XCVM_OK)
        return report_error(NULL, &error);
    if (flags->loss != NULL && !flags->backprop)
        return report_usage("--loss has no effect without --backprop");
    if (kind == FILE_MODEL)
        return file_is_stream(path) ? check_piped_model(path, flags) : check_model(path, path, flags);
    if (flags->backprop)
        return report_usage("%s: --backprop needs a model, but this is a program", path);
    if (program_open(path, &flags->program, &program, &error) != XCVM_OK)
        return report_error(path, &error);
    print_program(&program);
    program_close(&program);
    return EXIT_OK;
}

static const struct example examples[] = {
    {"model.onnx", "report whether a model compiles, and describe it"},
    {"network.onnx --backprop --loss loss", "report the cost of training"},
    {"net.onnx --backprop --loss softmax_cross_entropy", "the same for a model without a loss"},
    {"prog.bin", "verify a program"},
};

const struct command command_check = {
    .name = "check",
    .summary = "verify a program, or report whether a model compiles",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "For a program: runs the verifier and prints the inputs, outputs and states, and the size.\n\nFor an ONNX "
        "model: lists every node that keeps it from compiling, and prints opsets, inputs, outputs, parameters, flops "
        "and the estimated peak memory. It also reports a model in training form, whose results depend on the batch or "
        "on random numbers. With --state-pairs, it lists the states. With --backprop, it lists the nodes without a "
        "gradient that the gradient of the loss needs. It prints the memory of the gradients and of the results that "
        "are kept for the backward pass, and the flops of both passes.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct check_flags),
    .run = execute_check,
};
