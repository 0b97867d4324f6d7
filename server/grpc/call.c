/* The life of a call: its headers, its messages, its handler, and its end. */
#include "server/grpc/grpc.h"

#include "base/clock.h"
#include "server/common/access.h"
#include "server/grpc/infer_write.h"
#include "server/oip/parameters.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A client that needs longer between two pieces of a request, or to read a response, is cut off. */
#define STALL_NS UINT64_C(60000000000)
/* So is one that needs longer for the whole request. */
#define REQUEST_NS UINT64_C(120000000000)

#define BEYOND_SHARE                                                                                                   \
    "the calls of this connection hold more memory than its share. Send fewer at once, and read their responses"

/* Bytes of the responses of a stream that its client has not read. */
enum { MOST_UNREAD = 8 << 20 };

#define OIP "/inference.GRPCInferenceService/"
const xcs_method xcs_methods[] = {
    {OIP "ModelInfer", XCS_METHOD_INFER, false, NULL},
    {OIP "ServerLive", XCS_METHOD_UNARY, true, xcs_handle_server_live},
    {OIP "ServerReady", XCS_METHOD_UNARY, true, xcs_handle_server_ready},
    {OIP "ModelReady", XCS_METHOD_UNARY, false, xcs_handle_model_ready},
    {OIP "ServerMetadata", XCS_METHOD_UNARY, false, xcs_handle_server_metadata},
    {OIP "ModelMetadata", XCS_METHOD_UNARY, false, xcs_handle_model_metadata},
    {"/grpc.health.v1.Health/Check", XCS_METHOD_UNARY, true, xcs_handle_health_check},
    {"/grpc.health.v1.Health/Watch", XCS_METHOD_UNARY, true, xcs_handle_health_watch},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", XCS_METHOD_STREAM, false, xcs_handle_reflection},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", XCS_METHOD_STREAM, false, xcs_handle_reflection},
    {NULL, XCS_METHOD_UNARY, false, NULL},
};

const xcs_method *xcs_method_find(const char *path)
{
    for (const xcs_method *method = xcs_methods; method->path != NULL; method++)
        if (strcmp(method->path, path) == 0)
            return method;
    return NULL;
}

/* ---- The beginning ---- */

xcs_call *xcs_call_create(xcs_grpc *grpc, xcs_grpc_connection *connection, int32_t stream)
{
    xcs_call *call = xcvm_allocate_zeroed(&grpc->allocator, sizeof *call);
    if (call == NULL)
        return NULL;
    call->grpc = grpc;
    call->connection = connection;
    call->stream = stream;
    call->begin_ns = call->progress_ns = xcvm_clock_ns();
    call->http_status = 200;
    call->message.allocator = call->response.allocator = &grpc->allocator;
    call->reader = (xcs_infer_reader){.server = grpc->server,
                                      .allocator = &grpc->allocator,
                                      .unfilled = &grpc->unfilled,
                                      .unfilled_limit = grpc->options.message_limit,
                                      .content.allocator = &grpc->allocator,
                                      .deferred.allocator = &grpc->allocator,
                                      .id.allocator = &grpc->allocator,
                                      .outputs.allocator = &grpc->allocator};
    xcs_infer_set_defaults(&call->reader.infer);
    xcs_grpc_wake_at(grpc, call->begin_ns + STALL_NS);
    return call;
}

/* Copies a header, or as much of it as there is room for: then it equals nothing that is expected. */
static void copy_header(const char *value, size_t length, char *to, size_t size)
{
    length = length < size ? length : size - 1;
    memcpy(to, value, length);
    to[length] = '\0';
}

static void read_timeout(xcs_call *call, const char *value)
{
    uint64_t timeout_ns;
    if (!xcs_grpc_timeout_read(value, &timeout_ns))
        call->bad_timeout = true;
    else if (__builtin_add_overflow(call->begin_ns, timeout_ns, &call->deadline_ns))
        call->deadline_ns = 0;
}

