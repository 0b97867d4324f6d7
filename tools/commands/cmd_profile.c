/* `xcvm profile`: measures the time of each instruction. */
#include "commands/commands.h"
#include "cli/clock.h"
#include "cli/memory.h"
#include "io/output.h"
#include "profile/profile.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "run/session.h"
#include "commands/state_runs.h"
#include "io/read.h"
#include "profile/profile_page.h"
#include "profile/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct profile_flags {
    struct program_flags program;
    struct session_flags session;
    struct input_flags input;
    const char *output, *html, *compare, *sort;
    int64_t iterations, warmup, trace_iterations, top, reset_every;
    bool warm_session;
};

static const struct option options[] = {
    {"output", 'o', "TRACE.json", OPTION_OUTPUT, offsetof(struct profile_flags, output), 0, 0,
     "write a Chrome trace (JSON) for Perfetto or chrome://tracing; -: write it to standard output, and the tables to "
     "standard error"},
    {"html", 0, "FILE.html", OPTION_OUTPUT, offsetof(struct profile_flags, html), 0, 0,
     "write a report: one page of HTML with tables, a timeline of the threads, memory over time, a roofline and the "
     "graph "
     "with time as color. It needs no network"},
    {"compare", 0, "FILE", OPTION_FILE, offsetof(struct profile_flags, compare), 0, 0,
     "with --html, also compare with an earlier report"},
    {"iterations", 'n', "N", OPTION_INT, offsetof(struct profile_flags, iterations), 1, INT64_MAX,
     "number of measured runs"},
    {"warmup", 'w', "N", OPTION_INT, offsetof(struct profile_flags, warmup), 0, INT64_MAX,
     "number of runs before the measured runs"},
    {"warm-session", 0, NULL, OPTION_FLAG, offsetof(struct profile_flags, warm_session), 0, 0,
     "call xcvm_session_warm_up before the first run. With --warmup=0, this measures a first run without one-time "
     "costs"},
    STATE_RESET_OPTION(struct profile_flags, reset_every,
                       "reset the states every N runs; 0: only when a cache is full, which a note reports"),
    {"trace-iterations", 0, "N", OPTION_INT, offsetof(struct profile_flags, trace_iterations), 1, INT64_MAX,
     "number of measured runs in the trace"},
    {"sort", 0, "time|program", OPTION_CHOICE, offsetof(struct profile_flags, sort), 0, 0,
     "order of instructions: slowest first, or as in the program"},
    {"top", 0, "N", OPTION_INT, offsetof(struct profile_flags, top), 0, INT64_MAX,
     "number of instructions to print; 0: all"},
    END_OF_OPTIONS,
};

static const struct option_group groups[] = {
    {"Measuring", options, 0},
    OPTION_GROUP("Inputs", input_options, struct profile_flags, input),
    OPTION_GROUP("Running", session_options, struct profile_flags, session),
    STEP_GROUP(struct profile_flags, program),
    LIMIT_GROUP(struct profile_flags, program.limits),
    MODEL_GROUPS(struct profile_flags, program.model),
    MACHINE_GROUP(struct profile_flags, program.model),
    LOADING_GROUP(struct profile_flags, program),
};
static const struct profile_flags defaults = {.program = PROGRAM_DEFAULTS,
                                              .input = {.int_max = DEFAULT_INT_MAX},
                                              .sort = "time",
                                              .iterations = 10,
                                              .warmup = 2,
                                              .trace_iterations = 1,
                                              .top = 0};

/* A profile being taken. */
struct profiling {
    const struct profile_flags *flags;
    struct program program;
    xcvm_session *session;
    struct state_runs runs;
    struct inputs inputs;
    struct profile profile;
    struct trace trace;
    struct output output; /* of the trace */
    bool tracing;
    struct recording recording; /* of the first run, for the page */
    struct output page;
    struct buffer earlier; /* data of the page to compare with */
    bool recording_run;
};

static xcvm_status after(void *user, const xcvm_event *event, xcvm_error *error)
{
    (void)error;
    struct profiling *profiling = user;
    profile_add(&profiling->profile, event);
    if (profiling->tracing)
        trace_event(&profiling->trace, event);
    if (profiling->recording_run)
        recording_add(&profiling->recording, event);
    return XCVM_OK;
}

