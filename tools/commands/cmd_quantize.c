/* `xcvm quantize`: a model that computes with integers. */
#include "commands/commands.h"
#include "cli/memory.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/table.h"
#include "io/file.h"
#include "io/output.h"
#include "run/calibration.h"
#include "run/columns.h"
#include "run/model_options.h"
#include "run/quantize_picture.h"
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
    bool per_tensor, symmetric_activations, asymmetric_weights, equalize, correct_bias, training_form;
    struct text_list nodes, exclude_nodes, types, exclude_types;
    const char *max_error, *min_agreement, *held_out;

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
     "inputs like those that the model will see: a .npz or .safetensors file, a pattern or a folder of such files, "
     ".npy files, images, a folder of images, or a folder with a folder of them for each class; without, ranges are "
     "computed in each run"},
    {"input", 'i', "NAME=ARRAY", OPTION_LIST, AT(inputs), 0, 0,
     "which array an input takes; without, that of its own name"},
    {"batch", 'b', "N", OPTION_INT, AT(batch), 0, INT32_MAX, "examples in a batch; 0: the model's own number, or 8"},
    {"samples", 0, "N", OPTION_INT, AT(samples), 0, INT64_MAX, "use the first so many examples; 0: all"},
    {"held-out", 0, "SHARE", OPTION_TEXT, AT(held_out), 0, 0,
     "this share of the batches, the last ones, is measured on and not calibrated with; without, a fifth where there "
     "are 5 and more"},
    END_OF_OPTIONS,
};

/* The methods that --method names, X(method, name), beside the default, which chooses among them. */
#define METHODS(X)                                                                                                     \
    X(XCC_RANGE_MINMAX, "minmax")                                                                                      \
    X(XCC_RANGE_MOVING, "moving")                                                                                      \
    X(XCC_RANGE_ENTROPY, "entropy")                                                                                    \
    X(XCC_RANGE_PERCENTILE, "percentile")                                                                              \
    X(XCC_RANGE_MSE, "mse")                                                                                            \
    X(XCC_RANGE_TAIL, "tail")
#define METHOD_DEFAULT "auto"
#define METHOD_CHOICE(method, name) "|" name

