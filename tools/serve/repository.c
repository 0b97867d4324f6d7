/* Finds models in directories. */
#include "serve/repository.h"

#include "cli/memory.h"
#include "cli/report.h"
#include "cli/suffix.h"
#include "io/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void add(struct repository *r, char *name, const char *version, const char *path)
{
    r->models = memory_append(r->models, r->count, sizeof *r->models);
    r->models[r->count++] = (struct served_model){name, memory_text(version), memory_text(path)};
}

static bool is_model_file(const char *name)
{
    return suffix_is(name, ".onnx") || suffix_is(name, ".bin") || suffix_is(name, ".xcvm");
}

static bool is_version(const char *name)
{
    const size_t digits = strspn(name, "0123456789");
    return digits > 0 && digits < 19 && name[digits] == '\0' && name[0] != '0';
}

/* The name without its folders and suffix. */
static char *stem_of(const char *path)
{
    char *name = file_base_name(path), *dot = strrchr(name, '.');
    if (dot != NULL && dot != name)
        *dot = '\0';
    return name;
}

/* The names in a directory, in order. Names that begin with a dot are skipped, as those of mounted volumes. */
static xcvm_status list_folder(const char *path, struct dirent ***entries, int *count, xcvm_error *error)
{
    *count = scandir(path, entries, NULL, alphasort);
    if (*count < 0)
        return error_set(error, XCVM_IO, "cannot list the directory %s: %s", path, strerror(errno));
    return XCVM_OK;
}

static void release_list(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

/* The only model file of a version, or the one that is called model. NULL if there is none. */
static char *version_file(const char *folder)
{
    struct dirent **entries;
    int count;
    char *found = NULL;
    if (list_folder(folder, &entries, &count, NULL) != XCVM_OK)
        return NULL;
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] == '.' || !is_model_file(entries[i]->d_name))
            continue;
        if (found != NULL && strncmp(entries[i]->d_name, "model.", 6) != 0)
            continue;
        free(found);
        found = memory_format("%s/%s", folder, entries[i]->d_name);
    }
    release_list(entries, count);
    return found;
}

/* Adds the models that the entries of a directory make. `name` is the model's if the directory is one model. */
static void add_entries(struct repository *r, const char *folder, const char *name, struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++) {
        const char *entry = entries[i]->d_name;
        if (entry[0] == '.')
            continue;
        char *path = memory_format("%s/%s", folder, entry);
        if (is_version(entry) && file_is_folder(path)) {
            char *file = version_file(path);
            if (file != NULL)
                add(r, memory_text(name), entry, file);
            free(file);
        } else if (is_model_file(entry) && file_is_regular(path)) {
            add(r, strncmp(entry, "model.", 6) == 0 ? memory_text(name) : stem_of(entry), "1", path);
        }
        free(path);
    }
}

static xcvm_status add_folder(struct repository *r, const char *folder, const char *name, bool descend,
                              xcvm_error *error)
{
    struct dirent **entries;
    int count;
    const size_t before = r->count;
    TRY(list_folder(folder, &entries, &count, error));
    add_entries(r, folder, name, entries, count);
    xcvm_status status = XCVM_OK;
    const bool is_model = r->count > before;
    for (int i = 0; i < count && descend && !is_model && status == XCVM_OK; i++) {
        char *path = memory_format("%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && file_is_folder(path))
            status = add_folder(r, path, entries[i]->d_name, false, error);
        free(path);
    }
    release_list(entries, count);
    return status;
}

xcvm_status repository_add(struct repository *r, const char *operand, xcvm_error *error)
{
    const char *equals = strchr(operand, '='), *slash = strchr(operand, '/');
    const bool named = equals != NULL && equals != operand && (slash == NULL || equals < slash);
    const char *path = named ? equals + 1 : operand;
    const size_t before = r->count;
    if (!file_is_folder(path)) {
        add(r, named ? memory_text_n(operand, (size_t)(equals - operand)) : stem_of(path), "1", path);
        return XCVM_OK;
    }
    char *name = named ? memory_text_n(operand, (size_t)(equals - operand)) : file_base_name(path);
    xcvm_status status = add_folder(r, path, name, true, error);
    free(name);
    if (status == XCVM_OK && r->count == before)
        return error_set(
            error, XCVM_IO,
            "%s has no models. Expected NAME/1/model.onnx, model.onnx, or files that end in .onnx, .bin or "
            ".xcvm",
            path);
    return status;
}

void repository_release(struct repository *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->models[i].name);
        free(r->models[i].version);
        free(r->models[i].path);
    }
    free(r->models);
    *r = (struct repository){0};
}
