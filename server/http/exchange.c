/* The life of an exchange: checks of the headers, the body, the handlers, the end. */
#include "server/http/exchange.h"

#include "base/clock.h"
#include "base/decimal.h"
#include "server/common/access.h"
#include "server/oip/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MOST_RESERVED: bytes that a body takes before they arrive. */
enum { MOST_RESERVED = 256 << 10, FIRST_RESPONSE = 512, LONGEST_UNCOUNTED = 64 << 10 };

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
        exchange->route.target == XCS_TARGET_READY || exchange->route.target == XCS_TARGET_PAGE)
        return true;
    return xcs_key_is_sent(http->api_key, xcs_head_find(exchange->head, "Authorization"),
                           xcs_head_find(exchange->head, "X-API-Key"));
}

static void fail_with_length(xcs_exchange *exchange)
{
    char message[100];
    const size_t limit = exchange->http->options.body_limit;
    if (exchange->head->has_length)
        snprintf(message, sizeof message, "the body has %llu bytes; the limit is %zu",
                 (unsigned long long)exchange->head->content_length, limit);
    else
        snprintf(message, sizeof message, "the body is longer than the limit of %zu bytes", limit);
    xcs_exchange_fail(exchange, 413, message);
}

/* Refuses requests by their headers. */
static void check_headers(xcs_exchange *exchange)
{
    const xcs_http *http = exchange->http;
    const char *expected = xcs_route_method(exchange->route.target);
    const uint64_t length = exchange->head->content_length;
    const char *encoding = xcs_head_find(exchange->head, "Content-Encoding");
    char message[200];
    if (!is_authorized(exchange)) {
        xcs_exchange_fail(exchange, 401, "the API key is missing or wrong. Send \"Authorization: Bearer KEY\"");
    } else if (exchange->route.target == XCS_TARGET_UNKNOWN ||
               (exchange->route.target == XCS_TARGET_PAGE && http->options.no_page)) {
        xcs_exchange_fail(exchange, 404, "there is no such path. \"/v2\" describes the server");
    } else if (strcmp(exchange->method, expected) != 0 &&
               !(strcmp(exchange->method, "HEAD") == 0 && strcmp(expected, "GET") == 0)) {
        snprintf(message, sizeof message, "the method is %.7s; expected %s", exchange->method, expected);
        xcs_exchange_fail(exchange, 405, message);
    } else if (encoding != NULL && strcmp(encoding, "identity") != 0) {
        snprintf(message, sizeof message, "the content encoding \"%.40s\" is not supported. Send the body as it is",
                 encoding);
        xcs_exchange_fail(exchange, 415, message);
    } else if (length > http->options.body_limit) {
        fail_with_length(exchange);
    } else if (exchange->route.target == XCS_TARGET_INFER) {
        exchange->model = xcs_server_find_model(http->server, exchange->route.model, exchange->route.version);
        if (exchange->model == NULL) {
            snprintf(message, sizeof message, "no model \"%.100s\"%s%.20s is ready", exchange->route.model,
                     exchange->route.version[0] != '\0' ? ", version " : "", exchange->route.version);
            xcs_exchange_fail(exchange, 404, message);
        } else {
            exchange->body.allocator = xcs_model_allocator(exchange->model);
        }
    }
    exchange->discards = exchange->status != 0;
}

static void copy_start(char *to, size_t room, const char *text)
{
    const size_t length = strnlen(text, room - 1);
    memcpy(to, text, length);
    to[length] = '\0';
}

xcs_exchange *xcs_exchange_create(xcs_http *http, xcs_connection *connection, const xcs_head *head, bool is_admin)
{
    xcs_exchange *exchange = xcvm_allocate_zeroed(&http->allocator, sizeof *exchange);
    if (exchange == NULL)
        return NULL;
    exchange->http = http;
    exchange->connection = connection;
    exchange->head = head;
    exchange->is_admin = is_admin;
    exchange->begin_ns = xcvm_clock_ns();
    exchange->body.allocator = exchange->response.allocator = &http->allocator;
    exchange->content_type = "application/json";
    (void)xcs_text_reserve(&exchange->response, FIRST_RESPONSE);
    copy_start(exchange->method, sizeof exchange->method, head->method);
    copy_start(exchange->path, sizeof exchange->path, head->path);
    exchange->route = xcs_route_parse(head->path);
    check_headers(exchange);
    if (http->options.tracer != NULL && exchange->route.target == XCS_TARGET_INFER && exchange->status != 401)
        xcs_exchange_begin_trace(exchange);
    return exchange;
}

bool xcs_exchange_is_refused(const xcs_exchange *exchange)
{
    /* Small bodies are read, so that the connection can be used again. */
    return exchange->status == 413 || exchange->status == 401;
}

/* ---- Memory ---- */

/* Shorter texts do not count. The limit of connections bounds them. */
static bool hold(xcs_exchange *exchange, size_t *counted, const xcs_text *text)
{
    const size_t bytes = text->capacity > LONGEST_UNCOUNTED ? text->capacity : 0;
    return *counted == bytes || xcs_share_hold(&exchange->http->share, &exchange->held, counted, bytes);
}

