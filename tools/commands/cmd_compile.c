/* `xcvm compile`: compiles a model into a program. */
#include "commands/commands.h"
#include "commands/compile_report.h"
#include "commands/name_pairs.h"
#include "io/file.h"
#include "cli/memory.h"
#include "io/output.h"
#include "run/c_files.h"
#include "run/gradients.h"
#include "run/isa_choices.h"
#include "run/program.h"
#include "run/training_options.h"
#include "cli/report.h"
#include "cli/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct compile_flags {
    struct limit_flags limits;
    struct model_flags model;
    struct c_flags c;
    const char *output, *schedule, *caches, *target, *keep_c, *cc, *dump_after, *loss, *train;
    struct text_list wrt, states, state_pairs, vjps;
    struct training_flags training;
    struct recomputation_flags recomputation;
    bool backprop, straight_through, two_phase, strip, report, list_passes;
    int64_t order, cache_rows;
};

static const struct option options[] = {
    {"output", 'o', "PROG", OPTION_FILE, offsetof(struct compile_flags, output), 0, 0,
     "where the program goes; it appears whole or not at all"},
    {"schedule", 0, "memory|naive", OPTION_CHOICE, offsetof(struct compile_flags, schedule), 0, 0,
     "the order of instructions: the one that needs least memory, or the model's"},
    {"target", 0, ISA_CHOICES, OPTION_CHOICE, offsetof(struct compile_flags, target), 0, 0,
     "the instruction set that exported C is for, or that the kernel library is compiled for and needs, or generic, "
     "the least of this machine's family; elsewhere the unfused instructions run, as the rest of a program, packed and "
     "blocked layouts included, is the same for all targets"},
    {"cc", 0, "COMPILER", OPTION_TEXT, offsetof(struct compile_flags, cc), 0, 0,
     "the C compiler of the kernel library, as \"ccache gcc\"; without it $CC, cc, or aarch64-linux-gnu-gcc for that "
     "target"},
    {"keep-c", 0, "FILE", OPTION_FILE, offsetof(struct compile_flags, keep_c), 0, 0,
     "write the source of the kernel library there (implies --kernel-library)"},
    BACKPROP_OPTION(
        struct compile_flags,
        "give, behind the model's outputs, grad_out@NAME for each parameter, the gradient of the loss by it"),
    {"train", 0, "OPTIMIZER", OPTION_TEXT, offsetof(struct compile_flags, train), 0, 0,
     "make a program that learns: its states are the parameters and what the optimizer keeps, as adam:lr=0.001 or "
     "sgd:lr=0.1,momentum=0.9; a name that is none lists what there is"},
    {"wrt", 0, "NAMES", OPTION_LIST, offsetof(struct compile_flags, wrt), 0, 0,
     "with --backprop, the parameters and inputs to differentiate by, with commas between them; may be repeated. "
     "With --train, patterns of the parameters that learn, in which * stands for any characters. "
     "Without it these are all parameters but the running statistics of BatchNormalization"},
    {"loss", 0, "LOSS", OPTION_TEXT, offsetof(struct compile_flags, loss), 0, 0,
     "with --backprop or --train, the output that is differentiated, of one element; the only one of a float type need "
     "not be named. With --train also a loss to be added, as mse or softmax_cross_entropy(OUTPUT,LABELS)"},
    {"state", 0, "OUTPUT:INPUT", OPTION_LIST, offsetof(struct compile_flags, states), 0, 0,
     "make a state of an output and the input that it is in the next run, as recurrent states and key/value caches "
     "are: the program keeps it, and has neither; may be repeated"},
    {"state-pairs", 0, "auto|PATTERN", OPTION_LIST, offsetof(struct compile_flags, state_pairs), 0, 0,
     "find the pairs of --state: auto by the conventions of exporters and by the graph, or by a pattern of names, as "
     "'present.*:past.*', in which both * stand for the same characters; separated by commas; may be repeated"},
    {"caches", 0, "f32|f16|bf16", OPTION_CHOICE, offsetof(struct compile_flags, caches), 0, 0,
     "the type of states that are caches of keys and values, which rows are rounded to as they are added"},
    {"cache-rows", 0, "N", OPTION_INT, offsetof(struct compile_flags, cache_rows), 0, INT32_MAX,
     "how many rows those caches hold that Attention extends, or Concat for products by queries and weights, and whose "
     "number of rows is open: they are not copied then; 0: they grow, and are"},
    {"two-phase", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, two_phase), 0, 0,
     "with --backprop, write two programs: the forward, which also gives retained_NAME for each value that the "
     "backward needs, and beside it PROG.backward, whose inputs are these and grad_in@OUTPUT for each output, and "
     "whose outputs are the gradients"},
    {"order", 0, "N", OPTION_INT, offsetof(struct compile_flags, order), 1, 2,
     "with --backprop, 2: give hvp_out@NAME, too, the second derivatives times the vectors that inputs vector@NAME "
     "are"},
    {"straight-through", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, straight_through), 0, 0,
     "with --backprop or --train, gradients go through what rounds, as Round, Floor, Ceil, Sign and quantization do, "
     "as if it did not"},
    {"vjp", 0, "FUNCTION=NAME", OPTION_LIST, offsetof(struct compile_flags, vjps), 0, 0,
     "with --backprop or --train, the host function NAME is the vector-Jacobian product of the host function FUNCTION"},
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
    TRAINING_GROUPS(struct compile_flags, training),
    RECOMPUTATION_GROUP(struct compile_flags, recomputation),
    MACHINE_GROUP(struct compile_flags, model),
    LIMIT_GROUP(struct compile_flags, limits),
};
static const struct compile_flags defaults = {.model = MODEL_DEFAULTS,
                                              .caches = "f32",
                                              .c = {.emit = "program"},
                                              .schedule = "memory",
                                              .target = "native",
                                              .order = 1};

