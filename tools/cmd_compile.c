#include "commands.h"
#include "memory.h"
#include "output.h"
#include "program.h"
#include "progress.h"
#include "report.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct compile_flags {
    const char *output, *schedule, *layout, *target, *keep_c, *cc, *dump_after;
    struct text_list dims;
    int64_t optimization;
    bool tune, fuse, strip, report, list_passes;
};

static const struct option options[] = {
    {"output", 'o', "PROG", OPTION_FILE, offsetof(struct compile_flags, output), 0, 0,
     "where the program goes; it appears whole or not at all"},
    {"dim", 0, "NAME=SIZE", OPTION_LIST, offsetof(struct compile_flags, dims), 0, 0,
     "fix a named dimension of the inputs; may be repeated"},
    {"optimize", 'O', "LEVEL", OPTION_INT, offsetof(struct compile_flags, optimization), 0, 2,
     "how far the model is optimised: 0 only what is needed to run, 1 no merging, 2 all"},
    {"schedule", 0, "memory|naive", OPTION_CHOICE, offsetof(struct compile_flags, schedule), 0, 0,
     "the order of instructions: the one that needs least memory, or the model's"},
    {"layout", 0, "blocked|plain", OPTION_CHOICE, offsetof(struct compile_flags, layout), 0, 0,
     "of convolutions: with channels in blocks of 16 where that is faster, or as the model has it"},
    {"tune", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, tune), 0, 0,
     "measure how each convolution is computed fastest on this machine, and let the program do that; else a table of "
     "estimates chooses"},
    {"fuse", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, fuse), 0, 0,
     "make groups of neighbouring instructions one function each of a kernel library, PROG with the ending .so; the "
     "program runs without it too"},
    {"target", 0, "native|x86-64-v3|x86-64-v4|aarch64|generic", OPTION_CHOICE, offsetof(struct compile_flags, target),
     0, 0,
     "the instruction set that the kernel library is compiled for and needs; elsewhere the plain instructions run, as "
     "the rest of a program, packed and blocked layouts included, is the same for all targets"},
    {"cc", 0, "COMPILER", OPTION_TEXT, offsetof(struct compile_flags, cc), 0, 0,
     "the C compiler of the kernel library; without it $CC, cc, or aarch64-linux-gnu-gcc for that target"},
    {"keep-c", 0, "FILE", OPTION_FILE, offsetof(struct compile_flags, keep_c), 0, 0,
     "write the source of the kernel library there (implies --fuse)"},
    {"strip", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, strip), 0, 0,
     "leave out debug data: names of nodes and values, types, flops"},
    {"report", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, report), 0, 0,
     "print nodes, flops and memory before and after"},
    {"dump-after", 0, "PASS", OPTION_TEXT, offsetof(struct compile_flags, dump_after), 0, 0,
     "print the graph as it is after a pass, or after \"all\""},
    {"list-passes", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, list_passes), 0, 0,
     "print the passes and what they do, and compile nothing"},
};

static const struct option_group groups[] = {{"Options", options, COUNT_OF(options), 0}};
static const struct compile_flags defaults = {
    .optimization = DEFAULT_OPTIMIZATION, .schedule = "memory", .layout = "blocked", .target = "native"};

