#include "commands.h"
#include "file.h"
#include "program.h"
#include "report.h"
#include "table.h"
#include "value.h"

#include <stdio.h>
#include <string.h>

struct check_flags {
    struct program_flags program;
};

static const struct option_group groups[] = {
    OPTION_GROUP("Loading", program_options, struct check_flags, program),
};
static const struct check_flags defaults = {.program = {.optimization = DEFAULT_OPTIMIZATION}};

static bool print_text(void *user, const void *bytes, size_t count) { return fwrite(bytes, 1, count, user) == count; }

static int check_model(const char *path, const struct program_flags *flags)
{
    struct dims dims;
    xcvm_error error = {.pc = -1};
    if (dims_parse(&flags->dims, &dims, &error) != XCVM_OK)
        return report_usage("%s", error.message);
    xcc_options options = {.size = sizeof options,
                           .dims = dims.items,
                           .dim_count = dims.count,
                           .optimization = compiler_level(flags->optimization)};
    xcvm_status status = xcc_check_file(path, &options, print_text, stdout, &error);
    dims_release(&dims);
    if (status != XCVM_UNSUPPORTED)
        return status == XCVM_OK ? EXIT_OK : report_error(path, &error);
    /* The text lists the reasons already, all of them. */
    report_line("%s: will not compile", path);
    return EXIT_UNSUPPORTED;
}

static void print_parameters(const char *title, const xcvm_program *program, size_t count,
                             const xcvm_parameter *(*get)(const xcvm_program *program, size_t index))
{
    struct table table = {0};
    for (size_t i = 0; i < count; i++) {
        const xcvm_parameter *parameter = get(program, i);
        struct buffer type = {0};
        type_print(&type, &parameter->type);
        table_cell(&table, "%s", title);
        table_cell(&table, "%s", parameter->name);
        table_cell(&table, "%s", buffer_string(&type));
        table_end_row(&table);
        buffer_release(&type);
    }
    table_print(&table, stdout);
}

static void describe(const struct program *program)
{
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_describe(program->handle, &info);
    printf("%s: a sound program of format %u, by %s\n", program->path, info.format,
           info.producer != NULL && *info.producer != '\0' ? info.producer : "an unnamed producer");
    print_parameters("input", program->handle, xcvm_program_input_count(program->handle), xcvm_program_input);
    print_parameters("output", program->handle, xcvm_program_output_count(program->handle), xcvm_program_output);
    printf("%zu instructions, %zu registers, %zu constants of %zu bytes, ", info.instruction_count, info.register_count,
           info.constant_count, info.constant_bytes);
    if (info.arena_bytes != 0)
        printf("planned memory of %zu bytes\n", info.arena_bytes);
    else
        puts("no planned memory");
}

static int run(const void *own, const struct arguments *arguments)
{
    const struct check_flags *flags = own;
    const char *path = arguments->items[0];
    struct program program;
    enum file_kind kind = FILE_PROGRAM;
    xcvm_error error = {.pc = -1};
    if (strcmp(path, "-") != 0 && file_kind_of(path, &kind, &error) != XCVM_OK)
        return report_error(NULL, &error);
    if (kind == FILE_MODEL)
        return check_model(path, &flags->program);
    if (program_open(path, &flags->program, &program, &error) != XCVM_OK)
        return report_error(path, &error);
    describe(&program);
    program_close(&program);
    return EXIT_OK;
}

static const struct example examples[] = {
    {"model.onnx", "find out whether a model will compile, and what it is"},
    {"prog.bin", "verify a program"},
};

const struct command command_check = {
    .name = "check",
    .summary = "verify a program, or tell whether a model will compile",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "For a program: runs the verifier and describes the program.\n\n"
        "For an ONNX model: lists everything that keeps it from compiling, all nodes and not just the first, "
        "and describes the model: opsets, inputs, outputs, parameters, flops, estimated peak memory.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct check_flags),
    .run = run,
};
