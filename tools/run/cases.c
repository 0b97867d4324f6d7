/* Test cases: finds directories of models and their data sets. */
#include "run/cases.h"
#include "io/file.h"
#include "cli/memory.h"
#include "cli/suffix.h"
#include "cli/report.h"
#include "tensors/tensor_file.h"

#include <xcvm/compiler.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEEPEST = 8 };

static const char data_set_prefix[] = "test_data_set_";

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strverscmp(*x, *y);
}

/* Sorted names in a directory, ended by NULL; NULL if it cannot be read. */
static char **list_folder(const char *folder)
{
    DIR *directory = opendir(folder);
    if (directory == NULL)
        return NULL;
    char **names = memory_take(1, sizeof *names);
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (*entry->d_name == '.')
            continue;
        names = memory_grow(names, count + 2, sizeof *names);
        names[count++] = memory_text(entry->d_name);
        names[count] = NULL;
    }
    closedir(directory);
    qsort(names, count, sizeof *names, by_name);
    return names;
}

static void release_names(char **names)
{
    for (size_t i = 0; names != NULL && names[i] != NULL; i++)
        free(names[i]);
    free(names);
}

/* The model of a case, or NULL if the directory is not a case. */
static char *find_model(const char *folder, char *const *names)
{
    const char *model = NULL;
    size_t models = 0, sets = 0;
    for (size_t i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], "model.onnx") == 0)
            return memory_format("%s/model.onnx", folder);
        if (suffix_is(names[i], ".onnx")) {
            model = names[i];
            models++;
        }
        sets += strncmp(names[i], data_set_prefix, sizeof data_set_prefix - 1) == 0;
    }
    return models == 1 && sets != 0 ? memory_format("%s/%s", folder, model) : NULL;
}

static xcvm_status find_below(const char *folder, const char *name, int depth, struct test_cases *cases,
                              xcvm_error *error)
{
    char **names = list_folder(folder);
    if (names == NULL && depth == 0 && errno == ENOTDIR)
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "%s: is a file (expected a directory with model.onnx and test data)", folder);
    if (names == NULL)
        return depth == 0 ? error_set(error, XCVM_IO, "%s: cannot be read: %s", folder, strerror(errno)) : XCVM_OK;
    char *model = find_model(folder, names);
    xcvm_status status = XCVM_OK;
    if (model != NULL) {
        cases->items = memory_append(cases->items, cases->count, sizeof *cases->items);
        cases->items[cases->count++] =
            (struct test_case){*name != '\0' ? memory_text(name) : file_base_name(folder), memory_text(folder), model};
    }
    for (size_t i = 0; model == NULL && depth < DEEPEST && names[i] != NULL && status == XCVM_OK; i++) {
        char *path = memory_format("%s/%s", folder, names[i]);
        char *below = *name != '\0' ? memory_format("%s/%s", name, names[i]) : memory_text(names[i]);
        if (file_is_folder(path))
            status = find_below(path, below, depth + 1, cases, error);
        free(below);
        free(path);
    }
    release_names(names);
    return status;
}

xcvm_status cases_find(const char *folder, struct test_cases *cases, xcvm_error *error)
{
    size_t before = cases->count, length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    char *clean = memory_text_n(folder, length);
    xcvm_status status = find_below(clean, "", 0, cases, error);
    if (status == XCVM_OK && cases->count == before)
        status = error_set(error, XCVM_INVALID_ARGUMENT, "%s: contains no case (expected a directory with model.onnx)",
                           folder);
    free(clean);
    return status;
}

void cases_release(struct test_cases *cases)
{
    for (size_t i = 0; i < cases->count; i++) {
        free(cases->items[i].name);
        free(cases->items[i].folder);
        free(cases->items[i].model);
    }
    free(cases->items);
    *cases = (struct test_cases){0};
}

char **data_sets_find(const char *folder)
{
    char **names = list_folder(folder), **sets = memory_take(1, sizeof *sets);
    size_t count = 0;
    for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
        if (strncmp(names[i], data_set_prefix, sizeof data_set_prefix - 1) != 0)
            continue;
        sets = memory_grow(sets, count + 2, sizeof *sets);
        sets[count++] = memory_format("%s/%s", folder, names[i]);
        sets[count] = NULL;
    }
    release_names(names);
    return sets;
}

