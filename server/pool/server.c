/* The server: its threads, which run requests and enforce deadlines, and its shutdown. */
#include "server/pool/pool.h"

#include "vm/options.h"

#include <string.h>
#include <time.h>

void xcs_time_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t until_ns)
{
    if (until_ns == UINT64_MAX) {
        pthread_cond_wait(condition, mutex);
        return;
    }
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};
    pthread_cond_timedwait(condition, mutex, &until);
}

/* ---- Workers ---- */

static bool any_waits_locked(const xcs_server *server)
{
    for (const xcs_model *model = server->models; model != NULL; model = model->next)
        if (model->waiting > 0 && model->running < model->session_count)
            return true;
    return false;
}

static void *work(void *argument)
{
    xcs_server *server = argument;
    pthread_mutex_lock(&server->mutex);
    while (!server->stopping) {
        xcs_run run;
        xcs_request *late = NULL;
        uint64_t wake_ns = UINT64_MAX;
        const bool found = xcs_queue_take_locked(server, &run, &late, &wake_ns);
        if (!found && late == NULL) {
            server->asleep++;
            xcs_time_wait(&server->work, &server->mutex, wake_ns);
            server->asleep--;
            continue;
        }
        if (server->asleep > 0 && any_waits_locked(server))
            pthread_cond_signal(&server->work);
        pthread_mutex_unlock(&server->mutex);
        xcs_requests_complete_late(late);
        if (found)
            (void)xcs_run_execute(&run); /* workers give no run up */
        pthread_mutex_lock(&server->mutex);
    }
    pthread_mutex_unlock(&server->mutex);
    return NULL;
}

/* ---- Deadlines ---- */

void xcs_timer_set_locked(xcs_server *server, uint64_t when_ns)
{
    if (when_ns >= server->timer_ns)
        return;
    server->timer_ns = when_ns;
    pthread_cond_signal(&server->timer);
}

static void *keep_time(void *argument)
{
    /* Deadlines that are close together share a wakeup. */
    const uint64_t shortest_sleep_ns = 500000;
    xcs_server *server = argument;
    pthread_mutex_lock(&server->mutex);
    while (!server->stopping) {
        const uint64_t now = xcvm_clock_ns();
        if (server->timer_ns > now) {
            xcs_time_wait(&server->timer, &server->mutex, server->timer_ns);
            continue;
        }
        xcs_request *late = NULL;
        xcs_client *idle = NULL;
        const uint64_t deadline_ns = xcs_queue_expire_locked(server, now, &late);
        const uint64_t expiry_ns = xcs_clients_expire_locked(server, now, &idle);
        const uint64_t next = deadline_ns < expiry_ns ? deadline_ns : expiry_ns;
        server->timer_ns = next < now + shortest_sleep_ns ? now + shortest_sleep_ns : next;
        pthread_mutex_unlock(&server->mutex);
        xcs_requests_complete_late(late);
        for (xcs_client *client; (client = idle) != NULL;) {
            idle = client->next;
            xcs_client_destroy(server, client);
        }
        pthread_mutex_lock(&server->mutex);
    }
    pthread_mutex_unlock(&server->mutex);
    return NULL;
}

/* ---- Creation and destruction ---- */

static bool init_synchronization(xcs_server *server)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0)
        return false;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_t *const conditions[] = {&server->work, &server->timer, &server->idle};
    size_t made = 0;
    while (made < 3 && pthread_cond_init(conditions[made], &monotonic) == 0)
        made++;
    pthread_condattr_destroy(&monotonic);
    size_t mutexes = 0;
    if (made == 3 && pthread_mutex_init(&server->mutex, NULL) == 0)
        mutexes++;
    if (mutexes == 1 && pthread_mutex_init(&server->load_mutex, NULL) == 0)
        return true;
    if (mutexes == 1)
        pthread_mutex_destroy(&server->mutex);
    while (made > 0)
        pthread_cond_destroy(conditions[--made]);
    return false;
}

static void destroy_synchronization(xcs_server *server)
{
    pthread_mutex_destroy(&server->load_mutex);
    pthread_mutex_destroy(&server->mutex);
    pthread_cond_destroy(&server->work);
    pthread_cond_destroy(&server->timer);
    pthread_cond_destroy(&server->idle);
}

static xcvm_status start_threads(xcs_server *server, xcvm_error *error)
{
    server->threads = xcvm_allocate_zeroed(&server->allocator, server->wanted_threads * sizeof *server->threads);
    XCVM_CHECK(error, server->threads != NULL, OUT_OF_MEMORY, "no memory for %zu threads", server->wanted_threads);
    for (; server->thread_count < server->wanted_threads; server->thread_count++)
        XCVM_CHECK(error, pthread_create(&server->threads[server->thread_count], NULL, work, server) == 0,
                   OUT_OF_MEMORY, "the system has no more than %zu threads for the pool", server->thread_count);
    XCVM_CHECK(error, pthread_create(&server->timer_thread, NULL, keep_time, server) == 0, OUT_OF_MEMORY,
               "the system has no thread for deadlines");
    server->has_timer = true;
    return XCVM_OK;
}

