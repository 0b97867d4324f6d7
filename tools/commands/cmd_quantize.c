/* `xcvm quantize`: converts a model to integers. */
#include "commands/commands.h"
#include "commands/quantize_report.h"
#include "cli/memory.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "io/file.h"
#include "io/output.h"
#include "training/calibration.h"
#include "training/columns.h"
#include "run/model_options.h"
#include "training/quantize_picture.h"
#include "run/rewrite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct quantize_flags {
    struct text_list data, inputs;
    int64_t batch, samples;

    const char *method, *form, *activations, *weights, *rounding;
    double percentile, averaging;
    int64_t block;
    bool per_tensor, symmetric_activations, asymmetric_weights, equalize, no_channel_scaling, correct_bias,
        training_form, sensitivity;
    struct text_list nodes, exclude_nodes, types, exclude_types;
    const char *max_error, *max_mean_error, *min_agreement, *held_out;

    const char *output, *picture;
    int64_t rows;

    struct text_list dims;
    int64_t threads;
    uint64_t max_memory;
    double timeout;
};

#define AT(member) offsetof(struct quantize_flags, member)

static const struct option data_options[] = {
    {"data", 'd', "PATH", OPTION_LIST, AT(data), 0, 0,
     "inputs like those that the model will see. PATH is a .npz, .safetensors or .npy file, an image, a pattern or a "
     "directory of these, or a directory with a directory of images for each class. Without data, ranges are computed "
     "in each run"},
    {"input", 'i', "NAME=ARRAY[*FACTOR]", OPTION_LIST, AT(inputs), 0, 0,
     "array of an input; the default is the array of the same name. The factor is a number or 1/255. It "
     "multiplies the numbers of the array, or the bytes of images in files. For images in files, *1/255 (from 0 to 1) "
     "is the default, and *1 keeps 0 to 255"},
    {"batch", 'b', "N", OPTION_INT, AT(batch), 0, INT32_MAX, "examples in a batch; 0: the model's own number, or 8"},
    {"samples", 0, "N", OPTION_INT, AT(samples), 0, INT64_MAX,
     "use the first N examples; 0: all. Images of a folder of classes are taken in a mixed order"},
    {"held-out", 0, "SHARE", OPTION_TEXT, AT(held_out), 0, 0,
     "share of the batches, the last ones, to measure with and not to calibrate with; the default is a fifth of 5 or "
     "more batches"},
    END_OF_OPTIONS,
};

#define METHOD_CHOICE(method, name) "|" name

