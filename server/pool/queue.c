/* The queue of a model: admission by count, bytes and expected wait; order by priority; expiry; choice of what runs. */
#include "server/pool/pool.h"

/* The expected time until `ahead` requests have run. */
static uint64_t expected_wait(const xcs_model *model, size_t ahead)
{
    return (uint64_t)ahead * model->interval_ns / model->session_count;
}

xcs_reason xcs_queue_check_locked(const xcs_model *model, const xcs_request *request, uint64_t *retry_after_ns,
                                  xcvm_error *error)
{
    const xcs_queue_options *queue = &model->limits.queue;
    *retry_after_ns = expected_wait(model, model->waiting + model->running);
    if (model->waiting >= queue->count) {
        xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "%zu requests wait, the limit of the queue. Try again later",
                       model->waiting);
        return XCS_QUEUE_FULL;
    }
    if (request->bytes > queue->bytes || model->waiting_bytes > queue->bytes - request->bytes) {
        xcvm_error_set(error, XCVM_OUT_OF_MEMORY,
                       "the inputs have %zu bytes, and %zu bytes wait (the limit of the queue is %llu)", request->bytes,
                       model->waiting_bytes, (unsigned long long)queue->bytes);
        return XCS_QUEUE_FULL;
    }
    size_t ahead = model->running;
    if (request->deadline_ns != 0)
        for (const xcs_request *r = model->last; r != NULL; r = r->before)
            ahead += r->priority >= request->priority;
    /* Its own run counts too. Four mean deviations are the margin of TCP's retransmission timer (Jacobson, 1988). */
    if (request->deadline_ns != 0 && ahead >= model->session_count &&
        expected_wait(model, ahead + 1) + 4 * model->deviation_ns > request->deadline_ns - request->submitted_ns) {
        xcvm_error_set(error, XCVM_OUT_OF_TIME, "%zu requests are ahead, so the deadline would pass in the queue",
                       ahead);
        return XCS_TOO_LATE;
    }
    return XCS_NONE;
}

void xcs_queue_add_locked(xcs_model *model, xcs_request *request)
{
    xcs_request *after = model->last;
    while (after != NULL && (after->priority < request->priority ||
                             (after->priority == request->priority && after->submitted_ns > request->submitted_ns)))
        after = after->before;
    request->before = after;
    request->next = after != NULL ? after->next : model->first;
    *(request->next != NULL ? &request->next->before : &model->last) = request;
    *(after != NULL ? &after->next : &model->first) = request;
    request->waits = true;
    model->waiting++;
    model->waiting_bytes += request->bytes;
}

void xcs_queue_remove_locked(xcs_model *model, xcs_request *request)
{
    *(request->before != NULL ? &request->before->next : &model->first) = request->next;
    *(request->next != NULL ? &request->next->before : &model->last) = request->before;
    request->before = request->next = NULL;
    request->waits = false;
    model->waiting--;
    model->waiting_bytes -= request->bytes;
}

static void move_to(xcs_request **list, xcs_request *request)
{
    request->next_late = *list;
    *list = request;
}

/* The first request that can run now. */
static xcs_request *first_runnable(xcs_model *model)
{
    if (model->running >= model->session_count)
        return NULL;
    xcs_request *request = model->first;
    while (request != NULL && request->client != NULL && request->client->busy)
        request = request->next;
    return request;
}

/* The rows of all requests that could join `first`, which may be more than fit. */
static int64_t waiting_rows(const xcs_request *first)
{
    int64_t rows = 0;
    for (const xcs_request *r = first; r != NULL && rows < first->model->batch_rows; r = r->next)
        rows += xcs_batch_fits(first, r) ? r->rows : 0;
    return rows;
}

/* True if the request should wait for others. */
static bool is_delayed(const xcs_request *request, uint64_t now, uint64_t *wake_ns)
{
    const xcs_model *model = request->model;
    if (model->batch_rows == 0 || model->limits.batch.delay_ns == 0 || model->server->draining)
        return false;
    const uint64_t until = request->submitted_ns + model->limits.batch.delay_ns;
    if (until <= now || waiting_rows(request) >= model->batch_rows)
        return false;
    *wake_ns = until < *wake_ns ? until : *wake_ns;
    return true;
}

