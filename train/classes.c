/* Class names of models and data sets. */
#include "compiler/onnx_model/onnx_model.h"
#include "train/trainer.h"

static xcvm_status check_names(const xct_trainer *t, const char *const *names, size_t count, xcvm_error *error)
{
    const int64_t scores = t->feed.labels.classes;
    for (size_t i = 0; i < count; i++) {
        XCVM_CHECK(error, names[i] != NULL && names[i][0] != '\0' && strchr(names[i], '\n') == NULL, INVALID_ARGUMENT,
                   "the name of class %zu is empty, or has a line feed", i);
        XCVM_CHECK(
            error, !t->feed.labels.checked || scores < 0 || (int64_t)i < scores, INVALID_ARGUMENT,
            "there are %zu classes, but the model's output \"%s\" has scores of %lld; \"%.100s\" would be number "
            "%zu. Give the model more scores, or leave classes out",
            count, t->predictions_output, (long long)scores, names[i], i);
    }
    return XCVM_OK;
}

static xcvm_status check_twice(const xct_trainer *t, const char *const *names, size_t count, xcvm_error *error)
{
    xcvm_arena arena = {.allocator = t->allocator};
    xcvm_name_index index = {0};
    const xcvm_indexed_name *first;
    bool good = true;
    size_t twice = count;
    for (size_t i = 0; good && i < count; i++)
        good = xcvm_name_index_add(&index, &arena, names[i], strlen(names[i]), i);
    if (good)
        xcvm_name_index_sort(&index);
    for (size_t i = 0; good && i < count && twice == count; i++)
        twice = xcvm_name_index_find(&index, names[i], strlen(names[i]), &first) > 1 ? i : count;
    xcvm_arena_release(&arena);
    XCVM_CHECK(error, good, OUT_OF_MEMORY, "no memory for the names of %zu classes", count);
    XCVM_CHECK(error, twice == count, INVALID_ARGUMENT, "two classes are named \"%.100s\"", names[twice]);
    return XCVM_OK;
}

static xcvm_status copy_names(xct_trainer *t, const char *const *names, size_t count, xcvm_error *error)
{
    const char **copies = xcvm_arena_allocate(&t->arena, (count + 1) * sizeof *copies);
    bool good = copies != NULL;
    for (size_t i = 0; good && i < count; i++)
        good = (copies[i] = xcvm_arena_string(&t->arena, names[i], strlen(names[i]))) != NULL;
    XCVM_CHECK(error, good, OUT_OF_MEMORY, "no memory for the names of %zu classes", count);
    t->classes = copies;
    t->class_count = count;
    return XCVM_OK;
}

/* Ignores names in the model that do not match the number of scores. */
xcvm_status xct_classes_read(xct_trainer *t, xcvm_error *error)
{
    xcvm_arena arena = {.allocator = t->allocator};
    const char **names;
    size_t count;
    xcvm_status status = xcc_classes_read(t->model, t->model_count, &arena, &names, &count, error);
    if (status == XCVM_OK && count > 0 && check_names(t, names, count, NULL) == XCVM_OK)
        status = copy_names(t, names, count, error);
    xcvm_arena_release(&arena);
    return status;
}

size_t xct_trainer_class_count(const xct_trainer *t) { return t != NULL ? t->class_count : 0; }

const char *xct_trainer_class_at(const xct_trainer *t, size_t index)
{
    return index < xct_trainer_class_count(t) ? t->classes[index] : NULL;
}

xcvm_status xct_trainer_set_classes(xct_trainer *t, const char *const *names, size_t count, xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, t != NULL && (names != NULL || count == 0), INVALID_ARGUMENT, "trainer or names is NULL");
    XCVM_TRY(check_names(t, names, count, error));
    XCVM_TRY(check_twice(t, names, count, error));
    XCVM_TRY(copy_names(t, names, count, error));
    t->new_classes = true;
    return XCVM_OK;
}

xcvm_status xct_classes_join(xct_trainer *t, const xct_dataset *set, xcvm_error *error)
{
    const size_t count = xct_dataset_class_count(set);
    if (count == 0)
        return XCVM_OK;
    if (t->class_count == 0)
        return xct_trainer_set_classes(t, set->images->classes, count, error);
    for (size_t i = 0; i < count; i++)
        XCVM_CHECK(
            error, i < t->class_count && strcmp(t->classes[i], set->images->classes[i]) == 0, INVALID_ARGUMENT,
            "class %zu of the data is \"%.100s\", but \"%.100s\" of the trainer; xct_dataset_set_classes numbers "
            "the data's by their names, xct_trainer_set_classes takes other names",
            i, set->images->classes[i], i < t->class_count ? t->classes[i] : "none");
    return XCVM_OK;
}
