/* OTLP/HTTP JSON (opentelemetry-proto, trace/v1): a server span for each request, and a span for each of its phases.
 * Attributes have the names of OpenTelemetry's semantic conventions for HTTP and RPC; others begin with "xcvm.". */
#include "server/trace/exporter.h"

#include <string.h>

/* SpanKind, Status.code and SpanFlags of the protocol. */
enum { KIND_INTERNAL = 1, KIND_SERVER = 2, STATUS_ERROR = 2 };
enum { FLAG_SAMPLED = 1, FLAG_HAS_IS_REMOTE = 0x100, FLAG_IS_REMOTE = 0x200 };

static void put_quoted(xcs_text *text, const char *string) { xcs_text_quote(text, string, strlen(string)); }

static bool is_rpc(const xcs_trace *trace) { return trace->rpc_service[0] != '\0'; }

/* ---- Attributes ---- */

static void begin_attribute(xcs_text *text, const char *key)
{
    /* The first one follows the bracket. */
    xcs_text_format(text, "%s{\"key\":\"%s\",\"value\":{",
                    text->count > 0 && text->at[text->count - 1] == '[' ? "" : ",", key);
}

static void put_string(xcs_text *text, const char *key, const char *value)
{
    begin_attribute(text, key);
    xcs_text_put(text, "\"stringValue\":");
    put_quoted(text, value);
    xcs_text_put(text, "}}");
}

/* Integers of 64 bits are strings, by the JSON mapping of protobuf. */
static void put_integer(xcs_text *text, const char *key, int64_t value)
{
    begin_attribute(text, key);
    xcs_text_format(text, "\"intValue\":\"%lld\"}}", (long long)value);
}

static void put_flag(xcs_text *text, const char *key, bool value)
{
    begin_attribute(text, key);
    xcs_text_format(text, "\"boolValue\":%s}}", value ? "true" : "false");
}

/* ---- Spans ---- */

static void put_id(xcs_text *text, const char *key, const uint8_t *id, size_t bytes)
{
    char hex[2 * XCS_TRACE_ID_BYTES + 1];
    xcs_trace_hex(id, bytes, hex);
    xcs_text_format(text, ",\"%s\":\"%s\"", key, hex);
}

static void begin_span(xcs_text *text, const xcs_trace *trace, const uint8_t *id, const uint8_t *parent, bool is_remote,
                       int kind, uint64_t begin_ns, uint64_t end_ns)
{
    const int remote = parent == NULL ? 0 : FLAG_HAS_IS_REMOTE | (is_remote ? FLAG_IS_REMOTE : 0);
    xcs_text_format(text, "\"traceId\":\"%s\"", trace->id_text);
    put_id(text, "spanId", id, XCS_SPAN_ID_BYTES);
    if (parent != NULL)
        put_id(text, "parentSpanId", parent, XCS_SPAN_ID_BYTES);
    if (trace->state[0] != '\0') {
        xcs_text_put(text, ",\"traceState\":");
        put_quoted(text, trace->state);
    }
    xcs_text_format(text, ",\"flags\":%d,\"kind\":%d,\"startTimeUnixNano\":\"%llu\",\"endTimeUnixNano\":\"%llu\"",
                    FLAG_SAMPLED | remote, kind, (unsigned long long)(trace->wall_ns + begin_ns),
                    (unsigned long long)(trace->wall_ns + end_ns));
}

static void put_http_attributes(xcs_text *text, const xcs_trace *trace)
{
    put_string(text, "http.request.method", trace->method);
    put_string(text, "http.route", trace->route);
    put_string(text, "url.path", trace->path);
    put_string(text, "url.scheme", trace->scheme);
    put_string(text, "network.protocol.version", "1.1");
    put_integer(text, "http.response.status_code", trace->status);
    put_integer(text, "http.request.body.size", (int64_t)trace->bytes_in);
    put_integer(text, "http.response.body.size", (int64_t)trace->bytes_out);
}

