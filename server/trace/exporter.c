/* The exporter: a bounded queue, and a thread that sends batches of it. Failures that may pass are tried again after a
 * growing wait, as OTLP prescribes; other batches are dropped and counted. */
#include "server/trace/exporter.h"

#include "base/clock.h"
#include "server/json/document.h"
#include "server/trace/collector.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Traces: most that wait, and most of one request. */
enum { MOST_WAITING = 512, MOST_BATCH = 64, MOST_ATTEMPTS = 5 };

#define BATCH_DELAY_NS UINT64_C(1000000000)
#define ATTEMPT_NS UINT64_C(10000000000)
#define FIRST_RETRY_NS UINT64_C(500000000)
#define LONGEST_RETRY_NS UINT64_C(30000000000)
#define LAST_EXPORT_NS UINT64_C(2000000000)

struct xcs_exporter {
    xcvm_allocator allocator;
    xcs_collector collector;
    char service[128], instance[37];
    pthread_t thread;
    bool has_thread;
    uint64_t stopping_ns;  /* when the thread must have ended; UINT64_MAX: it goes on; atomic */
    pthread_mutex_t mutex; /* of the following */
    pthread_cond_t changed;
    xcs_trace *first, **end; /* of the queue */
    size_t waiting;
    uint64_t first_ns; /* when the first one of the queue was added */
    xcs_exporter_counts counts;
};

static bool is_stopping(const xcs_exporter *e)
{
    return __atomic_load_n(&e->stopping_ns, __ATOMIC_RELAXED) != UINT64_MAX;
}

/* ---- The queue ---- */

/* Instructions are not exported, and their memory must not wait for a collector. */
static xcs_trace *copy_of(const xcs_exporter *e, const xcs_trace *trace)
{
    xcs_trace *copy = xcvm_allocate(&e->allocator, sizeof *copy);
    if (copy == NULL)
        return NULL;
    *copy = *trace;
    copy->refs = 1;
    copy->next_export = NULL;
    copy->instructions = NULL;
    copy->instruction_count = 0;
    copy->names = (xcs_text){.allocator = trace->names.allocator};
    return copy;
}

void xcs_exporter_add(xcs_exporter *exporter, const xcs_trace *trace)
{
    xcs_trace *copy = copy_of(exporter, trace);
    pthread_mutex_lock(&exporter->mutex);
    const bool fits = copy != NULL && exporter->waiting < MOST_WAITING;
    if (fits) {
        *exporter->end = copy;
        exporter->end = &copy->next_export;
        if (exporter->waiting++ == 0)
            exporter->first_ns = xcvm_clock_ns();
        if (exporter->waiting == 1 || exporter->waiting == MOST_BATCH)
            pthread_cond_signal(&exporter->changed);
    } else {
        exporter->counts.overflowed += xcs_otlp_span_count(trace);
    }
    pthread_mutex_unlock(&exporter->mutex);
    if (!fits && copy != NULL)
        xcs_trace_release(copy);
}

static void wait_locked(xcs_exporter *e, uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};
    pthread_cond_timedwait(&e->changed, &e->mutex, &until);
}

/* Waits for a batch. Returns 0 if the thread must end. */
static size_t take_batch(xcs_exporter *e, xcs_trace **batch)
{
    size_t count = 0;
    pthread_mutex_lock(&e->mutex);
    while (!is_stopping(e) &&
           (e->waiting == 0 || (e->waiting < MOST_BATCH && xcvm_clock_ns() < e->first_ns + BATCH_DELAY_NS))) {
        if (e->waiting == 0)
            pthread_cond_wait(&e->changed, &e->mutex);
        else
            wait_locked(e, e->first_ns + BATCH_DELAY_NS);
    }
    for (; count < MOST_BATCH && e->first != NULL; count++) {
        batch[count] = e->first;
        e->first = e->first->next_export;
        e->waiting--;
    }
    if (e->first == NULL)
        e->end = &e->first;
    pthread_mutex_unlock(&e->mutex);
    return count;
}

/* ---- Export ---- */

static bool may_pass(int status) { return status == 0 || status == 429 || (status >= 502 && status <= 504); }

/* Waits before the next attempt. Returns false if the process ends first. */
static bool wait_to_retry(xcs_exporter *e, uint64_t ns)
{
    const uint64_t until = xcvm_clock_ns() + ns;
    pthread_mutex_lock(&e->mutex);
    while (!is_stopping(e) && xcvm_clock_ns() < until)
        wait_locked(e, until);
    pthread_mutex_unlock(&e->mutex);
    return !is_stopping(e);
}