static const struct option own_options[] = {
    {"method", 0, QUANTIZE_METHOD_DEFAULT QUANTIZE_METHODS(METHOD_CHOICE), OPTION_CHOICE, AT(method), 0, 0,
     "ranges of activations: minimum and maximum (minmax), their moving averages over batches (moving), or the "
     "threshold of least Kullback-Leibler divergence (entropy). Also the range that contains --percentile, that of "
     "least squared error (mse), or minmax extended by the tail of the batches' extremes (tail). auto is mse. If "
     "--max-error or --max-mean-error does not hold with it, auto is minmax, or, for --max-error, tail if held-out "
     "inputs exceed the calibrated range by far"},
    {"percentile", 0, "P", OPTION_REAL, AT(percentile), 0, 0,
     "percentage of the elements in the range of --method percentile"},
    {"averaging", 0, "C", OPTION_REAL, AT(averaging), 0, 0, "weight of a new batch in --method moving"},
    {"form", 0, "qdq|qoperator", OPTION_CHOICE, AT(form), 0, 0,
     "float operators between QuantizeLinear and DequantizeLinear, or integer operators such as QLinearConv"},
    {"activations", 0, "u8|i8|u16|i16|f32", OPTION_CHOICE, AT(activations), 0, 0,
     "type of activations; f32 quantizes weights only"},
    {"weights", 0, "i8|u8|i4|u4", OPTION_CHOICE, AT(weights), 0, 0,
     "type of weights; i4 and u4 quantize matrix products in blocks, with activations of f32"},
    {"block", 0, "N", OPTION_INT, AT(block), 16, 65536, "number of 4-bit weights that share a scale, a power of two"},
    {"rounding", 0, "auto|nearest|gptq", OPTION_CHOICE, AT(rounding), 0, 0,
     "rounding of weights: each to the nearest level, or with the least error of sums on the data (GPTQ); auto: GPTQ "
     "with data"},
    {"per-tensor", 0, NULL, OPTION_FLAG, AT(per_tensor), 0, 0,
     "one scale for all weights of a node instead of one per output channel"},
    {"symmetric-activations", 0, NULL, OPTION_FLAG, AT(symmetric_activations), 0, 0,
     "zero points in the middle of the type"},
    {"asymmetric-weights", 0, NULL, OPTION_FLAG, AT(asymmetric_weights), 0, 0, "also give weights zero points"},
    {"equalize", 0, NULL, OPTION_FLAG, AT(equalize), 0, 0,
     "first scale the channels between two convolutions so that the weights of both have the same range; for "
     "--per-tensor"},
    {"no-channel-scaling", 0, NULL, OPTION_FLAG, AT(no_channel_scaling), 0, 0,
     "keep the channels of activations as they are; by default, channels between convolutions are scaled so that their "
     "ranges are more alike, which changes float results by rounding only"},
    {"correct-bias", 0, NULL, OPTION_FLAG, AT(correct_bias), 0, 0,
     "correct biases for the mean error of rounded weights"},
    {"training-form", 0, NULL, OPTION_FLAG, AT(training_form), 0, 0,
     "keep nodes in training form; by default BatchNormalization uses running statistics, so that it can be merged, "
     "and "
     "Dropout does nothing"},
    {"nodes", 0, "PATTERN", OPTION_LIST, AT(nodes), 0, 0, "quantize only these nodes, such as 'layer1.*'"},
    {"exclude-nodes", 0, "PATTERN", OPTION_LIST, AT(exclude_nodes), 0, 0, "keep these nodes in float"},
    {"types", 0, "OPERATOR", OPTION_LIST, AT(types), 0, 0, "quantize only nodes of these operators, such as Conv"},
    {"exclude-types", 0, "OPERATOR", OPTION_LIST, AT(exclude_types), 0, 0, "keep nodes of these operators in float"},
    {"max-error", 0, "X", OPTION_TEXT, AT(max_error), 0, 0,
     "let the most harmful nodes compute in floats until no element of an output differs by more than this share of "
     "its range, such as 0.02. Their weights keep 8 bits where these suffice. The bound holds on the held-out inputs, "
     "and, as predicted, on others"},
    {"max-mean-error", 0, "X", OPTION_TEXT, AT(max_mean_error), 0, 0,
     "the same for the mean error of each output, such as 0.002; for detectors, whose outputs have arbitrary elements"},
    {"min-agreement", 0, "[OUTPUT=]SHARE", OPTION_TEXT, AT(min_agreement), 0, 0,
     "the same until this share of the rows, such as 0.99, has the greatest element of floats. The greatest element "
     "is the class of a classifier. The bound holds for every output, or for one"},
    {"sensitivity", 0, NULL, OPTION_FLAG, AT(sensitivity), 0, 0,
     "list the nodes in the order of their harm, and measure the outputs with 1, 2, ... of them in float. This takes a "
     "measurement of all held-out inputs for each node"},
    END_OF_OPTIONS,
};

static const struct option file_options[] = {
    {"output", 'o', "FILE", OPTION_FILE, AT(output), 0, 0,
     "result: the quantized model if the name ends in .onnx, else a program; - writes to standard output, and the "
     "tables to standard error"},
    {"picture", 0, "FILE.svg", OPTION_OUTPUT, AT(picture), 0, 0,
     "write the errors of the tensors as a picture, worst first"},
    {"rows", 0, "N", OPTION_INT, AT(rows), 0, INT32_MAX,
     "rows to print of each table, except for the nodes kept in float for a bound; 0: all"},
    END_OF_OPTIONS,
};

static const struct option machine_options_of_quantize[] = {
    {"dim", 0, "NAME=SIZE", OPTION_LIST, AT(dims), 0, 0, "fix a named dimension of the model's inputs while measuring"},
    {"threads", 't', "N", OPTION_INT, AT(threads), 0, 1024, "number of threads; 0: as many as the processor allows"},
    {"max-memory", 0, "SIZE", OPTION_SIZE, AT(max_memory), 0, 0,
     "memory limit of the quantizer, of each run, and of the data that are read, such as 512M; 0: no limit"},
    {"timeout", 0, "SECONDS", OPTION_REAL, AT(timeout), 0, 0, "time limit; 0: none"},
    END_OF_OPTIONS,
};

