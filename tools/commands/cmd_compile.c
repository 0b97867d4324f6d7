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
#include "run/wasm_files.h"
#include "training/training_options.h"
#include "cli/report.h"
#include "cli/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct compile_flags {
    struct limit_flags limits;
    struct model_flags model;
    struct c_flags c;
    const char *output, *schedule, *target, *keep_c, *cc, *dump_after, *loss, *train;
    struct text_list wrt, states, vjps;
    struct training_flags training;
    struct recomputation_flags recomputation;
    bool backprop, straight_through, two_phase, strip, report, list_passes;
    int64_t order;
};

static const struct option options[] = {
    {"output", 'o', "PROG", OPTION_FILE, offsetof(struct compile_flags, output), 0, 0,
     "the program to write. A failure leaves an existing file as it was"},
    {"schedule", 0, "memory|naive", OPTION_CHOICE, offsetof(struct compile_flags, schedule), 0, 0,
     "order of instructions: with the lowest peak memory, or as in the model"},
    {"target", 0, ISA_CHOICES, OPTION_CHOICE, offsetof(struct compile_flags, target), 0, 0,
     "the instruction set of exported C or of the kernel library; generic is the least one of this processor family. "
     "On a processor without it, the plain instructions run. The rest of a program is the same for all targets"},
    {"cc", 0, "COMPILER", OPTION_TEXT, offsetof(struct compile_flags, cc), 0, 0,
     "the C compiler of the kernel library, for example \"ccache gcc\". Without it: $CC, cc, or aarch64-linux-gnu-gcc "
     "for that target. With --emit wasm, the clang to use instead of clang-19"},
    {"keep-c", 0, "FILE.c", OPTION_OUTPUT, offsetof(struct compile_flags, keep_c), 0, 0,
     "write the source of the kernel library to this file (implies --kernel-library)"},
    BACKPROP_OPTION(
        struct compile_flags,
        "add outputs grad_out@NAME after the model's outputs: the gradient of the loss by each parameter NAME"),
    {"train", 0, "OPTIMIZER", OPTION_TEXT, offsetof(struct compile_flags, train), 0, 0,
     "make a training program, whose states are the parameters and the moments of the optimizer, for example "
     "adam:lr=0.001 or sgd:lr=0.1,momentum=0.9. An unknown name lists all optimizers"},
    {"wrt", 0, "NAMES", OPTION_LIST, offsetof(struct compile_flags, wrt), 0, 0,
     "with --backprop, the parameters and inputs to differentiate by, separated by commas. With --train, patterns of "
     "trainable parameters, in which * stands for any characters. Without it: all parameters except the running "
     "statistics of BatchNormalization. May be repeated"},
    {"loss", 0, "LOSS", OPTION_TEXT, offsetof(struct compile_flags, loss), 0, 0,
     "with --backprop or --train, the output to differentiate, which has one element. The only float output need not "
     "be named. With --train, also a loss to add, for example mse or softmax_cross_entropy(OUTPUT,LABELS)"},
    {"state", 0, "OUTPUT:INPUT", OPTION_LIST, offsetof(struct compile_flags, states), 0, 0,
     "turn this output and the input of the next run into a state, such as a recurrent state or a key/value cache. The "
     "program keeps the state and has neither the output nor the input; may be repeated"},
    {"two-phase", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, two_phase), 0, 0,
     "with --backprop, write two programs. PROG is the forward pass, with an output retained_NAME for each value that "
     "the backward pass needs. PROG.backward takes these and grad_in@OUTPUT for each output, and computes the "
     "gradients"},
    {"order", 0, "N", OPTION_INT, offsetof(struct compile_flags, order), 1, 2,
     "with --backprop, 2 adds outputs hvp_out@NAME: second derivatives times the vectors in the inputs vector@NAME"},
    {"straight-through", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, straight_through), 0, 0,
     "with --backprop or --train, let gradients pass through rounding (Round, Floor, Ceil, Sign, quantization) "
     "unchanged"},
    {"vjp", 0, "FUNCTION=NAME", OPTION_LIST, offsetof(struct compile_flags, vjps), 0, 0,
     "with --backprop or --train, use the host function NAME as the vector-Jacobian product of the host function "
     "FUNCTION; may be repeated"},
    {"strip", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, strip), 0, 0,
     "omit debug data: names of nodes and values, types, flops"},
    {"report", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, report), 0, 0,
     "print nodes, flops and memory before and after optimization"},
    {"dump-after", 0, "PASS", OPTION_TEXT, offsetof(struct compile_flags, dump_after), 0, 0,
     "print the graph after a pass, or after \"all\" passes; constants have the prefix @"},
    {"list-passes", 0, NULL, OPTION_FLAG, offsetof(struct compile_flags, list_passes), 0, 0,
     "print the passes in order, with the minimum level, the rounds and a summary; compile nothing"},
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
static const struct compile_flags defaults = {
    .model = MODEL_DEFAULTS, .c = {.emit = "program"}, .schedule = "memory", .target = "native", .order = 1};

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