/* Sends a body until it is accepted. Returns the number of spans that were not. */
static uint64_t send_batch(xcs_exporter *e, const xcs_text *body, uint64_t spans)
{
    uint64_t wait_ns = FIRST_RETRY_NS;
    for (int attempt = 1; !body->failed && xcvm_clock_ns() < __atomic_load_n(&e->stopping_ns, __ATOMIC_RELAXED);
         attempt++, wait_ns *= 2) {
        const xcs_collector_answer answer =
            xcs_collector_post(&e->collector, body->at, body->count, xcvm_clock_ns() + ATTEMPT_NS, &e->stopping_ns);
        if (answer.status >= 200 && answer.status < 300)
            return answer.rejected < spans ? answer.rejected : spans;
        if (!may_pass(answer.status) || attempt == MOST_ATTEMPTS)
            break;
        const uint64_t asked_ns = (uint64_t)answer.retry_s * 1000000000;
        const uint64_t longer_ns = asked_ns > wait_ns ? asked_ns : wait_ns;
        if (!wait_to_retry(e, longer_ns < LONGEST_RETRY_NS ? longer_ns : LONGEST_RETRY_NS))
            break;
    }
    return spans;
}

static void *export_batches(void *argument)
{
    xcs_exporter *e = argument;
    xcs_trace *batch[MOST_BATCH];
    for (size_t count; (count = take_batch(e, batch)) > 0;) {
        xcs_text body = {.allocator = &e->allocator};
        uint64_t spans = 0;
        xcs_otlp_write(batch, count, e->service, e->instance, &body);
        while (count > 0) {
            spans += xcs_otlp_span_count(batch[--count]);
            xcs_trace_release(batch[count]);
        }
        const uint64_t failed = send_batch(e, &body, spans);
        xcs_text_free(&body);
        pthread_mutex_lock(&e->mutex);
        e->counts.failed += failed;
        e->counts.exported += spans - failed;
        pthread_mutex_unlock(&e->mutex);
    }
    return NULL;
}

xcs_exporter_counts xcs_exporter_count(xcs_exporter *exporter)
{
    pthread_mutex_lock(&exporter->mutex);
    const xcs_exporter_counts counts = exporter->counts;
    pthread_mutex_unlock(&exporter->mutex);
    return counts;
}

/* ---- Creation and destruction ---- */

/* A random identifier (UUID, version 4) of the process. */
static void draw_instance(char *to, size_t size)
{
    uint8_t b[16];
    char hex[33];
    if (getrandom(b, sizeof b, GRND_NONBLOCK) != (ssize_t)sizeof b) {
        const uint64_t now = xcvm_clock_ns();
        memcpy(b, &now, sizeof now);
        memcpy(b + 8, &now, sizeof now);
    }
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    xcs_trace_hex(b, sizeof b, hex);
    snprintf(to, size, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

static xcvm_status start_exporter(xcs_exporter *e, const char *endpoint, xcvm_error *error)
{
    pthread_condattr_t monotonic;
    XCVM_TRY(xcs_collector_read(endpoint, &e->collector, error));
    XCVM_TRY(xcs_json_load_library(error));
    XCVM_CHECK(error, pthread_condattr_init(&monotonic) == 0, OUT_OF_MEMORY, "no memory for a condition");
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    const int code = pthread_cond_init(&e->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    XCVM_CHECK(error, code == 0, OUT_OF_MEMORY, "no memory for a condition");
    pthread_mutex_init(&e->mutex, NULL);
    e->has_thread = pthread_create(&e->thread, NULL, export_batches, e) == 0;
    if (e->has_thread)
        return XCVM_OK;
    pthread_mutex_destroy(&e->mutex);
    pthread_cond_destroy(&e->changed);
    XCVM_FAIL(error, OUT_OF_MEMORY, "the system has no thread for the export of spans");
}

xcvm_status xcs_exporter_create(const char *endpoint, const char *service, xcs_exporter **exporter, xcvm_error *error)
{
    const xcvm_allocator *allocator = xcvm_allocator_or_default(NULL);
    xcs_exporter *created = xcvm_allocate_zeroed(allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for an exporter");
    created->allocator = *allocator;
    created->end = &created->first;
    created->stopping_ns = UINT64_MAX;
    snprintf(created->service, sizeof created->service, "%s", service);
    draw_instance(created->instance, sizeof created->instance);
    xcvm_status status = start_exporter(created, endpoint, error);
    if (status != XCVM_OK) {
        xcvm_deallocate(allocator, created, sizeof *created);
        return status;
    }
    *exporter = created;
    return XCVM_OK;
}

void xcs_exporter_destroy(xcs_exporter *exporter)
{
    if (exporter == NULL)
        return;
    pthread_mutex_lock(&exporter->mutex);
    __atomic_store_n(&exporter->stopping_ns, xcvm_clock_ns() + LAST_EXPORT_NS, __ATOMIC_RELAXED);
    pthread_cond_signal(&exporter->changed);
    pthread_mutex_unlock(&exporter->mutex);
    pthread_join(exporter->thread, NULL);
    pthread_mutex_destroy(&exporter->mutex);
    pthread_cond_destroy(&exporter->changed);
    const xcvm_allocator allocator = exporter->allocator;
    xcvm_deallocate(&allocator, exporter, sizeof *exporter);
}