/* Values end with a NUL, which the library adds. */
void xcs_call_header(xcs_call *call, const char *name, size_t name_length, const char *value, size_t value_length)
{
    const char *key = call->grpc->api_key;
    call->header_bytes += name_length + value_length + 32; /* as SETTINGS_MAX_HEADER_LIST_SIZE counts them */
    if (call->begun || call->header_bytes > XCS_GRPC_HEADER_LIMIT)
        return;
    if (strcmp(name, ":path") == 0)
        copy_header(value, value_length, call->path, sizeof call->path);
    else if (strcmp(name, ":method") == 0)
        call->is_post = strcmp(value, "POST") == 0;
    else if (strcmp(name, "content-type") == 0)
        call->is_grpc = strncmp(value, "application/grpc", 16) == 0 && strchr("+;", value[16]) != NULL &&
                        (value[16] != '+' || strncmp(value + 16, "+proto", 6) == 0);
    else if (strcmp(name, "grpc-timeout") == 0)
        read_timeout(call, value);
    else if (strcmp(name, "grpc-encoding") == 0)
        copy_header(value, value_length, call->encoding, sizeof call->encoding);
    else if (key != NULL && strcmp(name, "authorization") == 0 && strncmp(value, "Bearer ", 7) == 0) {
        call->has_bearer = true;
        call->key_matches = xcs_key_is_sent(key, value, NULL);
    } else if (key != NULL && strcmp(name, "x-api-key") == 0)
        call->has_key = xcs_key_is_sent(key, NULL, value);
    else if (call->grpc->options.tracer != NULL && strncmp(name, "trace", 5) == 0)
        xcs_call_trace_header(call, name + 5, value);
}

static bool is_authorized(const xcs_call *call)
{
    return call->grpc->api_key == NULL || call->method->is_public ||
           (call->has_bearer ? call->key_matches : call->has_key);
}

static bool is_readable(const char *encoding)
{
    return encoding[0] == '\0' || strcmp(encoding, "identity") == 0 || xcs_inflate_supports(encoding);
}

void xcs_call_begin(xcs_call *call)
{
    char message[256];
    call->begun = true;
    call->method = xcs_method_find(call->path);
    if (!call->is_post || !call->is_grpc) {
        call->http_status = call->is_post ? 415 : 405;
        xcs_call_finish(call, XCS_GRPC_INTERNAL, "");
    } else if (call->header_bytes > XCS_GRPC_HEADER_LIMIT) {
        snprintf(message, sizeof message, "the headers have %zu bytes; the limit is %d", call->header_bytes,
                 XCS_GRPC_HEADER_LIMIT);
        xcs_call_finish(call, XCS_GRPC_RESOURCE_EXHAUSTED, message);
    } else if (call->method == NULL) {
        snprintf(message, sizeof message, "there is no method \"%.150s\"", call->path);
        xcs_call_finish(call, XCS_GRPC_UNIMPLEMENTED, message);
    } else if (!is_authorized(call)) {
        xcs_call_finish(call, XCS_GRPC_UNAUTHENTICATED,
                        "the API key is missing or wrong. Send the metadata \"authorization: Bearer KEY\"");
    } else if (!is_readable(call->encoding)) {
        snprintf(message, sizeof message, "the encoding \"%.31s\" is not supported. Send messages as they are",
                 call->encoding);
        xcs_call_finish(call, XCS_GRPC_UNIMPLEMENTED, message);
    } else if (call->bad_timeout) {
        xcs_call_finish(call, XCS_GRPC_INTERNAL, "\"grpc-timeout\" is not a number of up to 8 digits and a unit");
    }
    if (call->deadline_ns != 0)
        xcs_grpc_wake_at(call->grpc, call->deadline_ns);
    if (!call->finished && call->method->kind == XCS_METHOD_INFER && call->grpc->options.tracer != NULL)
        xcs_call_begin_trace(call);
}

/* ---- Memory ---- */

static bool hold(const xcs_call *call, size_t *counted, size_t bytes)
{
    size_t *connection = call->connection != NULL ? xcs_grpc_connection_held(call->connection) : NULL;
    return xcs_share_hold(&call->grpc->share, connection, counted, bytes);
}

/* Counts what the call holds of its request. */
static void hold_request(xcs_call *call)
{
    if (!hold(call, &call->held, xcs_infer_reader_held(&call->reader) + call->message.capacity))
        xcs_call_finish(call, XCS_GRPC_RESOURCE_EXHAUSTED, BEYOND_SHARE);
}

/* ---- Messages ---- */

void xcs_call_fail(xcs_call *call, const xcvm_error *error)
{
    xcs_call_finish(call, (int)xcs_grpc_status_of(XCS_FAILED, error->status), error->message);
}

