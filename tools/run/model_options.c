/* Compiler options of the subcommands, and how they become xcc_options. */
#include "run/model_options.h"
#include "cli/clock.h"
#include "cli/progress.h"
#include "cli/memory.h"
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

const struct option shared_options[] = {
    {"dim", 0, "NAME=SIZE", OPTION_LIST, offsetof(struct model_flags, dims), 0, 0,
     "the size of a named dimension of the inputs, also of a program's that are open; may be repeated"},
    {"flush-subnormals", 0, NULL, OPTION_FLAG, offsetof(struct model_flags, flush_subnormals), 0, 0,
     "take and give subnormal numbers (of f32 below 1.2e-38) as zero, in constants that are folded as in runs"},
    END_OF_OPTIONS,
};

const struct option model_options[] = {
    {"optimize", 'O', "LEVEL", OPTION_INT, offsetof(struct model_flags, optimization), 0, 2,
     "how far a model is optimized: 0 only what is needed to run, 1 no merging, 2 all"},
    {"inference", 0, NULL, OPTION_FLAG, offsetof(struct model_flags, inference), 0, 0,
     "take a model in training form for inference: BatchNormalization uses its running statistics, and Dropout does "
     "nothing; without, the model does what ONNX says, and a warning names such nodes"},
    {"layout", 0, "blocked|plain", OPTION_CHOICE, offsetof(struct model_flags, layout), 0, 0,
     "of convolutions: with channels in blocks of 16 where that is faster, or as the model has it"},
    {"weights", 0, "f32|f24|f16|bf16|q8|q4|q4a", OPTION_CHOICE, offsetof(struct model_flags, weights), 0, 0,
     "the type that the constant weights of matrix products, convolutions and recurrent networks, and embeddings, are "
     "stored in; all but f32 round them. q8, q4 and q4a are 8 or 4 bits and a scale for each 32 weights, of products "
     "and embeddings"},
    {"activations", 0, "f32|int8", OPTION_CHOICE, offsetof(struct model_flags, activations), 0, 0,
     "what products multiply weights in blocks with: the numbers as they are, or rounded to 8 bits with a scale for "
     "each block"},
    {"compute", 0, "f32|bf16", OPTION_CHOICE, offsetof(struct model_flags, compute), 0, 0,
     "what matrix products with constants, and convolutions but those that are depthwise, of the model's inputs or by "
     "Winograd's algorithm, round their operands to; sums are f32"},
    {"integer", 0, "auto|always|never", OPTION_CHOICE, offsetof(struct model_flags, integer), 0, 0,
     "whether quantized models are computed in integers: where that is faster on this machine, wherever it can be "
     "done, or nowhere, as the floats that their quantized numbers stand for"},
    {"keep-input", 0, "NAME", OPTION_LIST, offsetof(struct model_flags, keep_inputs), 0, 0,
     "keep an input of the model that has a default (an initializer that is an input, too, from IR version 4 on) as an "
     "input of the program, which has no defaults; else it is a constant. --input NAME=SPEC of a model keeps it, too"},
    END_OF_OPTIONS,
};

const struct option machine_options[] = {
    {"tune", 0, NULL, OPTION_FLAG, offsetof(struct model_flags, tune), 0, 0,
     "measure how each convolution is computed fastest on this machine, and let the program do that; else a table of "
     "estimates chooses"},
    {"kernel-library", 0, NULL, OPTION_FLAG, offsetof(struct model_flags, kernel_library), 0, 0,
     "make groups of neighboring instructions one function each of a kernel library, with the C compiler; the program "
     "runs without it too"},
    END_OF_OPTIONS,
};

const struct option limit_options[] = {
    {"max-memory", 0, "SIZE", OPTION_SIZE, offsetof(struct limit_flags, max_memory), 0, 0,
     "bytes that compiling a model, and then a session and its inputs, may hold at once, as 512M; 0: no limit"},
    {"timeout-ms", 0, "MS", OPTION_INT, offsetof(struct limit_flags, timeout_ms), 0, INT64_MAX / 1000000,
     "stop compiling a model, making its inputs, or a run, that takes longer; 0: no limit"},
    END_OF_OPTIONS,
};

/* ---- Dimensions ---- */

int64_t dims_find(const struct dims *dims, const char *name)
{
    for (size_t i = 0; i < dims->count && name != NULL; i++)
        if (strcmp(dims->items[i].name, name) == 0)
            return dims->items[i].value;
    return -1;
}

bool dims_add(struct dims *dims, const char *name, int64_t value)
{
    int64_t known = dims_find(dims, name);
    if (known >= 0)
        return known == value;
    dims->items = memory_append(dims->items, dims->count, sizeof *dims->items);
    dims->items[dims->count++] = (xcc_dim){memory_text(name), value};
    return true;
}

