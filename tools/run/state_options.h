/* Options that make states of a model's outputs and inputs. */
#ifndef XCVM_TOOLS_RUN_STATE_OPTIONS_H
#define XCVM_TOOLS_RUN_STATE_OPTIONS_H

#include "cli/options.h"
#include "run/gradients.h"

#include <xcvm/compiler.h>

/* Options of every subcommand that compiles a model. */
struct state_flags {
    struct text_list pairs; /* "auto" or patterns */
    const char *caches;
    int64_t cache_rows; /* 0: not given */
};
#define STATE_DEFAULTS                                                                                                 \
    {                                                                                                                  \
        .caches = "f32"                                                                                                \
    }
extern const struct option state_options[];

/* Fails with INVALID_ARGUMENT for an option about states if no option asks for states. `has_states` is true if another
 * option does. */
xcvm_status state_options_check(const struct state_flags *flags, bool has_states, xcvm_error *error);
/* Sets the compiler's options. `patterns` receives the patterns, which the options lend. */
void state_options_use(const struct state_flags *flags, struct names *patterns, xcc_options *options);

#endif