static void join_run(xcs_run *run, xcs_request *request, uint64_t now)
{
    request->started_ns = now;
    request->run = run;
    request->next = NULL;
    run->count++;
    run->wants_profile |= request->wants_profile;
    __atomic_add_fetch(&run->left, 1, __ATOMIC_RELAXED);
    run->rows += request->rows;
}

void xcs_run_begin_locked(xcs_run *run, xcs_request *request, uint64_t now)
{
    xcs_model *model = request->model;
    *run = (xcs_run){.list = request, .model = model};
    join_run(run, request, now);
    if (request->client != NULL) {
        request->client->busy = true;
        run->session = request->client->session;
    } else {
        run->session = model->idle[--model->idle_count];
    }
    run->next = model->server->runs;
    if (run->next != NULL)
        run->next->before = run;
    model->server->runs = run;
    model->running++;
    model->server->running++;
}

/* Moves waiting requests that fit to the run, in their order. */
static void join_others(xcs_run *run, uint64_t now)
{
    xcs_model *model = run->model;
    xcs_request *tail = run->list;
    for (xcs_request *r = model->first, *after; r != NULL && run->rows < model->batch_rows; r = after) {
        after = r->next;
        if (run->rows + r->rows > model->batch_rows || !xcs_batch_fits(run->list, r))
            continue;
        xcs_queue_remove_locked(model, r);
        join_run(run, r, now);
        tail->next = r;
        tail = r;
    }
}

/* True if the deadline has passed. A run that is likely to end too late takes time from the requests behind it, which
 * may be in time; the last one runs, so that the average can change. */
static bool is_too_late(const xcs_model *model, const xcs_request *request, uint64_t now)
{
    if (request->deadline_ns == 0)
        return false;
    return request->deadline_ns <= now || (request->next != NULL && request->deadline_ns - now < model->average_ns);
}

bool xcs_queue_take_locked(xcs_server *server, xcs_run *run, xcs_request **late, uint64_t *wake_ns)
{
    const uint64_t now = xcvm_clock_ns();
    xcs_request *best = NULL;
    for (xcs_model *model = server->models; model != NULL; model = model->next) {
        xcs_request *request;
        while ((request = first_runnable(model)) != NULL && is_too_late(model, request, now)) {
            xcs_queue_remove_locked(model, request);
            move_to(late, request);
        }
        if (request == NULL || is_delayed(request, now, wake_ns))
            continue;
        if (best == NULL || request->priority > best->priority ||
            (request->priority == best->priority && request->submitted_ns < best->submitted_ns))
            best = request;
    }
    if (best == NULL)
        return false;
    xcs_queue_remove_locked(best->model, best);
    xcs_run_begin_locked(run, best, now);
    if (best->model->batch_rows > 0)
        join_others(run, now);
    return true;
}

/* True if the deadline has passed; otherwise *next is lowered to it. */
static bool is_late(const xcs_request *request, uint64_t now, uint64_t *next)
{
    if (request->deadline_ns == 0)
        return false;
    if (request->deadline_ns > now && request->deadline_ns < *next)
        *next = request->deadline_ns;
    return request->deadline_ns <= now;
}

uint64_t xcs_queue_expire_locked(xcs_server *server, uint64_t now, xcs_request **late)
{
    uint64_t next = UINT64_MAX;
    for (xcs_model *model = server->models; model != NULL; model = model->next)
        for (xcs_request *request = model->first, *after; request != NULL; request = after) {
            after = request->next;
            if (is_late(request, now, &next)) {
                xcs_queue_remove_locked(model, request);
                move_to(late, request);
            }
        }
    /* A run of one request ends at its deadline by itself. */
    for (xcs_run *run = server->runs; run != NULL; run = run->next)
        for (xcs_request *request = run->list; request != NULL && run->count > 1; request = request->next)
            if (xcs_request_may_leave_locked(request) && is_late(request, now, &next)) {
                xcs_request_leave_run_locked(request, XCS_TIMED_OUT);
                move_to(late, request);
            }
    return next;
}
