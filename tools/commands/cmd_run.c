/* `xcvm run`: runs a program and prints or writes its outputs. */
#include "commands/commands.h"
#include "values/class_names.h"
#include "values/compare.h"
#include "cli/memory.h"
#include "io/file.h"
#include "io/output.h"
#include "cli/color.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "values/parameters.h"
#include "run/session.h"
#include "commands/state_runs.h"
#include "values/value.h"
#include "run/observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run_flags {
    struct program_flags program;
    struct session_flags session;
    struct input_flags input;
    struct observe_flags observe;
    struct text_list outputs, expects;
    const char *state, *save_state;
    double rtol, atol;
    int64_t iterations, max_elements, reset_every;
};

static const struct option result_options[] = {
    {"output", 'o', "NAME=SPEC", OPTION_LIST, offsetof(struct run_flags, outputs), 0, 0,
     "the target of an output: @file.npy, .npz, .pb, .png or .bin to write it, or - to print it. Without --output and "
     "--expect, all outputs are printed"},
    {"expect", 0, "NAME=SPEC", OPTION_LIST, offsetof(struct run_flags, expects), 0, 0,
     "compare an output with this value; the exit code is 1 if it differs"},
    {"rtol", 0, "X", OPTION_REAL, offsetof(struct run_flags, rtol), 0, 0, "relative tolerance of --expect"},
    {"atol", 0, "X", OPTION_REAL, offsetof(struct run_flags, atol), 0, 0, "absolute tolerance of --expect"},
    {"max-elements", 0, "N", OPTION_INT, offsetof(struct run_flags, max_elements), 0, INT64_MAX,
     "print larger outputs as a summary"},
    {"iterations", 'n', "N", OPTION_INT, offsetof(struct run_flags, iterations), 1, INT64_MAX,
     "number of runs; the results are those of the last"},
    END_OF_OPTIONS,
};

static const struct option saved_state_options[] = {
    {"state", 0, "FILE", OPTION_FILE, offsetof(struct run_flags, state), 0, 0,
     "set the states from this safetensors file before the first run. Without it, they have the initial values of the "
     "program"},
    STATE_RESET_OPTION(struct run_flags, reset_every,
                       "with --iterations, reset the states to their initial values every N runs; 0: never"),
    {"save-state", 0, "FILE.safetensors", OPTION_OUTPUT, offsetof(struct run_flags, save_state), 0, 0,
     "write the states to this file after the last run; -: write them to standard output, and all else to standard "
     "error"},
    END_OF_OPTIONS,
};

static const struct option_group groups[] = {
    OPTION_GROUP("Inputs", input_options, struct run_flags, input),
    {"States", saved_state_options, 0},
    {"Results", result_options, 0},
    OPTION_GROUP("Looking inside", observe_options, struct run_flags, observe),
    OPTION_GROUP("Running", session_options, struct run_flags, session),
    LIMIT_GROUP(struct run_flags, program.limits),
    MODEL_GROUPS(struct run_flags, program.model),
    MACHINE_GROUP(struct run_flags, program.model),
    LOADING_GROUP(struct run_flags, program),
};

static const struct run_flags defaults = {.program = PROGRAM_DEFAULTS,
                                          .input = {.int_max = DEFAULT_INT_MAX},
                                          .rtol = 1e-5,
                                          .atol = 1e-6,
                                          .iterations = 1,
                                          .max_elements = 64};

/* A run and its resources. */
struct running {
    const struct run_flags *flags;
    const char *path; /* of the program */
    struct program program;
    xcvm_session *session;
    struct inputs inputs;
    struct bindings outputs, expects;
    struct observation observation;
    struct class_names names;
};

static xcvm_status restore_states(const struct running *running, xcvm_error *error)
{
    struct buffer file = {0};
    const struct read_limits limits = reading_limits(&running->flags->program.limits);
    xcvm_status status = file_read(running->flags->state, &limits, &file, error);
    if (status == XCVM_OK) {
        status = xcvm_session_load_states(running->session, buffer_string(&file), file.length, error);
        if (status != XCVM_OK)
            error_prefix(error, "%s", running->flags->state);
    }
    buffer_release(&file);
    return status;
}

