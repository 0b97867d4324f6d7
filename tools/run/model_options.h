/* The options of every subcommand that compiles, or takes what may have to be compiled first. A new one is a member, a
 * row in model_options.c and a line in compiler_options, behind which the compiler has it. */
#ifndef XCVM_TOOLS_RUN_MODEL_OPTIONS_H
#define XCVM_TOOLS_RUN_MODEL_OPTIONS_H

#include "cli/options.h"
#include "cli/buffer.h"
#include "io/read.h"

#include <xcvm/compiler.h>

/* Bounds of a compilation, and of a session where there is one. */
struct limit_flags {
    uint64_t max_memory;
    int64_t timeout_ms;
};

/* For what is read under those limits. */
struct read_limits reading_limits(const struct limit_flags *limits);

struct model_flags {
    struct text_list dims;        /* NAME=SIZE */
    struct text_list keep_inputs; /* inputs with defaults that stay inputs */
    bool flush_subnormals;
    int64_t optimization;
    const char *layout, *weights, *integer, *activations, *compute;
    bool tune, kernel_library, inference;
};
#define MODEL_DEFAULTS                                                                                                 \
    {                                                                                                                  \
        .optimization = 2, .layout = "blocked", .weights = "f32", .integer = "auto", .activations = "f32",             \
        .compute = "f32"                                                                                               \
    }

/* The groups that a subcommand lists; `member` is its struct model_flags. What is only for subcommands that run the
 * program stands apart. */
#define MODEL_GROUPS(type, member)                                                                                     \
    OPTION_GROUP("Models and programs", shared_options, type, member),                                                 \
        OPTION_GROUP("Compiling a model", model_options, type, member)
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
/* -1 if the name is unknown. */
int64_t dims_find(const struct dims *dims, const char *name);
/* false if the name has another size already. */
bool dims_add(struct dims *dims, const char *name, int64_t value);
void dims_release(struct dims *dims);

/* The compiler's options, but for kernel libraries; `dims` are those of flags, and lent. */
xcc_options compiler_options(const struct model_flags *flags, const struct limit_flags *limits,
                             const struct dims *dims);
/* Reports a note of the compiler on a model. For xcc_options.diagnostics; `user` is the model's path, or NULL. */
void model_note(void *user, xcc_diagnostic_kind kind, const char *text);
/* "--layout and --tune": the options given that are for models alone. Empty if there are none. */
void model_options_given(const struct model_flags *flags, struct buffer *names);

#endif
