/* A trace that has ended, as its writers see it. It does not change any more. */
#ifndef XCVM_SERVER_TRACE_RECORD_H
#define XCVM_SERVER_TRACE_RECORD_H

#include "base/allocator.h"
#include "server/trace/trace.h"

typedef struct xcs_trace_instruction {
    int32_t pc;
    uint32_t node;    /* offset of its node's name in `names` */
    const char *name; /* a constant of the library */
    uint64_t start_ns, end_ns;
} xcs_trace_instruction;

struct xcs_trace {
    int refs; /* atomic */
    xcs_tracer *tracer;
    xcs_trace *next_export; /* in the exporter's queue */
    uint8_t trace_id[XCS_TRACE_ID_BYTES], span_id[XCS_SPAN_ID_BYTES], parent_id[XCS_SPAN_ID_BYTES];
    bool has_parent;
    char state[XCS_TRACE_STATE_BYTES + 1];
    char id_text[2 * XCS_TRACE_ID_BYTES + 1], response[XCS_TRACE_PARENT_BYTES];
    uint64_t wall_ns; /* time since 1970 at 0 of the monotonic clock */
    uint64_t begin_ns, end_ns;
    struct {
        uint64_t begin_ns, end_ns; /* begin_ns 0: not reached */
    } phases[XCS_PHASE_COUNT];
    const char *route, *scheme; /* NULL: a call of gRPC */
    char method[8], path[256], model[200], version[24], rpc_service[64], rpc_method[32];
    int status;
    size_t bytes_in, bytes_out;
    bool sent, failed;
    xcs_reason reason;
    int64_t batch_rows;
    xcs_text names; /* of nodes, each with its NUL */
    xcs_trace_instruction *instructions;
    size_t instruction_count, instructions_left_out;
};

/* Returns the name of the span of a phase. */
const char *xcs_phase_name(xcs_phase phase);
xcs_trace *xcs_trace_retain(xcs_trace *trace);
void xcs_trace_release(xcs_trace *trace);

/* Appends a Chrome trace of traces. */
void xcs_chrome_write(xcs_trace *const *traces, size_t count, xcs_text *text);

#endif
