/* Recordings: steps, spans and edges of one run. */
#include "profile/recording.h"
#include "cli/memory.h"

#include <stdlib.h>

static int32_t writer_of(const struct recording *recording, int32_t reg)
{
    return reg > 0 && (size_t)reg < recording->writer_count ? recording->writers[reg] : -1;
}

static void set_writer(struct recording *recording, int32_t reg, int32_t pc)
{
    if (reg <= 0)
        return;
    for (; recording->writer_count <= (size_t)reg; recording->writer_count++) {
        recording->writers = memory_append(recording->writers, recording->writer_count, sizeof *recording->writers);
        recording->writers[recording->writer_count] = -1;
    }
    recording->writers[reg] = pc;
}

void recording_add(struct recording *recording, const xcvm_event *event)
{
    if (recording->step_count == RECORDING_STEPS) {
        recording->cut = true;
        return;
    }
    for (size_t i = 0; i < event->span_count; i++) {
        recording->spans = memory_append(recording->spans, recording->span_count, sizeof *recording->spans);
        recording->spans[recording->span_count++] = (struct recorded_span){recording->step_count, event->spans[i]};
    }
    for (size_t i = 0; i < event->input_count; i++) {
        const int32_t from = writer_of(recording, event->input_registers[i]);
        if (from < 0)
            continue;
        recording->edges = memory_append(recording->edges, recording->edge_count, sizeof *recording->edges);
        recording->edges[recording->edge_count++] = (struct recorded_edge){from, event->pc};
    }
    for (size_t i = 0; i < event->output_count; i++)
        set_writer(recording, event->output_registers[i], event->pc);
    recording->steps = memory_append(recording->steps, recording->step_count, sizeof *recording->steps);
    recording->steps[recording->step_count++] =
        (struct recorded_step){event->pc, event->start_ns, event->end_ns, event->live_bytes};
}

static int by_ends(const void *a, const void *b)
{
    const struct recorded_edge *x = a, *y = b;
    return x->to != y->to ? (x->to > y->to) - (x->to < y->to) : (x->from > y->from) - (x->from < y->from);
}

void recording_finish(struct recording *recording)
{
    size_t kept = 0;
    if (recording->edge_count != 0)
        qsort(recording->edges, recording->edge_count, sizeof *recording->edges, by_ends);
    for (size_t i = 0; i < recording->edge_count; i++)
        if (kept == 0 || by_ends(&recording->edges[kept - 1], &recording->edges[i]) != 0)
            recording->edges[kept++] = recording->edges[i];
    recording->edge_count = kept;
}

void recording_release(struct recording *recording)
{
    free(recording->steps);
    free(recording->spans);
    free(recording->edges);
    free(recording->writers);
    *recording = (struct recording){0};
}
