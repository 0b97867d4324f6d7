/* Opening programs: whatever a user names, be it a program, its text, or a model, becomes a loaded program. */
#ifndef XCVM_TOOLS_RUN_PROGRAM_H
#define XCVM_TOOLS_RUN_PROGRAM_H

#include "io/file.h"
#include "run/gradients.h"
#include "run/kernel_cache.h"
#include "run/model_options.h"

#include <xcvm/compiler.h>

#define BACKPROP_OPTION(type, help)                                                                                    \
    {                                                                                                                  \
        "backprop", 0, NULL, OPTION_FLAG, offsetof(type, backprop), 0, 0, help                                         \
    }

/* Options of every subcommand that takes a PROG. */
struct program_flags {
    struct limit_flags limits;
    struct model_flags model;
    bool backprop;
    struct text_list wrt;     /* with it; none: as the compiler chooses */
    const char *train, *loss; /* an optimizer: a model becomes a step of training; and what it makes smaller */
    bool copy, no_libraries;
    const char *library_dir, *isa;
    bool no_notes;                  /* of the compiler on a model */
    const struct text_list *inputs; /* NAME=SPEC; a model's inputs with defaults that these name are kept. NULL: none */
};
extern const struct option loading_options[];
/* Of subcommands that measure: a step of training in place of a run. */
extern const struct option step_options[];
#define STEP_GROUP(type, member) OPTION_GROUP("Training", step_options, type, member)
#define LOADING_GROUP(type, member) OPTION_GROUP("Loading", loading_options, type, member)
#define PROGRAM_DEFAULTS                                                                                               \
    {                                                                                                                  \
        .model = MODEL_DEFAULTS, .isa = "native"                                                                       \
    }

/* For a text that names files outside of its folder. */
#define ANY_PATH_HINT " (\"xcvm asm --any-path\" makes a program of a text that may)"

struct program {
    xcvm_program *handle;
    const char *path;
    struct buffer bytes;    /* of a program that is not in a file */
    struct library library; /* of a model compiled with --kernel-library, until it is loaded */
    struct dims dims;
    enum file_kind kind; /* of what was named; a model is compiled */
    bool flush_subnormals;
    bool trains; /* it is a step of training */
    double compile_seconds, load_seconds;
    xcc_report report; /* of a compiled one */
};

/* Loads `path`, compiling or assembling it first if that is what it needs. */
xcvm_status program_open(const char *path, const struct program_flags *flags, struct program *program,
                         xcvm_error *error);
/* The bytes of a program: the file's own, or (then *made is true) made in memory from a text or a model. */
xcvm_status program_bytes(const char *path, const struct program_flags *flags, struct buffer *bytes, bool *made,
                          xcvm_error *error);
void program_close(struct program *program);

/* Adds to `found` the names of a model's inputs that have defaults, in their order. `model`: its bytes where they were
 * read from a stream, else NULL. */
xcvm_status program_default_inputs(const char *path, const struct buffer *model, const struct limit_flags *limits,
                                   struct names *found, xcvm_error *error);

/* Compiles a model file ("-": standard input), showing progress on a terminal. `options->user` is for the dump alone.
 */
xcvm_status compile_model(const char *path, const xcc_options *options, xcvm_sink sink, xcc_report *report,
                          xcvm_error *error);

#endif
