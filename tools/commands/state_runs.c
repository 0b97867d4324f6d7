/* Repeated runs of a program with states. */
#include "commands/state_runs.h"
#include "cli/clock.h"
#include "cli/report.h"

#include <string.h>

static xcvm_status reset(struct state_runs *runs, xcvm_error *error)
{
    TRY(xcvm_session_reset_states(runs->session, error));
    runs->since_reset = 0;
    runs->resets++;
    return XCVM_OK;
}

static xcvm_status run_once(struct state_runs *runs, const xcvm_run_options *options, xcvm_error *error)
{
    const double start = now_seconds();
    TRY(xcvm_session_run(runs->session, options, error));
    runs->seconds = now_seconds() - start;
    runs->since_reset++;
    return XCVM_OK;
}

xcvm_status state_runs_run(struct state_runs *runs, const xcvm_run_options *options, xcvm_error *error)
{
    if (xcvm_program_state_count(runs->program) == 0)
        return run_once(runs, options, error);
    const int64_t every =
        runs->full_after != 0 && (runs->every == 0 || runs->full_after < runs->every) ? runs->full_after : runs->every;
    if (every != 0 && runs->since_reset >= every)
        TRY(reset(runs, error));
    const xcvm_status status = run_once(runs, options, error);
    if (status != XCVM_OUT_OF_RANGE || !runs->when_full || runs->since_reset == 0 || runs->full_after != 0)
        return status;
    runs->full_after = runs->since_reset;
    runs->full = *error;
    TRY(reset(runs, error));
    return run_once(runs, options, error);
}

void state_runs_report(const struct state_runs *runs)
{
    if (runs->full_after == 0)
        return;
    char text[512];
    report_describe(&runs->full, text, sizeof text);
    report_line("note: the states were reset %lld %s, every %lld runs, because the next run failed: %s",
                (long long)runs->resets, runs->resets == 1 ? "time" : "times", (long long)runs->full_after, text);
}

void state_runs_hint(const xcvm_error *error)
{
    if (error->status == XCVM_OUT_OF_RANGE && error->pc >= 0 && strcmp(error->instruction, "CacheAppend") == 0)
        report_line(
            "note: a cache is full. Reset the states (--reset-states-every N), or compile the model with a larger "
            "--cache-rows");
}
