/* Getting a program that can be run out of what a user names: a program, its text, or a model. */
#ifndef XCVM_TOOLS_PROGRAM_H
#define XCVM_TOOLS_PROGRAM_H

#include "io/file.h"
#include "run/kernel_cache.h"
#include "cli/options.h"

#include <xcvm/compiler.h>

enum { DEFAULT_OPTIMIZATION = 2 };
/* Options that compile has, too; `type` is the struct with their members. */
#define LAYOUT_OPTION(type)                                                                                            \
    {                                                                                                                  \
        "layout", 0, "blocked|plain", OPTION_CHOICE, offsetof(type, layout), 0, 0,                                     \
            "of convolutions: with channels in blocks of 16 where that is faster, or as the model has it"              \
    }
#define WEIGHTS_OPTION(type)                                                                                           \
    {                                                                                                                  \
        "weights", 0, "f32|f24|f16|bf16", OPTION_CHOICE, offsetof(type, weights), 0, 0,                                \
            "the type that the constant weights of matrix products, convolutions and recurrent networks, and "         \
            "embeddings, are stored in; all but f32 round them"                                                        \
    }
#define SUBNORMALS_OPTION(type)                                                                                        \
    {                                                                                                                  \
        "flush-subnormals", 0, NULL, OPTION_FLAG, offsetof(type, flush_subnormals), 0, 0,                              \
            "take and give subnormal numbers (of f32 below 1.2e-38) as zero, in constants that are folded as in runs"  \
    }

/* Bounds of a compilation, and of a session where there is one. */
struct limit_flags {
    uint64_t max_memory;
    int64_t timeout_ms;
};
extern const struct option limit_options[2];
#define LIMIT_GROUP(type, member) OPTION_GROUP("Limits", limit_options, type, member)

/* Options of every subcommand that takes a PROG. */
struct program_flags {
    struct limit_flags limits;
    struct text_list dims; /* NAME=SIZE */
    int64_t optimization;
    const char *layout, *weights;
    bool tune, fuse;
    bool copy, no_libraries, flush_subnormals;
    const char *library_dir, *isa;
};
/* How a model is compiled in memory. The last two are only for subcommands that run the program. */
extern const struct option model_options[6];
enum { MODEL_OPTIONS = 4, RUN_MODEL_OPTIONS = 6 };
extern const struct option loading_options[5];
/* The groups that a subcommand lists; `member` is its struct program_flags. */
#define MODEL_GROUP(count, type, member)                                                                               \
    {                                                                                                                  \
        "Compiling a model", model_options, (count), offsetof(type, member)                                            \
    }
#define LOADING_GROUP(type, member) OPTION_GROUP("Loading", loading_options, type, member)
#define PROGRAM_DEFAULTS                                                                                               \
    {                                                                                                                  \
        .optimization = DEFAULT_OPTIMIZATION, .layout = "blocked", .weights = "f32"                                    \
    }

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

/* The optimisation level of the command line (0, 1, 2) as the compiler counts it. */
int compiler_level(int64_t level);
/* The type of --weights. */
xcvm_dtype compiler_weights(const char *name);
void compiler_limits(const struct limit_flags *flags, xcc_options *options);

/* For a text that names files outside of its folder. */
#define ANY_PATH_HINT " (\"xcvm asm --any-path\" makes a program of a text that may)"

struct program {
    xcvm_program *handle;
    const char *path;
    struct buffer bytes;    /* of a program that is not in a file */
    struct library library; /* of a model compiled with --fuse, until it is loaded */
    struct dims dims;
    enum file_kind kind; /* of what was named; a model is compiled */
    bool flush_subnormals;
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

/* Compiles a model file ("-": standard input), showing progress on a terminal. `options->user` is for the dump alone.
 */
xcvm_status compile_model(const char *path, const xcc_options *options, xcvm_sink sink, void *user, xcc_report *report,
                          xcvm_error *error);

#endif