static xcvm_status save_states(const struct running *running, xcvm_error *error)
{
    struct output output;
    TRY(output_open(&output, running->flags->save_state, error));
    xcvm_status status = xcvm_session_save_states(running->session, (xcvm_sink){output_sink, &output}, error);
    if (status == XCVM_OK)
        return output_finish(&output, error);
    output_discard(&output, error);
    return status;
}

/* The key that an output has in an archive. */
static const char *key_of(const struct binding *output)
{
    return output->spec.key != NULL && *output->spec.key != '\0' ? output->spec.key : output->name;
}

/* True if two outputs would overwrite each other. */
static bool collide(const struct binding *a, const struct binding *b)
{
    if (a->spec.form != SPEC_FILE || b->spec.form != SPEC_FILE || !file_is_one_target(a->spec.path, b->spec.path))
        return false;
    return !tensor_file_is_archive(a->spec.path) || !tensor_file_is_archive(b->spec.path) ||
           strcmp(key_of(a), key_of(b)) == 0;
}

/* Each output, and the file of states, needs a file or an archive key of its own. */
static xcvm_status check_targets(const struct running *running, xcvm_error *error)
{
    const struct bindings *outputs = &running->outputs;
    const char *states = running->flags->save_state;
    for (size_t i = 0; i < outputs->count; i++) {
        const struct binding *output = &outputs->items[i];
        for (size_t k = 0; k < i; k++)
            if (collide(&outputs->items[k], output))
                return error_set(error, XCVM_INVALID_ARGUMENT,
                                 "--output: \"%.80s\" and \"%.80s\" would be the same %s of %.200s",
                                 outputs->items[k].name, output->name,
                                 tensor_file_is_archive(output->spec.path) ? "array" : "file", output->spec.path);
        if (output->spec.form == SPEC_FILE && file_is_one_target(states, output->spec.path))
            return error_set(error, XCVM_INVALID_ARGUMENT, "--save-state: %.200s is also the file of output \"%.80s\"",
                             states, output->name);
    }
    return XCVM_OK;
}

/* No output overwrites a file that is read: `path`, which may be NULL, of `what` and `name`. */
static xcvm_status check_reading(const struct running *running, const char *path, const char *what, const char *name,
                                 xcvm_error *error)
{
    for (size_t i = 0; i < running->outputs.count; i++) {
        const struct binding *output = &running->outputs.items[i];
        if (output->spec.form == SPEC_FILE && file_is_one_target(path, output->spec.path))
            return error_set(error, XCVM_INVALID_ARGUMENT,
                             "--output: %.200s is also the file of %s%.80s; output \"%.80s\" needs a file of its own",
                             output->spec.path, what, name, output->name);
    }
    /* States may go back where they came from. */
    if (path != running->flags->state && file_is_one_target(path, running->flags->save_state))
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "--save-state: %.200s is also the file of %s%.80s; states need a file of their own",
                         running->flags->save_state, what, name);
    return XCVM_OK;
}

static xcvm_status check_all_readings(const struct running *running, const struct bindings *list, const char *what,
                                      xcvm_error *error)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].spec.form == SPEC_FILE)
            TRY(check_reading(running, list->items[i].spec.path, what, list->items[i].name, error));
    return XCVM_OK;
}

static xcvm_status check_readings(const struct running *running, xcvm_error *error)
{
    const struct run_flags *flags = running->flags;
    struct bindings inputs = {0};
    TRY(check_reading(running, running->path, "the program", "", error));
    TRY(check_reading(running, flags->state, "--state", "", error));
    TRY(check_all_readings(running, &running->expects, "expected ", error));
    TRY(bindings_parse(&flags->input.inputs, running->program.handle, BIND_INPUT, &inputs, error));
    const xcvm_status status = check_all_readings(running, &inputs, "input ", error);
    bindings_release(&inputs);
    return status;
}

