/* `xcvm compile`: compiles a model into a program. */
#include "commands/commands.h"
#include "io/file.h"
#include "cli/memory.h"
#include "io/output.h"
#include "run/c_files.h"
#include "run/gradients.h"
#include "run/isa_choices.h"
#include "run/program.h"
#include "cli/report.h"
#include "cli/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct compile_flags {
    struct limit_flags limits;
    struct model_flags model;
    struct c_flags c;
    const char *output, *schedule, *target, *keep_c, *cc, *dump_after, *loss;
    struct text_list wrt, states;
    bool backprop, strip, report, list_passes;
};

static const struct option options[] = {
    {"output", 'o', "PROG", OPTION_FILE, offsetof(struct compile_flags, output), 0, 0,
     "where the program goes; it appears whole or not at all"},
    {"schedule", 0, "memory|naive", OPTION_CHOICE, offsetof(struct compile_flags, schedule), 0, 0,
     "the order of instructions: the one that needs least memory, or the model's"},
    {"target", 0, ISA_CHOICES, OPTION_CHOICE, offsetof(struct compile_flags, target), 0, 0,
     "the instruction set that exported C is for, or that the kernel library is compiled for and needs, or generic, "
     "the least of this machine's "
     "family; elsewhere the unfused instructions run, as "
     "the rest of a program, packed and blocked layouts included, is the same for all targets"},
    {"cc", 0, "COMPILER", OPTION_TEXT, offsetof(struct compile_flags, cc), 0, 0,
     "the C compiler of the kernel library, as \"ccache gcc\"; without it $CC, cc, or aarch64-linux-gnu-gcc for that "
     "target"},
    {"keep-c", 0, "FILE", OPTION_FILE, offsetof(struct compile_flags, keep_c), 0, 0,
     "write the source of the kernel library there (implies --fuse)"},
    BACKPROP_OPTION(
        struct compile_flags,
        "give, behind the model's outputs, grad_out@NAME for each parameter, the gradient of the loss by it"),
    {"wrt", 0, "NAMES", OPTION_LIST, offsetof(struct compile_flags, wrt), 0, 0,
     "with --backprop, the parameters and inputs to differentiate by, with commas between them; may be repeated. "
     "Without it these are all parameters but the running statistics of BatchNormalization"},
    {"loss", 0, "NAME", OPTION_TEXT, offsetof(struct compile_flags, loss), 0, 0,
     "with --backprop, the output that is differentiated, of one element; the only one of a float type need not be "
     "named"},
    {"state", 0, "OUTPUT:INPUT", OPTION_LIST, offsetof(struct compile_flags, states), 0, 0,
     "make a state of an output and the input that it is in the next run, as recurrent states and key/value caches "
     "are: the program keeps it, and has neither; may be repeated"},
    {"strip", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, strip), 0, 0,
     "leave out debug data: names of nodes and values, types, flops"},
    {"report", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, report), 0, 0,
     "print nodes, flops and memory before and after"},
    {"dump-after", 0, "PASS", OPTION_TEXT, offsetof(struct compile_flags, dump_after), 0, 0,
     "print the graph as it is after a pass, or after \"all\"; constants stand behind @"},
    {"list-passes", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, list_passes), 0, 0,
     "print the passes in their order, from which level on and how often each runs, and what it does; compile nothing"},
    END_OF_OPTIONS,
};

static const struct option_group groups[] = {
    {"Options", options, 0},
    C_GROUP(struct compile_flags, c),
    MODEL_GROUPS(struct compile_flags, model),
    MACHINE_GROUP(struct compile_flags, model),
    LIMIT_GROUP(struct compile_flags, limits),
};
static const struct compile_flags defaults = {
    .model = MODEL_DEFAULTS, .c = {.emit = "program"}, .schedule = "memory", .target = "native"};

static void list_passes(void)
{
    struct table table = {0};
    for (size_t i = 0; i < xcc_pass_count(); i++) {
        const xcc_pass_info *pass = xcc_pass(i);
        table_cell(&table, "%s", pass->name);
        table_cell(&table, "-O%d", pass->level);
        if (pass->rounds > 1)
            table_cell(&table, "%d rounds", pass->rounds);
        else
            table_cell(&table, "once");
        table_cell(&table, "%s", pass->summary);
        table_end_row(&table);
    }
    table_print(&table, stdout);
}

