/* Export of traces to a collector, by a thread of its own. */
#ifndef XCVM_SERVER_TRACE_EXPORTER_H
#define XCVM_SERVER_TRACE_EXPORTER_H

#include "server/trace/record.h"

typedef struct xcs_exporter xcs_exporter;

/* Spans by what became of them. */
typedef struct xcs_exporter_counts {
    uint64_t exported;
    uint64_t overflowed; /* the queue or the memory was full */
    uint64_t failed;     /* the collector did not accept them */
} xcs_exporter_counts;

xcvm_status xcs_exporter_create(const char *endpoint, const char *service, xcs_exporter **exporter, xcvm_error *error);
/* Exports what waits, for two seconds at most. */
void xcs_exporter_destroy(xcs_exporter *exporter);
/* Adds a copy of a trace to the queue, without instructions. Never waits for the collector. */
void xcs_exporter_add(xcs_exporter *exporter, const xcs_trace *trace);
xcs_exporter_counts xcs_exporter_count(xcs_exporter *exporter);

/* ---- OTLP ---- */

/* Returns the number of spans that a trace becomes. */
size_t xcs_otlp_span_count(const xcs_trace *trace);
/* Appends an ExportTraceServiceRequest as JSON. `instance` is the identifier of the process. */
void xcs_otlp_write(xcs_trace *const *traces, size_t count, const char *service, const char *instance, xcs_text *text);

#endif