xcvm_status dims_parse(const struct text_list *texts, struct dims *dims, xcvm_error *error)
{
    *dims = (struct dims){0};
    for (size_t i = 0; i < texts->count; i++) {
        const char *equals = strrchr(texts->items[i], '=');
        int64_t size;
        bool good = equals != NULL && equals != texts->items[i] && parse_int(equals + 1, &size) && size >= 0;
        if (good) {
            char *name = memory_text_n(texts->items[i], (size_t)(equals - texts->items[i]));
            good = dims_add(dims, name, size);
            free(name);
        }
        if (!good) {
            dims_release(dims);
            return error_set(error, XCVM_INVALID_ARGUMENT, "--dim=%.100s: wanted NAME=SIZE, one size for each name",
                             texts->items[i]);
        }
    }
    return XCVM_OK;
}

void dims_release(struct dims *dims)
{
    for (size_t i = 0; i < dims->count; i++)
        free((char *)(uintptr_t)dims->items[i].name);
    free(dims->items);
    *dims = (struct dims){0};
}

/* ---- The compiler's options ---- */

static xcc_integer_use integers_of(const char *name)
{
    return strcmp(name, "always") == 0  ? XCC_INTEGER_ALWAYS
           : strcmp(name, "never") == 0 ? XCC_INTEGER_NEVER
                                        : XCC_INTEGER_AUTO;
}

static xcc_weight_blocks weight_blocks(const char *weights)
{
    static const char *const names[] = {"", "q8", "q4", "q4a"};
    for (size_t i = 1; i < COUNT_OF(names); i++)
        if (strcmp(weights, names[i]) == 0)
            return (xcc_weight_blocks)i;
    return XCC_WEIGHTS_PLAIN;
}

struct read_limits reading_limits(const struct limit_flags *limits)
{
    return (struct read_limits){.bytes = limits->max_memory,
                                .until =
                                    limits->timeout_ms != 0 ? now_seconds() + (double)limits->timeout_ms * 1e-3 : 0};
}

xcc_options compiler_options(const struct model_flags *flags, const struct limit_flags *limits, const struct dims *dims)
{
    return (xcc_options){.size = sizeof(xcc_options),
                         .dims = dims->items,
                         .dim_count = dims->count,
                         /* The command line counts from 0 on, which the compiler takes for its default. */
                         .optimization = flags->optimization == 0 ? -1 : (int)flags->optimization,
                         .debug.plain_layout = strcmp(flags->layout, "plain") == 0,
                         .weights.dtype = xcvm_dtype_from_name(flags->weights),
                         .quantized.integers = integers_of(flags->integer),
                         .weights.blocks = weight_blocks(flags->weights),
                         .weights.integer_activations = strcmp(flags->activations, "int8") == 0,
                         .weights.compute = xcvm_dtype_from_name(flags->compute),
                         .default_inputs = flags->keep_inputs.items,
                         .default_input_count = flags->keep_inputs.count,
                         .tune = flags->tune,
                         .flush_subnormals = flags->flush_subnormals,
                         .inference = flags->inference,
                         .diagnostics = {model_note, NULL},
                         .limits.memory_bytes = (size_t)limits->max_memory,
                         .limits.timeout_ns = (uint64_t)limits->timeout_ms * 1000000};
}

void model_note(void *user, xcc_diagnostic_kind kind, const char *text)
{
    char *line = memory_text(text);
    make_printable(line); /* it names nodes of the model */
    const bool form = kind == XCC_DIAGNOSTIC_TRAINING_FORM, warns = form || kind == XCC_DIAGNOSTIC_STATISTICS;
    const char *path = user;
    report_line("%s: %s%s%s%s", warns ? "warning" : "note", path != NULL ? path : "", path != NULL ? ": " : "", line,
                form ? "; --inference takes the model in inference form" : "");
    free(line);
}

void model_options_given(const struct model_flags *flags, struct buffer *names)
{
    static const struct model_flags usual = MODEL_DEFAULTS;
    static const struct option *const tables[] = {model_options, machine_options};
    const char *given[16];
    size_t count = 0;
    for (size_t t = 0; t < COUNT_OF(tables); t++)
        for (const struct option *option = tables[t]; option->name != NULL; option++)
            if (option_differs(option, flags, &usual) && count < COUNT_OF(given))
                given[count++] = option->name;
    for (size_t i = 0; i < count; i++)
        buffer_format(names, "%s--%s", i == 0 ? "" : i + 1 == count ? " and " : ", ", given[i]);
}
