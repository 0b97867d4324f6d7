/* `xcvm check`: verifies a program, or tells what keeps a model from compiling. */
#include "commands/commands.h"
#include "io/file.h"
#include "cli/memory.h"
#include "values/parameters.h"
#include "run/program.h"
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
                    "of a model: also name every node that has no gradient, and say what training would take"),
    {"loss", 0, "LOSS", OPTION_TEXT, offsetof(struct check_flags, loss), 0, 0,
     "with --backprop, the output that is differentiated, or a loss that is added, as xcvm train has it: "
     "'softmax_cross_entropy(scores,labels)', or without what is plain, softmax_cross_entropy; the only output of a "
     "float type need not be named"},
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

/* `file` is where the model is read from, `path` what it was called. */
static int check_model(const char *file, const char *path, const struct check_flags *own)
{
    const struct program_flags *flags = &own->program;
    struct dims dims;
    xcvm_error error = {.pc = -1};
    if (dims_parse(&flags->model.dims, &dims, &error) != XCVM_OK)
        return report_usage("%s", error.message);
    xcc_options compiler = compiler_options(&flags->model, &flags->limits, &dims);
    compiler.backprop = own->backprop;
    compiler.loss = own->loss;
    compiler.diagnostics.user = (void *)(uintptr_t)path;
    xcvm_status status = xcc_check_file(file, &compiler, (xcvm_sink){print_text, stdout}, &error);
    dims_release(&dims);
    if (status != XCVM_UNSUPPORTED)
        return status == XCVM_OK ? EXIT_OK : report_error(path, &error);
    /* The text lists the reasons already, all of them. */
    report_line("%s: will not compile", path);
    return EXIT_UNSUPPORTED;
}

static void describe(const struct program *program)
{
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_get_info(program->handle, &info);
    struct table table = {0};
    table_cell(&table, "%s: a sound program of format %u, by %s", program->path, info.format,
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

/* A model from a pipe becomes a file, as the compiler looks at files only. */
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
        report_line("%s cannot be kept in a temporary file: %s", path, strerror(errno));
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
        return report_usage("--loss is for gradients, which --backprop asks for");
    if (kind == FILE_MODEL)
        return file_is_stream(path) ? check_piped_model(path, flags) : check_model(path, path, flags);
    if (flags->backprop)
        return report_usage("--backprop is for models; %s is a program", path);
    if (program_open(path, &flags->program, &program, &error) != XCVM_OK)
        return report_error(path, &error);
    describe(&program);
    program_close(&program);
    return EXIT_OK;
}

static const struct example examples[] = {
    {"model.onnx", "find out whether a model will compile, and what it is"},
    {"network.onnx --backprop --loss loss", "find out what it takes to train it"},
    {"net.onnx --backprop --loss softmax_cross_entropy", "the same of a model that gives no loss"},
    {"prog.bin", "verify a program"},
};

const struct command command_check = {
    .name = "check",
    .summary = "verify a program, or tell whether a model will compile",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "For a program: runs the verifier and describes the program, with its inputs, outputs and states.\n\n"
        "For an ONNX model: lists everything that keeps it from compiling, all nodes and not just the first, "
        "and describes the model: opsets, inputs, outputs, parameters, flops, estimated peak memory, and whether it is "
        "in "
        "training form, in which results depend on the batch or on random numbers. With --backprop "
        "it "
        "lists every node that the gradient of the loss goes through and that has none, and describes the training: "
        "the "
        "memory of the gradients, that of what the forward keeps for the backward, and the flops of both.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct check_flags),
    .run = execute_check,
};
