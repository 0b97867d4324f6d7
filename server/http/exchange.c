/* The life of an exchange: checks of the headers, the body, the handlers, the end. */
#include "server/http/exchange.h"

#include "base/clock.h"
#include "base/decimal.h"
#include "server/common/access.h"
#include "server/oip/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A client that needs longer to send a body is cut off. */
#define BODY_NS UINT64_C(120000000000)

/* Bytes that a body takes before they arrive. */
enum { MOST_RESERVED = 256 << 10 };

void xcs_exchange_fail(xcs_exchange *exchange, int status, const char *message)
{
    exchange->status = status;
    exchange->header_length = 0;
    exchange->response.count = 0;
    exchange->content_type = "application/json";
    xcs_describe_error(&exchange->response, message);
}

/* ---- The beginning ---- */

static bool is_authorized(const xcs_exchange *exchange)
{
    const xcs_http *http = exchange->http;
    if (http->api_key == NULL || exchange->route.target == XCS_TARGET_LIVE ||
        exchange->route.target == XCS_TARGET_READY)
        return true;
    return xcs_key_is_sent(http->api_key, http->transport.header(exchange->connection, "Authorization"),
                           http->transport.header(exchange->connection, "X-API-Key"));
}

/* Refuses requests by their headers. */
static void check_headers(xcs_exchange *exchange)
{
    const xcs_http *http = exchange->http;
    const char *expected = xcs_route_method(exchange->route.target);
    const char *length = http->transport.header(exchange->connection, "Content-Length");
    const char *encoding = http->transport.header(exchange->connection, "Content-Encoding");
    char message[200];
    if (!is_authorized(exchange)) {
        xcs_exchange_fail(exchange, 401, "the API key is missing or wrong. Send \"Authorization: Bearer KEY\"");
    } else if (exchange->route.target == XCS_TARGET_UNKNOWN) {
        xcs_exchange_fail(exchange, 404, "there is no such path. \"/v2\" describes the server");
    } else if (strcmp(exchange->method, expected) != 0 &&
               !(strcmp(exchange->method, "HEAD") == 0 && strcmp(expected, "GET") == 0)) {
        snprintf(message, sizeof message, "the method is %.7s; expected %s", exchange->method, expected);
        xcs_exchange_fail(exchange, 405, message);
    } else if (encoding != NULL && strcmp(encoding, "identity") != 0) {
        snprintf(message, sizeof message, "the content encoding \"%.40s\" is not supported. Send the body as it is",
                 encoding);
        xcs_exchange_fail(exchange, 415, message);
    } else if (length != NULL && strtoull(length, NULL, 10) > http->options.body_limit) {
        snprintf(message, sizeof message, "the body has %.24s bytes; the limit is %zu", length,
                 http->options.body_limit);
        xcs_exchange_fail(exchange, 413, message);
    } else if (exchange->route.target == XCS_TARGET_INFER) {
        exchange->model = xcs_server_find_model(http->server, exchange->route.model, exchange->route.version);
        snprintf(message, sizeof message, "no model \"%.100s\"%s%.20s is ready", exchange->route.model,
                 exchange->route.version[0] != '\0' ? ", version " : "", exchange->route.version);
        if (exchange->model == NULL)
            xcs_exchange_fail(exchange, 404, message);
        else
            exchange->body.allocator = xcs_model_allocator(exchange->model);
    }
    exchange->discards = exchange->status != 0;
    /* A longer body takes memory as it arrives, not because a client announces it. */
    const unsigned long long announced = length != NULL ? strtoull(length, NULL, 10) : 0;
    if (exchange->status == 0 && announced > 0)
        (void)xcs_text_reserve(&exchange->body, announced < MOST_RESERVED ? (size_t)announced : MOST_RESERVED);
}