/* Refuses a name that is no pass, with the nearest that is one. */
static int check_pass(const char *name)
{
    size_t count = xcc_pass_count();
    const char **names = memory_take(count + 2, sizeof *names);
    bool found = strcmp(name, "all") == 0;
    for (size_t i = 0; i < count; i++) {
        names[i] = xcc_pass(i)->name;
        found |= strcmp(names[i], name) == 0;
    }
    const char *nearest = found ? NULL : nearest_name(name, names);
    int code = EXIT_OK;
    if (!found && nearest != NULL)
        code = report_usage("there is no pass \"%s\"; did you mean \"%s\"?", name, nearest);
    else if (!found)
        code = report_usage("there is no pass \"%s\" (--list-passes prints them)", name);
    free(names);
    return code;
}

static bool print_dump(void *user, const void *bytes, size_t count) { return fwrite(bytes, 1, count, user) == count; }

static void print_report(const xcc_report *report)
{
    struct table table = {0};
    table_cell(&table, " ");
    table_cell(&table, ">before");
    table_cell(&table, ">after");
    table_end_row(&table);
    table_cell(&table, "nodes, instructions");
    table_cell(&table, ">%zu", report->nodes_before);
    table_cell(&table, ">%zu", report->nodes_after);
    table_end_row(&table);
    table_cell(&table, "flops");
    table_cell(&table, ">%" PRIu64, report->flops_before);
    table_cell(&table, ">%" PRIu64, report->flops_after);
    table_end_row(&table);
    table_cell(&table, "peak bytes");
    table_cell(&table, ">%" PRIu64, report->peak_bytes_before);
    table_cell(&table, ">%" PRIu64, report->peak_bytes_after);
    table_end_row(&table);
    table_cell(&table, "weight bytes");
    table_cell(&table, ">%" PRIu64, report->weight_bytes_before);
    table_cell(&table, ">%" PRIu64, report->weight_bytes_after);
    table_end_row(&table);
    table_print(&table, stdout);
    if (report->uncompressed != 0)
        printf("%zu %s f32, with numbers that are out of range\n", report->uncompressed,
               report->uncompressed == 1 ? "constant stays" : "constants stay");
    printf("parameters %" PRIu64 " bytes, arena %" PRIu64 " bytes", report->parameter_bytes, report->arena_bytes);
    if (report->arena_lower_bound != 0)
        printf(" (lower bound %" PRIu64 ", %.1f%% above it)", report->arena_lower_bound,
               100.0 * ((double)report->arena_bytes / (double)report->arena_lower_bound - 1));
    puts("");
    if (!report->exact)
        puts("open dimensions are counted as 1");
}

/* A compilation, and where its results go. */
struct compilation {
    const struct compile_flags *flags;
    const char *path;
    struct dims dims;
    struct names wrt;
    xcc_state_pair *states; /* flags->states.count, each pair in one allocation */
    struct output output;
    struct library library; /* with --fuse */
    char *target;           /* the place of the library */
    xcc_report report;
};

/* Of several colons, as in "h:0:state:0", the middle one parts the names. */
static bool parse_states(struct compilation *compilation)
{
    const struct text_list *texts = &compilation->flags->states;
    compilation->states = memory_take(texts->count, sizeof *compilation->states);
    for (size_t i = 0; i < texts->count; i++) {
        size_t colons = 0;
        for (const char *at = texts->items[i]; *at != '\0'; at++)
            colons += *at == ':';
        char *text = memory_text(texts->items[i]), *middle = text;
        compilation->states[i].output = text;
        for (size_t k = 0; k < colons / 2 + 1 && middle != NULL; k++)
            middle = strchr(middle + (k > 0), ':');
        if (colons % 2 == 0 || middle == text || middle[1] == '\0')
            return false;
        *middle = '\0';
        compilation->states[i].input = middle + 1;
    }
    return true;
}

static void release_states(struct compilation *compilation)
{
    for (size_t i = 0; compilation->states != NULL && i < compilation->flags->states.count; i++)
        free((char *)(uintptr_t)compilation->states[i].output);
    free(compilation->states);
}

static bool fuses(const struct compile_flags *flags) { return flags->model.fuse || flags->keep_c != NULL; }

/* The library is made beside its place. Without a program that can be run there is no such place. */
static xcvm_status begin_library(struct compilation *compilation, xcvm_error *error)
{
    const char *program = compilation->flags->output;
    if (strcmp(program, "-") == 0)
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "a kernel library goes beside its program, which needs a file: -o PROG");
    compilation->target = library_beside(program);
    bool kept = compilation->output.temporary != NULL;
    char *folder = kept ? file_folder(program) : memory_text(library_temporary_folder());
    char *name = file_base_name(compilation->target);
    xcvm_status status = library_begin(&compilation->library, folder, name, error);
    free(name);
    free(folder);
    return status;
}

