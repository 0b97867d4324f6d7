/* Checks whether an array has the shape and type that an input needs, and says what to do if it does not. */
#include "train/data/convert_rows.h"
#include "train/data/dataset.h"

#include "base/array.h"

#include <stdio.h>

/* ---- Shapes ---- */

/* Compares two shapes without their first axis, axes of size 1 and axis `left_out` of the second one. A negative size
 * of the second one matches any size. */
static bool matches(int rank, const int64_t *dims, int wanted_rank, const int64_t *wanted, int left_out)
{
    int i = 1;
    for (int k = 1; k < wanted_rank; k++) {
        if (wanted[k] == 1 || k == left_out)
            continue;
        while (i < rank && dims[i] == 1)
            i++;
        if (i == rank || (wanted[k] >= 0 && wanted[k] != dims[i]))
            return false;
        i++;
    }
    while (i < rank && dims[i] == 1)
        i++;
    return i == rank;
}

static bool is_same(const xct_bound *bound, const xct_rows *shape)
{
    bool same = shape->rank == bound->rank;
    for (int i = 1; same && i < shape->rank; i++)
        same = bound->dims[i] < 0 || shape->dims[i] == bound->dims[i];
    return same;
}

/* Gives a shape that matches the input the axes that the input has. The elements stay where they are. */
static void reshape(const xct_bound *bound, xct_rows *shape)
{
    int64_t dims[XCVM_MAX_RANK] = {shape->dims[0]};
    int i = 1;
    for (int k = 1; k < bound->rank; k++) {
        dims[k] = 1;
        if (bound->dims[k] == 1)
            continue;
        while (shape->dims[i] == 1)
            i++;
        dims[k] = shape->dims[i++];
    }
    shape->rank = bound->rank;
    memcpy(shape->dims, dims, sizeof dims);
}

/* ---- Advice ---- */

static const char *numpy_name(xcvm_dtype dtype)
{
    switch (dtype) {
    case XCVM_F16:
        return "float16";
    case XCVM_F32:
        return "float32";
    case XCVM_F64:
        return "float64";
    case XCVM_I32:
        return "int32";
    case XCVM_I64:
        return "int64";
    case XCVM_U8:
        return "uint8";
    case XCVM_BOOL:
        return "bool";
    default:
        return xcvm_dtype_name(dtype);
    }
}

static int other_class_axis(const xct_label_rule *rule)
{
    return rule->output_rank != 3 ? -1 : rule->axis == 1 ? 2 : 1;
}

/* Labels for a loss of classes. */
static void advise_on_classes(const xct_label_rule *rule, const char *array, const xct_rows *shape, char *text,
                              size_t size)
{
    const int rank = shape->rank, wanted_rank = rule->output_rank, other = other_class_axis(rule);
    const int64_t *dims = shape->dims, *wanted = rule->output_dims;
    const bool floats = xcvm_dtype_is_float(shape->dtype);
    if (floats && matches(rank, dims, wanted_rank, wanted, rule->axis))
        (void)snprintf(text, size, ". Labels of classes are integers: save %.60s.astype(\"int64\")", array);
    else if (rank == wanted_rank && matches(rank, dims, wanted_rank, wanted, -1))
        (void)snprintf(text, size,
                       ". This loss takes the number of the class, not one number for each class: save "
                       "%.60s.argmax(%d). For numbers there is --loss mse",
                       array, rule->axis);
    else if (!floats && other > 0 && matches(rank, dims, wanted_rank, wanted, other))
        (void)snprintf(text, size, ". --loss %s takes these labels",
                       other == 2 ? "token_cross_entropy" : "softmax_cross_entropy");
}

/* Labels of a loss that needs labels in the output's shape. */
static void advise_on_numbers(const xct_label_rule *rule, const xct_bound *bound, const xct_rows *shape, char *text,
                              size_t size)
{
    const int rank = shape->rank, wanted_rank = rule->output_rank;
    const int axis = wanted_rank == 3 ? 2 : 1;
    const int64_t *dims = shape->dims, *wanted = rule->output_dims;
    const char *loss = axis == 2 ? "token_cross_entropy" : "softmax_cross_entropy";
    const bool floats = xcvm_dtype_is_float(shape->dtype);
    if (matches(rank, dims, wanted_rank, wanted, -1)) {
        if (!floats)
            (void)snprintf(text, size, ". This loss takes labels of floats: save %.60s.astype(\"%s\")", bound->array,
                           numpy_name(bound->dtype));
    } else if (wanted_rank > axis && wanted[axis] != 1 && matches(rank, dims, wanted_rank, wanted, axis)) {
        if (floats)
            (void)snprintf(text, size,
                           ". If the labels are classes, save %.60s.astype(\"int64\") and use --loss %s. Otherwise the "
                           "labels need the output's shape",
                           bound->array, loss);
        else
            (void)snprintf(text, size, ". --loss %s takes these labels", loss);
    }
}

