/* Traces of exchanges, and the path that lists the last ones. */
#include "server/http/exchange.h"

#include <string.h>
#include <strings.h>

void xcs_exchange_begin_trace(xcs_exchange *exchange)
{
    const xcs_head *head = exchange->head;
    xcs_tracer *tracer = exchange->http->options.tracer;
    if (strcmp(exchange->method, "POST") != 0)
        return;
    if (xcs_head_find(head, "traceparent") == NULL) {
        exchange->trace = xcs_trace_begin(tracer, NULL, exchange->begin_ns);
        return;
    }
    xcs_trace_headers headers = {.parents = 0};
    for (size_t i = 0; i < head->field_count; i++)
        if (strcasecmp(head->fields[i].name, "traceparent") == 0)
            xcs_trace_headers_add_parent(&headers, head->fields[i].value);
        else if (strcasecmp(head->fields[i].name, "tracestate") == 0)
            xcs_trace_headers_add_state(&headers, head->fields[i].value);
    exchange->trace = xcs_trace_begin(tracer, &headers, exchange->begin_ns);
}

void xcs_exchange_end_trace(xcs_exchange *exchange, bool sent)
{
    const xcs_trace_request request = {
        .method = exchange->method,
        .path = exchange->path,
        .route = exchange->route.version[0] == '\0' ? "/v2/models/{model}/infer"
                                                    : "/v2/models/{model}/versions/{version}/infer",
        .scheme = exchange->http->options.tls != NULL && !exchange->is_admin ? "https" : "http",
        .status = exchange->status,
        .bytes_in = exchange->body_bytes,
        .bytes_out = exchange->response.count,
        .sent = sent,
        .failed = exchange->status >= 500,
        .model = exchange->model};
    xcs_trace_end(exchange->trace, &request);
    exchange->trace = NULL;
}

void xcs_handle_trace(xcs_exchange *exchange)
{
    exchange->status = 200;
    xcs_tracer_describe(exchange->http->options.tracer, &exchange->response);
}