/* Refuses an unknown pass and suggests the nearest name. */
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
        code = report_usage("there is no pass \"%s\". Did you mean \"%s\"?", name, nearest);
    else if (!found)
        code = report_usage("there is no pass \"%s\". --list-passes prints all passes", name);
    free(names);
    return code;
}

static bool print_dump(void *user, const void *bytes, size_t count) { return fwrite(bytes, 1, count, user) == count; }

/* The properties that all programs of a model share. */
struct request {
    const struct compile_flags *flags;
    const char *path;
    struct dims dims;
    struct names wrt;
    struct training_groups groups;
    xcc_state_pair *states; /* flags->states.count */
    xcc_vjp_function *vjps;
    size_t vjp_count;
};

/* A compilation and its outputs. */
struct compilation {
    struct request *request;
    const char *program; /* the path that it is written to */
    xcc_phase phase;
    struct output outputs[2]; /* the program, or the ONNX model; its constants */
    size_t output_count;
    struct library library; /* with --kernel-library */
    char *target;           /* the path of the library */
    xcc_report report;
    struct names patterns; /* of states */
    struct state_lines lines;
};

static bool makes_library(const struct compile_flags *flags)
{
    return flags->model.kernel_library || flags->keep_c != NULL;
}

/* Makes the library in the directory of its program. Standard output has none. */
static xcvm_status begin_library(struct compilation *compilation, xcvm_error *error)
{
    const char *program = compilation->program;
    if (strcmp(program, "-") == 0)
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "a kernel library is written next to its program, which must be a file: -o PROG");
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

/* Renames all files, the library first, because loading the program without its library prints a note. */
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
        report_line("note: no group of instructions can be compiled, so that no kernel library is written");
    return output_finish_all(compilation->outputs, compilation->output_count, error);
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
    compiler.states.pair_count = flags->states.count;
    names_release(&compilation->patterns);
    state_options_use(&flags->model.states, &compilation->patterns, &compiler);
    compiler.diagnostics = (xcc_diagnostics){state_lines_add, &compilation->lines};
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

/* "dir/prog.backward.bin" for "dir/prog.bin". The caller frees it. */
static char *backward_path(const char *program)
{
    const char *name = strrchr(program, '/'), *dot;
    name = name != NULL ? name + 1 : program;
    dot = strrchr(name, '.');
    dot = dot != NULL && dot > name ? dot : name + strlen(name);
    return memory_format("%.*s.backward%s", (int)(dot - program), program, dot);
}

