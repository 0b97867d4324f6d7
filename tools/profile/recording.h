/* One run in detail: its instructions in the order of execution, the workers' parts, memory, and which instruction made
 * what another one reads. */
#ifndef XCVM_TOOLS_PROFILE_RECORDING_H
#define XCVM_TOOLS_PROFILE_RECORDING_H

#include <xcvm/xcvm.h>

enum { RECORDING_STEPS = 20000 }; /* a longer run is cut here, so that a page stays readable */

struct recording {
    struct recorded_step {
        int32_t pc;
        uint64_t start_ns, end_ns;
        size_t live_bytes;
    } * steps;
    size_t step_count;
    struct recorded_span {
        size_t step;
        xcvm_span span;
    } * spans;
    size_t span_count;
    struct recorded_edge {
        int32_t from, to; /* pcs */
    } * edges;
    size_t edge_count;
    int32_t *writers; /* by register: pc of the last instruction that wrote it; -1: none */
    size_t writer_count;
    uint64_t start_ns, end_ns; /* of the run; the caller sets them */
    bool cut;                  /* there were more steps */
};

/* A zero-initialized recording is empty. */
void recording_add(struct recording *recording, const xcvm_event *event);
/* Sorts the edges, each once. Called when all steps are there. */
void recording_finish(struct recording *recording);
void recording_release(struct recording *recording);

#endif
