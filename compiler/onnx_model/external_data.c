/* External data: maps the files that contain the weights of a model. */
#include "compiler/onnx_model/external_data.h"
#include "compiler/ir/compilation.h"
#include "proto/open_beneath.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct xcc_external_file {
    void *bytes; /* NULL for an empty file */
    size_t count;
    xcvm_storage storage; /* by which the module unmaps the file */
    xcc_value anchor;
};

static void unmap(xcvm_storage *storage)
{
    struct xcc_external_file *file = storage->owner;
    if (file->bytes != NULL)
        munmap(file->bytes, file->count);
    file->bytes = NULL;
}

/* Returns the next component of *path and advances past it. Skips "." and empty components; false at the end. */
static bool next_component(const char **path, const char **component, size_t *length)
{
    for (;;) {
        while (**path == '/')
            ++*path;
        *component = *path;
        *length = strcspn(*path, "/");
        *path += *length;
        if (*length == 0)
            return false;
        if (*length != 1 || **component != '.')
            return true;
    }
}

static xcvm_status check_location(const char *location, xcvm_error *error)
{
    XCVM_CHECK(error, location[0] != '\0', INVALID_MODEL, "external data has no location");
    XCVM_CHECK(error, location[0] != '/', INVALID_MODEL,
               "external data '%s' has an absolute path; expected a path relative to the model's directory", location);
    const char *path = location, *component;
    size_t length, count = 0;
    while (next_component(&path, &component, &length)) {
        XCVM_CHECK(error, length != 2 || memcmp(component, "..", 2) != 0, INVALID_MODEL,
                   "external data '%s' is outside of the model's directory", location);
        XCVM_CHECK(error, length <= 255, INVALID_MODEL, "external data has a name of more than 255 characters");
        count++;
    }
    XCVM_CHECK(error, count > 0, INVALID_MODEL, "external data '%s' is no file", location);
    return XCVM_OK;
}

static xcvm_status map_file(xcc_external_files *files, const char *location, struct xcc_external_file **mapped,
                            xcvm_error *error)
{
    XCVM_TRY(check_location(location, error));
    struct xcc_external_file *file = xcc_alloc(files->module, sizeof *file);
    XCVM_CHECK(error, file != NULL, OUT_OF_MEMORY, "no memory for external data '%s'", location);
    int fd;
    xcvm_status status = xcvm_open_any_resolved(files->dir[0] != '\0' ? files->dir : ".",
                                                files->module->compilation->resolved_dir, location, &fd, error);
    if (status != XCVM_OK) {
        xcvm_error_prefix(error, "external data '%.200s'", location);
        const size_t length = error != NULL ? strlen(error->message) : 0;
        if (error != NULL && status == XCVM_IO)
            (void)snprintf(
                error->message + length, sizeof error->message - length,
                ". The file contains weights of the model. Put it into the model's directory under this name");
        return status;
    }
    struct stat info;
    bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    if (regular && info.st_size > 0) {
        file->count = (size_t)info.st_size;
        file->bytes = mmap(NULL, file->count, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file->bytes == MAP_FAILED)
            file->bytes = NULL;
    }
    close(fd);
    XCVM_CHECK(error, regular, INVALID_MODEL, "external data '%s' is no regular file", location);
    XCVM_CHECK(error, file->bytes != NULL || file->count == 0, IO, "external data '%s' cannot be mapped", location);
    file->storage = (xcvm_storage){.refs = 1, .bytes = file->count, .destroy = unmap, .owner = file};
    file->anchor.type.kind = XCVM_KIND_OPAQUE;
    file->anchor.type.memory_kind = XCVM_MEMORY_OWNED;
    file->anchor.type.storage = &file->storage;
    xcc_value_own(&files->module->owned, &file->anchor);
    *mapped = file;
    return xcc_table_put(files->module, &files->files, location, (intptr_t)file);
}

static xcvm_status parse_number(const char *text, const char *what, size_t *number, xcvm_error *error)
{
    size_t n = 0;
    bool valid = text[0] != '\0';
    for (const char *c = text; *c != '\0' && valid; c++)
        valid = *c >= '0' && *c <= '9' && xcvm_size_mul(n, 10, &n) && xcvm_size_add(n, (size_t)(*c - '0'), &n);
    XCVM_CHECK(error, valid, INVALID_MODEL, "the %s of external data is '%.40s', no number", what, text);
    *number = n;
    return XCVM_OK;
}

xcvm_status xcc_external_data(xcc_external_files *files, const Onnx__TensorProto *proto, size_t bytes,
                              const void **data, xcvm_error *error)
{
    const char *location = "";
    size_t offset = 0, length = bytes;
    XCVM_CHECK(error, files != NULL && files->dir != NULL, INVALID_MODEL,
               "the model has external data, which is only possible for a model that is read from a file");
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const Onnx__StringStringEntryProto *entry = proto->external_data[i];
        if (entry->key == NULL || entry->value == NULL)
            continue;
        if (strcmp(entry->key, "location") == 0)
            location = entry->value;
        else if (strcmp(entry->key, "offset") == 0)
            XCVM_TRY(parse_number(entry->value, "offset", &offset, error));
        else if (strcmp(entry->key, "length") == 0)
            XCVM_TRY(parse_number(entry->value, "length", &length, error));
    }
    XCVM_CHECK(error, length == bytes, INVALID_MODEL, "external data '%s' has a length of %zu bytes, %zu are needed",
               location, length, bytes);
    const struct xcc_table_entry *known = xcc_table_lookup(&files->files, location);
    struct xcc_external_file *file = known != NULL ? (struct xcc_external_file *)(intptr_t)known->value : NULL;
    if (file == NULL)
        XCVM_TRY(map_file(files, location, &file, error));
    XCVM_CHECK(error, offset <= file->count && bytes <= file->count - offset, INVALID_MODEL,
               "external data '%s' has %zu bytes, %zu at %zu are needed", location, file->count, bytes, offset);
    *data = file->bytes != NULL ? (const char *)file->bytes + offset : "";
    return XCVM_OK;
}
