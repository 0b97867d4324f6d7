/* Chrome traces: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, as JSON objects that
 * Perfetto and chrome://tracing load. */
#ifndef XCVM_TOOLS_RUN_TRACE_H
#define XCVM_TOOLS_RUN_TRACE_H

#include "cli/buffer.h"

/* Events of one process, noted briefly while they happen and written as JSON when all is over, so that the trace shows
 * the program's time and little of its own. Zero-initialized it is empty. */
struct trace {
    struct buffer records; /* struct trace_record, each with its types, dimensions and spans behind it */
    struct trace_name {    /* by pc */
        char *instruction, *node;
    } * names;
    size_t name_count;
    struct trace_run {
        uint64_t start_ns, end_ns;
    } * runs;
    size_t run_count;
};

/* Names what it is a trace of. */
struct trace_header {
    const char *program, *producer;
    int threads;
};

/* A run as a whole; runs are noted in their order. */
void trace_run(struct trace *trace, uint64_t start_ns, uint64_t end_ns);
/* An instruction, the spans of the workers in it, and the memory after it. */
void trace_event(struct trace *trace, const xcvm_event *event);
/* {"traceEvents": ..., "otherData": ...} to the sink; times count from the start of the first run. false if the sink
 * failed. */
bool trace_write(const struct trace *trace, const struct trace_header *header, xcvm_sink sink);
void trace_release(struct trace *trace);

#endif