static void fail_with_share(xcs_exchange *exchange)
{
    xcs_exchange_fail(exchange, 503,
                      "other connections hold too much of the memory for bodies and responses. Try again later");
    exchange->retry_after_s = 1;
}

/* ---- The body ---- */

/* The client sends the rest before it reads the response. */
static void discard_body(xcs_exchange *exchange)
{
    xcs_exchange_end_body(exchange);
    fail_with_share(exchange);
    exchange->discards = true;
}

bool xcs_exchange_receive(xcs_exchange *exchange, const char *bytes, size_t count)
{
    exchange->body_bytes += count;
    if (exchange->body_bytes > exchange->http->options.body_limit) {
        fail_with_length(exchange);
        return false;
    }
    if (exchange->discards)
        return true;
    /* A longer body takes memory as it arrives, not because a client announces it. */
    const uint64_t length = exchange->head->content_length;
    if (exchange->body.at == NULL && length > 0)
        (void)xcs_text_reserve(&exchange->body, length < MOST_RESERVED ? (size_t)length : MOST_RESERVED);
    xcs_text_add(&exchange->body, bytes, count);
    if (!hold(exchange, &exchange->body_held, &exchange->body))
        discard_body(exchange);
    return true;
}

void xcs_exchange_lend_body(xcs_exchange *exchange, char *bytes, size_t count)
{
    exchange->body_bytes = count;
    exchange->body_is_lent = true;
    exchange->body.at = bytes;
    exchange->body.count = count;
}

void xcs_exchange_end_body(xcs_exchange *exchange)
{
    if (exchange->body_is_lent)
        exchange->body.at = NULL;
    exchange->body_is_lent = false;
    xcs_text_free(&exchange->body);
    (void)hold(exchange, &exchange->body_held, &exchange->body);
}

char *xcs_exchange_room(xcs_exchange *exchange, size_t *count)
{
    *count = *count < MOST_RESERVED ? *count : MOST_RESERVED;
    char *room = exchange->discards ? NULL : xcs_text_reserve(&exchange->body, *count);
    if (hold(exchange, &exchange->body_held, &exchange->body))
        return room;
    discard_body(exchange);
    return NULL;
}

void xcs_exchange_count_received(xcs_exchange *exchange, size_t count)
{
    exchange->body_bytes += count;
    exchange->body.count += count;
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
        xcs_tracer_describe_metrics(exchange->http->options.tracer, &exchange->response);
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
    case XCS_TARGET_TRACE:
        xcs_handle_trace(exchange);
        break;
    case XCS_TARGET_PAGE:
        xcs_handle_page(exchange);
        break;
    default:
        handle_listing(exchange);
        break;
    }
}

bool xcs_exchange_process(xcs_exchange *exchange)
{
    if (exchange->status == 0 && exchange->body.failed)
        xcs_exchange_fail(exchange, 503, "no memory for the body");
    else if (exchange->status == 0)
        handle(exchange);
    return !exchange->suspended;
}

void xcs_exchange_wait(xcs_exchange *exchange)
{
    int expected = XCS_EXCHANGE_RUNS;
    /* It may have been finished meanwhile. */
    exchange->suspended = __atomic_compare_exchange_n(&exchange->state, &expected, XCS_EXCHANGE_SUSPENDED, false,
                                                      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

void xcs_exchange_finish(xcs_exchange *exchange)
{
    xcs_connection *connection = exchange->connection;
    if (__atomic_exchange_n(&exchange->state, XCS_EXCHANGE_DONE, __ATOMIC_ACQ_REL) == XCS_EXCHANGE_SUSPENDED)
        xcs_connection_resume(connection);
}

void xcs_exchange_leave(xcs_exchange *exchange) { xcs_request_cancel(exchange->request); }

void xcs_exchange_respond(xcs_exchange *exchange)
{
    xcs_trace_begin_phase(exchange->trace, XCS_PHASE_SEND);
    if (exchange->response.failed) {
        exchange->response.failed = false;
        xcs_exchange_fail(exchange, 503, "no memory for the response");
    }
    if (!hold(exchange, &exchange->response_held, &exchange->response)) {
        xcs_text_free(&exchange->response);
        fail_with_share(exchange);
        (void)hold(exchange, &exchange->response_held, &exchange->response);
    }
}

void xcs_exchange_destroy(xcs_exchange *exchange, bool sent)
{
    xcs_http *http = exchange->http;
    xcs_log_exchange(exchange, sent);
    if (exchange->trace != NULL)
        xcs_exchange_end_trace(exchange, sent);
    xcs_request_release(exchange->request);
    xcs_infer_release(&exchange->infer);
    xcs_exchange_end_body(exchange);
    xcs_text_free(&exchange->response);
    (void)hold(exchange, &exchange->response_held, &exchange->response);
    xcs_model_release(exchange->model);
    xcvm_deallocate(&http->allocator, exchange, sizeof *exchange);
}