static void fail_reader(xcs_call *call, const xcvm_error *error)
{
    if (call->reader.is_unknown)
        xcs_call_finish(call, XCS_GRPC_NOT_FOUND, error->message);
    else
        xcs_call_fail(call, error);
}

static void refuse_messages(xcs_call *call, size_t count)
{
    char message[80];
    snprintf(message, sizeof message, "the request has %s; expected 1 message",
             count == 0 ? "no message" : "several messages");
    xcs_call_finish(call, XCS_GRPC_UNIMPLEMENTED, message);
}

static bool receive_piece(void *user, const uint8_t *bytes, size_t count)
{
    xcs_call *call = user;
    xcvm_error error = {.pc = -1};
    if (call->method->kind != XCS_METHOD_STREAM && call->framing.message_count > 0) {
        refuse_messages(call, call->framing.message_count + 1);
    } else if (call->method->kind != XCS_METHOD_INFER) {
        xcs_text_add(&call->message, bytes, count);
        if (call->message.failed)
            xcs_call_finish(call, XCS_GRPC_RESOURCE_EXHAUSTED, "no memory for the message");
    } else if (xcs_infer_reader_feed(&call->reader, bytes, count, &error) != XCVM_OK) {
        fail_reader(call, &error);
    }
    return !call->finished;
}

static bool end_message(void *user)
{
    xcs_call *call = user;
    if (call->method->kind == XCS_METHOD_STREAM) {
        call->method->handle(call);
        call->message.count = 0;
    } else if (call->framing.message_count > 1) {
        refuse_messages(call, call->framing.message_count);
    }
    return !call->finished;
}

void xcs_call_receive(xcs_call *call, const uint8_t *bytes, size_t count)
{
    xcvm_error error = {.pc = -1};
    call->bytes_in += count;
    call->progress_ns = xcvm_clock_ns();
    if (call->finished)
        return;
    const size_t limit = call->grpc->options.message_limit;
    const bool is_small = call->method->kind != XCS_METHOD_INFER && limit > XCS_GRPC_SMALL_MESSAGE;
    const xcs_framing_options options = {.allocator = &call->grpc->allocator,
                                         .encoding = call->encoding,
                                         .limit = is_small ? XCS_GRPC_SMALL_MESSAGE : limit,
                                         .user = call,
                                         .receive = receive_piece,
                                         .end = end_message};
    if (xcs_framing_feed(&call->framing, &options, bytes, count, &error) != XCVM_OK)
        xcs_call_finish(call, (int)call->framing.status, error.message);
    hold_request(call);
}

void xcs_call_end_request(xcs_call *call)
{
    xcs_grpc *grpc = call->grpc;
    call->request_ended = true;
    call->progress_ns = xcvm_clock_ns();
    if (call->finished)
        return;
    if (!xcs_framing_is_between(&call->framing)) {
        xcs_call_finish(call, XCS_GRPC_INTERNAL, "the request ends within a message");
    } else if (call->method->kind == XCS_METHOD_STREAM) {
        xcs_call_finish(call, XCS_GRPC_OK, "");
    } else if (call->framing.message_count != 1) {
        refuse_messages(call, call->framing.message_count);
    } else if (call->method->kind == XCS_METHOD_UNARY) {
        call->method->handle(call);
    } else {
        xcvm_error error = {.pc = -1};
        xcs_trace_end_phase(call->trace, XCS_PHASE_RECEIVE);
        xcs_trace_begin_phase(call->trace, XCS_PHASE_DECODE);
        const xcvm_status status = xcs_infer_reader_end(&call->reader, &error);
        xcs_trace_end_phase(call->trace, XCS_PHASE_DECODE);
        if (status != XCVM_OK)
            fail_reader(call, &error);
        else
            hold_request(call);
        if (call->finished)
            return;
        call->arrived = true;
        call->next_arrived = NULL;
        *grpc->arrived_end = call;
        grpc->arrived_end = &call->next_arrived;
        grpc->arrived_count++;
        grpc->pending++;
    }
}

/* ---- The response ---- */

static void respond(xcs_call *call)
{
    if (call->connection == NULL)
        return;
    call->progress_ns = xcvm_clock_ns();
    xcs_grpc_wake_at(call->grpc, call->progress_ns + STALL_NS);
    if (call->started) {
        xcs_grpc_connection_resume(call->connection, call);
    } else {
        call->started = true;
        xcs_grpc_connection_respond(call->connection, call);
    }
}