static xcvm_status prepare(struct running *running, xcvm_error *error)
{
    const struct run_flags *flags = running->flags;
    const xcvm_program *program = running->program.handle;
    TRY(bindings_parse(&flags->outputs, program, BIND_OUTPUT, &running->outputs, error));
    TRY(bindings_parse(&flags->expects, program, BIND_EXPECT, &running->expects, error));
    TRY(check_targets(running, error));
    TRY(check_readings(running, error));
    const struct limit_flags *limits = &flags->program.limits;
    TRY(inputs_make(&running->program, &flags->input, limits, flags->session.seed, &running->inputs, error));
    TRY(session_open(&running->program, limits, &running->inputs, &flags->session, &running->session, error));
    TRY(inputs_bind(program, running->session, running->inputs.values, error));
    if (flags->state != NULL)
        TRY(restore_states(running, error));
    if (observe_wanted(&flags->observe))
        TRY(observe_start(&running->observation, &flags->observe, &running->inputs.budget, running->session, error));
    return XCVM_OK;
}

static xcvm_status run_all(struct running *running, xcvm_error *error)
{
    xcvm_run_options options = session_run_options(&running->flags->program.limits, &running->flags->session);
    struct progress progress;
    xcvm_status status = XCVM_OK;
    struct state_runs runs = {
        .session = running->session, .program = running->program.handle, .every = running->flags->reset_every};
    progress_start(&progress);
    for (int64_t i = 0; i < running->flags->iterations && status == XCVM_OK; i++) {
        status = state_runs_run(&runs, &options, error);
        progress_show(&progress, "running", (double)(i + 1) / (double)running->flags->iterations);
    }
    progress_end(&progress);
    return status;
}

static void print_output(const struct running *running, size_t index)
{
    struct buffer text = {0};
    buffer_format(&text, "%s=", xcvm_program_output_at(running->program.handle, index)->name);
    value_print(&text, xcvm_session_get_output(running->session, index), (size_t)running->flags->max_elements);
    make_printable(text.data);
    puts(buffer_string(&text));
    buffer_release(&text);
    const xcvm_value_info *output = xcvm_program_output_at(running->program.handle, index);
    class_names_print(&running->names, output->name, xcvm_session_get_output(running->session, index), &text);
    fputs(buffer_string(&text), stdout);
    buffer_release(&text);
}

static xcvm_status write_outputs(struct running *running, xcvm_error *error)
{
    struct tensor_files files = {.budget = &running->inputs.budget};
    xcvm_status status = XCVM_OK;
    class_names_read(&running->names, running->program.handle);
    bool all = running->outputs.count == 0 && running->expects.count == 0;
    value_budget_restart(files.budget);
    for (size_t i = 0; i < xcvm_program_output_count(running->program.handle) && status == XCVM_OK; i++) {
        const struct binding *binding = bindings_find(&running->outputs, i);
        if (all || (binding != NULL && binding->spec.form == SPEC_DASH))
            print_output(running, i);
        else if (binding != NULL && binding->spec.form == SPEC_FILE)
            status = tensor_file_write(&files, binding->spec.path, binding->spec.key, binding->name,
                                       xcvm_session_get_output(running->session, i), error);
    }
    xcvm_status finished = tensor_files_finish(&files, status == XCVM_OK, status == XCVM_OK ? error : NULL);
    return status != XCVM_OK ? status : finished;
}

static xcvm_status compare_output(struct running *running, const struct binding *binding, bool *differ,
                                  xcvm_error *error)
{
    const xcvm_value *actual = xcvm_session_get_output(running->session, binding->index);
    /* An expected value without type or shape has those of the output. */
    xcvm_type type = value_type(actual);
    struct wanted wanted = {.type = &type, .name = binding->name};
    struct filling filling = {(uint64_t)running->flags->session.seed, running->flags->input.int_max,
                              &running->inputs.budget};
    xcvm_value *expected;
    value_budget_restart(filling.budget);
    xcvm_status status = spec_value(&binding->spec, &wanted, &filling, &expected, error);
    if (status != XCVM_OK) {
        value_budget_name(filling.budget, status, error);
        error_prefix(error, "expected %s", binding->name);
        return status;
    }
    struct comparison comparison;
    struct buffer text = {0};
    compare_values(actual, expected, (struct tolerance){running->flags->rtol, running->flags->atol}, &comparison);
    comparison_print(&text, &comparison);
    bool good = comparison.agrees;
    printf("%s%s%s %s: %s\n", good ? color_good(1) : color_bad(1), good ? "PASS" : "FAIL", color_end(1), binding->name,
           buffer_string(&text));
    *differ |= !good;
    buffer_release(&text);
    xcvm_value_release(expected);
    return XCVM_OK;
}