/* Puts everything in its place, the library first: a program whose library is not there yet would say so. */
static xcvm_status finish(struct compilation *compilation, xcvm_error *error)
{
    bool made = true;
    if (compilation->library.folder != NULL && compilation->output.temporary != NULL) {
        xcvm_status status = library_finish(&compilation->library, compilation->target, &made, error);
        if (status != XCVM_OK) {
            output_discard(&compilation->output, error);
            return status;
        }
    }
    if (!made)
        report_line("note: there is nothing to fuse, so no kernel library is made");
    return output_finish(&compilation->output, error);
}

static xcvm_status compile_to(struct compilation *compilation, const struct model_flags *model, xcvm_sink sink,
                              void *user, xcvm_error *error)
{
    const struct compile_flags *flags = compilation->flags;
    xcc_options compiler = compiler_options(model, &flags->limits, &compilation->dims);
    compiler.scheduling = strcmp(flags->schedule, "naive") == 0 ? XCC_SCHEDULE_NAIVE : XCC_SCHEDULE_MEMORY;
    compiler.strip = flags->strip;
    compiler.fuse = compilation->library.path;
    compiler.keep_c = flags->keep_c;
    compiler.target = flags->target;
    compiler.cc = flags->cc != NULL ? flags->cc : library_compiler();
    compiler.cache_dir = compilation->library.cache;
    compiler.dump_after = flags->dump_after;
    compiler.dump = flags->dump_after != NULL ? print_dump : NULL;
    compiler.backprop = flags->backprop;
    compiler.loss = flags->loss;
    compiler.wrt = compilation->wrt.items;
    compiler.wrt_count = compilation->wrt.count;
    compiler.states = compilation->states;
    compiler.state_count = flags->states.count;
    compiler.user = stdout;
    return compile_model(compilation->path, &compiler, sink, user, &compilation->report, error);
}

static xcvm_status compile_program(struct compilation *compilation, xcvm_error *error)
{
    const struct compile_flags *flags = compilation->flags;
    if (fuses(flags))
        TRY(begin_library(compilation, error));
    return compile_to(compilation, &flags->model, output_sink, &compilation->output, error);
}

/* A file that is no model may be what a model becomes. */
static void tell_kind(xcvm_status status, const char *path)
{
    enum file_kind kind;
    if (status != XCVM_INVALID_MODEL || file_is_stream(path) || file_kind_of(path, &kind, NULL) != XCVM_OK)
        return;
    if (kind == FILE_PROGRAM)
        report_line("%s is a program, which is compiled already", path);
    else if (kind == FILE_ASSEMBLY)
        report_line("%s is the text of a program; \"xcvm asm\" turns it into one", path);
}

/* The program that C is made of; a file that is one already is taken as it is. */
static xcvm_status export_c(struct compilation *compilation, xcvm_error *error)
{
    const struct compile_flags *flags = compilation->flags;
    const bool for_any = strcmp(flags->target, defaults.target) == 0;
    struct model_flags model = flags->model;
    struct buffer program = {0};
    enum file_kind kind;
    if (for_any)
        model.layout = "plain";
    xcvm_status status = file_kind_of(compilation->path, &kind, error);
    if (status == XCVM_OK && kind == FILE_PROGRAM)
        status = file_read(compilation->path, &program, error);
    else if (status == XCVM_OK)
        status = compile_to(compilation, &model, buffer_sink, &program, error);
    if (status == XCVM_OK)
        status = c_files_write(&flags->c, &program, for_any ? NULL : flags->target, flags->output, error);
    buffer_release(&program);
    return status;
}

static int compile(const struct compile_flags *flags, const char *path)
{
    struct compilation compilation = {.flags = flags, .path = path, .report = {.size = sizeof compilation.report}};
    xcvm_error error = {.pc = -1};
    if (dims_parse(&flags->model.dims, &compilation.dims, &error) != XCVM_OK)
        return report_usage("%s", error.message);
    names_split(&flags->wrt, &compilation.wrt);
    if (!parse_states(&compilation)) {
        release_states(&compilation);
        return report_usage("--state wants the names of an output and an input with a colon between them");
    }
    int code = EXIT_OK;
    xcvm_status status;
    if (emits_c(&flags->c)) {
        status = export_c(&compilation, &error);
        if (status != XCVM_OK)
            code = report_error(path, &error);
    } else if ((status = output_open(&compilation.output, flags->output, &error)) != XCVM_OK) {
        code = report_error(NULL, &error);
    } else if ((status = compile_program(&compilation, &error)) != XCVM_OK) {
        bool unwritten = compilation.output.failure != 0;
        output_discard(&compilation.output, &error);
        code = report_error(unwritten ? NULL : path, &error);
        tell_kind(status, path);
        if (status == XCVM_UNSUPPORTED && !fuses(flags))
            report_line("\"xcvm check %s\" lists everything that keeps it from compiling", path);
    } else if ((status = finish(&compilation, &error)) != XCVM_OK) {
        code = report_error(NULL, &error);
    }
    if (status == XCVM_OK && flags->report)
        print_report(&compilation.report);
    library_release(&compilation.library);
    free(compilation.target);
    names_release(&compilation.wrt);
    release_states(&compilation);
    dims_release(&compilation.dims);
    return code;
}