void xcs_call_finish(xcs_call *call, int status, const char *message)
{
    if (call->finished)
        return;
    call->finished = true;
    call->status = status;
    snprintf(call->status_message, sizeof call->status_message, "%s", message);
    if (status != XCS_GRPC_OK && !call->started)
        call->response.count = 0;
    /* What was received is of no more use, except the name of the model, which the log has. */
    if (!call->in_pool && status != XCS_GRPC_OK) {
        xcs_text_free(&call->message);
        xcs_infer_reader_drop_inputs(&call->reader);
        (void)hold(call, &call->held, 0);
    }
    respond(call);
}

void xcs_call_send(xcs_call *call)
{
    const bool fits = call->response.count <= MOST_UNREAD && hold(call, &call->response_held, call->response.capacity);
    if (call->response.failed || !fits)
        xcs_call_finish(call, XCS_GRPC_RESOURCE_EXHAUSTED,
                        fits ? "no memory for the response" : "too many responses wait for clients to read them");
    else
        respond(call);
}

void xcs_call_end(xcs_call *call)
{
    if (call->response.failed)
        xcs_call_finish(call, XCS_GRPC_RESOURCE_EXHAUSTED, "no memory for the response");
    else
        xcs_call_finish(call, XCS_GRPC_OK, "");
}

void xcs_call_sent(xcs_call *call, size_t count)
{
    call->response_sent += count;
    call->bytes_out += count;
    call->progress_ns = xcvm_clock_ns();
}

/* ---- The pool ---- */

/* Called by threads of the pool, and by the loop's own. */
static void complete_in_pool(void *user, const xcs_result *result)
{
    xcs_call *call = user;
    xcs_grpc *grpc = call->grpc;
    xcvm_error error = {.pc = -1};
    xcvm_status status = result->status;
    call->status = (int)xcs_grpc_status_of(result->reason, status);
    xcs_trace_add_result(call->trace, result);
    xcs_trace_begin_phase(call->trace, XCS_PHASE_ENCODE);
    if (status == XCVM_OK) {
        const size_t begin = xcs_frame_begin(&call->response);
        status =
            xcs_infer_response_write(&call->reader.infer, result->outputs, call->reader.typed, &call->response, &error);
        xcs_frame_end(&call->response, begin);
        if (status != XCVM_OK)
            call->status = (int)xcs_grpc_status_of(XCS_FAILED, status);
    }
    if (status != XCVM_OK)
        snprintf(call->status_message, sizeof call->status_message, "%s",
                 result->status != XCVM_OK ? result->error->message : error.message);
    call->retry_after_ns = result->retry_after_ns;
    xcs_trace_end_phase(call->trace, XCS_PHASE_ENCODE);
    pthread_mutex_lock(&grpc->mutex);
    const bool wakes = grpc->completed == NULL && !pthread_equal(pthread_self(), grpc->thread);
    call->next_completed = grpc->completed;
    grpc->completed = call;
    /* With the mutex, because the loop may end as soon as it has the last call. */
    if (wakes)
        (void)eventfd_write(grpc->event, 1);
    pthread_mutex_unlock(&grpc->mutex);
}

/* The time that is left of the call and of the parameter "timeout". Returns false if there is none. */
static bool time_left(const xcs_call *call, uint64_t *timeout_ns)
{
    *timeout_ns = call->reader.infer.timeout_ns;
    if (call->deadline_ns == 0)
        return true;
    const uint64_t now = xcvm_clock_ns();
    if (call->deadline_ns <= now)
        return false;
    if (*timeout_ns == 0 || *timeout_ns > call->deadline_ns - now)
        *timeout_ns = call->deadline_ns - now;
    return true;
}