/* Compiles all programs before it renames the first one. */
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
            state_lines_print_notes(&programs[i].lines);
        code = report_error(unwritten || !opened ? NULL : request->path, &error);
        if (opened && status == XCVM_UNSUPPORTED && !makes_library(request->flags))
            report_line("\"xcvm check %s\" lists all nodes that keep it from compiling", request->path);
        return code;
    }
    for (; finished < count && status == XCVM_OK; finished++)
        if ((status = finish(&programs[finished], &error)) != XCVM_OK)
            code = report_error(NULL, &error);
    for (size_t i = finished; i < count; i++)
        discard(&programs[i], &error);
    for (size_t i = 0; i < count && status == XCVM_OK; i++) {
        recomputation_print(&programs[i].report);
        state_lines_print_notes(&programs[i].lines);
        if (!request->flags->report)
            continue;
        if (count > 1)
            printf("%s%s\n", i > 0 ? "\n" : "", programs[i].program);
        compile_report_print(&request->flags->model, &programs[i].report, &programs[i].lines);
    }
    return code;
}

/* Compiles the program to export as C or WebAssembly, or reads it if the file is a program already. */
static xcvm_status write_c(struct compilation *compilation, xcvm_error *error)
{
    const struct request *request = compilation->request;
    const struct compile_flags *flags = request->flags;
    const bool wasm = emits_wasm(&flags->c), for_any = !wasm && strcmp(flags->target, defaults.target) == 0;
    struct model_flags model = flags->model;
    struct buffer program = {0};
    enum file_kind kind;
    const struct read_limits limits = reading_limits(&flags->limits);
    if (wasm)
        TRY(wasm_compiler_check(flags->cc, limits.until, error));
    if (for_any)
        model.layout = "plain";
    /* The C may run on another machine, and must not depend on this one. */
    if (strcmp(model.integer, defaults.model.integer) == 0)
        model.integer = "always";
    xcvm_status status = file_kind_of(request->path, &limits, &kind, error);
    if (status == XCVM_OK && kind == FILE_PROGRAM)
        status = file_read(request->path, &limits, &program, error);
    else if (status == XCVM_OK)
        status = compile_to(compilation, &model, (xcvm_sink){buffer_sink, &program}, error);
    if (status == XCVM_OK && wasm)
        status = wasm_files_write(&program, flags->cc, flags->output, limits.until, error);
    else if (status == XCVM_OK)
        status = c_files_write(&flags->c, &program, for_any ? NULL : flags->target, flags->output, error);
    buffer_release(&program);
    return status;
}

static int export_c(struct compilation *compilation)
{
    const struct request *request = compilation->request;
    xcvm_error error = {.pc = -1};
    const xcvm_status status = write_c(compilation, &error);
    state_lines_print_notes(&compilation->lines);
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
    char *backward =
        strcmp(flags->output, "/dev/null") == 0 ? memory_text(flags->output) : backward_path(flags->output);
    struct compilation programs[2] = {
        {.request = &request, .program = flags->output, .lines.path = path},
        {.request = &request, .program = backward, .phase = XCC_PHASE_BACKWARD, .lines.path = path}};
    if (flags->two_phase)
        programs[0].phase = XCC_PHASE_FORWARD;
    for (size_t i = 0; i < 2; i++)
        programs[i].report.size = sizeof programs[i].report;
    int code;
    if (!state_pairs_parse(&flags->states, &request.states))
        code = report_usage("--state needs OUTPUT:INPUT, the names of an output and of an input");
    else if (!vjps_parse(&flags->vjps, &request.vjps))
        code = report_usage("--vjp needs FUNCTION=NAME");
    else if (emits_c(&flags->c) || emits_wasm(&flags->c))
        code = export_c(&programs[0]);
    else
        code = compile_all(programs, flags->two_phase ? 2 : 1);
    for (size_t i = 0; i < 2; i++) {
        library_release(&programs[i].library);
        free(programs[i].target);
        state_lines_release(&programs[i].lines);
        names_release(&programs[i].patterns);
    }
    vjps_release(request.vjps, request.vjp_count);
    free(backward);
    names_release(&request.wrt);
    training_groups_release(&request.groups);
    state_pairs_release(request.states, flags->states.count);
    dims_release(&request.dims);
    return code;
}