/* Options that would do nothing. */
static int check_flags(const struct compile_flags *flags)
{
    const bool targets = strcmp(flags->target, defaults.target) != 0 && !emits_c(&flags->c);
    if (!fuses(flags) && (flags->cc != NULL || targets))
        return report_usage("--%s is for the kernel library, which --fuse asks for",
                            flags->cc != NULL ? "cc" : "target");
    if (!flags->backprop && (flags->loss != NULL || flags->wrt.count != 0))
        return report_usage("--%s is for gradients, which --backprop asks for", flags->loss != NULL ? "loss" : "wrt");
    return c_flags_check(&flags->c, flags->output, fuses(flags));
}

static int execute_compile(const void *own, const struct arguments *arguments)
{
    const struct compile_flags *flags = own;
    if (flags->list_passes) {
        list_passes();
        return EXIT_OK;
    }
    if (arguments->count == 0)
        return report_usage("wants MODEL");
    int code = check_flags(flags);
    if (code == EXIT_OK && flags->dump_after != NULL)
        code = check_pass(flags->dump_after);
    if (code != EXIT_OK)
        return code;
    /* Someone who looks at passes or at the report need not keep the program. */
    struct compile_flags chosen = *flags;
    if (chosen.output == NULL && (chosen.dump_after != NULL || chosen.report))
        chosen.output = "/dev/null";
    if (chosen.output == NULL)
        return report_usage("wants an output: -o PROG");
    if (file_is_same(chosen.output, arguments->items[0]))
        return report_usage("%s is the model itself; the program wants a file of its own", chosen.output);
    return compile(&chosen, arguments->items[0]);
}

static const struct example examples[] = {
    {"model.onnx -o prog.bin", "compile a model"},
    {"model.onnx -o prog.bin --dim batch=4 --report", "for batches of four, and see what it costs"},
    {"model.onnx -o prog.bin --fuse", "with a kernel library prog.so beside the program"},
    {"model.onnx -o prog.bin --weights f16 --report", "with weights of half the size, and see how much that is"},
    {"network.onnx -o grad.bin --backprop --wrt fc.weight,fc.bias", "with the gradients of its loss by two parameters"},
    {"model.onnx --emit c -o net.c --with-main", "as C for any processor, with a main"},
    {"model.onnx --dump-after fuse_ops", "look at the graph after a pass"},
};

const struct command command_compile = {
    .name = "compile",
    .summary = "compile an ONNX model into a program",
    .operands = "MODEL",
    .min_operands = 0,
    .max_operands = 1,
    .description =
        "Compiles an ONNX model into a program that \"xcvm run\" and the library load by mapping the file. "
        "External data of the model must lie in its folder or below.\n\n"
        "The program is written beside its target first and put in place at the end, so that a failure "
        "leaves what was there.\n\n"
        "With --backprop the program computes the gradients of a loss, too: its outputs are the model's, then "
        "grad_out@NAME for each parameter NAME, an initializer of a float type, that the loss depends on. Every node "
        "in the way that has no gradient is named.\n\n"
        "Weights keep every bit, unless --weights asks for a smaller type. With --weights f24, an f32 without its last "
        "byte, the matrices that products and recurrent networks multiply by and the filters of convolutions take a "
        "quarter less memory and time to read; results differ by some 0.00001 of the greatest output, and 0.001 after "
        "many convolutions. With --weights f16 or bf16, these, and tables that only Gather reads, take half the file "
        "and half the memory. They are rounded to nearest even. "
        "All are read as f32, and all else is computed in f32, so results lose what the rounding of the weights loses: "
        "with f16 some 0.0003 of the greatest output, and a few thousandths after many convolutions; with bf16 eight "
        "times that. Products of one row or few, which wait for their weights from memory, take down to half the time, "
        "all else as long as before. A constant with finite numbers that the type cannot hold, beyond 65504 in f16, "
        "stays f32, and --report says how many did.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct compile_flags),
    .run = execute_compile,
};
