/* Names that gradients are by: given as options, and found in the files of test data. */
#include "run/gradients.h"
#include "cli/memory.h"
#include "cli/report.h"
#include "run/cases.h"

#include <stdlib.h>
#include <string.h>

static const char prefix[] = "grad_out@";

/* ---- Names ---- */

static void add_name(struct names *names, const char *text, size_t length)
{
    names->items = memory_append(names->items, names->count, sizeof *names->items);
    names->items[names->count++] = memory_text_n(text, length);
}

void names_split(const struct text_list *texts, struct names *names)
{
    for (size_t i = 0; i < texts->count; i++)
        for (const char *at = texts->items[i]; *at != '\0'; at += *at == ',') {
            const size_t length = strcspn(at, ",");
            if (length > 0)
                add_name(names, at, length);
            at += length;
        }
}

void names_add(void *names, const char *name) { add_name(names, name, strlen(name)); }

void names_release(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free((char *)(uintptr_t)names->items[i]);
    free(names->items);
    *names = (struct names){0};
}

/* ---- Files ---- */

/* Gradient `index` of a data set and the name of its tensor; *value is NULL if there are no more. */
static xcvm_status load(const char *data_set, size_t index, struct value_budget *budget, char name[128],
                        xcvm_value **value, xcvm_error *error)
{
    char *path = memory_format("%s/gradient_%zu.pb", data_set, index);
    xcvm_status status = data_file_load(path, NULL, budget, name, value, error);
    if (status == XCVM_OK && *value != NULL && strncmp(name, prefix, sizeof prefix - 1) != 0) {
        status =
            error_set(error, XCVM_INVALID_ARGUMENT, "%s: the tensor is named '%.100s', not %sNAME", path, name, prefix);
        xcvm_value_release(*value);
        *value = NULL;
    }
    free(path);
    return status;
}

xcvm_status gradient_names(const char *data_set, struct value_budget *budget, struct names *names, xcvm_error *error)
{
    for (size_t i = 0;; i++) {
        char name[128];
        xcvm_value *value;
        bool known = false;
        TRY(load(data_set, i, budget, name, &value, error));
        if (value == NULL)
            return XCVM_OK;
        xcvm_value_release(value);
        for (size_t k = 0; k < names->count; k++)
            known |= strcmp(names->items[k], name + sizeof prefix - 1) == 0;
        if (!known)
            add_name(names, name + sizeof prefix - 1, strlen(name) - (sizeof prefix - 1));
    }
}

xcvm_status gradient_value(const char *data_set, const char *output, struct value_budget *budget, xcvm_value **value,
                           xcvm_error *error)
{
    for (size_t i = 0;; i++) {
        char name[128];
        TRY(load(data_set, i, budget, name, value, error));
        if (*value == NULL || strcmp(name, output) == 0)
            return XCVM_OK;
        xcvm_value_release(*value);
    }
}
