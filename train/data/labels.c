/* Labels: which numbers are classes, and the names of classes. */
#include "base/array.h"
#include "base/clock.h"
#include "train/data/convert_rows.h"
#include "train/data/dataset.h"

#include <stdio.h>

/* ---- Numbers ---- */

static xcvm_status refuse_label(const xct_dataset *set, const xct_bound *bound, const char *path, int64_t label,
                                uint64_t row, xcvm_error *error)
{
    const xct_label_rule *rule = &set->labels;
    char ignored[60] = "";
    if (rule->ignores)
        (void)snprintf(ignored, sizeof ignored, ", or %lld, which is left out", (long long)rule->ignored);
    if (rule->classes == 1 && rule->output_rank > 0)
        XCVM_FAIL(
            error, OUT_OF_RANGE,
            "%s: array \"%s\" has the label %lld in example %llu, but the model has one score for each example. For "
            "labels 0 and 1 use --loss bce_with_logits with %s.astype(\"float32\"), or give the model a score for each "
            "class",
            path, bound->array, (long long)label, (unsigned long long)row, bound->array);
    XCVM_FAIL(
        error, OUT_OF_RANGE,
        "%s: array \"%s\" has the label %lld in example %llu, counted from 0 (expected 0 to %lld, as the model has "
        "scores of %lld classes%s). %s%s",
        path, bound->array, (long long)label, (unsigned long long)row, (long long)rule->classes - 1,
        (long long)rule->classes, ignored,
        label == rule->classes ? "Subtract 1 from labels that count from 1"
                               : "Give the model an output with more scores, or mend the label",
        rule->output_rank > 0 ? "; another label to leave out is set with --ignore-label"
                              : "; the attribute ignore_index of the model's loss leaves a label out");
}

xcvm_status xct_labels_check(const xct_dataset *set, const xct_bound *bound, const char *path, xcvm_dtype dtype,
                             const unsigned char *data, uint64_t first, uint64_t rows, uint64_t deadline_ns,
                             uint64_t *counted, xcvm_error *error)
{
    enum { PORTION = 1024 };
    int64_t labels[PORTION];
    const xct_label_rule *rule = &set->labels;
    const size_t size = xcvm_dtype_size(dtype);
    if (!rule->checked || rule->input != bound->input || (rule->classes < 0 && counted == NULL))
        return XCVM_OK;
    const uint64_t count = rows * bound->row_count;
    for (uint64_t at = 0, now; at < count; at += now) {
        now = xcvm_min(count - at, (uint64_t)PORTION);
        XCVM_CHECK(error, deadline_ns == 0 || xcvm_clock_ns() < deadline_ns, OUT_OF_TIME,
                   "reading data exceeds the time limit");
        xct_convert(dtype, data + at * size, XCVM_I64, labels, (size_t)now);
        for (size_t i = 0; i < now; i++) {
            if (rule->ignores && labels[i] == rule->ignored)
                continue;
            if (rule->classes >= 0 && (labels[i] < 0 || labels[i] >= rule->classes))
                return refuse_label(set, bound, path, labels[i], first + (at + i) / bound->row_count, error);
            if (counted != NULL)
                ++*counted;
        }
    }
    return XCVM_OK;
}

/* ---- Names ---- */

size_t xct_dataset_class_count(const xct_dataset *set)
{
    return set != NULL && set->images != NULL ? set->images->class_count : 0;
}

const char *xct_dataset_class_at(const xct_dataset *set, size_t index)
{
    return index < xct_dataset_class_count(set) ? set->images->classes[index] : NULL;
}

static size_t find_class(const char *const *names, size_t count, const char *name)
{
    size_t i = 0;
    while (i < count && (names[i] == NULL || strcmp(names[i], name) != 0))
        i++;
    return i;
}

static xcvm_status refuse_class(const xct_images *images, size_t class, const char *const *names, size_t count,
                                xcvm_error *error)
{
    char list[300] = "", folder[300] = "";
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(list);
        (void)snprintf(list + length, sizeof list - length, "%s%.40s", i > 0 ? ", " : "", names[i]);
    }
    for (size_t i = 0; i < images->count && folder[0] == '\0'; i++)
        if (images->labels[i] == (int64_t) class)
            (void)snprintf(folder, sizeof folder, "%.*s",
                           (int)xcvm_min((size_t)(strrchr(images->paths[i], '/') - images->paths[i]), (size_t)280),
                           images->paths[i]);
    XCVM_FAIL(error, INVALID_ARGUMENT,
              "%s: there is no class \"%.100s\" (expected one of %s). Rename the folder as the class that it has "
              "examples of, or remove it",
              folder, images->classes[class], list);
}

xcvm_status xct_dataset_set_classes(xct_dataset *set, const char *const *names, size_t count, xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, set != NULL && (names != NULL || count == 0), INVALID_ARGUMENT, "data set or names is NULL");
    xct_images *images = set->images;
    if (images == NULL)
        return XCVM_OK;
    int64_t *numbers = xcvm_arena_allocate(&set->arena, (images->class_count + 1) * sizeof *numbers);
    const char **copies = xcvm_arena_allocate(&set->arena, (count + 1) * sizeof *copies);
    XCVM_CHECK(error, numbers != NULL && copies != NULL, OUT_OF_MEMORY, "no memory for the names of classes");
    for (size_t i = 0; i < count; i++) {
        XCVM_CHECK(error, names[i] != NULL, INVALID_ARGUMENT, "the name of class %zu is NULL", i);
        copies[i] = xcvm_arena_string(&set->arena, names[i], strlen(names[i]));
        XCVM_CHECK(error, copies[i] != NULL, OUT_OF_MEMORY, "no memory for the names of classes");
    }
    for (size_t i = 0; i < images->class_count; i++) {
        const size_t number = find_class(names, count, images->classes[i]);
        if (number == count)
            return refuse_class(images, i, names, count, error);
        numbers[i] = (int64_t)number;
    }
    for (size_t i = 0; i < images->count; i++)
        images->labels[i] = numbers[images->labels[i]];
    images->classes = copies;
    images->class_count = count;
    return XCVM_OK;
}