static const struct option_group groups[] = {
    {"Data", data_options, 0},
    {"Quantization", own_options, 0},
    {"Results", file_options, 0},
    {"Machine", machine_options_of_quantize, 0},
};

static const struct quantize_flags defaults = {.method = QUANTIZE_METHOD_DEFAULT,
                                               .form = "qdq",
                                               .activations = "u8",
                                               .weights = "i8",
                                               .rounding = "auto",
                                               .percentile = 99.999,
                                               .averaging = 0.01,
                                               .block = 32,
                                               .rows = 10};

struct quantizing {
    const struct quantize_flags *flags;
    const char *model;
    xcc_quantizer_options options;
    struct dims dims;
    struct columns columns;
    xcc_quantizer *quantizer;
    struct calibration calibration;
    struct progress progress;
    char *agreement_output;
};

/* ---- The command line ---- */

static bool parse_share(const char *name, const char *text, double *share)
{
    if (text == NULL)
        return true;
    if (parse_real(text, share) && *share > 0 && *share <= 1)
        return true;
    report_usage("--%s=%s: a share is needed, above 0 and at most 1. Two percent is 0.02", name, text);
    return false;
}

/* Names may contain any character, so the share follows the last '='. */
static bool parse_agreement(struct quantizing *t)
{
    const char *text = t->flags->min_agreement, *equals = text != NULL ? strrchr(text, '=') : NULL;
    if (!parse_share("min-agreement", equals != NULL ? equals + 1 : text, &t->options.min_agreement))
        return false;
    if (equals != NULL) {
        t->agreement_output = memory_text_n(text, (size_t)(equals - text));
        t->options.agreement_output = t->agreement_output;
    }
    return true;
}

static xcc_range_method method_of(const char *name)
{
    size_t method = 0;
    while (strcmp(quantize_method_names[method], name) != 0) /* one of the choices */
        method++;
    return (xcc_range_method)method;
}

static xcc_rounding rounding_of(const char *name)
{
    return strcmp(name, "gptq") == 0      ? XCC_ROUNDING_GPTQ
           : strcmp(name, "nearest") == 0 ? XCC_ROUNDING_NEAREST
                                          : XCC_ROUNDING_DEFAULT;
}

static void show(void *user, const char *what, double fraction)
{
    struct quantizing *t = user;
    progress_show(&t->progress, what, fraction);
}

/* Options that need no parsing. */
static xcc_quantizer_options options_of(struct quantizing *t)
{
    const struct quantize_flags *f = t->flags;
    return (xcc_quantizer_options){.size = sizeof t->options,
                                   .dims = t->dims.items,
                                   .dim_count = t->dims.count,
                                   .threads = (int)f->threads,
                                   .memory_limit = (size_t)f->max_memory,
                                   .timeout_ns = (uint64_t)(fmin(f->timeout, 1e9) * 1e9),
                                   .method = method_of(f->method),
                                   .percentile = f->percentile,
                                   .averaging = f->averaging,
                                   .form = strcmp(f->form, "qdq") == 0 ? XCC_FORM_QDQ : XCC_FORM_QOPERATOR,
                                   .activations = xcvm_dtype_from_name(f->activations),
                                   .weights = xcvm_dtype_from_name(f->weights),
                                   .block = f->block,
                                   .rounding = rounding_of(f->rounding),
                                   .per_tensor = f->per_tensor,
                                   .symmetric_activations = f->symmetric_activations,
                                   .asymmetric_weights = f->asymmetric_weights,
                                   .equalize = f->equalize,
                                   .no_channel_scaling = f->no_channel_scaling,
                                   .correct_bias = f->correct_bias,
                                   .training_form = f->training_form,
                                   .sensitivity = f->sensitivity,
                                   .nodes = f->nodes.items,
                                   .node_count = f->nodes.count,
                                   .exclude_nodes = f->exclude_nodes.items,
                                   .exclude_node_count = f->exclude_nodes.count,
                                   .types = f->types.items,
                                   .type_count = f->types.count,
                                   .exclude_types = f->exclude_types.items,
                                   .exclude_type_count = f->exclude_types.count,
                                   .progress = {show, t}};
}

