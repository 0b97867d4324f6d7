/* The models of a server by name and version: load, replace, unload, find, list. */
#include "server/pool/pool.h"

#include "vm/options.h"

#include <stdio.h>
#include <string.h>

char *xcs_text_copy(const xcvm_allocator *allocator, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = xcvm_allocate(allocator, bytes);
    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

void xcs_text_release(const xcvm_allocator *allocator, char *text)
{
    if (text != NULL)
        xcvm_deallocate(allocator, text, strlen(text) + 1);
}

/* Versions are decimal numbers without leading zeros: the longer one is greater. */
static int compare_versions(const char *a, const char *b)
{
    const size_t la = strlen(a), lb = strlen(b);
    return la != lb ? (la < lb ? -1 : 1) : strcmp(a, b);
}

static xcvm_status check_names(const char *name, const char *version, xcvm_error *error)
{
    XCVM_CHECK(error, name != NULL && *name != '\0', INVALID_ARGUMENT, "a model needs a name");
    const size_t digits = strspn(version, "0123456789");
    XCVM_CHECK(error, digits > 0 && digits < 19 && version[digits] == '\0' && version[0] != '0', INVALID_ARGUMENT,
               "\"%.40s\" is not a version; expected a positive decimal number", version);
    return XCVM_OK;
}

static xcs_entry *find_entry_locked(xcs_server *server, const char *name, const char *version)
{
    for (xcs_entry *entry = server->entries; entry != NULL; entry = entry->next)
        if (strcmp(entry->name, name) == 0 && strcmp(entry->version, version) == 0)
            return entry;
    return NULL;
}

xcs_model *xcs_server_current_locked(xcs_server *server, const char *name, const char *version)
{
    xcs_model *best = NULL;
    if (version != NULL && *version == '\0')
        version = NULL;
    /* Entries are sorted, so the last one is the highest version. */
    for (xcs_entry *entry = server->entries; entry != NULL; entry = entry->next)
        if (entry->current != NULL && strcmp(entry->name, name) == 0 &&
            (version == NULL || strcmp(entry->version, version) == 0))
            best = entry->current;
    return best;
}

xcs_model *xcs_server_find_model(xcs_server *server, const char *name, const char *version)
{
    pthread_mutex_lock(&server->mutex);
    xcs_model *model = xcs_server_current_locked(server, name, version);
    if (model != NULL)
        xcs_model_retain(model);
    pthread_mutex_unlock(&server->mutex);
    return model;
}

static void destroy_entry(xcs_server *server, xcs_entry *entry)
{
    xcs_text_release(&server->allocator, entry->name);
    xcs_text_release(&server->allocator, entry->version);
    xcs_text_release(&server->allocator, entry->path);
    xcvm_deallocate(&server->allocator, entry, sizeof *entry);
}

static void insert_entry_locked(xcs_server *server, xcs_entry *entry)
{
    xcs_entry **at = &server->entries;
    for (; *at != NULL; at = &(*at)->next) {
        const int order = strcmp((*at)->name, entry->name);
        if (order > 0 || (order == 0 && compare_versions((*at)->version, entry->version) > 0))
            break;
    }
    entry->next = *at;
    *at = entry;
}

static xcvm_status create_entry(xcs_server *server, const xcs_model_options *options, xcs_entry **entry,
                                xcvm_error *error)
{
    xcs_entry *created = xcvm_allocate_zeroed(&server->allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for a model");
    created->name = xcs_text_copy(&server->allocator, options->name);
    created->version = xcs_text_copy(&server->allocator, options->version);
    created->path = xcs_text_copy(&server->allocator, options->path);
    if (created->name == NULL || created->version == NULL || created->path == NULL) {
        destroy_entry(server, created);
        XCVM_FAIL(error, OUT_OF_MEMORY, "no memory for a model");
    }
    *entry = created;
    return XCVM_OK;
}

/* Makes `model` the current one of its entry, and takes the options over. */
static xcvm_status install(xcs_server *server, xcs_entry *entry, const xcs_model_options *options, xcs_model *model,
                           xcvm_error *error)
{
    char *path = xcs_text_copy(&server->allocator, options->path);
    if (path == NULL) {
        xcs_model_release(model);
        XCVM_FAIL(error, OUT_OF_MEMORY, "no memory for a path");
    }
    pthread_mutex_lock(&server->mutex);
    char *old_path = entry->path;
    xcs_model *old = entry->current;
    entry->path = path;
    entry->options = *options;
    entry->options.name = entry->name;
    entry->options.version = entry->version;
    entry->options.path = path;
    entry->current = model;
    entry->reason[0] = '\0';
    entry->statistics.loads++;
    pthread_mutex_unlock(&server->mutex);
    xcs_text_release(&server->allocator, old_path);
    xcs_model_release(old);
    return XCVM_OK;
}

/* load_mutex is locked. */
static xcvm_status load_model(xcs_server *server, const xcs_model_options *o, xcvm_error *error)
{
    xcvm_error local = {.pc = -1};
    pthread_mutex_lock(&server->mutex);
    xcs_entry *entry = find_entry_locked(server, o->name, o->version);
    pthread_mutex_unlock(&server->mutex);
    const bool is_new = entry == NULL;
    if (is_new)
        XCVM_TRY(create_entry(server, o, &entry, error));
    xcs_model *model;
    xcvm_status status = xcs_model_create(server, entry, o, &model, &local);
    if (status == XCVM_OK)
        status = install(server, entry, o, model, &local);
    if (status == XCVM_OK && is_new) {
        pthread_mutex_lock(&server->mutex);
        insert_entry_locked(server, entry);
        pthread_mutex_unlock(&server->mutex);
    } else if (status != XCVM_OK && is_new) {
        destroy_entry(server, entry);
    } else if (status != XCVM_OK) {
        pthread_mutex_lock(&server->mutex);
        entry->statistics.failed_loads++;
        snprintf(entry->reason, sizeof entry->reason, "%s", local.message);
        pthread_mutex_unlock(&server->mutex);
    }
    if (status != XCVM_OK && error != NULL) {
        *error = local;
        xcvm_error_prefix(error, "model \"%.100s\", version %s", o->name, o->version);
    }
    return status;
}

xcvm_status xcs_server_load_model(xcs_server *server, const xcs_model_options *options, xcvm_error *error)
{
    xcs_model_options o;
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    o.version = o.version != NULL ? o.version : "1";
    XCVM_TRY(check_names(o.name, o.version, error));
    XCVM_CHECK(error, o.path != NULL, INVALID_ARGUMENT, "model \"%.100s\" needs a path", o.name);
    XCVM_CHECK(error, o.sessions >= 0 && o.threads >= 0 && o.batch.max_rows >= 0, INVALID_ARGUMENT,
               "model \"%.100s\": sessions, threads and max_rows must not be negative", o.name);
    pthread_mutex_lock(&server->load_mutex);
    xcvm_status status = load_model(server, &o, error);
    pthread_mutex_unlock(&server->load_mutex);
    return status;
}

/* Calls `act` for each version that is selected. Returns the first failure, after all have been tried. load_mutex is
 * locked, so entries and their options do not change. */
static xcvm_status for_versions(xcs_server *server, const char *name, const char *version,
                                xcvm_status (*act)(xcs_server *server, xcs_entry *entry, xcvm_error *error),
                                xcvm_error *error)
{
    xcvm_status status = XCVM_OK;
    size_t found = 0;
    pthread_mutex_lock(&server->load_mutex);
    for (xcs_entry *entry = server->entries; entry != NULL; entry = entry->next) {
        if (strcmp(entry->name, name) != 0 || (version != NULL && strcmp(entry->version, version) != 0))
            continue;
        found++;
        xcvm_status one = act(server, entry, status == XCVM_OK ? error : NULL);
        status = status == XCVM_OK ? one : status;
    }
    pthread_mutex_unlock(&server->load_mutex);
    XCVM_CHECK(error, found > 0, INVALID_ARGUMENT, "there is no model \"%.100s\"%s%.20s", name,
               version != NULL ? ", version " : "", version != NULL ? version : "");
    return status;
}

static xcvm_status reload(xcs_server *server, xcs_entry *entry, xcvm_error *error)
{
    const xcs_model_options options = entry->options;
    return load_model(server, &options, error);
}

static xcvm_status unload(xcs_server *server, xcs_entry *entry, xcvm_error *error)
{
    (void)error;
    pthread_mutex_lock(&server->mutex);
    xcs_model *old = entry->current;
    entry->current = NULL;
    snprintf(entry->reason, sizeof entry->reason, "unloaded");
    pthread_mutex_unlock(&server->mutex);
    xcs_model_release(old);
    return XCVM_OK;
}

xcvm_status xcs_server_reload_model(xcs_server *server, const char *name, const char *version, xcvm_error *error)
{
    XCVM_CHECK(error, name != NULL, INVALID_ARGUMENT, "name is NULL");
    return for_versions(server, name, version, reload, error);
}

xcvm_status xcs_server_unload_model(xcs_server *server, const char *name, const char *version, xcvm_error *error)
{
    XCVM_CHECK(error, name != NULL, INVALID_ARGUMENT, "name is NULL");
    return for_versions(server, name, version, unload, error);
}

/* ---- Listing ---- */

static xcs_model_info info_of_locked(const xcs_server *server, const xcs_entry *entry)
{
    xcs_model_info info = {.size = sizeof info,
                           .name = entry->name,
                           .version = entry->version,
                           .path = entry->path,
                           .ready = entry->current != NULL,
                           .reason = entry->reason,
                           .statistics = entry->statistics};
    info.statistics.clients = entry->client_count;
    for (const xcs_model *model = server->models; model != NULL; model = model->next)
        if (model->entry == entry) {
            info.statistics.waiting += model->waiting;
            info.statistics.running += model->running;
            info.statistics.waiting_bytes += model->waiting_bytes;
        }
    if (entry->current != NULL) {
        info.statistics.memory_bytes = __atomic_load_n(&entry->current->memory->used, __ATOMIC_RELAXED);
        info.statistics.peak_memory_bytes = __atomic_load_n(&entry->current->memory->peak, __ATOMIC_RELAXED);
    }
    return info;
}

xcvm_status xcs_server_visit_models(xcs_server *server, void (*visit)(void *user, const xcs_model_info *info),
                                    void *user, xcvm_error *error)
{
    XCVM_CHECK(error, server != NULL && visit != NULL, INVALID_ARGUMENT, "server or visit is NULL");
    pthread_mutex_lock(&server->mutex);
    xcs_entry *entry = server->entries;
    pthread_mutex_unlock(&server->mutex);
    while (entry != NULL) {
        char path[4096], reason[sizeof entry->reason];
        pthread_mutex_lock(&server->mutex);
        xcs_model_info info = info_of_locked(server, entry);
        snprintf(path, sizeof path, "%s", info.path);
        snprintf(reason, sizeof reason, "%s", info.reason);
        xcs_entry *next = entry->next;
        pthread_mutex_unlock(&server->mutex);
        info.path = path;
        info.reason = reason;
        visit(user, &info);
        entry = next;
    }
    return XCVM_OK;
}
