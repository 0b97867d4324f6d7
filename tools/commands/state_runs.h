/* Runs of a program with states, again and again: states are reset every so many runs, or when a cache is full. */
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
    bool when_full;      /* a run that fails since there is no room is repeated after a reset */
    int64_t since_reset; /* runs */
    int64_t full_after;  /* runs that a cache has room for; 0: not known */
    int64_t resets;
    double seconds;  /* that the last run took */
    xcvm_error full; /* why the first run of those that were repeated failed */
};

/* A run, after a reset where it is time for one. */
xcvm_status state_runs_run(struct state_runs *runs, const xcvm_run_options *options, xcvm_error *error);
/* Says on standard error how often the states were reset since a cache was full. */
void state_runs_report(const struct state_runs *runs);

#endif
