/* A loaded model: the program, its sessions, and the end of both. */
#include "server/pool/pool.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WARM_UP_NS UINT64_C(5000000000)

/* A mapped file that shrinks ends the process (SIGBUS), so files that other users may write are copied. */
static bool may_be_mapped(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && (file.st_uid == geteuid() || file.st_uid == 0) &&
           (file.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static xcvm_status load_program(xcs_model *model, const xcs_model_options *options, xcvm_error *error)
{
    const xcvm_load_options load = {.size = sizeof load,
                                    .allocator = &model->memory->allocator,
                                    .copy = !may_be_mapped(options->path),
                                    .no_libraries = true};
    if (options->loader.call != NULL)
        return options->loader.call(options->loader.user, options->path, &load, &model->program, error);
    return xcvm_program_load_file(options->path, &load, &model->program, error);
}

static xcvm_status create_sessions(xcs_model *model, xcvm_error *error)
{
    const xcvm_session_options options = {.size = sizeof options,
                                          .allocator = &model->memory->allocator,
                                          .threads = model->limits.threads,
                                          .memory_limit = model->limits.memory_limit};
    const xcvm_run_options warm_up = {.size = sizeof warm_up, .timeout_ns = WARM_UP_NS};
    const size_t wanted = (size_t)model->limits.sessions;
    model->idle = xcvm_allocate_zeroed(&model->server->allocator, wanted * sizeof *model->idle);
    XCVM_CHECK(error, model->idle != NULL, OUT_OF_MEMORY, "no memory for %zu sessions", wanted);
    model->session_count = wanted;
    for (; model->idle_count < wanted; model->idle_count++) {
        XCVM_TRY(xcvm_session_create(model->program, &options, &model->idle[model->idle_count], error));
        xcvm_status status = xcvm_session_warm_up(model->idle[model->idle_count], &warm_up, error);
        if (status != XCVM_OK) {
            model->idle_count++; /* to be destroyed */
            return status;
        }
    }
    return XCVM_OK;
}

static xcs_model_options limits_of(const xcs_server *server, const xcs_model_options *options)
{
    xcs_model_options limits = *options;
    limits.sessions = limits.sessions > 0 ? limits.sessions : (int)server->wanted_threads;
    limits.threads = limits.threads > 0 ? limits.threads : 1;
    limits.queue.count = limits.queue.count != 0 ? limits.queue.count : 256;
    limits.queue.bytes = limits.queue.bytes != 0 ? limits.queue.bytes : UINT64_C(256) << 20;
    limits.batch.max_rows = limits.batch.max_rows != 0 ? limits.batch.max_rows : 32;
    limits.clients.count = limits.clients.count != 0 ? limits.clients.count : 64;
    limits.clients.idle_ns = limits.clients.idle_ns != 0 ? limits.clients.idle_ns : UINT64_C(600000000000);
    return limits;
}

static void destroy_model(xcs_model *model)
{
    xcs_server *server = model->server;
    for (size_t i = 0; i < model->idle_count; i++)
        xcvm_session_destroy(model->idle[i]);
    xcvm_deallocate(&server->allocator, model->idle, model->session_count * sizeof *model->idle);
    xcvm_program_destroy(model->program);
    xcs_memory_release(model->memory);
    xcvm_deallocate(&server->allocator, model, sizeof *model);
}

static xcvm_status open_model(xcs_model *model, const xcs_model_options *options, xcvm_error *error)
{
    model->memory = xcs_memory_create(&model->server->allocator, model->limits.memory_limit, model->server->memory);
    XCVM_CHECK(error, model->memory != NULL, OUT_OF_MEMORY, "no memory for a model");
    XCVM_TRY(load_program(model, options, error));
    XCVM_TRY(create_sessions(model, error));
    xcs_batch_decide(model);
    return XCVM_OK;
}

xcvm_status xcs_model_create(xcs_server *server, xcs_entry *entry, const xcs_model_options *options, xcs_model **model,
                             xcvm_error *error)
{
    xcs_model *created = xcvm_allocate_zeroed(&server->allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for a model");
    created->refs = 1;
    created->server = server;
    created->entry = entry;
    created->limits = limits_of(server, options);
    xcvm_status status = open_model(created, options, error);
    if (status != XCVM_OK) {
        destroy_model(created);
        return status;
    }
    pthread_mutex_lock(&server->mutex);
    created->next = server->models;
    if (created->next != NULL)
        created->next->before = created;
    server->models = created;
    pthread_mutex_unlock(&server->mutex);
    *model = created;
    return XCVM_OK;
}

void xcs_model_release(xcs_model *model)
{
    if (model == NULL || __atomic_sub_fetch(&model->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    xcs_server *server = model->server;
    pthread_mutex_lock(&server->mutex);
    *(model->before != NULL ? &model->before->next : &server->models) = model->next;
    if (model->next != NULL)
        model->next->before = model->before;
    pthread_mutex_unlock(&server->mutex);
    destroy_model(model);
}

const xcvm_program *xcs_model_program(const xcs_model *model) { return model->program; }
const char *xcs_model_name(const xcs_model *model) { return model->entry->name; }
const char *xcs_model_version(const xcs_model *model) { return model->entry->version; }
const xcvm_allocator *xcs_model_allocator(const xcs_model *model) { return &model->memory->allocator; }

int64_t xcs_model_batch_rows(const xcs_model *model, const char **reason)
{
    if (reason != NULL)
        *reason = model->batch_reason;
    return model->batch_rows;
}