void data_sets_release(char **sets) { release_names(sets); }

xcvm_status data_file_load(const char *path, const xcvm_type *type, struct value_budget *budget, char name[128],
                           xcvm_value **value, xcvm_error *error)
{
    struct buffer bytes = {0};
    *value = NULL;
    if (access(path, F_OK) != 0)
        return XCVM_OK;
    /* No test waits for the other end of a pipe. */
    if (!file_is_regular(path))
        return error_set(error, XCVM_IO, "%s: is not a regular file", path);
    const struct read_limits limits = tensor_file_limits(budget);
    TRY(file_read(path, &limits, &bytes, error));
    const size_t held = bytes.length;
    value_budget_hold(budget, held);
    xcvm_status status = xcc_value_load(buffer_string(&bytes), bytes.length, type, value_budget_allocator(budget),
                                        value_budget_time_left(budget), name, value, error);
    value_budget_let_go(budget, held);
    if (status != XCVM_OK) {
        *value = NULL;
        value_budget_name(budget, status, error);
        error_prefix(error, "%s", path);
    }
    buffer_release(&bytes);
    return status;
}

static xcvm_status load_pb(const char *path, const xcvm_type *type, struct value_budget *budget, xcvm_value **value,
                           xcvm_error *error)
{
    char name[128];
    return data_file_load(path, type, budget, name, value, error);
}

static xcvm_status load_sequence(const char *data_set, const char *kind, size_t index, struct value_budget *budget,
                                 xcvm_value **sequence, xcvm_error *error)
{
    xcvm_value **items = NULL, *item;
    size_t count = 0;
    xcvm_status status;
    for (;;) {
        char *path = memory_format("%s/%s_%zu_%zu.pb", data_set, kind, index, count);
        status = load_pb(path, NULL, budget, &item, error);
        free(path);
        if (status != XCVM_OK || item == NULL)
            break;
        items = memory_append(items, count, sizeof *items);
        items[count++] = item;
    }
    if (status == XCVM_OK && count != 0)
        status = xcvm_list_create(value_budget_allocator(budget), XCVM_KIND_SEQUENCE, count, items, sequence, error);
    for (size_t i = 0; i < count; i++)
        xcvm_value_release(items[i]);
    free(items);
    return status;
}

xcvm_status data_set_value(const char *data_set, const char *kind, size_t index, const xcvm_type *type,
                           struct value_budget *budget, xcvm_value **value, xcvm_error *error)
{
    char *path = memory_format("%s/%s_%zu.pb", data_set, kind, index);
    xcvm_status status = load_pb(path, type, budget, value, error);
    free(path);
    if (status != XCVM_OK || *value != NULL)
        return status;
    status = load_sequence(data_set, kind, index, budget, value, error);
    value_budget_name(budget, status, error);
    return status;
}

/* ---- Files that a data set has ---- */

/* The number of a file KIND_N.pb, KIND_N_M.pb or of another ending; SIZE_MAX if it is no such file. */
static size_t number_of_file(const char *name, const char *kind)
{
    const size_t length = strlen(kind);
    if (strncmp(name, kind, length) != 0 || name[length] != '_' || name[length + 1] < '0' || name[length + 1] > '9')
        return SIZE_MAX;
    char *end;
    const unsigned long long number = strtoull(name + length + 1, &end, 10);
    return (*end == '.' || *end == '_') && number < SIZE_MAX ? (size_t)number : SIZE_MAX;
}

size_t data_set_inputs(const char *data_set)
{
    char **names = list_folder(data_set);
    size_t count = 0;
    for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
        const size_t number = number_of_file(names[i], "input");
        if (number != SIZE_MAX && number >= count)
            count = number + 1;
    }
    release_names(names);
    return count;
}

char *data_set_leftover(const char *data_set, const char *kind, size_t count)
{
    char **names = list_folder(data_set), *found = NULL;
    for (size_t i = 0; names != NULL && names[i] != NULL && found == NULL; i++) {
        const size_t number = number_of_file(names[i], kind);
        if (number != SIZE_MAX && (number >= count || !suffix_is(names[i], ".pb")))
            found = memory_text(names[i]);
    }
    release_names(names);
    return found;
}
