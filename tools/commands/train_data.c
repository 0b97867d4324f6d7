/* The data of a training. */
#include "commands/train_data.h"
#include "cli/memory.h"
#include "cli/report.h"
#include "io/file.h"
#include "training/calibration.h"

#include <stdlib.h>
#include <string.h>

/* ---- Classes ---- */

/* Number of classes of the data whose names the trainer has, too. */
static size_t count_known(const xct_trainer *trainer, const xct_dataset *data)
{
    size_t known = 0;
    for (size_t i = 0; i < xct_dataset_class_count(data); i++)
        for (size_t k = 0; k < xct_trainer_class_count(trainer); k++)
            if (strcmp(xct_dataset_class_at(data, i), xct_trainer_class_at(trainer, k)) == 0) {
                known++;
                break;
            }
    return known;
}

static const char **names_of(const xct_trainer *trainer, size_t *count)
{
    *count = xct_trainer_class_count(trainer);
    const char **names = memory_take(*count + 1, sizeof *names);
    for (size_t i = 0; i < *count; i++)
        names[i] = xct_trainer_class_at(trainer, i);
    return names;
}

static xcvm_status take_classes(xct_trainer *trainer, const xct_dataset *data, bool speaks, xcvm_error *error)
{
    const size_t count = xct_dataset_class_count(data);
    const char **names = memory_take(count + 1, sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = xct_dataset_class_at(data, i);
    if (speaks && xct_trainer_class_count(trainer) > 0)
        report_line(
            "note: the model has names of other classes, as \"%s\"; those of the data, as \"%s\", take their place",
            xct_trainer_class_at(trainer, 0), names[0]);
    xcvm_status status = xct_trainer_set_classes(trainer, names, count, error);
    free(names);
    return status;
}

static xcvm_status match(const xct_trainer *trainer, xct_dataset *set, xcvm_error *error)
{
    size_t count;
    const char **names = names_of(trainer, &count);
    xcvm_status status = xct_dataset_set_classes(set, names, count, error);
    free(names);
    return status;
}

xcvm_status train_data_join_classes(xct_trainer *trainer, xct_dataset *data, xct_dataset *validation, bool speaks,
                                    xcvm_error *error)
{
    if (xct_dataset_class_count(data) == 0)
        return validation != NULL && xct_trainer_class_count(trainer) > 0 ? match(trainer, validation, error) : XCVM_OK;
    /* A model that was trained on some of the classes keeps their numbers. */
    TRY(count_known(trainer, data) > 0 ? match(trainer, data, error) : take_classes(trainer, data, speaks, error));
    return validation != NULL ? match(trainer, validation, error) : XCVM_OK;
}

/* ---- Scales ---- */

void train_data_print_scales(const xct_trainer *trainer, const xct_dataset *data, const struct columns *columns)
{
    for (size_t i = 0; i < xct_trainer_input_count(trainer); i++)
        columns_print_scales(columns, data, xct_trainer_input_at(trainer, i)->name);
}

/* ---- Losses ---- */

static const char *labels_of(const struct columns *columns, const char *label)
{
    for (size_t i = 0; label != NULL && i < columns->count; i++)
        if (strcmp(columns->items[i].input, label) == 0 && columns->items[i].array != NULL)
            return columns->items[i].array;
    return label != NULL ? label : "labels";
}

/* Whether all elements are 0 or 1, as floats. */
static bool is_binary(const xcvm_value *value)
{
    const float *singles = xcvm_value_data(value);
    const double *doubles = xcvm_value_data(value);
    const xcvm_dtype dtype = xcvm_value_dtype(value);
    bool good = dtype == XCVM_F32 || dtype == XCVM_F64;
    for (size_t i = 0; good && i < xcvm_value_count(value); i++) {
        const double element = dtype == XCVM_F32 ? (double)singles[i] : doubles[i];
        good = element == 0 || element == 1;
    }
    return good;
}

/* The type of the labels' array, the number of its axes, that number without axes of size 1 at the end, and whether
 * they are floats 0 and 1; false if the array is not found. */
static bool find_labels(const struct text_list *data, const char *name, xcvm_dtype *dtype, int *axes, int *rank,
                        bool *binary)
{
    for (size_t i = 0; i < data->count; i++) {
        xct_arrays *arrays;
        xcvm_value *value;
        if (file_is_folder(data->items[i])) {
            *dtype = XCVM_I64;
            *axes = *rank = 1;
            *binary = false;
            return true;
        }
        if (xct_arrays_load_file(data->items[i], NULL, &arrays, NULL) != XCVM_OK)
            continue;
        size_t index = xct_arrays_find(arrays, name);
        if (index == SIZE_MAX && xct_arrays_count(arrays) == 1 && xct_arrays_name_at(arrays, 0)[0] == '\0')
            index = 0;
        const bool found = index != SIZE_MAX && xct_arrays_read(arrays, index, XCVM_NO_DTYPE, &value, NULL) == XCVM_OK;
        xct_arrays_destroy(arrays);
        if (!found)
            continue;
        *dtype = xcvm_value_dtype(value);
        *binary = is_binary(value);
        *axes = *rank = xcvm_value_rank(value);
        while (*rank > 1 && xcvm_value_dims(value)[*rank - 1] == 1)
            --*rank;
        xcvm_value_release(value);
        return true;
    }
    return false;
}

/* The model's only output of a float type. */
static const xcvm_value_info *only_output(const xcvm_program *program)
{
    const xcvm_value_info *found = NULL;
    for (size_t i = 0; i < xcvm_program_output_count(program); i++) {
        const xcvm_value_info *output = xcvm_program_output_at(program, i);
        const bool floats = output->type.dtype == XCVM_F32 || output->type.dtype == XCVM_F64 ||
                            output->type.dtype == XCVM_F16 || output->type.dtype == XCVM_BF16;
        if (output->type.kind != XCVM_KIND_TENSOR || !floats)
            continue;
        if (found != NULL)
            return NULL;
        found = output;
    }
    return found;
}

static void suggest(const xcvm_type *output, const char *labels, xcvm_dtype dtype, int axes, int rank, bool binary,
                    bool folder)
{
    const int64_t classes = output->rank > 1 ? output->dims[1] : -1;
    const char *loss = xcc_loss_suggest(output->rank, classes, dtype, rank);
    const bool floats = dtype == XCVM_F16 || dtype == XCVM_BF16 || dtype == XCVM_F32 || dtype == XCVM_F64;
    if (folder && output->rank > 1 && output->dims[1] == 1)
        report_line("a folder of images for each class needs a model with a score for each class and --loss "
                    "softmax_cross_entropy; this model has one score");
    else if (loss != NULL)
        report_line(
            "--loss %s suits the labels in array \"%s\", which are of %s with %d %s%s", loss, labels,
            xcvm_dtype_name(dtype), axes, axes == 1 ? "axis" : "axes",
            strcmp(loss, "bce_with_logits") == 0 && !floats ? "; save them as floats"
            : binary && strcmp(loss, "mse") == 0
                ? ". All are 0 or 1: if these are two classes, --loss bce_with_logits suits them, or bce behind "
                  "Sigmoid"
                : "");
    else if (floats && rank == output->rank - 1)
        report_line(
            "the labels in array \"%s\" are of %s with %d %s, and the output has a number for each of %lld classes. If "
            "the labels are classes, save %s.astype(\"int64\") and use --loss %s",
            labels, xcvm_dtype_name(dtype), axes, axes == 1 ? "axis" : "axes", (long long)classes, labels,
            output->rank == 3 ? "token_cross_entropy" : "softmax_cross_entropy");
}

void train_data_suggest_loss(const char *model, const xcc_options *options, const struct text_list *data,
                             const struct columns *columns, const char *label)
{
    const xcc_options plain = {.size = sizeof plain,
                               .dims = options->dims,
                               .dim_count = options->dim_count,
                               .limits.memory_bytes = options->limits.memory_bytes,
                               .optimization = -1};
    const char *labels = labels_of(columns, label);
    struct buffer bytes = {0};
    xcvm_program *program = NULL;
    xcvm_dtype dtype;
    int axes, rank;
    bool binary;
    if (find_labels(data, labels, &dtype, &axes, &rank, &binary) &&
        xcc_compile_file(model, &plain, (xcvm_sink){buffer_sink, &bytes}, NULL, NULL) == XCVM_OK &&
        xcvm_program_load(bytes.data, bytes.length, NULL, &program, NULL) == XCVM_OK) {
        const xcvm_value_info *output = only_output(program);
        if (output != NULL)
            suggest(&output->type, labels, dtype, axes, rank, binary,
                    data->count == 1 && file_is_folder(data->items[0]));
    }
    xcvm_program_destroy(program);
    buffer_release(&bytes);
}

/* ---- Models ---- */

/* Exporters that merge normalizations into convolutions give the weights numbers for names. */
void train_data_warn_of_merged(const xct_trainer *trainer)
{
    for (size_t i = 0; i < xct_trainer_parameter_count(trainer); i++) {
        const char *name = NULL;
        (void)xct_trainer_parameter_at(trainer, i, &name);
        if (name != NULL && strncmp(name, "onnx::Conv_", 11) == 0) {
            report_line("note: \"%s\" looks like a convolution that BatchNormalization was merged into for inference; "
                        "it learns without it. Export for training to keep it",
                        name);
            return;
        }
    }
}

/* ---- Rounding ---- */

/* Labels are not inputs of the model. */
xcvm_status train_data_put_rounding(const struct train_rounding *r, struct buffer *rounded, xcvm_error *error)
{
    enum { EXAMPLES = 512 };
    const xcc_quantizer_options options = {.size = sizeof options,
                                           .dims = r->dims->items,
                                           .dim_count = r->dims->count,
                                           .threads = r->threads,
                                           .memory_limit = (size_t)r->max_memory,
                                           .trainable = true};
    struct calibration calibration = {.data = NULL};
    xcc_quantizer *quantizer = NULL;
    xct_column *columns = memory_take(r->columns->count + 1, sizeof *columns);
    size_t count = 0;
    xcvm_status status = xcc_quantizer_create_file(r->model, &options, &quantizer, error);
    for (size_t i = 0; i < r->columns->count && status == XCVM_OK; i++)
        for (size_t k = 0; k < xcc_quantizer_input_count(quantizer); k++)
            if (strcmp(xcc_quantizer_input_at(quantizer, k)->name, r->columns->items[i].input) == 0)
                columns[count++] = r->columns->items[i];
    if (status == XCVM_OK)
        status = calibration_open(&calibration, quantizer, r->data, columns, count, 0, EXAMPLES,
                                  &(struct limit_flags){.max_memory = r->max_memory}, error);
    if (status == XCVM_OK)
        status = xcc_quantizer_run(quantizer, &calibration.source, error);
    if (status == XCVM_OK)
        status = xcc_quantizer_save(quantizer, (xcvm_sink){buffer_sink, rounded}, error);
    calibration_close(&calibration);
    xcc_quantizer_destroy(quantizer);
    free(columns);
    return status;
}
