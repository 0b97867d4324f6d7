/* Options of every subcommand that compiles a model. A new option is a member, an entry in model_options.c and a
 * line in compiler_options. */
#ifndef XCVM_TOOLS_RUN_MODEL_OPTIONS_H
#define XCVM_TOOLS_RUN_MODEL_OPTIONS_H

#include "cli/options.h"
#include "cli/buffer.h"
#include "io/read.h"
#include "run/state_options.h"

#include <xcvm/compiler.h>

/* Limits of a compilation, and of a session. */
struct limit_flags {
    uint64_t max_memory;
    int64_t timeout_ms;
};

/* The limits of reading files. */
struct read_limits reading_limits(const struct limit_flags *limits);

struct model_flags {
    struct text_list dims;        /* NAME=SIZE */
    struct text_list keep_inputs; /* inputs with defaults that stay inputs */
    bool flush_subnormals;
    int64_t optimization;
    const char *layout, *weights, *integer, *activations, *compute;
    bool tune, kernel_library, inference;
    struct state_flags states;
};
#define MODEL_DEFAULTS                                                                                                 \
    {                                                                                                                  \
        .optimization = 2, .layout = "blocked", .weights = "f32", .integer = "auto", .activations = "f32",             \
        .compute = "f32", .states = STATE_DEFAULTS                                                                     \
    }

/* The groups of a subcommand whose member `member` is a struct model_flags. MACHINE_GROUP is for subcommands whose
 * program runs on this machine. */
#define MODEL_GROUPS(type, member)                                                                                     \
    OPTION_GROUP("Models and programs", shared_options, type, member),                                                 \
        OPTION_GROUP("Compiling a model", model_options, type, member),                                                \
        OPTION_GROUP("States of a model", state_options, type, member.states)
#define MACHINE_GROUP(type, member) OPTION_GROUP("Compiling for this machine", machine_options, type, member)
#define LIMIT_GROUP(type, member) OPTION_GROUP("Limits", limit_options, type, member)
extern const struct option shared_options[], model_options[], machine_options[], limit_options[];

/* Sizes of named dimensions, from --dim. */
struct dims {
    xcc_dim *items; /* the names are owned */
    size_t count;
};
/* Fails with INVALID_ARGUMENT if one is not NAME=SIZE or is given two sizes. */
xcvm_status dims_parse(const struct text_list *texts, struct dims *dims, xcvm_error *error);
/* Returns -1 if the name is unknown. */
int64_t dims_find(const struct dims *dims, const char *name);
/* The name by which --dim sets a dimension of an input: its own name, or INPUT.AXIS. The caller frees it. */
char *dims_name(const xcvm_value_info *input, int axis);
/* Returns false if the name has another size. */
bool dims_add(struct dims *dims, const char *name, int64_t value);
void dims_release(struct dims *dims);

/* The compiler's options, without kernel libraries and states. They borrow `dims`, which are those of flags. */
xcc_options compiler_options(const struct model_flags *flags, const struct limit_flags *limits,
                             const struct dims *dims);
/* Reports a note of the compiler on a model. For xcc_options.diagnostics. `user` is the model's path, or NULL. */
void model_note(void *user, xcc_diagnostic_kind kind, const char *text);
/* Appends the given options that only apply to models, for example "--layout and --tune". */
void model_options_given(const struct model_flags *flags, struct buffer *names);

#endif