/* Refuses options that have no effect. */
static int check_flags(const struct compile_flags *flags)
{
    xcvm_error error = {.pc = -1};
    const bool targets = strcmp(flags->target, defaults.target) != 0 && !emits_c(&flags->c);
    const bool compiles = flags->cc != NULL && !emits_wasm(&flags->c);
    if (!makes_library(flags) && (compiles || targets))
        return report_usage("--%s has no effect without --kernel-library", compiles ? "cc" : "target");
    if (flags->backprop && flags->train != NULL)
        return report_usage("--backprop and --train exclude each other: they make different programs");
    const bool learns = flags->backprop || flags->train != NULL;
    const char *idle = !learns && flags->loss != NULL                       ? "loss"
                       : !learns && flags->wrt.count != 0                   ? "wrt"
                       : !learns && flags->vjps.count != 0                  ? "vjp"
                       : !learns && flags->straight_through                 ? "straight-through"
                       : !flags->backprop && flags->two_phase               ? "two-phase"
                       : !flags->backprop && flags->order != defaults.order ? "order"
                                                                            : NULL;
    if (idle != NULL)
        return report_usage("--%s has no effect without --backprop", idle);
    const char *training = training_option_given(&flags->training);
    if (flags->train == NULL && training != NULL)
        return report_usage("--%s has no effect without --train", training);
    if (state_options_check(&flags->model.states, flags->states.count != 0, &error) != XCVM_OK)
        return report_usage("%s", error.message);
    if (flags->order > 1 && (flags->two_phase || flags->straight_through))
        return report_usage("--order %d and --%s exclude each other", (int)flags->order,
                            flags->two_phase ? "two-phase" : "straight-through");
    if (flags->two_phase && flags->output != NULL && strcmp(flags->output, "-") == 0)
        return report_usage("--two-phase writes two programs, which must be files: -o PROG");
    if (!learns && recomputation_asked(&flags->recomputation))
        return report_usage("--recompute has no effect without --backprop or --train");
    int code = recomputation_check(&flags->recomputation);
    if (code != EXIT_OK)
        return code;
    if (flags->two_phase && (emits_c(&flags->c) || emits_wasm(&flags->c)))
        return report_usage("--two-phase and --emit %s exclude each other: the output contains one program",
                            flags->c.emit);
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
        return report_usage("MODEL is missing");
    int code = check_flags(flags);
    if (code == EXIT_OK && flags->dump_after != NULL)
        code = check_pass(flags->dump_after);
    if (code != EXIT_OK)
        return code;
    /* --dump-after and --report do not need an output. */
    struct compile_flags chosen = *flags;
    const bool several_files = emits_c(&flags->c) || emits_wasm(&flags->c);
    if (chosen.output == NULL && !several_files && (chosen.dump_after != NULL || chosen.report))
        chosen.output = "/dev/null";
    if (chosen.output == NULL)
        return report_usage("the output is missing. Add -o %s", emits_c(&flags->c)      ? "NET.c"
                                                                : emits_wasm(&flags->c) ? "NET.wasm"
                                                                                        : "PROG");
    if (file_is_same(chosen.output, arguments->items[0]))
        return report_usage("%s is the model itself. The output must be another file", chosen.output);
    code = c_flags_check_name(&flags->c, chosen.output);
    return code == EXIT_OK ? compile(&chosen, arguments->items[0]) : code;
}

