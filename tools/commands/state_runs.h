/* Repeated runs of a program with states: states are reset every N runs, or when a cache is full. */
#ifndef XCVM_TOOLS_COMMANDS_STATE_RUNS_H
#define XCVM_TOOLS_COMMANDS_STATE_RUNS_H

#include "cli/options.h"

#include <xcvm/xcvm.h>

#define STATE_RESET_OPTION(type, member, help)                                                                         \
    {                                                                                                                  \
        "reset-states-every", 0, "N", OPTION_INT, offsetof(type, member), 0, INT64_MAX, help                           \
    }

struct state_runs {
    xcvm_session *session;
    const xcvm_program *program;
    int64_t every;       /* runs between resets; 0: states are not reset */
    bool when_full;      /* a run that fails because a cache is full is repeated after a reset */
    int64_t since_reset; /* runs */
    int64_t full_after;  /* number of runs that fill a cache; 0: unknown */
    int64_t resets;
    double seconds;  /* time of the last run */
    xcvm_error full; /* error of the first run that was repeated */
};

/* Runs once, after a reset if one is due. */
xcvm_status state_runs_run(struct state_runs *runs, const xcvm_run_options *options, xcvm_error *error);
/* Prints a note if states were reset because a cache was full. */
void state_runs_report(const struct state_runs *runs);
/* Prints the remedies if the run failed because a cache is full. */
void state_runs_hint(const xcvm_error *error);

#endif