static xcvm_status repeat(struct profiling *profiling, struct progress *progress, xcvm_error *error)
{
    const struct profile_flags *flags = profiling->flags;
    xcvm_run_options run = session_run_options(&flags->program.limits, &flags->session);
    if (flags->warm_session)
        TRY(xcvm_session_warm_up(profiling->session, &run, error));
    profiling->runs = (struct state_runs){.session = profiling->session,
                                          .program = profiling->program.handle,
                                          .every = flags->reset_every,
                                          .when_full = true};
    for (int64_t i = 0; i < flags->warmup; i++)
        TRY(state_runs_run(&profiling->runs, &run, error));
    xcvm_observer observer = {.size = sizeof observer,
                              .after = after,
                              .user = profiling,
                              .want_spans = flags->output != NULL || flags->html != NULL};
    xcvm_session_set_observer(profiling->session, &observer);
    for (int64_t i = 0; i < flags->iterations; i++) {
        const bool room_known = profiling->runs.full_after != 0;
        profiling->tracing = flags->output != NULL && i < flags->trace_iterations;
        profiling->recording_run = flags->html != NULL && i == 0;
        TRY(state_runs_run(&profiling->runs, &run, error));
        uint64_t end = now_ns(), start = end - (uint64_t)(profiling->runs.seconds * 1e9);
        /* The events include those of the failed run, so measuring starts again. Later runs reset in time. */
        if (!room_known && profiling->runs.full_after != 0) {
            profile_release(&profiling->profile);
            trace_release(&profiling->trace);
            profiling->profile = (struct profile){0};
            profiling->trace = (struct trace){0};
            recording_release(&profiling->recording);
            i = -1;
            continue;
        }
        profiling->profile.run_ns += end - start;
        profiling->profile.runs++;
        if (profiling->tracing)
            trace_run(&profiling->trace, start, end);
        if (profiling->recording_run) {
            profiling->recording.start_ns = start;
            profiling->recording.end_ns = end;
        }
        progress_show(progress, "profiling", (double)(i + 1) / (double)flags->iterations);
    }
    return XCVM_OK;
}

static xcvm_status measure(struct profiling *profiling, xcvm_error *error)
{
    struct progress progress;
    progress_start(&progress);
    xcvm_status status = repeat(profiling, &progress, error);
    progress_end(&progress);
    return status;
}

static xcvm_status write_trace(struct profiling *profiling, xcvm_error *error)
{
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_get_info(profiling->program.handle, &info);
    struct trace_header header = {profiling->program.path, info.producer,
                                  xcvm_session_thread_count(profiling->session)};
    (void)trace_write(&profiling->trace, &header, (xcvm_sink){output_sink, &profiling->output});
    return output_finish(&profiling->output, error);
}

static xcvm_status write_page(struct profiling *profiling, xcvm_error *error)
{
    const struct profile_flags *flags = profiling->flags;
    xcvm_program_info info = {.size = sizeof info};
    xcvm_memory_info memory = {.size = sizeof memory};
    xcvm_program_get_info(profiling->program.handle, &info);
    xcvm_session_get_memory_info(profiling->session, &memory);
    recording_finish(&profiling->recording);
    struct peaks peaks;
    const int threads = xcvm_session_thread_count(profiling->session);
    peaks_measure(strcmp(flags->program.isa, "native") != 0 ? flags->program.isa : NULL, threads, &peaks);
    const struct profile_page page = {.profile = &profiling->profile,
                                      .recording = &profiling->recording,
                                      .peaks = &peaks,
                                      .program = profiling->program.path,
                                      .optimizer = flags->program.train,
                                      .threads = threads,
                                      .arena_bytes = info.arena_bytes,
                                      .constant_bytes = info.constant_bytes,
                                      .peak_bytes = memory.peak_bytes,
                                      .earlier = flags->compare != NULL ? buffer_string(&profiling->earlier) : NULL};
    (void)profile_page_write(&page, (xcvm_sink){output_sink, &profiling->page});
    return output_finish(&profiling->page, error);
}

/* Reads the data of the report to compare with. */
static xcvm_status read_earlier(struct profiling *profiling, xcvm_error *error)
{
    const struct profile_flags *flags = profiling->flags;
    const struct read_limits limits = reading_limits(&flags->program.limits);
    struct buffer html = {0};
    TRY(file_read(flags->compare, &limits, &html, error));
    const bool found = profile_page_data(html.data, html.length, &profiling->earlier);
    buffer_release(&html);
    if (!found)
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "%s is no report of this version's \"xcvm profile --html\"; write it again", flags->compare);
    return XCVM_OK;
}

/* What can fail is tried before there is anything to lose: a failure after measuring would lose the measurement. */
static xcvm_status open_outputs(struct profiling *profiling, xcvm_error *error)
{
    const struct profile_flags *flags = profiling->flags;
    if (flags->compare != NULL)
        TRY(read_earlier(profiling, error));
    if (flags->output != NULL)
        TRY(output_open(&profiling->output, flags->output, error));
    if (flags->html != NULL && output_open(&profiling->page, flags->html, error) != XCVM_OK) {
        if (flags->output != NULL) {
            xcvm_error ignored;
            output_discard(&profiling->output, &ignored);
        }
        return error->status;
    }
    return XCVM_OK;
}