xcs_exchange *xcs_exchange_create(xcs_http *http, void *connection, const char *method, const char *path)
{
    xcs_exchange *exchange = xcvm_allocate_zeroed(&http->allocator, sizeof *exchange);
    if (exchange == NULL)
        return NULL;
    exchange->http = http;
    exchange->connection = connection;
    exchange->begin_ns = xcvm_clock_ns();
    exchange->body.allocator = exchange->response.allocator = &http->allocator;
    exchange->content_type = "application/json";
    snprintf(exchange->method, sizeof exchange->method, "%s", method);
    snprintf(exchange->path, sizeof exchange->path, "%s", path);
    exchange->route = xcs_route_parse(path);
    check_headers(exchange);
    return exchange;
}

bool xcs_exchange_is_refused(const xcs_exchange *exchange)
{
    /* Small bodies are read, so that the connection can be used again. */
    return exchange->status == 413 || exchange->status == 401;
}

bool xcs_exchange_receive(xcs_exchange *exchange, const char *bytes, size_t count)
{
    const size_t limit = exchange->http->options.body_limit;
    exchange->body_bytes += count;
    if (xcvm_clock_ns() - exchange->begin_ns > BODY_NS)
        return false;
    if (exchange->discards)
        return exchange->body_bytes <= limit;
    if (exchange->body_bytes > limit)
        return false;
    xcs_text_add(&exchange->body, bytes, count);
    return true;
}

/* ---- Handlers ---- */

static void handle_health(xcs_exchange *exchange)
{
    const bool live = exchange->route.target == XCS_TARGET_LIVE;
    const bool ready = __atomic_load_n(&exchange->http->ready, __ATOMIC_RELAXED);
    exchange->status = live || ready ? 200 : 503;
    xcs_text_format(&exchange->response, live ? "{\"live\":true}" : "{\"ready\":%s}", ready ? "true" : "false");
}

static void handle_model(xcs_exchange *exchange)
{
    xcvm_error error;
    const bool describe = exchange->route.target == XCS_TARGET_MODEL;
    exchange->model = xcs_server_find_model(exchange->http->server, exchange->route.model, exchange->route.version);
    if (exchange->model == NULL) {
        xcs_exchange_fail(exchange, describe ? 404 : 503, "no such model is ready");
        return;
    }
    exchange->status = 200;
    if (!describe) {
        xcs_text_put(&exchange->response, "{\"name\":");
        xcs_text_quote(&exchange->response, exchange->route.model, strlen(exchange->route.model));
        xcs_text_put(&exchange->response, ",\"ready\":true}");
    }
    if (describe && xcs_describe_model(exchange->http->server, exchange->model, &exchange->response, &error) != XCVM_OK)
        xcs_exchange_fail(exchange, 500, error.message);
}

static void handle_listing(xcs_exchange *exchange)
{
    xcvm_error error;
    const xcs_route *route = &exchange->route;
    xcs_server *server = exchange->http->server;
    xcvm_status status = XCVM_OK;
    exchange->status = 200;
    if (route->target == XCS_TARGET_SERVER) {
        xcs_describe_server(&exchange->response);
    } else if (route->target == XCS_TARGET_METRICS) {
        exchange->content_type = "text/plain; version=0.0.4; charset=utf-8";
        status = xcs_describe_metrics(server, &exchange->response, &error);
    } else if (route->target == XCS_TARGET_INDEX) {
        const char *at = exchange->body.at;
        const size_t length = exchange->body.count;
        const bool only_ready =
            at != NULL && memmem(at, length, "\"ready\"", 7) != NULL && memmem(at, length, "true", 4) != NULL;
        status = xcs_describe_repository(server, only_ready, &exchange->response, &error);
    } else {
        status =
            xcs_describe_statistics(server, route->model[0] != '\0' ? route->model : NULL,
                                    route->version[0] != '\0' ? route->version : NULL, &exchange->response, &error);
    }
    if (status != XCVM_OK)
        xcs_exchange_fail(exchange, 500, error.message);
}