/* Refuses options that contradict each other. */
static bool are_compatible(const struct quantize_flags *f)
{
    if (f->data.count == 0 && (f->max_error != NULL || f->max_mean_error != NULL || f->min_agreement != NULL ||
                               f->sensitivity || f->correct_bias || f->held_out != NULL || f->picture != NULL ||
                               rounding_of(f->rounding) == XCC_ROUNDING_GPTQ)) {
        report_usage(
            "without --data nothing is measured: --max-error, --max-mean-error, --min-agreement, --sensitivity, "
            "--correct-bias, --rounding gptq, --held-out and --picture need it");
        return false;
    }
    /* u8 is the default, so the user may not have chosen it. */
    if (strchr(f->weights, '4') != NULL && strcmp(f->activations, "f32") != 0 && strcmp(f->activations, "u8") != 0) {
        report_usage("with --weights %s activations stay f32: --activations %s needs weights of 8 bits", f->weights,
                     f->activations);
        return false;
    }
    return true;
}

/* Reports whether a file to write is also read, or written twice. */
static bool check_targets(const struct quantizing *t)
{
    const char *output = t->flags->output, *picture = t->flags->picture;
    const char *own = file_is_one_target(output, t->model) ? output : picture;
    if (file_is_one_target(own, t->model)) {
        report_usage("%s is the model itself; choose another file for the result", own);
        return false;
    }
    if (picture != NULL &&
        (file_is_one_target(output, picture) || (strcmp(output, "-") == 0 && strcmp(picture, "-") == 0))) {
        report_usage("--output and --picture name the same file, %s; choose two", picture);
        return false;
    }
    return true;
}

static bool read_flags(struct quantizing *t)
{
    const struct quantize_flags *f = t->flags;
    xcvm_error error;
    if (f->output == NULL) {
        report_usage("-o is needed: name the file of the quantized model, such as -o model.q.onnx");
        return false;
    }
    if (!columns_add_inputs(&t->columns, &f->inputs))
        return false;
    if (dims_parse(&f->dims, &t->dims, &error) != XCVM_OK) {
        report_usage("%s", error.message);
        return false;
    }
    t->options = options_of(t);
    return parse_share("max-error", f->max_error, &t->options.max_error) &&
           parse_share("max-mean-error", f->max_mean_error, &t->options.max_mean_error) && parse_agreement(t) &&
           parse_share("held-out", f->held_out, &t->options.held_out) && are_compatible(f) && check_targets(t) &&
           rewrite_check_name(f->output) == EXIT_OK;
}

/* ---- Output ---- */

static xcvm_status write_output(const struct quantizing *t, xcvm_error *error)
{
    const char *path = t->flags->output;
    const xcc_options options = {.size = sizeof options,
                                 .dims = t->dims.items,
                                 .dim_count = t->dims.count,
                                 .limits.memory_bytes = t->options.memory_limit,
                                 .limits.timeout_ns = t->options.timeout_ns};
    struct buffer model = {0};
    xcvm_status status = xcc_quantizer_save(t->quantizer, (xcvm_sink){buffer_sink, &model}, error);
    if (status == XCVM_OK)
        status = rewrite_model(&model, path, &options, error);
    buffer_release(&model);
    return status;
}

static xcvm_status write_picture(const struct quantizing *t, xcvm_error *error)
{
    if (t->flags->picture == NULL)
        return XCVM_OK;
    struct buffer picture = {0};
    char *title = file_base_name(t->model);
    quantize_picture(&picture, t->quantizer, title);
    free(title);
    xcvm_status status = output_write(t->flags->picture, picture.data, picture.length, error);
    buffer_release(&picture);
    return status;
}

/* ---- The command ---- */

/* *about becomes the subject of a failure. */
static xcvm_status quantize(struct quantizing *t, const char **about, xcvm_error *error)
{
    TRY(output_check(t->flags->output, error));
    TRY(output_check(t->flags->picture, error));
    *about = t->model;
    TRY(xcc_quantizer_create_file(t->model, &t->options, &t->quantizer, error));
    const bool with_data = t->flags->data.count > 0;
    if (with_data) {
        *about = NULL;
        const struct limit_flags limits = {t->flags->max_memory, (int64_t)ceil(fmin(t->flags->timeout, 1e9) * 1e3)};
        TRY(calibration_open(&t->calibration, t->quantizer, &t->flags->data, t->columns.items, t->columns.count,
                             t->flags->batch, t->flags->samples, &limits, error));
        data_skipped_print(t->calibration.data);
        for (size_t i = 0; i < xcc_quantizer_input_count(t->quantizer); i++)
            columns_print_scales(&t->columns, t->calibration.data, xcc_quantizer_input_at(t->quantizer, i)->name);
        TRY(rewrite_no_data(t->calibration.data, t->flags->output, error));
        TRY(rewrite_no_data(t->calibration.data, t->flags->picture, error));
        *about = t->model;
    }
    TRY(xcc_quantizer_run(t->quantizer, with_data ? &t->calibration.source : NULL, error));
    *about = NULL;
    TRY(write_output(t, error));
    return write_picture(t, error);
}