static const struct option own_options[] = {
    {"method", 0, METHOD_DEFAULT METHODS(METHOD_CHOICE), OPTION_CHOICE, AT(method), 0, 0,
     "how ranges come of what was seen: all of it; averages of the batches' least and greatest; the threshold with the "
     "least Kullback-Leibler divergence; the range that holds --percentile; the range with the least squared error; "
     "all of it and what the tail of the batches' greatest lets expect beyond; auto: mse or, where --max-error does "
     "not "
     "hold with it, minmax, or tail if what is measured on goes far beyond what was seen"},
    {"percentile", 0, "P", OPTION_REAL, AT(percentile), 0, 0, "of --method percentile"},
    {"averaging", 0, "C", OPTION_REAL, AT(averaging), 0, 0, "weight of a new batch in --method moving"},
    {"form", 0, "qdq|qoperator", OPTION_CHOICE, AT(form), 0, 0,
     "float operators between QuantizeLinear and DequantizeLinear, or operators on integers as QLinearConv"},
    {"activations", 0, "u8|i8|u16|i16|f32", OPTION_CHOICE, AT(activations), 0, 0,
     "type of activations; with f32 only weights are quantized"},
    {"weights", 0, "i8|u8|i4|u4", OPTION_CHOICE, AT(weights), 0, 0,
     "type of weights; i4 and u4 in blocks, of matrix products alone, and activations stay f32"},
    {"block", 0, "N", OPTION_INT, AT(block), 16, 65536, "weights of 4 bits that share a scale, a power of two"},
    {"rounding", 0, "auto|nearest|gptq", OPTION_CHOICE, AT(rounding), 0, 0,
     "of weights: each by itself, or so that sums are off least on the data (GPTQ); auto: GPTQ where there are data"},
    {"per-tensor", 0, NULL, OPTION_FLAG, AT(per_tensor), 0, 0,
     "one scale for all weights of a node, in place of one for each output channel"},
    {"symmetric-activations", 0, NULL, OPTION_FLAG, AT(symmetric_activations), 0, 0,
     "zero points in the middle of the type"},
    {"asymmetric-weights", 0, NULL, OPTION_FLAG, AT(asymmetric_weights), 0, 0, "weights have zero points, too"},
    {"equalize", 0, NULL, OPTION_FLAG, AT(equalize), 0, 0,
     "first scale the channels between two convolutions so that both have weights of the same range"},
    {"correct-bias", 0, NULL, OPTION_FLAG, AT(correct_bias), 0, 0,
     "let biases make up for the mean error of rounded weights"},
    {"training-form", 0, NULL, OPTION_FLAG, AT(training_form), 0, 0,
     "leave nodes in training form as they are; without, BatchNormalization uses running statistics, so that it can be "
     "merged, and Dropout does nothing"},
    {"nodes", 0, "PATTERN", OPTION_LIST, AT(nodes), 0, 0, "quantize these nodes alone, as 'layer1.*'"},
    {"exclude-nodes", 0, "PATTERN", OPTION_LIST, AT(exclude_nodes), 0, 0, "leave these nodes in float"},
    {"types", 0, "OPERATOR", OPTION_LIST, AT(types), 0, 0, "quantize nodes of these operators alone, as Conv"},
    {"exclude-types", 0, "OPERATOR", OPTION_LIST, AT(exclude_types), 0, 0, "leave nodes of these operators in float"},
    {"max-error", 0, "X", OPTION_TEXT, AT(max_error), 0, 0,
     "keep the nodes that harm most in float, until no output is off by more than this share of its range, as 0.02, "
     "nor "
     "likely to be on other inputs of the kind"},
    {"min-agreement", 0, "[OUTPUT=]SHARE", OPTION_TEXT, AT(min_agreement), 0, 0,
     "likewise, until the greatest element of a row, which is the class, stays the same in at least this share of the "
     "rows, as 0.99, in every output or in one, and is likely to on other inputs"},
    END_OF_OPTIONS,
};

static const struct option file_options[] = {
    {"output", 'o', "FILE", OPTION_FILE, AT(output), 0, 0,
     "what comes of it: for a name that ends in .onnx the quantized model, else a program of it; -: to standard "
     "output, and the tables to standard error"},
    {"picture", 0, "FILE.svg", OPTION_FILE, AT(picture), 0, 0, "the errors of the tensors as a picture, worst first"},
    {"rows", 0, "N", OPTION_INT, AT(rows), 0, INT32_MAX, "rows of each table that are printed; 0: all"},
    END_OF_OPTIONS,
};

static const struct option machine_options_of_quantize[] = {
    {"dim", 0, "NAME=SIZE", OPTION_LIST, AT(dims), 0, 0, "fix a named dimension of the model's inputs while measuring"},
    {"threads", 't', "N", OPTION_INT, AT(threads), 0, 1024, "0: as many as the machine allows"},
    {"max-memory", 0, "SIZE", OPTION_SIZE, AT(max_memory), 0, 0,
     "bytes that the work, a run, and what is read of the data may each hold at once, as 512M; 0: no limit"},
    {"timeout", 0, "SECONDS", OPTION_REAL, AT(timeout), 0, 0, "give up after so long; 0: never"},
    END_OF_OPTIONS,
};

static const struct option_group groups[] = {
    {"Data", data_options, 0},
    {"Quantization", own_options, 0},
    {"Results", file_options, 0},
    {"Machine", machine_options_of_quantize, 0},
};

static const struct quantize_flags defaults = {.method = METHOD_DEFAULT,
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
    if (parse_real(text, share) && *share > 0)
        return true;
    report_usage("--%s=%s: a number above 0 is needed", name, text);
    return false;
}

/* Names may hold any character, so the share is what stands behind the last '='. */
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

#define METHOD_NAME(method, name) [method] = name,
static const char *const method_names[] = {[XCC_RANGE_DEFAULT] = METHOD_DEFAULT, METHODS(METHOD_NAME)};

