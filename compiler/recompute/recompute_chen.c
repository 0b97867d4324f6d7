/* Recomputation between articulation points (Chen et al. 2016). */
#include "compiler/recompute/recompute.h"

#include <math.h>
#include <string.h>

typedef struct chen_search {
    const xcc_forward *f;
    uint32_t *last_reader; /* for each item; itself if there is none */
    uint32_t *crossing;    /* number of items up to this one that later ones read */
    bool *forgotten;
} chen_search;

static void find_crossings(chen_search *w)
{
    const xcc_forward *f = w->f;
    for (uint32_t i = 0; i < f->count; i++) {
        w->last_reader[i] = i;
        for (uint32_t k = 0; k < f->items[i].input_count; k++)
            w->last_reader[f->inputs[f->items[i].first_input + k]] = i;
    }
    memset(w->crossing, 0, ((size_t)f->count + 1) * sizeof *w->crossing);
    /* First differences, then prefix sums. */
    for (uint32_t i = 0; i < f->count; i++)
        if (!f->items[i].stays) {
            w->crossing[i]++;
            w->crossing[w->last_reader[i]]--;
        }
    for (uint32_t i = 1; i < f->count; i++)
        w->crossing[i] += w->crossing[i - 1];
}

/* An item that is the only connection between earlier and later items. */
static bool is_articulation(const chen_search *w, uint32_t i)
{
    return !w->f->items[i].stays && w->crossing[i] == 1 && w->last_reader[i] > i;
}

/* Keeps an articulation point after every `bytes` bytes. */
static void cut(chen_search *w, double bytes)
{
    const xcc_forward *f = w->f;
    double sum = 0;
    uint32_t behind = 0; /* the last segment, where the backward pass begins, is not forgotten */
    for (uint32_t i = 0; i < f->count; i++) {
        sum += f->items[i].read ? (double)f->items[i].bytes : 0;
        w->forgotten[i] = !f->items[i].stays;
        if (sum < bytes || !is_articulation(w, i))
            continue;
        w->forgotten[i] = false;
        behind = i + 1;
        sum = 0;
    }
    for (uint32_t i = behind; i < f->count; i++)
        w->forgotten[i] = false;
}

static xcvm_status propose(chen_search *w, const xcc_proposals *to)
{
    enum { PROPOSALS = 17 };
    const xcc_forward *f = w->f;
    double total = 0;
    uint32_t points = 0;
    find_crossings(w);
    for (uint32_t i = 0; i < f->count; i++) {
        total += f->items[i].read ? (double)f->items[i].bytes : 0;
        points += is_articulation(w, i);
    }
    if (points == 0)
        return XCVM_OK;
    for (int p = 0; p < PROPOSALS; p++) {
        XCVM_TRY(xcc_poll(f->m));
        cut(w, total / sqrt(points) * exp2((p - PROPOSALS / 2) / 2.0));
        XCVM_TRY(to->take(to->user, w->forgotten));
    }
    return XCVM_OK;
}

xcvm_status xcc_propose_chen(const xcc_forward *f, const xcc_proposals *to)
{
    const size_t words = 2 * (size_t)f->count + 1;
    chen_search w = {.f = f, .last_reader = xcvm_allocate(f->m->allocator, words * sizeof *w.last_reader)};
    w.forgotten = xcvm_allocate(f->m->allocator, f->count);
    w.crossing = w.last_reader != NULL ? w.last_reader + f->count : NULL;
    const xcvm_status status = w.last_reader != NULL && w.forgotten != NULL ? propose(&w, to) : xcc_out_of_memory(f->m);
    xcvm_deallocate(f->m->allocator, w.last_reader, words * sizeof *w.last_reader);
    xcvm_deallocate(f->m->allocator, w.forgotten, f->count);
    return status;
}
