/* Opening programs: a program file, its text, or a model becomes a loaded program. */
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
    struct text_list wrt;     /* with backprop; empty: the compiler chooses */
    const char *train, *loss; /* optimizer and loss of a training step; NULL: a model is compiled for inference */
    bool copy, no_libraries;
    const char *library_dir, *isa;
    bool no_notes;                  /* no notes of the compiler */
    const struct text_list *inputs; /* NAME=SPEC; these inputs are kept if they have defaults. May be NULL */
};
extern const struct option loading_options[];
/* For subcommands that measure training steps. */
extern const struct option step_options[];
#define STEP_GROUP(type, member) OPTION_GROUP("Training", step_options, type, member)
#define LOADING_GROUP(type, member) OPTION_GROUP("Loading", loading_options, type, member)
#define PROGRAM_DEFAULTS                                                                                               \
    {                                                                                                                  \
        .model = MODEL_DEFAULTS, .isa = "native"                                                                       \
    }

/* A hint for text that refers to files outside of its directory. */
#define ANY_PATH_HINT " (\"xcvm asm --any-path\" makes a program of a text that may)"

struct program {
    xcvm_program *handle;
    const char *path;
    struct buffer bytes;    /* of a program that was made in memory */
    struct library library; /* of a model compiled with --kernel-library, until it is loaded */
    struct dims dims;
    enum file_kind kind; /* of the given file */
    bool flush_subnormals;
    bool trains; /* a training step */
    double compile_seconds, load_seconds;
    xcc_report report; /* of a compiled model */
};

/* Loads `path`. A model is compiled and a text is assembled first. */
xcvm_status program_open(const char *path, const struct program_flags *flags, struct program *program,
                         xcvm_error *error);
/* The bytes of a program file, or of a program made from a text or a model (*made is true). */
xcvm_status program_bytes(const char *path, const struct program_flags *flags, struct buffer *bytes, bool *made,
                          xcvm_error *error);
void program_close(struct program *program);

/* Adds the names of the model's inputs with defaults to `found`, in order. `model` is the content if it was read
 * from a stream, otherwise NULL. */
xcvm_status program_default_inputs(const char *path, const struct buffer *model, const struct limit_flags *limits,
                                   struct names *found, xcvm_error *error);

/* Compiles a model file ("-": standard input) and shows progress on a terminal. `options->user` is only for the
 * dump. */
xcvm_status compile_model(const char *path, const xcc_options *options, xcvm_sink sink, xcc_report *report,
                          xcvm_error *error);

#endif