static xcc_range_method method_of(const char *name)
{
    size_t method = 0;
    while (strcmp(method_names[method], name) != 0) /* one of the choices */
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

/* The options as they stand on the command line; what is written with a unit or a name is parsed behind them. */
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
                                   .correct_bias = f->correct_bias,
                                   .training_form = f->training_form,
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
    if (f->data.count == 0 &&
        (f->max_error != NULL || f->min_agreement != NULL || f->correct_bias || f->held_out != NULL ||
         f->picture != NULL || rounding_of(f->rounding) == XCC_ROUNDING_GPTQ)) {
        report_usage("without --data nothing is measured: --max-error, --min-agreement, --correct-bias, "
                     "--rounding gptq, --held-out and --picture need it");
        return false;
    }
    /* u8 is the default, and may be what nobody asked for. */
    if (strchr(f->weights, '4') != NULL && strcmp(f->activations, "f32") != 0 && strcmp(f->activations, "u8") != 0) {
        report_usage("with --weights %s activations stay f32: --activations %s needs weights of 8 bits", f->weights,
                     f->activations);
        return false;
    }
    return true;
}

/* Files that are written must be none that are read, nor each other; if one is, that has been said. */
static bool check_targets(const struct quantizing *t)
{
    const char *output = t->flags->output, *picture = t->flags->picture;
    const char *own = file_is_one_target(output, t->model) ? output : picture;
    if (file_is_one_target(own, t->model)) {
        report_usage("%s is the model itself; what is written wants a file of its own", own);
        return false;
    }
    if (picture != NULL &&
        (file_is_one_target(output, picture) || (strcmp(output, "-") == 0 && strcmp(picture, "-") == 0))) {
        report_usage("--output and --picture are one file, %s", picture);
        return false;
    }
    return true;
}

static bool read_flags(struct quantizing *t)
{
    const struct quantize_flags *f = t->flags;
    xcvm_error error;
    if (f->output == NULL) {
        report_usage("-o is needed, the file that the quantized model is written to");
        return false;
    }
    if (!columns_add_inputs(&t->columns, &f->inputs))
        return false;
    if (dims_parse(&f->dims, &t->dims, &error) != XCVM_OK) {
        report_usage("%s", error.message);
        return false;
    }
    t->options = options_of(t);
    return parse_share("max-error", f->max_error, &t->options.max_error) && parse_agreement(t) &&
           parse_share("held-out", f->held_out, &t->options.held_out) && are_compatible(f) && check_targets(t) &&
           rewrite_check_name(f->output) == EXIT_OK;
}

/* ---- What is printed ---- */

/* Whether row `index` is to be printed; tells how many are not behind the last one. */
static bool in_rows(const struct quantizing *t, size_t index)
{
    return t->flags->rows == 0 || index < (size_t)t->flags->rows;
}

static void print_left(size_t count, size_t shown, const char *what)
{
    if (count > shown)
        printf("and %zu more %s; --rows 0 prints all\n", count - shown, what);
}

static const char *printable(char *text, size_t size, const char *name)
{
    snprintf(text, size, "%s", name);
    make_printable(text);
    return text;
}

static void print_share(struct table *table, double share)
{
    if (isnan(share))
        table_cell(table, ">-");
    else
        table_cell(table, ">%.1f", share * 100);
}

static void print_outputs(const struct quantizing *t)
{
    const xcc_quantizer_output_info *o;
    struct table table = {0};
    char name[128];
    if (xcc_quantizer_output_at(t->quantizer, 0) == NULL)
        return;
    static const char *const heads[] = {"output",        ">range",   ">max error %",     ">likely %",
                                        ">mean error %", ">SQNR dB", ">same greatest %", ">likely %"};
    for (size_t i = 0; i < COUNT_OF(heads); i++)
        table_cell(&table, heads[i][0] == '>' ? ">%s" : "%s", heads[i] + (heads[i][0] == '>'));
    table_end_row(&table);
    for (size_t i = 0; (o = xcc_quantizer_output_at(t->quantizer, i)) != NULL; i++) {
        table_cell(&table, "%s", printable(name, sizeof name, o->name));
        if (o->decisions) {
            for (size_t k = 0; k < 5; k++)
                table_cell(&table, ">-");
        } else {
            table_cell(&table, ">%.4g .. %.4g", o->least, o->greatest);
            table_cell(&table, ">%.3f", o->max_error * 100);
            table_cell(&table, ">%.3f", o->likely_error * 100);
            table_cell(&table, ">%.3f", o->mean_error * 100);
            table_cell(&table, ">%.1f", o->sqnr);
        }
        print_share(&table, o->agree);
        print_share(&table, o->likely_agree);
        table_end_row(&table);
    }
    table_print(&table, stdout);
    putchar('\n');
}

