/* Opening a session with the options of the command. */
#include "run/session.h"
#include "cli/report.h"

#include <limits.h>
#include <stdio.h>

const struct option session_options[] = {
    {"threads", 't', "N", OPTION_INT, offsetof(struct session_flags, threads), 0, 1024,
     "worker threads, including the calling thread; 0: as many as CPU affinity and the cgroup quota allow"},
    {"fuel", 0, "N", OPTION_INT, offsetof(struct session_flags, fuel), 0, INT64_MAX,
     "stop a run after N instructions; 0: no limit"},
    {"seed", 0, "N", OPTION_INT, offsetof(struct session_flags, seed), 0, INT64_MAX,
     "seed of random inputs, and of random instructions without a seed of their own"},
    {"strict-types", 0, NULL, OPTION_FLAG, offsetof(struct session_flags, strict_types), 0, 0,
     "check each result against the type that the compiler recorded"},
    END_OF_OPTIONS,
};

static bool print_text(void *user, const char *text)
{
    (void)user;
    return fputs(text, stdout) >= 0;
}

/* The memory limit of a session without the bytes of `inputs`; 0: no limit. */
static size_t memory_left(const struct limit_flags *limits, const struct inputs *inputs)
{
    if (limits->max_memory == 0 || inputs == NULL)
        return (size_t)limits->max_memory;
    const uint64_t left = value_budget_left(&inputs->budget);
    return left != 0 ? (size_t)left : 1;
}

xcvm_status session_open(const struct program *program, const struct limit_flags *limits, const struct inputs *inputs,
                         const struct session_flags *flags, xcvm_session **session, xcvm_error *error)
{
    xcvm_session_options options = {.size = sizeof options,
                                    .threads = (int)flags->threads,
                                    .memory_limit = memory_left(limits, inputs),
                                    .seed = (uint64_t)flags->seed,
                                    .strict_types = flags->strict_types,
                                    .flush_subnormals = program->flush_subnormals,
                                    .print.call = print_text};
    return xcvm_session_create(program->handle, &options, session, error);
}

void session_warn_of_threads(const struct session_flags *flags)
{
    const int available = xcvm_available_thread_count();
    if (flags->threads > available)
        report_line("warning: --threads=%d exceeds the %d threads that CPU affinity and the cgroup quota allow, so "
                    "that times are longer. Use --threads=0",
                    (int)flags->threads, available);
}

xcvm_run_options session_run_options(const struct limit_flags *limits, const struct session_flags *flags)
{
    return (xcvm_run_options){.size = sizeof(xcvm_run_options),
                              .fuel = (uint64_t)flags->fuel,
                              .timeout_ns = (uint64_t)limits->timeout_ms * 1000000};
}
