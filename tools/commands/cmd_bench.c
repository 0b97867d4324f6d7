/* `xcvm bench`: times loading, first run and steady runs of a program. */
#include "commands/commands.h"
#include "run/measure.h"
#include "cli/memory.h"
#include "cli/clock.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "run/session.h"
#include "commands/state_runs.h"
#include "cli/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench_flags {
    struct program_flags program;
    struct session_flags session;
    struct input_flags input;
    int64_t warmup, iterations, reset_every;
    double duration;
    bool warm_session;
};

static const struct option options[] = {
    {"warmup", 'w', "N", OPTION_INT, offsetof(struct bench_flags, warmup), 0, INT64_MAX,
     "number of runs after the first run and before the measured runs"},
    {"iterations", 'n', "N", OPTION_INT, offsetof(struct bench_flags, iterations), 0, INT64_MAX,
     "number of measured runs; 0: as many as --duration allows, at least 10"},
    {"duration", 'd', "SECONDS", OPTION_REAL, offsetof(struct bench_flags, duration), 0, 0,
     "how long to measure, unless --iterations is given"},
    STATE_RESET_OPTION(struct bench_flags, reset_every,
                       "reset the states every N runs; 0: only when a cache is full, which a note reports"),
    {"warm-session", 0, NULL, OPTION_FLAG, offsetof(struct bench_flags, warm_session), 0, 0,
     "call xcvm_session_warm_up before the first run, so that first_ms is the time of a warm session"},
    END_OF_OPTIONS,
};

static const struct option_group groups[] = {
    {"Measuring", options, 0},
    OPTION_GROUP("Inputs", input_options, struct bench_flags, input),
    OPTION_GROUP("Running", session_options, struct bench_flags, session),
    STEP_GROUP(struct bench_flags, program),
    LIMIT_GROUP(struct bench_flags, program.limits),
    MODEL_GROUPS(struct bench_flags, program.model),
    MACHINE_GROUP(struct bench_flags, program.model),
    LOADING_GROUP(struct bench_flags, program),
};
static const struct bench_flags defaults = {.program = PROGRAM_DEFAULTS,
                                            .input = {.int_max = DEFAULT_INT_MAX},
                                            .session = {.threads = 1},
                                            .warmup = 3,
                                            .duration = 3};

enum { LEAST_RUNS = 10 };

struct timings {
    double *seconds;
    size_t count;
};

static xcvm_status repeat(const struct bench_flags *flags, struct state_runs *runs, struct timings *timings,
                          struct progress *progress, xcvm_error *error)
{
    xcvm_run_options run = session_run_options(&flags->program.limits, &flags->session);
    for (int64_t i = 0; i < flags->warmup; i++)
        TRY(state_runs_run(runs, &run, error));
    double start = now_seconds();
    for (;;) {
        TRY(state_runs_run(runs, &run, error));
        timings->seconds = memory_append(timings->seconds, timings->count, sizeof *timings->seconds);
        timings->seconds[timings->count++] = runs->seconds;
        double fraction = flags->iterations > 0 ? (double)timings->count / (double)flags->iterations
                                                : (now_seconds() - start) / flags->duration;
        if (fraction >= 1 && (flags->iterations > 0 || timings->count >= LEAST_RUNS))
            return XCVM_OK;
        progress_show(progress, "measuring", fraction);
    }
}

static xcvm_status measure(const struct bench_flags *flags, struct state_runs *runs, struct timings *timings,
                           xcvm_error *error)
{
    struct progress progress;
    progress_start(&progress);
    xcvm_status status = repeat(flags, runs, timings, &progress, error);
    progress_end(&progress);
    return status;
}

/* Times before the measured runs, in seconds. */
struct beginning {
    double load, warm_up, first;
};

