/* Observers of every instruction of a run: traces, dumps of results, and the search for NaNs and infinities. */
#ifndef XCVM_TOOLS_RUN_OBSERVE_H
#define XCVM_TOOLS_RUN_OBSERVE_H

#include "cli/buffer.h"
#include "cli/options.h"
#include "values/budget.h"

struct observe_flags {
    bool trace_shapes, trace_values, check_nan, check_inf;
    const char *dump_dir;
};
extern const struct option observe_options[];

struct observation {
    const struct observe_flags *flags;
    struct value_budget *budget; /* for dumps */
    size_t sequence;             /* results dumped */
    bool found;                  /* a NaN or infinity, which ended the run */
    struct buffer story;         /* findings */
};

/* True if an option asks for an observer. */
bool observe_wanted(const struct observe_flags *flags);
/* Sets the session's observer, which uses `observation` until the session is destroyed or the observer replaced.
 * Creates the directory for dumps. */
xcvm_status observe_start(struct observation *observation, const struct observe_flags *flags,
                          struct value_budget *budget, xcvm_session *session, xcvm_error *error);
void observe_release(struct observation *observation);

/* Appends the start of a trace line: "#12 $3, $4 = Split($2, @0) axis=0". */
void event_print(struct buffer *text, const xcvm_event *event);

#endif