/* Prints inputs, outputs and states of a program. A model would have to be compiled; xcvm check describes it. */
static void describe_program(const void *options, const struct arguments *arguments)
{
    const struct run_flags *flags = options;
    const char *path = arguments->items[0];
    struct program program = {0};
    enum file_kind kind;
    xcvm_error error = {.pc = -1};
    if (file_is_stream(path) || file_kind_of(path, NULL, &kind, NULL) != XCVM_OK || kind == FILE_MODEL)
        return;
    if (program_open(path, &flags->program, &program, &error) == XCVM_OK) {
        printf("%s\n", path);
        parameters_print(program.handle);
        putchar('\n');
        program_close(&program);
    } else {
        report_error(path, &error);
    }
}

static int execute_run(const void *options, const struct arguments *arguments)
{
    const char *path = arguments->items[0];
    struct running running = {.flags = options, .path = path};
    xcvm_error error = {.pc = -1};
    bool differ = false;
    output_reserve(running.flags->save_state);
    struct program_flags flags = running.flags->program;
    flags.inputs = &running.flags->input.inputs;
    xcvm_status status = program_open(path, &flags, &running.program, &error);
    if (status == XCVM_OK)
        status = prepare(&running, &error);
    if (status == XCVM_OK)
        status = run_all(&running, &error);
    if (status == XCVM_OK)
        status = write_outputs(&running, &error);
    if (status == XCVM_OK && running.flags->save_state != NULL)
        status = save_states(&running, &error);
    for (size_t i = 0; i < running.expects.count && status == XCVM_OK; i++)
        status = compare_output(&running, &running.expects.items[i], &differ, &error);
    int code = differ ? EXIT_DIFFERENT : EXIT_OK;
    if (running.observation.found) {
        report_line("%s: %s", path, buffer_string(&running.observation.story));
        code = EXIT_DIFFERENT;
    } else if (status != XCVM_OK) {
        code = report_error(path, &error);
        inputs_hint(&running.flags->input, &running.inputs, &error);
        state_runs_hint(&error);
    }
    observe_release(&running.observation);
    class_names_release(&running.names);
    xcvm_session_destroy(running.session);
    inputs_release(running.program.handle, &running.inputs);
    bindings_release(&running.outputs);
    bindings_release(&running.expects);
    program_close(&running.program);
    return code;
}

static const struct example examples[] = {
    {"mnist.onnx --input @digit.png", "classify an image; the model is compiled first"},
    {"prog.bin --input x='2x3xf32=1 2 3 4 5 6' --output y=@y.npy",
     "give an input as text, and write an output as a NumPy array"},
    {"prog.bin --input @x.npy --expect @y.npy --rtol 1e-3", "compare the result with a reference"},
    {"prog.bin --help", "print the inputs, outputs and states of a program"},
    {"prog.bin --random --check-nan --trace-shapes",
     "use random inputs, print a line for each instruction, and stop at the first NaN"},
};

const struct command command_run = {
    .name = "run",
    .summary = "run a program and print or write its outputs",
    .operands = "PROG",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "Runs a program on the given inputs, and prints the outputs, writes them to files, or compares them with "
        "expected values.\n\nSmall outputs are printed in full, in the form that --input and --expect read. For larger "
        "outputs, the range, the mean and the first elements are printed. If the program has class names, as a model "
        "has that xcvm train trained on directories of images, the classes with the highest scores follow.\n\nTo run a "
        "model with states, for example a decoder with key/value caches, add --state-pairs auto.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct run_flags),
    .describe = describe_program,
    .run = execute_run,
};