static void print_tensors(const struct quantizing *t)
{
    const xcc_quantizer_tensor_info *x;
    struct table table = {0};
    char name[128];
    size_t count = 0, shown = 0;
    if (xcc_quantizer_tensor_at(t->quantizer, 0) == NULL)
        return;
    static const char *const heads[] = {"tensor", "of", ">SQNR dB", ">max error", ">mean error", ">range", ">seen"};
    for (size_t i = 0; i < COUNT_OF(heads); i++)
        table_cell(&table, heads[i][0] == '>' ? ">%s" : "%s", heads[i] + (heads[i][0] == '>'));
    table_end_row(&table);
    for (; (x = xcc_quantizer_tensor_at(t->quantizer, count)) != NULL; count++) {
        if (!in_rows(t, count))
            continue;
        shown++;
        table_cell(&table, "%s", printable(name, sizeof name, x->name));
        table_cell(&table, "%s", x->op[0] != '\0' ? x->op : "input");
        table_cell(&table, ">%.1f", x->sqnr);
        table_cell(&table, ">%.3g", x->max_error);
        table_cell(&table, ">%.3g", x->mean_error);
        table_cell(&table, ">%.4g .. %.4g", x->low, x->high);
        table_cell(&table, ">%.4g .. %.4g", x->least, x->greatest);
        table_end_row(&table);
    }
    table_print(&table, stdout);
    print_left(count, shown, "tensors");
    putchar('\n');
}

static bool has_float_nodes(const struct quantizing *t)
{
    const xcc_quantizer_node_info *n;
    for (size_t i = 0; (n = xcc_quantizer_node_at(t->quantizer, i)) != NULL; i++)
        if (!n->quantized)
            return true;
    return false;
}

static void print_float_nodes(const struct quantizing *t)
{
    const xcc_quantizer_node_info *n;
    struct table table = {0};
    char name[128];
    size_t count = 0, shown = 0;
    if (!has_float_nodes(t))
        return;
    table_cell(&table, "in float");
    table_cell(&table, "operator");
    table_cell(&table, ">harm %%");
    table_cell(&table, "because");
    table_end_row(&table);
    for (size_t i = 0; (n = xcc_quantizer_node_at(t->quantizer, i)) != NULL; i++) {
        if (n->quantized)
            continue;
        count++;
        if (!in_rows(t, count - 1))
            continue;
        shown++;
        table_cell(&table, "%s", printable(name, sizeof name, n->name));
        table_cell(&table, "%s", n->op);
        if (isnan(n->harm))
            table_cell(&table, ">-");
        else
            table_cell(&table, ">%.3f", n->harm * 100);
        table_cell(&table, "%s", n->reason);
        table_end_row(&table);
    }
    table_print(&table, stdout);
    print_left(count, shown, "nodes in float");
    putchar('\n');
}

/* What was done with which of the data, which tells what the figures are worth. */
static void print_batches(const xcc_quantizer_report *r)
{
    if (r->calibration_batches == 0)
        return;
    const bool same = r->calibration_batches + r->measured_batches > r->data_batches;
    printf("calibrated with %zu batches, %s%s %zu%s; likely: what as many others stay within, nine times in ten\n",
           r->calibration_batches, r->tried_models > 1 ? "nodes chosen by and " : "", "measured on",
           r->measured_batches, same ? ", the same ones" : " others");
}

