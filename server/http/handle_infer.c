/* Inference: reads the request, submits it to the pool, and writes the response when it completes. */
#include "server/http/exchange.h"

#include <stdlib.h>
#include <string.h>

static int status_of(const xcs_result *result)
{
    switch (result->reason) {
    case XCS_NONE:
        return 200;
    case XCS_UNKNOWN_MODEL:
        return 404;
    case XCS_INVALID_INPUT:
        return 400;
    case XCS_QUEUE_FULL:
    case XCS_TOO_LATE:
    case XCS_TOO_MANY_CLIENTS:
        return 429;
    case XCS_DRAINING:
        return 503;
    case XCS_TIMED_OUT:
        return 504;
    case XCS_CANCELLED:
        return 499;
    case XCS_FAILED:
        break;
    }
    switch (result->status) {
    case XCVM_INVALID_ARGUMENT:
    case XCVM_SHAPE_MISMATCH:
    case XCVM_TYPE_MISMATCH:
    case XCVM_OUT_OF_RANGE:
        return 400;
    case XCVM_OUT_OF_MEMORY:
        return 503;
    case XCVM_UNSUPPORTED:
        return 501;
    default:
        return 500;
    }
}

static void fail_with(xcs_exchange *exchange, const xcs_result *result)
{
    xcs_exchange_fail(exchange, status_of(result), result->error->message);
    if (exchange->status == 429 || exchange->status == 503)
        exchange->retry_after_s = (unsigned)(result->retry_after_ns / 1000000000) + 1;
}

static void complete(void *user, const xcs_result *result)
{
    xcs_exchange *exchange = user;
    xcvm_error error;
    xcvm_status status = result->status;
    exchange->status = 200;
    xcs_trace_add_result(exchange->trace, result);
    xcs_trace_begin_phase(exchange->trace, XCS_PHASE_ENCODE);
    if (status != XCVM_OK)
        fail_with(exchange, result);
    else
        status =
            xcs_infer_write(&exchange->infer, result->outputs, &exchange->response, &exchange->header_length, &error);
    if (status != XCVM_OK && result->status == XCVM_OK) {
        const xcs_result failed = {.status = status, .reason = XCS_FAILED, .error = &error};
        fail_with(exchange, &failed);
    }
    if (exchange->header_length == exchange->response.count)
        exchange->header_length = 0;
    if (exchange->header_length != 0)
        exchange->content_type = "application/octet-stream";
    xcs_trace_end_phase(exchange->trace, XCS_PHASE_ENCODE);
    xcs_exchange_finish(exchange);
}

/* The length of the JSON part, from the header of the binary extension. */
static bool json_length_of(const xcs_exchange *exchange, size_t *length)
{
    const char *header = xcs_head_find(exchange->head, "Inference-Header-Content-Length");
    *length = exchange->body.count;
    if (header == NULL)
        return true;
    char *end;
    const unsigned long long value = strtoull(header, &end, 10);
    *length = (size_t)value;
    return end != header && *end == '\0' && *header != '-' && value <= exchange->body.count;
}

void xcs_handle_infer(xcs_exchange *exchange)
{
    xcvm_error error = {.pc = -1};
    size_t json_length;
    xcs_trace_end_phase(exchange->trace, XCS_PHASE_RECEIVE);
    xcs_trace_begin_phase(exchange->trace, XCS_PHASE_DECODE);
    exchange->infer.model = exchange->model;
    exchange->infer.memo = exchange->memo;
    if (!json_length_of(exchange, &json_length)) {
        xcs_exchange_fail(exchange, 400, "\"Inference-Header-Content-Length\" is not a length within the body");
        return;
    }
    xcvm_status status = xcs_infer_read(&exchange->infer, exchange->body.at != NULL ? exchange->body.at : "",
                                        exchange->body.count, json_length, &error);
    xcs_trace_end_phase(exchange->trace, XCS_PHASE_DECODE);
    if (status != XCVM_OK) {
        const xcs_result failed = {
            .status = status,
            .reason = status == XCVM_OUT_OF_MEMORY || status == XCVM_UNSUPPORTED ? XCS_FAILED : XCS_INVALID_INPUT,
            .error = &error};
        fail_with(exchange, &failed);
        return;
    }
    xcs_exchange_end_body(exchange);
    const xcs_infer *infer = &exchange->infer;
    const xcs_request_options options = {.size = sizeof options,
                                         .model = exchange->model,
                                         .input_count = infer->input_count,
                                         .inputs = (const xcvm_value *const *)infer->inputs,
                                         .priority = infer->priority,
                                         .timeout_ns = infer->timeout_ns,
                                         .client = infer->client,
                                         .client_begins = infer->client_begins,
                                         .client_ends = infer->client_ends,
                                         .may_run_here = exchange->may_run_here,
                                         .profile = xcs_trace_wants_profile(exchange->trace)};
    exchange->request = xcs_server_submit(exchange->http->server, &options, (xcs_completion){complete, exchange});
    xcs_infer_release_inputs(&exchange->infer);
    xcs_exchange_wait(exchange);
}
