/* Chrome traces: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, as JSON objects that
 * Perfetto and chrome://tracing load. */
#ifndef XCVM_TOOLS_PROFILE_TRACE_H
#define XCVM_TOOLS_PROFILE_TRACE_H

#include "cli/buffer.h"

/* Events of one process. They are recorded in a compact form and written as JSON at the end, so that tracing costs
 * little time. A zero-initialized trace is empty. */
struct trace {
    struct buffer records; /* struct trace_record, each followed by its types, dimensions and spans */
    struct trace_name {    /* by pc */
        char *instruction, *node;
    } * names;
    size_t name_count;
    struct trace_run {
        uint64_t start_ns, end_ns;
    } * runs;
    size_t run_count;
};

/* Properties of the traced program. */
struct trace_header {
    const char *program, *producer;
    int threads;
};

/* Records a run. Runs are recorded in order. */
void trace_run(struct trace *trace, uint64_t start_ns, uint64_t end_ns);
/* Records an instruction, the spans of its workers, and the memory after it. */
void trace_event(struct trace *trace, const xcvm_event *event);
/* Writes {"traceEvents": ..., "otherData": ...} to the sink. Times start at the first run. Returns false if the
 * sink fails. */
bool trace_write(const struct trace *trace, const struct trace_header *header, xcvm_sink sink);
void trace_release(struct trace *trace);

#endif