static const struct example examples[] = {
    {"model.onnx -o prog.bin", "compile a model"},
    {"model.onnx -o prog.bin --dim batch=4 --report", "compile for batches of four, and print flops and memory"},
    {"model.onnx -o prog.bin --kernel-library", "also make a kernel library prog.so"},
    {"model.onnx -o prog.bin --weights f16 --report", "store weights in half the size, and print the savings"},
    {"model.onnx -o prog.bin --weights q4a --report", "store weights in blocks of 4 bits"},
    {"network.onnx -o grad.bin --backprop --wrt fc.weight,fc.bias",
     "also compute the gradients of the loss by two parameters"},
    {"network.onnx -o fwd.bin --backprop --two-phase", "make separate forward and backward programs"},
    {"network.onnx -o train.bin --train adam:lr=0.001", "make a training program"},
    {"network.onnx -o grad.bin --dim N=64 --backprop --recompute time --memory-budget 300M",
     "compute gradients for batches of 64 in less memory"},
    {"decoder.onnx -o decoder.bin --state-pairs auto --dim batch=1 --cache-rows 2048",
     "keep the keys and values of a language model in the session"},
    {"model.onnx --emit c -o net.c --with-main --dim batch=1", "export as C for any processor, with a main function"},
    {"network.onnx --train adam --dim N=64 --emit c -o step.c --with-main", "export a training step as C"},
    {"model.onnx --emit wasm -o net.wasm --dim batch=1", "export as one WebAssembly module with its weights"},
    {"model.onnx --emit onnx -o plain.onnx", "export a simplified ONNX model"},
    {"model.onnx --dump-after fuse_ops", "print the graph after a pass"},
};

const struct command command_compile = {
    .name = "compile",
    .summary = "compile an ONNX model into a program",
    .operands = "MODEL",
    .min_operands = 0,
    .max_operands = 1,
    .description =
        "Compiles an ONNX model into a program that \"xcvm run\" and the library load by mapping the file. External "
        "data must be in the directory of the model or below. If the model is a symbolic link, the directory of its "
        "target is allowed too.\n\nThe program is first written to a temporary file and then renamed, so that a "
        "failure leaves an existing file as it was.\n\nStates: --state-pairs and --state turn outputs and inputs of "
        "the next run into states, which the session keeps. docs/decoders.md explains decoders with key/value "
        "caches.\n\nGradients: with --backprop, the program also computes the gradients of a loss. Its outputs are "
        "those of the model, followed by grad_out@NAME for each float initializer NAME that the loss depends on. An "
        "error names every node without a gradient. With --two-phase, -o fwd.bin also writes fwd.backward.bin, which "
        "takes the gradients of the outputs instead of a loss. With --order 2, the Hessian of the loss is multiplied "
        "by inputs vector@NAME of the parameters' shapes. A host function of the model is differentiable if --vjp "
        "names another host function that computes its vector-Jacobian product. The second function gets the operands, "
        "the "
        "results and the gradients of the float results, and returns the gradients of the float operands.\n\nTraining: "
        "with --train, the program takes a batch and the input \"learning_rate\", returns the loss, and updates its "
        "states. The states are the parameters under their names, and the moments of the optimizer, whose names start "
        "with optimizer@. The metadata \"train\" names the optimizer. With --evaluate and otherwise the same options, "
        "the program evaluates on validation data.\n\nWeights are stored exactly, unless --weights selects a smaller "
        "type. With f24, which is f32 without its last byte, matrices and filters need a quarter less memory. Results "
        "differ by about 0.00001 of the greatest output, or 0.001 after many convolutions. With f16 and bf16, "
        "matrices, filters, and tables that only Gather reads need half the memory. Values are rounded to nearest even "
        "and read as f32. With "
        "f16, results differ by about 0.0003 of the greatest output, or a few thousandths after many convolutions; "
        "with bf16 by eight times as much. Products of few rows, whose time is that of reading the weights, take down "
        "to half the time. A constant with values beyond the range of the type, 65504 for f16, stays f32, and --report "
        "counts these.\n\nWith --weights q8, q4 or q4a, the matrices of products, and tables that only Gather reads, "
        "are stored in blocks of 32 weights of a column with an f16 scale. With q4a, a block also has an offset. "
        "Products of up to 16 rows read the blocks directly and multiply in f32. With --activations int8, the other "
        "operand is rounded to 8 bits with a scale for each block. This also applies to blocks that the model itself "
        "contains, for example in MatMulNBits.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct compile_flags),
    .run = execute_compile,
};