static void print_results(const struct program *program, const xcvm_session *session, const struct bench_flags *flags,
                          const struct beginning *beginning, struct timings *timings)
{
    struct table table = {0};
    xcvm_memory_info memory = {.size = sizeof memory};
    double sum = 0;
    for (size_t i = 0; i < timings->count; i++)
        sum += timings->seconds[i];
    qsort(timings->seconds, timings->count, sizeof *timings->seconds, compare_doubles);
    xcvm_session_get_memory_info(session, &memory);
    if (program->kind == FILE_MODEL)
        measure_row(&table, "compile", program->compile_seconds);
    measure_row(&table, "load", beginning->load);
    if (flags->warm_session)
        measure_row(&table, "warm-up", beginning->warm_up);
    measure_row(&table, flags->warm_session ? "first run, warm" : "first run", beginning->first);
    measure_row(&table, "mean", sum / (double)timings->count);
    measure_row(&table, "min", timings->seconds[0]);
    static const struct {
        const char *name;
        double fraction;
    } ranks[] = {{"50%", 0.5}, {"90%", 0.9}, {"95%", 0.95}, {"99%", 0.99}};
    for (size_t i = 0; i < COUNT_OF(ranks); i++)
        measure_row(&table, ranks[i].name, percentile(timings->seconds, timings->count, ranks[i].fraction));
    measure_row(&table, "max", timings->seconds[timings->count - 1]);
    printf("%s, %zu runs\n", program->path, timings->count);
    table_print(&table, stdout);
    printf("memory of the session: peak %.2f MB, reserved %.2f MB\n", (double)memory.peak_bytes / 1e6,
           (double)memory.reserved_bytes / 1e6);
    printf("xcvm threads=%d median_ms=%.4f min_ms=%.4f load_ms=%.4f first_ms=%.4f peak_rss_mb=%.1f\n",
           xcvm_session_thread_count(session), percentile(timings->seconds, timings->count, 0.5) * 1e3,
           timings->seconds[0] * 1e3, beginning->load * 1e3, beginning->first * 1e3, peak_rss_megabytes());
}

static int execute_bench(const void *own, const struct arguments *arguments)
{
    /* Inputs without a value are always random here. */
    struct bench_flags flags = *(const struct bench_flags *)own;
    flags.input.random = true;
    session_warn_of_threads(&flags.session);
    flags.program.inputs = &flags.input.inputs;
    const char *path = arguments->items[0];
    struct program program = {0};
    xcvm_session *session = NULL;
    struct inputs inputs = {0};
    struct timings timings = {0};
    struct state_runs runs = {0};
    xcvm_error error = {.pc = -1};
    struct beginning beginning = {0};
    xcvm_status status = program_open(path, &flags.program, &program, &error);
    if (status == XCVM_OK)
        status = inputs_make(&program, &flags.input, &flags.program.limits, flags.session.seed, &inputs, &error);
    if (status == XCVM_OK) {
        double start = now_seconds();
        status = session_open(&program, &flags.program.limits, &inputs, &flags.session, &session, &error);
        beginning.load = program.load_seconds + now_seconds() - start;
    }
    if (status == XCVM_OK)
        status = inputs_bind(program.handle, session, inputs.values, &error);
    const xcvm_run_options once = session_run_options(&flags.program.limits, &flags.session);
    if (status == XCVM_OK && flags.warm_session) {
        double start = now_seconds();
        status = xcvm_session_warm_up(session, &once, &error);
        beginning.warm_up = now_seconds() - start;
    }
    if (status == XCVM_OK) {
        runs = (struct state_runs){
            .session = session, .program = program.handle, .every = flags.reset_every, .when_full = true};
        status = state_runs_run(&runs, &once, &error);
        beginning.first = runs.seconds;
    }
    if (status == XCVM_OK)
        status = measure(&flags, &runs, &timings, &error);
    state_runs_report(&runs);
    int code = EXIT_OK;
    if (status == XCVM_OK)
        print_results(&program, session, &flags, &beginning, &timings);
    else {
        code = report_error(path, &error);
        inputs_hint(&flags.input, &inputs, &error);
    }
    free(timings.seconds);
    xcvm_session_destroy(session);
    inputs_release(program.handle, &inputs);
    program_close(&program);
    return code;
}

static const struct example examples[] = {
    {"resnet50.bin --threads 2", "measure for three seconds with two threads"},
    {"model.onnx --dim batch=8 -n 100", "measure a hundred runs with a batch of eight"},
    {"net.onnx --train sgd:lr=0.1,momentum=0.9 --loss softmax_cross_entropy --dim batch=32", "measure training steps"},
};

const struct command command_bench = {
    .name = "bench",
    .summary = "measure the time of loading and running",
    .operands = "PROG",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "Loads a program, runs it repeatedly, and prints the times. Inputs without a value are random. A model is "
        "compiled first. The time to compile counts neither as loading nor as the first run, but the memory counts in "
        "peak_rss_mb. To exclude it, compile the model to a file.\n\nLoading includes the creation of a session, which "
        "executes nothing. The first run loads code and constants and infers shapes. With --warm-session, this is done "
        "before, and its time has a line of its own.\n\nThe states of a program, for example key/value caches, are "
        "reset when a cache is full. The reset is not part of the measured time. A run may take longer the more rows a "
        "cache has. --reset-states-every keeps measurements comparable.\n\nThe last line is for scripts:\n\nxcvm "
        "threads=1 median_ms=.. min_ms=.. load_ms=.. first_ms=.. peak_rss_mb=..",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct bench_flags),
    .run = execute_bench,
};
