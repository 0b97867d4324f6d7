/* Traces of calls. Metadata carry the trace context as headers of HTTP do. */
#include "server/grpc/grpc.h"

#include <string.h>

void xcs_call_trace_header(xcs_call *call, const char *name, const char *value)
{
    if (strcmp(name, "parent") != 0 && strcmp(name, "state") != 0)
        return;
    if (call->trace_headers == NULL)
        call->trace_headers = xcvm_allocate_zeroed(&call->grpc->allocator, sizeof *call->trace_headers);
    if (call->trace_headers == NULL)
        return;
    if (strcmp(name, "parent") == 0)
        xcs_trace_headers_add_parent(call->trace_headers, value);
    else
        xcs_trace_headers_add_state(call->trace_headers, value);
}

void xcs_call_begin_trace(xcs_call *call)
{
    call->trace = xcs_trace_begin(call->grpc->options.tracer, call->trace_headers, call->begin_ns);
}

/* The statuses that OpenTelemetry counts as the server's fault. */
static bool is_fault(int status)
{
    return status == XCS_GRPC_DEADLINE_EXCEEDED || status == XCS_GRPC_UNIMPLEMENTED || status == XCS_GRPC_INTERNAL ||
           status == XCS_GRPC_UNAVAILABLE;
}

void xcs_call_end_trace(xcs_call *call)
{
    const int status = call->finished ? call->status : XCS_GRPC_CANCELLED;
    const xcs_trace_request request = {.method = "POST",
                                       .path = call->path,
                                       .rpc_service = "inference.GRPCInferenceService",
                                       .rpc_method = "ModelInfer",
                                       .status = status,
                                       .bytes_in = call->bytes_in,
                                       .bytes_out = call->bytes_out,
                                       .sent = call->sent,
                                       .failed = is_fault(status),
                                       .model = call->reader.infer.model};
    xcs_trace_end(call->trace, &request);
    if (call->trace_headers != NULL)
        xcvm_deallocate(&call->grpc->allocator, call->trace_headers, sizeof *call->trace_headers);
}
