/* The access log of exchanges. */
#include "server/http/exchange.h"

void xcs_log_exchange(xcs_exchange *exchange, bool sent)
{
    const xcs_log_entry entry = {.method = exchange->method,
                                 .path = exchange->path,
                                 .status = exchange->status,
                                 .grpc_status = -1,
                                 .bytes_in = exchange->body_bytes,
                                 .bytes_out = exchange->response.count,
                                 .begin_ns = exchange->begin_ns,
                                 .sent = sent,
                                 .model = exchange->model,
                                 .id = exchange->infer.id,
                                 .trace_id = xcs_trace_id(exchange->trace)};
    xcs_log_write(&exchange->http->log, &entry);
}