static void release(struct quantizing *t)
{
    xcc_quantizer_destroy(t->quantizer);
    calibration_close(&t->calibration);
    columns_release(&t->columns);
    free(t->agreement_output);
    dims_release(&t->dims);
}

static int execute_quantize(const void *own, const struct arguments *arguments)
{
    struct quantizing t = {.flags = own, .model = arguments->items[0]};
    xcvm_error error = {.pc = -1};
    const char *about = NULL;
    int code = EXIT_USAGE;
    output_reserve(t.flags->output);
    output_reserve(t.flags->picture);
    if (read_flags(&t)) {
        progress_start(&t.progress);
        xcvm_status status = quantize(&t, &about, &error);
        progress_end(&t.progress);
        if (status == XCVM_OK)
            quantize_report_print(t.quantizer, &t.options, t.flags->rows);
        code = status == XCVM_OK ? EXIT_OK : report_error(about, &error);
    }
    release(&t);
    return code;
}

static const struct example examples[] = {
    {"mnist.onnx -d digits.npz -i 'image=images*1/16' -o mnist.q.onnx",
     "8-bit activations and weights, for inputs like those in the file"},
    {"mnist.onnx -d digits.npz -i 'image=images*1/16' --held-out 0.34 --min-agreement 0.99 -o mnist.q.onnx",
     "let as many nodes compute in floats as 99 % of the classes need"},
    {"detector.onnx -d photos --held-out 0.34 --max-mean-error 0.002 -o prog.bin",
     "let as many nodes compute in floats as a mean error of 0.2 % needs, and write a program"},
    {"mnist.onnx -o mnist.q.onnx", "compute ranges of activations in each run, without data"},
    {"mnist.onnx --weights i4 --block 32 -o mnist.q4.onnx", "4-bit matrices in blocks of 32 weights"},
    {"net.onnx -d photos --method entropy --exclude-types Gemm --picture errors.svg -o net.q.onnx",
     "calibrate with images, keep the last layer in float, and draw the errors"},
};

const struct command command_quantize = {
    .name = "quantize",
    .summary = "convert a model to integers",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "Writes an ONNX model, or a program, whose convolutions and matrix products use 8-bit numbers instead of "
        "floats: real = scale * (q - zero_point). It is a quarter as large, and faster if the processor multiplies "
        "bytes.\n\n"
        "Scales of activations come from inputs like those that the model will see, --data. Some hundred examples are "
        "enough, and memory does not grow with their number. The first axis of every array counts examples. Without "
        "data, scales are computed in each run, which recurrent networks and transformers tolerate best. Weights have "
        "a scale per output channel.\n\n"
        "The result is measured on examples that were not used for calibration. The first table has the errors of the "
        "outputs, as shares of their range. \"same greatest\" is the share of the rows whose greatest element stays "
        "the same, or of the elements of an integer output. The columns \"predicted\" are 90 % limits for as many "
        "further "
        "examples. The second table has the rounded tensors, those with the least "
        "signal-to-quantization-noise "
        "ratio "
        "(SQNR) first. With a bound or --sensitivity, the third lists nodes, the most harmful first. The last one has "
        "the other nodes in float, with the reason.\n\n"
        "If an application's decisions change, hold out a third of at least 100 inputs (--held-out 0.34) and give a "
        "bound. "
        "A classifier needs --min-agreement 0.99. For a detector, give --max-mean-error with half of the mean error in "
        "the first table, and halve it until the decisions are right. Nodes that break a bound compute in floats, with "
        "weights of 8 bits where these suffice, which take a quarter of the space.\n\n"
        "BatchNormalization is merged into convolutions first, and Relu and Clip become ends of ranges.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct quantize_flags),
    .run = execute_quantize,
};