static void print_report(const struct quantizing *t)
{
    xcc_quantizer_report report = {.size = sizeof report};
    xcc_quantizer_get_report(t->quantizer, &report);
    print_outputs(t);
    print_tensors(t);
    print_float_nodes(t);
    printf("nodes %zu of %zu quantized", report.quantized_nodes, report.node_count);
    if (t->options.max_error > 0 || t->options.min_agreement > 0)
        printf(", %zu kept in float for the bounds", report.kept_nodes);
    if (report.inference_nodes > 0)
        printf(", %zu put into inference form", report.inference_nodes);
    if (report.folded_normalizations > 0)
        printf(", %zu normalizations folded", report.folded_normalizations);
    if (report.equalized_pairs > 0)
        printf(", %zu pairs of convolutions equalized", report.equalized_pairs);
    putchar('\n');
    if (report.tried_models > 1)
        printf("looked for these in %.1f s: %zu nodes judged by themselves, %zu models by all batches\n",
               (double)report.search_ns / 1e9, report.judged_nodes, report.tried_models);
    if (report.tried_models > 1 && t->options.method == XCC_RANGE_DEFAULT && report.method != XCC_RANGE_MSE)
        printf("ranges by --method %s, as the bound of the error did not hold with %s\n", method_names[report.method],
               method_names[XCC_RANGE_MSE]);
    print_batches(&report);
    printf("constants %.2f MB, were %.2f MB\n", (double)report.bytes_after / 1e6, (double)report.bytes_before / 1e6);
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

/* *about is what a failure is about. */
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
            print_report(&t);
        code = status == XCVM_OK ? EXIT_OK : report_error(about, &error);
    }
    release(&t);
    return code;
}

static const struct example examples[] = {
    {"mnist.onnx -d digits.npz -i image=images -o mnist.q.onnx",
     "activations and weights of 8 bits, for inputs like those in the file"},
    {"mnist.onnx -d digits.npz -i image=images --samples 500 --max-error 0.4 -o prog.bin",
     "a program in which as many nodes stay float as it takes to keep every score within 0.4 of the right one"},
    {"mnist.onnx -d digits.npz -i image=images --held-out 0.5 --min-agreement 0.99 -o mnist.q.onnx",
     "as many nodes in float as it takes for 99 % of the other half of the images to get the class that floats give"},
    {"mnist.onnx -o mnist.q.onnx", "ranges of activations computed in each run, without any data"},
    {"mnist.onnx --weights i4 --block 32 -o mnist.q4.onnx", "matrices of 4 bits a weight, in blocks of 32"},
    {"net.onnx -d photos --method entropy --exclude-types Gemm --picture errors.svg -o net.q.onnx",
     "images to calibrate with, the last layer left as it is, and a picture of the errors"},
};

const struct command command_quantize = {
    .name = "quantize",
    .summary = "make a model compute with integers",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "Writes an ONNX model, or a program, whose convolutions and matrix products take numbers of 8 bits for floats: "
        "real = scale * (q - zero_point). It is a quarter as large, and faster where the processor multiplies "
        "bytes.\n\n"
        "Scales of activations come from inputs like those that the model will see, --data; some hundred examples are "
        "enough, and memory does not grow with their number. The first axis of every array counts examples. Without "
        "data, scales are computed in each run, which recurrent networks and transformers bear best. Weights have a "
        "scale for each output channel.\n\n"
        "What this does to the model is measured on examples that were not calibrated with. The first table has the "
        "errors of its outputs, as shares of their range, and how often the greatest element of a row, or an element "
        "of an integer output, stays the same; likely is what as many other examples stay within, nine times in ten, "
        "and what the bounds are about. "
        "The second has the tensors that were rounded, those with the least signal to quantization noise (SQNR) first; "
        "the third the nodes that compute in float, with the reason. If an output is off too far: more data, another "
        "--method, --activations u16, or --max-error and --min-agreement, which keep the nodes that harm most in "
        "float.\n\n"
        "BatchNormalization is merged into convolutions first, and Relu and Clip become the ends of ranges.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct quantize_flags),
    .run = execute_quantize,
};
