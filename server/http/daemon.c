/* The HTTP server: its options, sockets, start and end. */
#include "server/http/connection.h"

#include "server/common/listen.h"
#include "server/json/document.h"
#include "vm/options.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void destroy_http(xcs_http *http)
{
    const xcvm_allocator allocator = http->allocator;
    xcs_blocks *blocks = http->blocks;
    xcs_loops_destroy(http);
    for (int i = 0; i < 2; i++)
        if (http->sockets[i] >= 0)
            close(http->sockets[i]);
    if (http->admin_path != NULL) {
        (void)unlink(http->admin_path);
        xcvm_deallocate(&allocator, http->admin_path, strlen(http->admin_path) + 1);
    }
    pthread_mutex_destroy(&http->mutex);
    if (http->api_key != NULL)
        xcvm_deallocate(&allocator, http->api_key, strlen(http->api_key) + 1);
    xcvm_deallocate(&allocator, http, sizeof *http);
    xcs_blocks_destroy(blocks);
}

/* Only the user of the process may connect. */
static xcvm_status open_admin_socket(xcs_http *http, xcvm_error *error)
{
    const char *path = http->options.admin_socket;
    char address[120];
    if (path == NULL)
        return XCVM_OK;
    XCVM_CHECK(error, strlen(path) < sizeof address - 5, INVALID_ARGUMENT,
               "\"%.120s\": the path of a socket is too long", path);
    strcpy(address, "unix:");
    strcat(address, path);
    XCVM_TRY(xcs_listen(address, &http->sockets[1], error));
    XCVM_CHECK(error,
               chmod(path, S_IRUSR | S_IWUSR) == 0 &&
                   fcntl(http->sockets[1], F_SETFL, fcntl(http->sockets[1], F_GETFL) | O_NONBLOCK) == 0,
               IO, "cannot set the mode of the socket \"%.120s\"", path);
    const size_t bytes = strlen(path) + 1;
    http->admin_path = xcvm_allocate(&http->allocator, bytes);
    XCVM_CHECK(error, http->admin_path != NULL, OUT_OF_MEMORY, "no memory for an HTTP server");
    memcpy(http->admin_path, path, bytes);
    http->options.admin_socket = http->admin_path;
    return XCVM_OK;
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
    const xcs_http_options *o = &http->options;
    XCVM_TRY(xcs_listen_open(o->address, o->socket, o->api_key != NULL || o->insecure, http->address,
                             sizeof http->address, &descriptor, error));
    http->sockets[0] = descriptor;
    XCVM_TRY(open_admin_socket(http, error));
    return xcs_loops_create(http, error);
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
    XCVM_TRY(xcs_json_load_library(error));
    xcs_blocks *blocks = xcs_blocks_create(NULL);
    XCVM_CHECK(error, blocks != NULL, OUT_OF_MEMORY, "no memory for an HTTP server");
    xcs_http *created = xcvm_allocate_zeroed(&blocks->allocator, sizeof *created);
    if (created == NULL) {
        xcs_blocks_destroy(blocks);
        XCVM_FAIL(error, OUT_OF_MEMORY, "no memory for an HTTP server");
    }
    fill_defaults(&o);
    created->allocator = blocks->allocator;
    created->blocks = blocks;
    created->server = server;
    created->options = o;
    created->share.limit = xcs_share_limit(o.body_limit);
    created->sockets[0] = created->sockets[1] = -1;
    created->ready = true;
    created->log = (xcs_log){.sink = o.access_log, .mutex = &created->mutex};
    pthread_mutex_init(&created->mutex, NULL);
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
    destroy_http(http);
}

const char *xcs_http_address(const xcs_http *http) { return http->address; }

void xcs_http_set_ready(xcs_http *http, bool ready) { __atomic_store_n(&http->ready, ready, __ATOMIC_RELAXED); }
