/* Totals of a model: outcomes, times, and a histogram of the time in the pool. */
#include "server/pool/pool.h"

static size_t bucket_of(uint64_t ns)
{
    size_t bucket = 0;
    for (uint64_t bound = XCS_HISTOGRAM_FIRST_NS; bucket < XCS_HISTOGRAM_BUCKETS - 1 && ns > bound; bound *= 2)
        bucket++;
    return bucket;
}

void xcs_statistics_add_locked(xcs_request *request, const xcs_result *result, uint64_t now)
{
    xcs_statistics *s = &request->model->entry->statistics;
    s->last_ns = now;
    switch (result->reason) {
    case XCS_NONE:
        s->succeeded++;
        s->inferences += request->model->batch_rows > 0 ? (uint64_t)request->rows : 1;
        s->queue_ns += result->queue_ns;
        s->run_ns += result->run_ns;
        s->total_ns += now - request->submitted_ns;
        s->histogram[bucket_of(now - request->submitted_ns)]++;
        break;
    case XCS_TIMED_OUT:
        s->timed_out++;
        break;
    case XCS_CANCELLED:
        s->cancelled++;
        break;
    case XCS_UNKNOWN_MODEL:
    case XCS_QUEUE_FULL:
    case XCS_TOO_LATE:
    case XCS_TOO_MANY_CLIENTS:
    case XCS_DRAINING:
        s->refused++;
        break;
    case XCS_INVALID_INPUT:
    case XCS_FAILED:
        s->failed++;
        break;
    }
}

#define NAME_OF(name, summary) #name,
static const char *const names[] = {XCS_REASON_LIST(NAME_OF)};
#define SUMMARY_OF(name, summary) summary,
static const char *const summaries[] = {XCS_REASON_LIST(SUMMARY_OF)};

static const char *text_of(const char *const *texts, xcs_reason reason)
{
    return (size_t)reason < sizeof names / sizeof *names ? texts[reason] : NULL;
}

const char *xcs_reason_name(xcs_reason reason) { return text_of(names, reason); }
const char *xcs_reason_summary(xcs_reason reason) { return text_of(summaries, reason); }
