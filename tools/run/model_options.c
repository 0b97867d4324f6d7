/* Compiler options of the subcommands, and how they become xcc_options. */
#include "run/model_options.h"
#include "cli/buffer.h"
#include "cli/clock.h"
#include "cli/progress.h"
#include "cli/memory.h"
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

const struct option shared_options[] = {
    {"dim", 0, "NAME=SIZE", OPTION_LIST, offsetof(struct model_flags, dims), 0, 0,
     "set the size of an open dimension of the inputs of a model or program; may be repeated. A dimension without a "
     "name is INPUT.AXIS, for example x.0"},
    {"flush-subnormals", 0, NULL, OPTION_FLAG, offsetof(struct model_flags, flush_subnormals), 0, 0,
     "treat subnormal numbers (f32 below 1.2e-38) as zero, in folded constants and in runs"},
    END_OF_OPTIONS,
};

const struct option model_options[] = {
    {"optimize", 'O', "LEVEL", OPTION_INT, offsetof(struct model_flags, optimization), 0, 2,
     "optimization level: 0 only what a run needs, 1 no operator fusion, 2 everything"},
    {"inference", 0, NULL, OPTION_FLAG, offsetof(struct model_flags, inference), 0, 0,
     "convert a model in training form for inference: BatchNormalization uses its running statistics, and Dropout has "
     "no effect. Without this option, the model does what ONNX specifies, and a warning names such nodes"},
    {"layout", 0, "blocked|plain", OPTION_CHOICE, offsetof(struct model_flags, layout), 0, 0,
     "layout of convolutions: channels in blocks of 16 where that is faster, or as in the model"},
    {"weights", 0, "f32|f24|f16|bf16|q8|q4|q4a", OPTION_CHOICE, offsetof(struct model_flags, weights), 0, 0,
     "storage type of the constant weights of matrix products, convolutions, recurrent networks and embeddings. All "
     "types but f32 round them. With q8, q4 and q4a, products and embeddings store 8 or 4 bits for each weight and a "
     "scale for each block of 32"},
    {"activations", 0, "f32|int8", OPTION_CHOICE, offsetof(struct model_flags, activations), 0, 0,
     "operands that products multiply by weights in blocks: as they are, or rounded to 8 bits with a scale for each "
     "block"},
    {"compute", 0, "f32|bf16", OPTION_CHOICE, offsetof(struct model_flags, compute), 0, 0,
     "round the operands of matrix products with constants and of most convolutions to this type; sums are f32. "
     "Excluded are depthwise convolutions, convolutions of the model's inputs, and Winograd's algorithm"},
    {"integer", 0, "auto|always|never", OPTION_CHOICE, offsetof(struct model_flags, integer), 0, 0,
     "compute quantized models in integers: where that is faster on this machine, wherever possible, or never (as "
     "dequantized floats)"},
    {"keep-input", 0, "NAME", OPTION_LIST, offsetof(struct model_flags, keep_inputs), 0, 0,
     "keep an input that has a default (from IR version 4 on, an initializer that is also an input). Without this "
     "option, such an input becomes a constant. --input NAME=SPEC also keeps it, if the model is compiled in memory"},
    END_OF_OPTIONS,
};

const struct option machine_options[] = {
    {"tune", 0, NULL, OPTION_FLAG, offsetof(struct model_flags, tune), 0, 0,
     "measure the fastest algorithm of each convolution on this machine and use it. Without this option, a table of "
     "estimates decides"},
    {"kernel-library", 0, NULL, OPTION_FLAG, offsetof(struct model_flags, kernel_library), 0, 0,
     "compile groups of neighboring instructions to the functions of a kernel library, with the C compiler. The "
     "program also runs without the library"},
    END_OF_OPTIONS,
};

const struct option limit_options[] = {
    {"max-memory", 0, "SIZE", OPTION_SIZE, offsetof(struct limit_flags, max_memory), 0, 0,
     "limit in bytes for compiling a model, and then for a session with its inputs, for example 512M; 0: no limit"},
    {"timeout-ms", 0, "MS", OPTION_INT, offsetof(struct limit_flags, timeout_ms), 0, INT64_MAX / 1000000,
     "stop compiling a model, making its inputs, or a run after this time; 0: no limit"},
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

char *dims_name(const xcvm_value_info *input, int axis)
{
    const char *name = input->type.dim_names[axis];
    if (name != NULL && *name != '\0')
        return memory_text(name);
    struct buffer text = {0};
    buffer_format(&text, "%s.%d", input->name, axis);
    char *made = memory_text(buffer_string(&text));
    buffer_release(&text);
    return made;
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
            return error_set(error, XCVM_INVALID_ARGUMENT,
                             "--dim=%.100s: expected NAME=SIZE, with one size for each name", texts->items[i]);
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
                         /* The compiler uses 0 for its default level, and -1 for level 0. */
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
    make_printable(line); /* names of nodes come from the model */
    const bool form = kind == XCC_DIAGNOSTIC_TRAINING_FORM, warns = form || kind == XCC_DIAGNOSTIC_STATISTICS;
    const char *path = user;
    report_line("%s: %s%s%s%s", warns ? "warning" : "note", path != NULL ? path : "", path != NULL ? ": " : "", line,
                form ? ". --inference converts the model" : "");
    free(line);
}

void model_options_given(const struct model_flags *flags, struct buffer *names)
{
    static const struct model_flags usual = MODEL_DEFAULTS;
    static const struct option *const tables[] = {model_options, machine_options, state_options};
    const void *given_of[] = {flags, flags, &flags->states}, *usual_of[] = {&usual, &usual, &usual.states};
    const char *given[32];
    size_t count = 0;
    for (size_t t = 0; t < COUNT_OF(tables); t++)
        for (const struct option *option = tables[t]; option->name != NULL; option++)
            if (option_differs(option, given_of[t], usual_of[t]) && count < COUNT_OF(given))
                given[count++] = option->name;
    for (size_t i = 0; i < count; i++)
        buffer_format(names, "%s--%s", i == 0 ? "" : i + 1 == count ? " and " : ", ", given[i]);
}