static void list_passes(void)
{
    struct table table = {0};
    for (size_t i = 0; i < xcc_pass_count(); i++) {
        const xcc_pass_info *pass = xcc_pass_at(i);
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
        names[i] = xcc_pass_at(i)->name;
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

static bool is_changed(const char *choice, const char *initial) { return strcmp(choice, initial) != 0; }

static bool print_dump(void *user, const void *bytes, size_t count) { return fwrite(bytes, 1, count, user) == count; }

/* What all programs that a model becomes have in common. */
struct request {
    const struct compile_flags *flags;
    const char *path;
    struct dims dims;
    struct names wrt, state_pairs;
    struct training_groups groups;
    xcc_state_pair *states; /* flags->states.count */
    xcc_vjp_function *vjps;
    size_t vjp_count;
};

/* A compilation, and where its results go. */
struct compilation {
    struct request *request;
    const char *program; /* the path that it is written to */
    xcc_phase phase;
    struct output outputs[2]; /* the program, or the ONNX model; its constants */
    size_t output_count;
    struct library library; /* with --kernel-library */
    char *target;           /* the place of the library */
    xcc_report report;
    struct compile_lines lines;
};

static bool makes_library(const struct compile_flags *flags)
{
    return flags->model.kernel_library || flags->keep_c != NULL;
}

/* The library is made beside its place. Without a program that can be run there is no such place. */
static xcvm_status begin_library(struct compilation *compilation, xcvm_error *error)
{
    const char *program = compilation->program;
    if (strcmp(program, "-") == 0)
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "a kernel library goes beside its program, which needs a file: -o PROG");
    compilation->target = library_beside(program);
    bool kept = compilation->outputs[0].temporary != NULL;
    char *folder = kept ? file_folder(program) : memory_text(library_temporary_folder());
    char *name = file_base_name(compilation->target);
    xcvm_status status = library_begin(&compilation->library, folder, name, error);
    free(name);
    free(folder);
    return status;
}

static void discard(struct compilation *compilation, xcvm_error *error)
{
    for (size_t i = 0; i < compilation->output_count; i++)
        output_discard(&compilation->outputs[i], error);
    compilation->output_count = 0;
}

/* Puts everything in its place, the library first: a program whose library is not there yet would say so. */
static xcvm_status finish(struct compilation *compilation, xcvm_error *error)
{
    bool made = true;
    if (compilation->library.folder != NULL && compilation->outputs[0].temporary != NULL) {
        xcvm_status status = library_finish(&compilation->library, compilation->target, &made, error);
        if (status != XCVM_OK) {
            discard(compilation, error);
            return status;
        }
    }
    if (!made)
        report_line("note: there is nothing to fuse, so no kernel library is made");
    return output_finish_all(compilation->outputs, compilation->output_count, error);
}

/* Keeps what is said of states, and shows the rest. */
static void keep_diagnostic(void *user, xcc_diagnostic_kind kind, const char *text)
{
    struct compilation *compilation = user;
    if (!compile_lines_add(&compilation->lines, kind, text))
        model_note((void *)(uintptr_t)compilation->request->path, kind, text);
}

static xcvm_status compile_to(struct compilation *compilation, const struct model_flags *model, xcvm_sink sink,
                              xcvm_error *error)
{
    struct request *request = compilation->request;
    const struct compile_flags *flags = request->flags;
    xcc_options compiler = compiler_options(model, &flags->limits, &request->dims);
    compiler.debug.scheduling = strcmp(flags->schedule, "naive") == 0 ? XCC_SCHEDULE_NAIVE : XCC_SCHEDULE_MEMORY;
    compiler.strip = flags->strip;
    compiler.kernel_library.path = compilation->library.path;
    compiler.kernel_library.source_path = flags->keep_c;
    compiler.kernel_library.target = flags->target;
    compiler.kernel_library.compiler = flags->cc != NULL ? flags->cc : library_compiler();
    compiler.kernel_library.cache_dir = compilation->library.cache;
    compiler.debug.dump_after = flags->dump_after;
    compiler.debug.dump = (xcvm_sink){flags->dump_after != NULL ? print_dump : NULL, stdout};
    compiler.backprop = flags->backprop;
    compiler.loss = flags->loss;
    compiler.gradients.wrt = request->wrt.items;
    compiler.gradients.wrt_count = request->wrt.count;
    compiler.train = flags->train;
    TRY(training_options_use(&flags->training, &request->groups, &compiler, error));
    compiler.states.pairs = request->states;
    compiler.states.cache_dtype = xcvm_dtype_from_name(flags->caches);
    compiler.states.cache_rows = flags->cache_rows;
    compiler.states.pair_count = flags->states.count;
    compiler.states.patterns = request->state_pairs.items;
    compiler.states.pattern_count = request->state_pairs.count;
    compiler.diagnostics = (xcc_diagnostics){keep_diagnostic, compilation};
    compiler.gradients.straight_through = flags->straight_through;
    compiler.gradients.phase = compilation->phase;
    compiler.gradients.order = flags->backprop ? (int)flags->order : 0;
    compiler.gradients.vjps = request->vjps;
    compiler.gradients.vjp_count = request->vjp_count;
    recomputation_use(&flags->recomputation, &compiler);
    compiler.onnx_export.enabled = emits_onnx(&flags->c);
    char *location =
        compiler.onnx_export.enabled && flags->c.weights_file != NULL ? file_base_name(flags->c.weights_file) : NULL;
    if (location != NULL) {
        compiler.onnx_export.data = (xcvm_sink){output_sink, &compilation->outputs[1]};
        compiler.onnx_export.data_location = location;
    }
    const xcvm_status status = compile_model(request->path, &compiler, sink, &compilation->report, error);
    free(location);
    return status;
}

static xcvm_status compile_program(struct compilation *compilation, xcvm_error *error)
{
    const struct compile_flags *flags = compilation->request->flags;
    TRY(output_open(&compilation->outputs[0], compilation->program, error));
    compilation->output_count = 1;
    if (emits_onnx(&flags->c) && flags->c.weights_file != NULL) {
        TRY(output_open(&compilation->outputs[1], flags->c.weights_file, error));
        compilation->output_count = 2;
    }
    if (makes_library(flags))
        TRY(begin_library(compilation, error));
    return compile_to(compilation, &flags->model, (xcvm_sink){output_sink, &compilation->outputs[0]}, error);
}

/* "dir/prog.backward.bin" beside "dir/prog.bin". The caller frees it. */
static char *backward_path(const char *program)
{
    const char *name = strrchr(program, '/'), *dot;
    name = name != NULL ? name + 1 : program;
    dot = strrchr(name, '.');
    dot = dot != NULL && dot > name ? dot : name + strlen(name);
    return memory_format("%.*s.backward%s", (int)(dot - program), program, dot);
}

/* All programs are compiled before the first of them is put in its place. */
static int compile_all(struct compilation *programs, size_t count)
{
    const struct request *request = programs->request;
    xcvm_error error = {.pc = -1};
    int code = EXIT_OK;
    size_t made = 0, finished = 0;
    xcvm_status status = XCVM_OK;
    for (; made < count && status == XCVM_OK; made++)
        status = compile_program(&programs[made], &error);
    if (status != XCVM_OK) {
        const struct compilation *failed = &programs[made - 1];
        const bool opened = failed->output_count > 0;
        bool unwritten = false;
        for (size_t i = 0; i < failed->output_count; i++)
            unwritten = unwritten || failed->outputs[i].failure != 0;
        for (size_t i = 0; i < made; i++)
            discard(&programs[i], &error);
        for (size_t i = 0; i < made; i++)
            compile_lines_print_notes(&programs[i].lines);
        code = report_error(unwritten || !opened ? NULL : request->path, &error);
        if (opened && status == XCVM_UNSUPPORTED && !makes_library(request->flags))
            report_line("\"xcvm check %s\" lists everything that keeps it from compiling", request->path);
        return code;
    }
    for (; finished < count && status == XCVM_OK; finished++)
        if ((status = finish(&programs[finished], &error)) != XCVM_OK)
            code = report_error(NULL, &error);
    for (size_t i = finished; i < count; i++)
        discard(&programs[i], &error);
    for (size_t i = 0; i < count && status == XCVM_OK; i++) {
        recomputation_tell(&programs[i].report);
        compile_lines_print_notes(&programs[i].lines);
        if (!request->flags->report)
            continue;
        if (count > 1)
            printf("%s%s\n", i > 0 ? "\n" : "", programs[i].program);
        compile_report_print(&request->flags->model, &programs[i].report, &programs[i].lines);
    }
    return code;
}

/* The program that C is made of; a file that is one already is taken as it is. */
static xcvm_status write_c(struct compilation *compilation, xcvm_error *error)
{
    const struct request *request = compilation->request;
    const struct compile_flags *flags = request->flags;
    const bool for_any = strcmp(flags->target, defaults.target) == 0;
    struct model_flags model = flags->model;
    struct buffer program = {0};
    enum file_kind kind;
    const struct read_limits limits = reading_limits(&flags->limits);
    if (for_any)
        model.layout = "plain";
    /* What pays here tells nothing of where the C will run, and it is to be the same wherever it is written. */
    if (strcmp(model.integer, defaults.model.integer) == 0)
        model.integer = "always";
    xcvm_status status = file_kind_of(request->path, &limits, &kind, error);
    if (status == XCVM_OK && kind == FILE_PROGRAM)
        status = file_read(request->path, &limits, &program, error);
    else if (status == XCVM_OK)
        status = compile_to(compilation, &model, (xcvm_sink){buffer_sink, &program}, error);
    if (status == XCVM_OK)
        status = c_files_write(&flags->c, &program, for_any ? NULL : flags->target, flags->output, error);
    buffer_release(&program);
    return status;
}

static int export_c(struct compilation *compilation)
{
    const struct request *request = compilation->request;
    xcvm_error error = {.pc = -1};
    const xcvm_status status = write_c(compilation, &error);
    compile_lines_print_notes(&compilation->lines);
    if (status != XCVM_OK)
        return report_error(request->path, &error);
    if (request->flags->report)
        compile_report_print(&request->flags->model, &compilation->report, &compilation->lines);
    return EXIT_OK;
}

static int compile(const struct compile_flags *flags, const char *path)
{
    struct request request = {.flags = flags, .path = path, .vjp_count = flags->vjps.count};
    xcvm_error error = {.pc = -1};
    if (dims_parse(&flags->model.dims, &request.dims, &error) != XCVM_OK)
        return report_usage("%s", error.message);
    names_split(&flags->wrt, &request.wrt);
    names_split(&flags->state_pairs, &request.state_pairs);
    char *backward =
        strcmp(flags->output, "/dev/null") == 0 ? memory_text(flags->output) : backward_path(flags->output);
    struct compilation programs[2] = {{.request = &request, .program = flags->output},
                                      {.request = &request, .program = backward, .phase = XCC_PHASE_BACKWARD}};
    if (flags->two_phase)
        programs[0].phase = XCC_PHASE_FORWARD;
    for (size_t i = 0; i < 2; i++)
        programs[i].report.size = sizeof programs[i].report;
    int code;
    if (!state_pairs_parse(&flags->states, &request.states))
        code = report_usage("--state wants the names of an output and an input with a colon between them");
    else if (!vjps_parse(&flags->vjps, &request.vjps))
        code = report_usage("--vjp wants FUNCTION=NAME");
    else if (emits_c(&flags->c))
        code = export_c(&programs[0]);
    else
        code = compile_all(programs, flags->two_phase ? 2 : 1);
    for (size_t i = 0; i < 2; i++) {
        library_release(&programs[i].library);
        free(programs[i].target);
        compile_lines_release(&programs[i].lines);
    }
    vjps_release(request.vjps, request.vjp_count);
    free(backward);
    names_release(&request.wrt);
    names_release(&request.state_pairs);
    training_groups_release(&request.groups);
    state_pairs_release(request.states, flags->states.count);
    dims_release(&request.dims);
    return code;
}

/* Options that would do nothing. */
static int check_flags(const struct compile_flags *flags)
{
    const bool targets = strcmp(flags->target, defaults.target) != 0 && !emits_c(&flags->c);
    if (!makes_library(flags) && (flags->cc != NULL || targets))
        return report_usage("--%s is for the kernel library, which --kernel-library asks for",
                            flags->cc != NULL ? "cc" : "target");
    if (flags->backprop && flags->train != NULL)
        return report_usage("--backprop and --train make different programs");
    const bool learns = flags->backprop || flags->train != NULL;
    const char *idle = !learns && flags->loss != NULL                       ? "loss"
                       : !learns && flags->wrt.count != 0                   ? "wrt"
                       : !learns && flags->vjps.count != 0                  ? "vjp"
                       : !learns && flags->straight_through                 ? "straight-through"
                       : !flags->backprop && flags->two_phase               ? "two-phase"
                       : !flags->backprop && flags->order != defaults.order ? "order"
                                                                            : NULL;
    if (idle != NULL)
        return report_usage("--%s is for gradients, which --backprop asks for", idle);
    const char *training = training_option_given(&flags->training);
    if (flags->train == NULL && training != NULL)
        return report_usage("--%s is for training programs, which --train asks for", training);
    if (flags->states.count == 0 && flags->state_pairs.count == 0 &&
        (flags->cache_rows != 0 || is_changed(flags->caches, defaults.caches)))
        return report_usage("--%s is for states, which --state or --state-pairs asks for",
                            flags->cache_rows != 0 ? "cache-rows" : "caches");
    if (flags->order > 1 && (flags->two_phase || flags->straight_through))
        return report_usage("--order %d goes without --%s", (int)flags->order,
                            flags->two_phase ? "two-phase" : "straight-through");
    if (flags->two_phase && flags->output != NULL && strcmp(flags->output, "-") == 0)
        return report_usage("--two-phase writes two programs, which need files: -o PROG");
    if (!learns && recomputation_asked(&flags->recomputation))
        return report_usage("--recompute is for gradients, which --backprop asks for");
    int code = recomputation_check(&flags->recomputation);
    if (code != EXIT_OK)
        return code;
    if (flags->two_phase && emits_c(&flags->c))
        return report_usage("--two-phase writes two programs, and --emit c takes one");
    return c_flags_check(&flags->c, flags->output, makes_library(flags));
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
    code = c_flags_check_name(&flags->c, chosen.output);
    return code == EXIT_OK ? compile(&chosen, arguments->items[0]) : code;
}

static const struct example examples[] = {
    {"model.onnx -o prog.bin", "compile a model"},
    {"model.onnx -o prog.bin --dim batch=4 --report", "for batches of four, and see what it costs"},
    {"model.onnx -o prog.bin --kernel-library", "with a kernel library prog.so beside the program"},
    {"model.onnx -o prog.bin --weights f16 --report", "with weights of half the size, and see how much that is"},
    {"model.onnx -o prog.bin --weights q4a --report", "with weights of 4 bits in blocks"},
    {"network.onnx -o grad.bin --backprop --wrt fc.weight,fc.bias", "with the gradients of its loss by two parameters"},
    {"network.onnx -o fwd.bin --backprop --two-phase", "forward and backward as programs of their own"},
    {"network.onnx -o train.bin --train adam:lr=0.001", "a training program, which takes batches and learns"},
    {"network.onnx -o grad.bin --dim N=64 --backprop --recompute time --memory-budget 300M",
     "with gradients for batches of 64, in less memory"},
    {"decoder.onnx -o decoder.bin --state-pairs auto --dim batch=1 --cache-rows 2048",
     "a language model that keeps its keys and values"},
    {"model.onnx --emit c -o net.c --with-main --dim batch=1", "as C for any processor, with a main"},
    {"network.onnx --train adam --dim N=64 --emit c -o step.c --with-main", "a training step as C"},
    {"model.onnx --emit onnx -o plain.onnx", "as ONNX again, simplified"},
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
        "External data of the model must lie in its folder or below, or below that of the file that it is a symbolic "
        "link to.\n\n"
        "The program is written beside its target first and put in place at the end, so that a failure "
        "leaves what was there.\n\n"
        "With --backprop the program computes the gradients of a loss, too: its outputs are the model's, then "
        "grad_out@NAME for each parameter NAME, an initializer of a float type, that the loss depends on. Every node "
        "in the way that has no gradient is named. With --two-phase, forward and backward are programs of their own, "
        "so that the caller can compute what it likes in between: -o fwd.bin also writes fwd.backward.bin, which takes "
        "the gradients of the outputs, of any shape, in place of a loss. With --order 2, inputs vector@NAME of the "
        "parameters' shapes are multiplied by the Hessian of the loss. A host function that the model calls is "
        "differentiated if --vjp names another that does it: it gets the operands, the results and the gradients of "
        "those of float types, and gives the gradients of the operands of float types.\n\n"
        "With --train the program learns: it takes a batch and the learning rate, an input \"learning_rate\", gives "
        "the loss, and updates its states, the parameters of the model under their names. What the optimizer keeps of "
        "them are states too, whose names begin with optimizer@. The program remembers the optimizer as its metadata "
        "\"train\". With --evaluate besides and else the same options, it is the counterpart for validation.\n\n"
        "Weights keep every bit, unless --weights asks for a smaller type. With --weights f24, an f32 without its last "
        "byte, the matrices that products and recurrent networks multiply by and the filters of convolutions take a "
        "quarter less memory and time to read; results differ by some 0.00001 of the greatest output, and 0.001 after "
        "many convolutions. With --weights f16 or bf16, these, and tables that only Gather reads, take half the file "
        "and half the memory. They are rounded to nearest even. "
        "All are read as f32, and all else is computed in f32, so results lose what the rounding of the weights loses: "
        "with f16 some 0.0003 of the greatest output, and a few thousandths after many convolutions; with bf16 eight "
        "times that. Products of one row or few, which wait for their weights from memory, take down to half the time, "
        "all else as long as before. A constant with finite numbers that the type cannot hold, beyond 65504 in f16, "
        "stays f32, and --report says how many did.\n\n"
        "With --weights q8, q4 or q4a the matrices of products, and tables of which Gather alone reads rows, lie in "
        "blocks of 32 weights of a column with a scale in f16: 8 or 4 bits for each, with q4a and an offset for each "
        "block. Products of up to 16 rows read them as they are, and multiply with them in f32; with --activations "
        "int8 what they, and products of more rows, multiply them with is rounded to 8 bits, with a scale for each "
        "block. That holds for what a model has in blocks itself, too, as MatMulNBits.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct compile_flags),
    .run = execute_compile,
};