static void handle(xcs_exchange *exchange)
{
    switch (exchange->route.target) {
    case XCS_TARGET_LIVE:
    case XCS_TARGET_READY:
        handle_health(exchange);
        break;
    case XCS_TARGET_MODEL:
    case XCS_TARGET_MODEL_READY:
        handle_model(exchange);
        break;
    case XCS_TARGET_INFER:
        xcs_handle_infer(exchange);
        break;
    case XCS_TARGET_LOAD:
    case XCS_TARGET_UNLOAD:
        xcs_handle_admin(exchange);
        break;
    default:
        handle_listing(exchange);
        break;
    }
}

/* Counts the exchange. Returns false if the server is being destroyed. */
static bool begin_handling(xcs_exchange *exchange)
{
    xcs_http *http = exchange->http;
    pthread_mutex_lock(&http->mutex);
    const bool begins = !http->closing;
    http->open++;
    http->handling += begins;
    pthread_mutex_unlock(&http->mutex);
    exchange->counted = true;
    return begins;
}

/* The last use of the server by an exchange that was suspended. */
static void end_handling(xcs_http *http)
{
    pthread_mutex_lock(&http->mutex);
    if (--http->handling == 0)
        pthread_cond_broadcast(&http->idle);
    pthread_mutex_unlock(&http->mutex);
}

bool xcs_exchange_process(xcs_exchange *exchange)
{
    if (exchange->suspended) {
        exchange->suspended = false;
        return true;
    }
    if (!begin_handling(exchange)) {
        xcs_exchange_fail(exchange, 503, "the server is shutting down and accepts no requests");
        return true;
    }
    if (exchange->status == 0 && exchange->body.failed)
        xcs_exchange_fail(exchange, 503, "no memory for the body");
    else if (exchange->status == 0)
        handle(exchange);
    if (!exchange->suspended)
        end_handling(exchange->http);
    return !exchange->suspended;
}

void xcs_exchange_wait(xcs_exchange *exchange)
{
    int expected = XCS_EXCHANGE_RUNS;
    if (__atomic_load_n(&exchange->state, __ATOMIC_ACQUIRE) == XCS_EXCHANGE_DONE)
        return;
    exchange->suspended = true;
    exchange->http->transport.suspend(exchange->connection);
    /* If it was finished meanwhile, the connection is resumed like any other. */
    if (__atomic_compare_exchange_n(&exchange->state, &expected, XCS_EXCHANGE_SUSPENDED, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return;
    exchange->http->transport.resume(exchange->connection);
    end_handling(exchange->http);
}

void xcs_exchange_finish(xcs_exchange *exchange)
{
    xcs_http *http = exchange->http;
    void *connection = exchange->connection;
    if (__atomic_exchange_n(&exchange->state, XCS_EXCHANGE_DONE, __ATOMIC_ACQ_REL) != XCS_EXCHANGE_SUSPENDED)
        return;
    http->transport.resume(connection);
    end_handling(http);
}

void xcs_exchange_respond(xcs_exchange *exchange)
{
    if (exchange->monitored)
        xcs_leave_monitor_remove(exchange->http->monitor, exchange,
                                 exchange->http->transport.descriptor(exchange->connection));
    exchange->monitored = false;
    if (exchange->response.failed) {
        exchange->response.failed = false;
        xcs_exchange_fail(exchange, 503, "no memory for the response");
    }
}

void xcs_exchange_destroy(xcs_exchange *exchange, bool sent)
{
    xcs_http *http = exchange->http;
    if (exchange->monitored)
        xcs_leave_monitor_remove(http->monitor, exchange, http->transport.descriptor(exchange->connection));
    xcs_log_exchange(exchange, sent);
    xcs_request_release(exchange->request);
    xcs_infer_release(&exchange->infer);
    xcs_text_free(&exchange->body);
    xcs_text_free(&exchange->response);
    xcs_model_release(exchange->model);
    if (exchange->counted) {
        pthread_mutex_lock(&http->mutex);
        if (--http->open == 0)
            pthread_cond_broadcast(&http->idle);
        pthread_mutex_unlock(&http->mutex);
    }
    xcvm_deallocate(&http->allocator, exchange, sizeof *exchange);
}