static void print_memory(const struct profiling *profiling)
{
    xcvm_program_info info = {.size = sizeof info};
    xcvm_memory_info memory = {.size = sizeof memory};
    xcvm_program_get_info(profiling->program.handle, &info);
    xcvm_session_get_memory_info(profiling->session, &memory);
    printf("memory: planned %.3f MB", (double)info.arena_bytes / 1e6);
    if (profiling->program.kind == FILE_MODEL && profiling->program.report.arena_lower_bound != 0)
        printf(" (lower bound %.3f MB)", (double)profiling->program.report.arena_lower_bound / 1e6);
    printf(", peak %.3f MB, constants %.3f MB\n", (double)memory.peak_bytes / 1e6, (double)info.constant_bytes / 1e6);
}

static xcvm_status profile_program(struct profiling *profiling, const char *path, xcvm_error *error)
{
    const struct profile_flags *flags = profiling->flags;
    struct program_flags own = flags->program;
    own.inputs = &flags->input.inputs;
    TRY(program_open(path, &own, &profiling->program, error));
    const struct limit_flags *limits = &flags->program.limits;
    TRY(inputs_make(&profiling->program, &flags->input, limits, flags->session.seed, &profiling->inputs, error));
    TRY(session_open(&profiling->program, limits, &profiling->inputs, &flags->session, &profiling->session, error));
    TRY(inputs_bind(profiling->program.handle, profiling->session, profiling->inputs.values, error));
    return measure(profiling, error);
}

static int execute_profile(const void *own, const struct arguments *arguments)
{
    session_warn_of_threads(&((const struct profile_flags *)own)->session);
    /* Inputs without a value are always random here. */
    struct profile_flags flags = *(const struct profile_flags *)own;
    flags.input.random = true;
    struct profiling profiling = {.flags = &flags};
    const char *path = arguments->items[0];
    xcvm_error error = {.pc = -1};
    if (flags.compare != NULL && flags.html == NULL)
        return report_usage("--compare needs --html, where the comparison is shown");
    if (open_outputs(&profiling, &error) != XCVM_OK)
        return report_error(NULL, &error);
    xcvm_status status = profile_program(&profiling, path, &error);
    int code = EXIT_OK;
    state_runs_report(&profiling.runs);
    if (status != XCVM_OK) {
        code = report_error(path, &error);
        inputs_hint(&flags.input, &profiling.inputs, &error);
    } else {
        if (flags.program.train != NULL)
            profile_print_phases(&profiling.profile, flags.program.train, stdout);
        profile_print(&profiling.profile, strcmp(flags.sort, "time") == 0, (size_t)flags.top, stdout);
        print_memory(&profiling);
    }
    if (status != XCVM_OK && flags.output != NULL)
        output_discard(&profiling.output, &error);
    else if (flags.output != NULL && write_trace(&profiling, &error) != XCVM_OK)
        code = report_error(NULL, &error);
    if (status != XCVM_OK && flags.html != NULL)
        output_discard(&profiling.page, &error);
    else if (flags.html != NULL && write_page(&profiling, &error) != XCVM_OK)
        code = report_error(NULL, &error);
    recording_release(&profiling.recording);
    buffer_release(&profiling.earlier);
    trace_release(&profiling.trace);
    profile_release(&profiling.profile);
    xcvm_session_destroy(profiling.session);
    inputs_release(profiling.program.handle, &profiling.inputs);
    program_close(&profiling.program);
    return code;
}

static const struct example examples[] = {
    {"model.onnx --threads 1", "the time of each instruction"},
    {"prog.bin -o trace.json --trace-iterations 3", "also write a trace of three runs for https://ui.perfetto.dev"},
    {"model.onnx --html report.html", "also write a report to look at in a browser"},
    {"model.onnx --html new.html --compare report.html", "also show what changed since an earlier report"},
    {"net.onnx --train adam --loss softmax_cross_entropy --dim batch=8",
     "profile a training step: forward, backward and optimizer"},
};

const struct command command_profile = {
    .name = "profile",
    .summary = "show the time of each instruction, and write a trace",
    .operands = "PROG",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "Runs a program and prints the time of each kind of instruction and of each instruction: calls, total time "
        "over all runs, share, GFLOP/s and GB/s. Inputs without a value are random.\n\nThe trace has one track for "
        "each worker with nested events: a run, its instructions, and the parts that each worker computed. Events have "
        "source nodes, shapes, flops and bytes. Another track shows the memory held by values.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct profile_flags),
    .run = execute_profile,
};