/* Adds advice to an error about labels of an added loss. Returns whether it did. */
static bool advise(const xct_dataset *set, const xct_bound *bound, const xct_rows *shape, xcvm_error *error)
{
    const xct_label_rule *rule = &set->labels;
    const size_t length = strlen(error->message);
    char *text = error->message + length;
    if (rule->output_rank == 0 || rule->input != bound->input)
        return false;
    if (rule->axis >= 0)
        advise_on_classes(rule, bound->array, shape, text, sizeof error->message - length);
    else
        advise_on_numbers(rule, bound, shape, text, sizeof error->message - length);
    return text[0] != '\0';
}

/* Adds advice to an error about an array with channels last for a model with channels first, or the reverse. */
static void advise_on_channels(const xct_bound *bound, const xct_rows *shape, xcvm_error *error)
{
    const int rank = shape->rank;
    const size_t length = strlen(error->message);
    if (rank != bound->rank || rank < 3 || rank > 5)
        return;
    for (int to_last = 0; to_last < 2; to_last++) {
        char order[40] = "";
        bool same = true;
        for (int i = 1; i < rank; i++) {
            const int from = to_last ? i % (rank - 1) + 1 : (i + rank - 3) % (rank - 1) + 1;
            same = same && (bound->dims[i] < 0 || shape->dims[from] == bound->dims[i]);
            (void)snprintf(order + strlen(order), sizeof order - strlen(order), ", %d", from);
        }
        if (!same)
            continue;
        (void)snprintf(error->message + length, sizeof error->message - length,
                       ". Move the axes: save %.60s.transpose(0%s)", bound->array, order);
        return;
    }
}

static xcvm_status refuse_shape(const xct_dataset *set, const xct_bound *bound, const xct_rows *shape, const char *path,
                                xcvm_error *error)
{
    char has[100], wants[100];
    (void)xcvm_error_set(error, XCVM_SHAPE_MISMATCH,
                         "%s: array \"%s\" is %s, input \"%s\" wants %s, the first axis counting examples", path,
                         bound->array, xcvm_dims_describe(shape->rank, shape->dims, has, sizeof has), bound->name,
                         xcvm_dims_describe(bound->rank, bound->dims, wants, sizeof wants));
    if (advise(set, bound, shape, error))
        return XCVM_SHAPE_MISMATCH;
    if (!bound->batch_elsewhere) {
        advise_on_channels(bound, shape, error);
    } else {
        const size_t length = strlen(error->message);
        (void)snprintf(error->message + length, sizeof error->message - length,
                       ". The batch is not the first axis of this input, as with initial states of recurrent networks. "
                       "Export the model without the input, so that states start as zeros, or with the batch first");
    }
    return XCVM_SHAPE_MISMATCH;
}

static xcvm_status refuse_type(const xct_dataset *set, const xct_bound *bound, const xct_rows *shape, const char *path,
                               xcvm_error *error)
{
    (void)xcvm_error_set(error, XCVM_TYPE_MISMATCH, "%s: array \"%s\" is of %s, input \"%s\" wants %s", path,
                         bound->array, xcvm_dtype_name(shape->dtype), bound->name, xcvm_dtype_name(bound->dtype));
    if (!advise(set, bound, shape, error)) {
        const size_t length = strlen(error->message);
        (void)snprintf(error->message + length, sizeof error->message - length,
                       ". Convert the data first, as %.60s.astype(\"%s\") does in NumPy", bound->array,
                       numpy_name(bound->dtype));
    }
    return XCVM_TYPE_MISMATCH;
}

static void note_reshape(const xct_dataset *set, xct_bound *bound, const xct_rows *before, const xct_rows *after,
                         const char *path)
{
    char has[100], used[100], line[600];
    if (set->diagnostics.call == NULL || bound->reshaped)
        return;
    bound->reshaped = true;
    (void)snprintf(line, sizeof line, "%.200s: array \"%.60s\" is %s and is used as %s, the shape of input \"%.60s\"",
                   path, bound->array, xcvm_dims_describe(before->rank, before->dims, has, sizeof has),
                   xcvm_dims_describe(after->rank, after->dims, used, sizeof used), bound->name);
    set->diagnostics.call(set->diagnostics.user, XCC_DIAGNOSTIC_DATA, line);
}

xcvm_status xct_bound_check(const xct_dataset *set, xct_bound *bound, xct_rows *shape, const char *path,
                            xcvm_error *error)
{
    const bool same = is_same(bound, shape);
    if (!same && !matches(shape->rank, shape->dims, bound->rank, bound->dims, -1))
        return refuse_shape(set, bound, shape, path, error);
    if (!xct_converts(shape->dtype, bound->dtype))
        return refuse_type(set, bound, shape, path, error);
    if (same)
        return XCVM_OK;
    const xct_rows before = *shape;
    reshape(bound, shape);
    note_reshape(set, bound, &before, shape, path);
    return XCVM_OK;
}