static void list_passes(void)
{
    struct table table = {0};
    for (size_t i = 0; i < xcc_pass_count(); i++) {
        table_cell(&table, "%s", xcc_pass(i)->name);
        table_cell(&table, "%s", xcc_pass(i)->sentence);
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

/* Where the compiler's callbacks write. */
struct listener {
    FILE *dump;
    struct progress progress;
};

static bool print_dump(void *user, const void *bytes, size_t count)
{
    const struct listener *listener = user;
    return fwrite(bytes, 1, count, listener->dump) == count;
}

static void show_progress(void *user, const char *pass, double fraction)
{
    struct listener *listener = user;
    if (strcmp(pass, "tune") == 0)
        progress_show(&listener->progress, "measuring convolutions", fraction);
}

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
    table_print(&table, stdout);
    printf("parameters %" PRIu64 " bytes, arena %" PRIu64 " bytes", report->parameter_bytes, report->arena_bytes);
    if (report->arena_lower_bound != 0)
        printf(" (lower bound %" PRIu64 ", %.1f%% above it)", report->arena_lower_bound,
               100.0 * ((double)report->arena_bytes / (double)report->arena_lower_bound - 1));
    puts("");
    if (!report->exact)
        puts("open dimensions are counted as 1");
}

/* PROG with the ending .so in place of its own. */
static char *library_path(const char *program)
{
    const char *slash = strrchr(program, '/'), *dot = strrchr(program, '.');
    size_t stem =
        dot != NULL && dot > program && (slash == NULL || dot > slash + 1) ? (size_t)(dot - program) : strlen(program);
    char *path = memory_take(stem + sizeof ".so", 1);
    snprintf(path, stem + sizeof ".so", "%.*s.so", (int)stem, program);
    return path;
}

/* $XDG_CACHE_HOME/xcvm or ~/.cache/xcvm; NULL if there is neither. */
static char *cache_path(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool own = cache != NULL && cache[0] == '/';
    if (!own && (home == NULL || home[0] != '/'))
        return NULL;
    size_t size = strlen(own ? cache : home) + sizeof "/.cache/xcvm";
    char *path = memory_take(size, 1);
    snprintf(path, size, "%s%s/xcvm", own ? cache : home, own ? "" : "/.cache");
    return path;
}

static int compile(const struct compile_flags *flags, const char *path)
{
    struct dims dims;
    bool fuses = flags->fuse || flags->keep_c != NULL;
    char *library = fuses ? library_path(flags->output) : NULL, *cache = fuses ? cache_path() : NULL;
    struct listener listener = {.dump = stdout};
    xcvm_error error = {.pc = -1};
    if (dims_parse(&flags->dims, &dims, &error) != XCVM_OK) {
        free(library);
        free(cache);
        return report_usage("%s", error.message);
    }
    xcc_options compiler = {.size = sizeof compiler,
                            .dims = dims.items,
                            .dim_count = dims.count,
                            .scheduling =
                                strcmp(flags->schedule, "naive") == 0 ? XCC_SCHEDULE_NAIVE : XCC_SCHEDULE_MEMORY,
                            .optimization = compiler_level(flags->optimization),
                            .strip = flags->strip,
                            .plain_layout = strcmp(flags->layout, "plain") == 0,
                            .fuse = library,
                            .keep_c = flags->keep_c,
                            .target = flags->target,
                            .cc = flags->cc != NULL ? flags->cc : getenv("CC"),
                            .cache_dir = cache,
                            .dump_after = flags->dump_after,
                            .dump = flags->dump_after != NULL ? print_dump : NULL,
                            .tune = flags->tune,
                            .progress = flags->tune ? show_progress : NULL,
                            .user = &listener};
    xcc_report report = {.size = sizeof report};
    struct output output;
    xcvm_status status = output_open(&output, flags->output, &error);
    int code = EXIT_OK;
    if (status != XCVM_OK) {
        code = report_error(NULL, &error);
    } else {
        progress_start(&listener.progress);
        status = compile_model(path, &compiler, output_sink, &output, &report, &error);
        progress_end(&listener.progress);
        bool unwritten = output.failure != 0;
        if (status == XCVM_OK) {
            unwritten = true;
            status = output_finish(&output, &error);
        } else {
            output_discard(&output, &error);
        }
        if (status != XCVM_OK)
            code = report_error(unwritten ? NULL : path, &error);
        if (status == XCVM_UNSUPPORTED && !fuses)
            report_line("\"xcvm check %s\" lists everything that keeps it from compiling", path);
    }
    if (status == XCVM_OK && flags->report)
        print_report(&report);
    dims_release(&dims);
    free(library);
    free(cache);
    return code;
}

static int run(const void *own, const struct arguments *arguments)
{
    const struct compile_flags *flags = own;
    if (flags->list_passes) {
        list_passes();
        return EXIT_OK;
    }
    if (arguments->count == 0)
        return report_usage("wants a MODEL");
    int code = flags->dump_after != NULL ? check_pass(flags->dump_after) : EXIT_OK;
    if (code != EXIT_OK)
        return code;
    /* Someone who looks at passes or at the report need not keep the program. */
    struct compile_flags chosen = *flags;
    if (chosen.output == NULL && (chosen.dump_after != NULL || chosen.report))
        chosen.output = "/dev/null";
    if (chosen.output == NULL)
        return report_usage("wants an output: -o PROG");
    return compile(&chosen, arguments->items[0]);
}

static const struct example examples[] = {
    {"model.onnx -o prog.bin", "compile a model"},
    {"model.onnx -o prog.bin --dim batch=4 --report", "for batches of four, and see what it costs"},
    {"model.onnx -o prog.bin --fuse", "with a kernel library prog.so beside the program"},
    {"model.onnx --dump-after merge", "look at the graph after a pass"},
};

const struct command command_compile = {
    .name = "compile",
    .summary = "compile an ONNX model into a program",
    .operands = "MODEL",
    .min_operands = 0,
    .max_operands = 1,
    .description = "Compiles an ONNX model into a program that \"xcvm run\" and the library load by mapping the file. "
                   "External data of the model must lie in its folder or below.\n\n"
                   "The program is written beside its target first and put in place at the end, so that a failure "
                   "leaves what was there.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct compile_flags),
    .run = run,
};