static void stop_threads(xcs_server *server)
{
    pthread_mutex_lock(&server->mutex);
    server->stopping = true;
    pthread_cond_broadcast(&server->work);
    pthread_cond_broadcast(&server->timer);
    pthread_mutex_unlock(&server->mutex);
    for (size_t i = 0; i < server->thread_count; i++)
        pthread_join(server->threads[i], NULL);
    if (server->has_timer)
        pthread_join(server->timer_thread, NULL);
    xcvm_deallocate(&server->allocator, server->threads, server->wanted_threads * sizeof *server->threads);
}

xcvm_status xcs_server_create(const xcs_server_options *options, xcs_server **server, xcvm_error *error)
{
    xcs_server_options o;
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    XCVM_CHECK(error, server != NULL, INVALID_ARGUMENT, "server is NULL");
    XCVM_CHECK(error, o.workers >= 0 && o.workers <= 1024, INVALID_ARGUMENT, "workers is %d; expected 0 to 1024",
               o.workers);
    const xcvm_allocator *allocator = xcvm_allocator_or_default(o.allocator);
    xcs_server *created = xcvm_allocate_zeroed(allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for a server");
    created->allocator = *allocator;
    created->wanted_threads = (size_t)(o.workers > 0 ? o.workers : xcvm_available_thread_count());
    created->timer_ns = UINT64_MAX;
    created->memory = xcs_memory_create(allocator, o.memory_limit, NULL);
    if (created->memory == NULL || !init_synchronization(created)) {
        xcs_memory_release(created->memory);
        xcvm_deallocate(allocator, created, sizeof *created);
        XCVM_FAIL(error, OUT_OF_MEMORY, "no memory for a server");
    }
    xcvm_status status = start_threads(created, error);
    if (status != XCVM_OK) {
        xcs_server_destroy(created);
        return status;
    }
    *server = created;
    return XCVM_OK;
}

bool xcs_server_drain(xcs_server *server, uint64_t timeout_ns)
{
    const uint64_t deadline_ns = xcvm_clock_deadline(timeout_ns);
    pthread_mutex_lock(&server->mutex);
    server->draining = true;
    pthread_cond_broadcast(&server->work);
    while (server->active > 0 && (deadline_ns == 0 || xcvm_clock_ns() < deadline_ns))
        xcs_time_wait(&server->idle, &server->mutex, deadline_ns != 0 ? deadline_ns : UINT64_MAX);
    const bool drained = server->active == 0;
    pthread_mutex_unlock(&server->mutex);
    return drained;
}

/* Cancels the requests that wait. Each is removed before it completes, so the scan begins anew. */
static void cancel_waiting(xcs_server *server)
{
    for (;;) {
        xcs_request *request = NULL;
        pthread_mutex_lock(&server->mutex);
        for (xcs_model *model = server->models; model != NULL && request == NULL; model = model->next)
            request = model->first;
        if (request != NULL)
            __atomic_add_fetch(&request->refs, 1, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&server->mutex);
        if (request == NULL)
            return;
        xcs_request_cancel(request);
        xcs_request_release(request);
    }
}

static void cancel_running(xcs_server *server)
{
    pthread_mutex_lock(&server->mutex);
    for (xcs_run *run = server->runs; run != NULL; run = run->next) {
        run->stopped = true;
        __atomic_store_n(&run->left, 0, __ATOMIC_RELAXED);
        if (run->session != NULL)
            xcvm_session_cancel(run->session);
    }
    pthread_mutex_unlock(&server->mutex);
}

void xcs_server_destroy(xcs_server *server)
{
    if (server == NULL)
        return;
    pthread_mutex_lock(&server->mutex);
    server->draining = true;
    server->destroying = true;
    pthread_mutex_unlock(&server->mutex);
    cancel_waiting(server);
    cancel_running(server);
    (void)xcs_server_drain(server, 0);
    stop_threads(server);
    for (xcs_entry *entry = server->entries, *next; entry != NULL; entry = next) {
        next = entry->next;
        for (xcs_client *client; (client = entry->clients) != NULL;) {
            entry->clients = client->next;
            xcs_client_destroy(server, client);
        }
        xcs_model_release(entry->current);
    }
    for (xcs_entry *entry = server->entries, *next; entry != NULL; entry = next) {
        next = entry->next;
        xcs_text_release(&server->allocator, entry->name);
        xcs_text_release(&server->allocator, entry->version);
        xcs_text_release(&server->allocator, entry->path);
        xcvm_deallocate(&server->allocator, entry, sizeof *entry);
    }
    xcs_memory_release(server->memory);
    destroy_synchronization(server);
    const xcvm_allocator allocator = server->allocator;
    xcvm_deallocate(&allocator, server, sizeof *server);
}