static void put_rpc_attributes(xcs_text *text, const xcs_trace *trace)
{
    put_string(text, "rpc.system", "grpc");
    put_string(text, "rpc.service", trace->rpc_service);
    put_string(text, "rpc.method", trace->rpc_method);
    put_integer(text, "rpc.grpc.status_code", trace->status);
}

static void put_attributes(xcs_text *text, const xcs_trace *trace)
{
    xcs_text_put(text, ",\"attributes\":[");
    if (is_rpc(trace))
        put_rpc_attributes(text, trace);
    else
        put_http_attributes(text, trace);
    if (trace->model[0] != '\0') {
        put_string(text, "xcvm.model.name", trace->model);
        put_string(text, "xcvm.model.version", trace->version);
    }
    if (trace->reason != XCS_NONE)
        put_string(text, "error.type", xcs_reason_name(trace->reason));
    put_flag(text, "xcvm.response.sent", trace->sent);
    xcs_text_put(text, "]");
}

/* Identifiers of the spans of phases follow that of the request. */
static void phase_id(const xcs_trace *trace, int phase, uint8_t *id)
{
    uint64_t number;
    memcpy(&number, trace->span_id, sizeof number);
    number ^= (uint64_t)(phase + 1) * UINT64_C(0x9e3779b97f4a7c15);
    memcpy(id, &number, sizeof number);
}

static void put_trace(xcs_text *text, const xcs_trace *trace)
{
    uint8_t id[XCS_SPAN_ID_BYTES];
    xcs_text_put(text, "{\"name\":");
    if (is_rpc(trace)) {
        xcs_text_format(text, "\"%s/%s\",", trace->rpc_service, trace->rpc_method);
    } else {
        xcs_text_format(text, "\"%s %s\",", trace->method, trace->route);
    }
    begin_span(text, trace, trace->span_id, trace->has_parent ? trace->parent_id : NULL, true, KIND_SERVER,
               trace->begin_ns, trace->end_ns);
    put_attributes(text, trace);
    if (trace->failed)
        xcs_text_format(text, ",\"status\":{\"code\":%d}", STATUS_ERROR);
    xcs_text_put(text, "}");
    for (int phase = 0; phase < XCS_PHASE_COUNT; phase++) {
        if (trace->phases[phase].begin_ns == 0)
            continue;
        phase_id(trace, phase, id);
        xcs_text_format(text, ",{\"name\":\"%s\",", xcs_phase_name((xcs_phase)phase));
        begin_span(text, trace, id, trace->span_id, false, KIND_INTERNAL, trace->phases[phase].begin_ns,
                   trace->phases[phase].end_ns);
        if (trace->batch_rows > 0 && (phase == XCS_PHASE_BATCH || phase == XCS_PHASE_RUN)) {
            xcs_text_put(text, ",\"attributes\":[");
            put_integer(text, "xcvm.batch.rows", trace->batch_rows);
            xcs_text_put(text, "]");
        }
        xcs_text_put(text, "}");
    }
}

size_t xcs_otlp_span_count(const xcs_trace *trace)
{
    size_t count = 1;
    for (int phase = 0; phase < XCS_PHASE_COUNT; phase++)
        count += trace->phases[phase].begin_ns != 0;
    return count;
}

void xcs_otlp_write(xcs_trace *const *traces, size_t count, const char *service, const char *instance, xcs_text *text)
{
    xcs_text_put(text, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    put_string(text, "service.name", service);
    put_string(text, "service.version", xcvm_version());
    put_string(text, "service.instance.id", instance);
    xcs_text_format(text, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"xcvm\",\"version\":\"%s\"},\"spans\":[",
                    xcvm_version());
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            xcs_text_put(text, ",");
        put_trace(text, traces[i]);
    }
    xcs_text_put(text, "]}]}]}");
}