static void destroy_call(xcs_call *call)
{
    xcs_grpc *grpc = call->grpc;
    const xcs_log_entry entry = {.method = "POST",
                                 .path = call->path,
                                 .status = call->http_status,
                                 .grpc_status = call->finished ? call->status : XCS_GRPC_CANCELLED,
                                 .bytes_in = call->bytes_in,
                                 .bytes_out = call->bytes_out,
                                 .begin_ns = call->begin_ns,
                                 .sent = call->sent,
                                 .model = call->reader.infer.model,
                                 .id = call->reader.infer.id,
                                 .trace_id = xcs_trace_id(call->trace)};
    xcs_log_write(&grpc->log, &entry);
    xcs_call_end_trace(call);
    (void)hold(call, &call->held, 0);
    (void)hold(call, &call->response_held, 0);
    xcs_request_release(call->request);
    xcs_framing_release(&call->framing);
    xcs_infer_reader_release(&call->reader);
    xcs_text_free(&call->message);
    xcs_text_free(&call->response);
    xcvm_deallocate(&grpc->allocator, call, sizeof *call);
}

static void destroy_if_unused(xcs_call *call)
{
    if (call->connection == NULL && !call->arrived && !call->in_pool)
        destroy_call(call);
}

void xcs_call_submit(xcs_call *call, bool may_run_here)
{
    const xcs_infer *infer = &call->reader.infer;
    xcs_request_options options = {.size = sizeof options,
                                   .model = infer->model,
                                   .input_count = infer->input_count,
                                   .inputs = (const xcvm_value *const *)infer->inputs,
                                   .priority = infer->priority,
                                   .client = infer->client,
                                   .client_begins = infer->client_begins,
                                   .client_ends = infer->client_ends,
                                   .may_run_here = may_run_here,
                                   .profile = xcs_trace_wants_profile(call->trace)};
    call->arrived = false;
    if (call->connection == NULL || call->finished || !time_left(call, &options.timeout_ns)) {
        call->grpc->pending--;
        xcs_call_finish(call, XCS_GRPC_DEADLINE_EXCEEDED, "the deadline has passed");
        destroy_if_unused(call);
        return;
    }
    call->in_pool = true;
    call->request = xcs_server_submit(call->grpc->server, &options, (xcs_completion){complete_in_pool, call});
    xcs_infer_release_inputs(&call->reader.infer);
}

void xcs_call_complete(xcs_call *call)
{
    char message[sizeof call->status_message];
    call->in_pool = false;
    call->grpc->pending--;
    memcpy(message, call->status_message, sizeof message);
    (void)hold(call, &call->held, 0);
    if (!hold(call, &call->response_held, call->response.capacity) && call->status == XCS_GRPC_OK) {
        call->status = XCS_GRPC_RESOURCE_EXHAUSTED;
        snprintf(message, sizeof message, "%s", BEYOND_SHARE);
        xcs_text_free(&call->response);
        (void)hold(call, &call->response_held, 0);
    }
    xcs_trace_begin_phase(call->trace, XCS_PHASE_SEND);
    xcs_call_finish(call, call->status, message);
    destroy_if_unused(call);
}

/* ---- The end ---- */

void xcs_call_close(xcs_call *call)
{
    *xcs_grpc_connection_held(call->connection) -= call->held + call->response_held;
    call->connection = NULL;
    if (call->in_pool)
        xcs_request_cancel(call->request);
    destroy_if_unused(call);
}

void xcs_call_check_time(xcs_call *call, uint64_t now, uint64_t *next_ns)
{
    /* The pool keeps the time of requests that it has. */
    if (call->arrived || call->in_pool)
        return;
    const bool waits = !call->begun || call->finished || call->response_sent < call->response.count;
    uint64_t limit_ns = call->progress_ns + STALL_NS;
    if (!waits && call->method->kind != XCS_METHOD_STREAM && !call->watching)
        limit_ns = limit_ns < call->begin_ns + REQUEST_NS ? limit_ns : call->begin_ns + REQUEST_NS;
    if (call->watching && !waits)
        limit_ns = UINT64_MAX;
    if (!call->finished && call->deadline_ns != 0 && call->deadline_ns < limit_ns)
        limit_ns = call->deadline_ns;
    if (limit_ns > now) {
        *next_ns = limit_ns < *next_ns ? limit_ns : *next_ns;
    } else if (waits) {
        xcs_grpc_connection_reset(call->connection, call);
    } else {
        xcs_call_finish(call, XCS_GRPC_DEADLINE_EXCEEDED,
                        call->deadline_ns != 0 && call->deadline_ns <= now ? "the deadline has passed"
                                                                           : "the request takes too long to arrive");
        *next_ns = now + STALL_NS < *next_ns ? now + STALL_NS : *next_ns;
    }
}
