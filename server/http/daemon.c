/* The HTTP server: libmicrohttpd, an optional dependency that is loaded on first use. */
#include "server/http/exchange.h"

#include "base/clock.h"
#include "base/lazy_library.h"
#include "server/common/listen.h"
#include "server/json/document.h"
#include "vm/options.h"

#include <string.h>
#include <unistd.h>

#ifdef XCVM_HAVE_MICROHTTPD

#include <microhttpd.h>
#include <stdio.h>

#define FUNCTIONS(X)                                                                                                   \
    X(MHD_start_daemon)                                                                                                \
    X(MHD_stop_daemon)                                                                                                 \
    X(MHD_quiesce_daemon)                                                                                              \
    X(MHD_lookup_connection_value)                                                                                     \
    X(MHD_get_connection_info)                                                                                         \
    X(MHD_suspend_connection)                                                                                          \
    X(MHD_resume_connection)                                                                                           \
    X(MHD_create_response_from_buffer)                                                                                 \
    X(MHD_add_response_header)                                                                                         \
    X(MHD_queue_response)                                                                                              \
    X(MHD_destroy_response)
XCVM_LAZY_LIBRARY(mhd, XCVM_MICROHTTPD_FILE, FUNCTIONS)

/* ---- The transport ---- */

static const char *find_header(void *connection, const char *name)
{
    return mhd.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static int descriptor_of(void *connection)
{
    const union MHD_ConnectionInfo *info = mhd.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info != NULL ? info->connect_fd : -1;
}

static void suspend(void *connection) { mhd.MHD_suspend_connection(connection); }
static void resume(void *connection) { mhd.MHD_resume_connection(connection); }

/* ---- Callbacks of the library ---- */

static enum MHD_Result send_response(xcs_exchange *exchange)
{
    char number[32];
    xcs_exchange_respond(exchange);
    /* The text lives until xcs_exchange_destroy, which is after the response was sent. */
    struct MHD_Response *response = mhd.MHD_create_response_from_buffer(
        exchange->response.count, exchange->response.count > 0 ? exchange->response.at : number,
        MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    (void)mhd.MHD_add_response_header(response, "Content-Type", exchange->content_type);
    if (exchange->header_length != 0) {
        snprintf(number, sizeof number, "%zu", exchange->header_length);
        (void)mhd.MHD_add_response_header(response, "Inference-Header-Content-Length", number);
    }
    if (exchange->retry_after_s != 0) {
        snprintf(number, sizeof number, "%u", exchange->retry_after_s);
        (void)mhd.MHD_add_response_header(response, "Retry-After", number);
    }
    if (exchange->status == 401)
        (void)mhd.MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (exchange->status == 405)
        (void)mhd.MHD_add_response_header(response, "Allow", xcs_route_method(exchange->route.target));
    if (xcs_exchange_is_refused(exchange) || !__atomic_load_n(&exchange->http->ready, __ATOMIC_RELAXED))
        (void)mhd.MHD_add_response_header(response, "Connection", "close");
    const enum MHD_Result result = mhd.MHD_queue_response(exchange->connection, (unsigned)exchange->status, response);
    mhd.MHD_destroy_response(response);
    return result;
}

static enum MHD_Result handle_request(void *user, struct MHD_Connection *connection, const char *path,
                                      const char *method, const char *version, const char *upload, size_t *upload_size,
                                      void **state)
{
    xcs_exchange *exchange = *state;
    (void)version;
    if (exchange == NULL) {
        exchange = xcs_exchange_create(user, connection, method, path);
        if (exchange == NULL)
            return MHD_NO;
        *state = exchange;
        return xcs_exchange_is_refused(exchange) ? send_response(exchange) : MHD_YES;
    }
    if (*upload_size > 0) {
        const bool accepted = xcs_exchange_receive(exchange, upload, *upload_size);
        *upload_size = 0;
        return accepted ? MHD_YES : MHD_NO;
    }
    return xcs_exchange_process(exchange) ? send_response(exchange) : MHD_YES;
}

static void end_request(void *user, struct MHD_Connection *connection, void **state,
                        enum MHD_RequestTerminationCode code)
{
    (void)user;
    (void)connection;
    if (*state != NULL)
        xcs_exchange_destroy(*state, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    *state = NULL;
}

/* ---- Start and stop ---- */

static xcvm_status start_daemon(xcs_http *http, int descriptor, xcvm_error *error)
{
    enum { CONNECTION_MEMORY = 64 << 10 };
    const unsigned threads = (unsigned)http->options.threads;
    /* poll, because with epoll the library misses the end of a connection that arrives together with its last bytes. */
    http->daemon =
        mhd.MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle_request,
                             http, MHD_OPTION_LISTEN_SOCKET, descriptor, MHD_OPTION_NOTIFY_COMPLETED, end_request, http,
                             MHD_OPTION_CONNECTION_LIMIT, http->options.connection_limit, MHD_OPTION_CONNECTION_TIMEOUT,
                             http->options.idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
                             threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, threads, MHD_OPTION_END);
    XCVM_CHECK(error, http->daemon != NULL, OUT_OF_MEMORY, "the HTTP server does not start at %s", http->address);
    return XCVM_OK;
}

static void destroy_http(xcs_http *http)
{
    const xcvm_allocator allocator = http->allocator;
    if (http->daemon != NULL)
        mhd.MHD_stop_daemon(http->daemon);
    xcs_leave_monitor_destroy(http->monitor);
    pthread_mutex_destroy(&http->mutex);
    pthread_cond_destroy(&http->idle);
    if (http->api_key != NULL)
        xcvm_deallocate(&allocator, http->api_key, strlen(http->api_key) + 1);
    xcvm_deallocate(&allocator, http, sizeof *http);
}

static xcvm_status open_http(xcs_http *http, xcvm_error *error)
{
    int descriptor;
    if (http->options.api_key != NULL) {
        const size_t bytes = strlen(http->options.api_key) + 1;
        http->api_key = xcvm_allocate(&http->allocator, bytes);
        XCVM_CHECK(error, http->api_key != NULL, OUT_OF_MEMORY, "no memory for an HTTP server");
        memcpy(http->api_key, http->options.api_key, bytes);
    }
    XCVM_TRY(xcs_leave_monitor_create(&http->allocator, &http->monitor, error));
    const xcs_http_options *o = &http->options;
    XCVM_TRY(xcs_listen_open(o->address, o->socket, o->api_key != NULL || o->insecure, http->address,
                             sizeof http->address, &descriptor, error));
    xcvm_status status = start_daemon(http, descriptor, error);
    if (status != XCVM_OK)
        close(descriptor);
    return status;
}

static void fill_defaults(xcs_http_options *o)
{
    const int available = xcvm_available_thread_count();
    o->address = o->address != NULL ? o->address : "127.0.0.1:8000";
    o->threads = o->threads > 0 ? o->threads : available < 4 ? available : 4;
    o->body_limit = o->body_limit != 0 ? o->body_limit : (size_t)64 << 20;
    o->connection_limit = o->connection_limit != 0 ? o->connection_limit : 1000;
    o->idle_seconds = o->idle_seconds != 0 ? o->idle_seconds : 60;
}

xcvm_status xcs_http_create(xcs_server *server, const xcs_http_options *options, xcs_http **http, xcvm_error *error)
{
    xcs_http_options o;
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    XCVM_CHECK(error, server != NULL && http != NULL, INVALID_ARGUMENT, "server or http is NULL");
    XCVM_TRY(load_mhd(error));
    XCVM_TRY(xcs_json_load_library(error));
    const xcvm_allocator *allocator = xcvm_allocator_or_default(NULL);
    xcs_http *created = xcvm_allocate_zeroed(allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for an HTTP server");
    fill_defaults(&o);
    created->allocator = *allocator;
    created->server = server;
    created->options = o;
    created->ready = true;
    created->log = (xcs_log){.sink = o.access_log, .mutex = &created->mutex};
    created->transport = (xcs_transport){find_header, descriptor_of, suspend, resume};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&created->mutex, NULL);
    pthread_cond_init(&created->idle, &monotonic);
    pthread_condattr_destroy(&monotonic);
    xcvm_status status = open_http(created, error);
    if (status != XCVM_OK) {
        destroy_http(created);
        return status;
    }
    *http = created;
    return XCVM_OK;
}

void xcs_http_destroy(xcs_http *http)
{
    if (http == NULL)
        return;
    __atomic_store_n(&http->ready, false, __ATOMIC_RELAXED);
    const int descriptor = mhd.MHD_quiesce_daemon(http->daemon);
    if (descriptor >= 0)
        close(descriptor);
    pthread_mutex_lock(&http->mutex);
    http->closing = true;
    /* The library ends the process if a connection is suspended when it stops. */
    while (http->handling > 0)
        pthread_cond_wait(&http->idle, &http->mutex);
    /* A response that a client does not read must not keep the process. */
    const uint64_t until_ns = xcvm_clock_ns() + UINT64_C(10000000000);
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};
    while (http->open > 0 && pthread_cond_timedwait(&http->idle, &http->mutex, &until) == 0)
        continue;
    pthread_mutex_unlock(&http->mutex);
    destroy_http(http);
}

#else

xcvm_status xcs_http_create(xcs_server *server, const xcs_http_options *options, xcs_http **http, xcvm_error *error)
{
    (void)server;
    (void)options;
    (void)http;
    XCVM_FAIL(error, UNSUPPORTED, "this build has no HTTP server (libmicrohttpd-dev was missing)");
}

void xcs_http_destroy(xcs_http *http) { (void)http; }

#endif

const char *xcs_http_address(const xcs_http *http) { return http->address; }

void xcs_http_set_ready(xcs_http *http, bool ready) { __atomic_store_n(&http->ready, ready, __ATOMIC_RELAXED); }
