/* The tracer: sampling, the life of a trace, and the last traces. */
#include "server/trace/trace.h"

#include "base/clock.h"
#include "server/trace/exporter.h"
#include "vm/options.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* Bounds of what /debug/trace holds. */
enum { KEPT_TRACES = 64, KEPT_BYTES = 4 << 20 };

struct xcs_tracer {
    xcvm_allocator allocator;
    unsigned sample_every;
    bool instructions;
    uint64_t seed, drawn; /* drawn: random numbers; atomic */
    uint64_t sampled;     /* traces; atomic */
    xcs_exporter *exporter;
    pthread_mutex_t mutex; /* of the following */
    xcs_trace *kept[KEPT_TRACES];
    size_t first, count, bytes; /* of the ring */
};

/* ---- Random numbers ---- */

/* SplitMix64 of a counter (Steele, Lea and Flood, 2014): no two numbers of a tracer are equal. */
static uint64_t draw(xcs_tracer *tracer)
{
    const uint64_t n = __atomic_add_fetch(&tracer->drawn, 1, __ATOMIC_RELAXED);
    uint64_t z = tracer->seed + n * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void draw_bytes(xcs_tracer *tracer, uint8_t *to, size_t count)
{
    for (size_t i = 0; i < count; i += sizeof(uint64_t)) {
        const uint64_t number = draw(tracer);
        memcpy(to + i, &number, sizeof number);
    }
    to[0] |= to[0] == 0; /* identifiers are not zero */
}

/* ---- The life of a trace ---- */

xcs_trace *xcs_trace_retain(xcs_trace *trace)
{
    __atomic_add_fetch(&trace->refs, 1, __ATOMIC_RELAXED);
    return trace;
}

void xcs_trace_release(xcs_trace *trace)
{
    if (__atomic_sub_fetch(&trace->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    const xcvm_allocator *allocator = &trace->tracer->allocator;
    xcvm_deallocate(allocator, trace->instructions, trace->instruction_count * sizeof *trace->instructions);
    xcs_text_free(&trace->names);
    xcvm_deallocate(allocator, trace, sizeof *trace);
}

static bool is_sampled(xcs_tracer *tracer, const xcs_trace_headers *headers)
{
    if (headers != NULL && xcs_trace_headers_are_valid(headers))
        return headers->sampled;
    return tracer->sample_every != 0 && draw(tracer) % tracer->sample_every == 0;
}

/* The difference of the clocks, so that a trace's times are those of its end even if the wall clock is set. */
static uint64_t wall_offset(void)
{
    struct timespec wall;
    if (clock_gettime(CLOCK_REALTIME, &wall) != 0)
        return 0;
    return (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec - xcvm_clock_ns();
}

xcs_trace *xcs_trace_begin(xcs_tracer *tracer, const xcs_trace_headers *headers, uint64_t begin_ns)
{
    if (tracer == NULL || !is_sampled(tracer, headers))
        return NULL;
    xcs_trace *trace = xcvm_allocate_zeroed(&tracer->allocator, sizeof *trace);
    if (trace == NULL)
        return NULL;
    trace->refs = 1;
    trace->tracer = tracer;
    trace->names.allocator = &tracer->allocator;
    trace->begin_ns = begin_ns;
    trace->wall_ns = wall_offset();
    trace->has_parent = headers != NULL && xcs_trace_headers_are_valid(headers);
    if (trace->has_parent) {
        memcpy(trace->trace_id, headers->trace_id, sizeof trace->trace_id);
        memcpy(trace->parent_id, headers->parent_id, sizeof trace->parent_id);
        strcpy(trace->state, xcs_trace_headers_state(headers));
    } else {
        draw_bytes(tracer, trace->trace_id, sizeof trace->trace_id);
    }
    draw_bytes(tracer, trace->span_id, sizeof trace->span_id);
    char span[2 * XCS_SPAN_ID_BYTES + 1];
    xcs_trace_hex(trace->trace_id, sizeof trace->trace_id, trace->id_text);
    xcs_trace_hex(trace->span_id, sizeof trace->span_id, span);
    snprintf(trace->response, sizeof trace->response, "00-%s-%s-01", trace->id_text, span);
    trace->phases[XCS_PHASE_RECEIVE].begin_ns = begin_ns;
    __atomic_add_fetch(&tracer->sampled, 1, __ATOMIC_RELAXED);
    return trace;
}

bool xcs_trace_wants_profile(const xcs_trace *trace) { return trace != NULL && trace->tracer->instructions; }

void xcs_trace_set_phase(xcs_trace *trace, xcs_phase phase, uint64_t begin_ns, uint64_t end_ns)
{
    if (trace == NULL || begin_ns == 0)
        return;
    trace->phases[phase].begin_ns = begin_ns;
    trace->phases[phase].end_ns = end_ns > begin_ns ? end_ns : begin_ns;
}

void xcs_trace_begin_phase(xcs_trace *trace, xcs_phase phase)
{
    if (trace != NULL)
        trace->phases[phase].begin_ns = xcvm_clock_ns();
}

void xcs_trace_end_phase(xcs_trace *trace, xcs_phase phase)
{
    if (trace != NULL)
        xcs_trace_set_phase(trace, phase, trace->phases[phase].begin_ns, xcvm_clock_ns());
}

static void copy_instructions(xcs_trace *trace, const xcs_result *result)
{
    const size_t bytes = result->instruction_count * sizeof *trace->instructions;
    trace->instructions_left_out = result->instructions_left_out + result->instruction_count;
    if (!trace->tracer->instructions || result->instruction_count == 0)
        return;
    trace->instructions = xcvm_allocate(&trace->tracer->allocator, bytes);
    if (trace->instructions == NULL)
        return;
    trace->instruction_count = result->instruction_count;
    trace->instructions_left_out = result->instructions_left_out;
    for (size_t i = 0; i < result->instruction_count; i++) {
        const xcs_instruction *from = &result->instructions[i];
        const char *node = from->node != NULL ? from->node : "";
        const size_t length = strnlen(node, 100);
        trace->instructions[i] =
            (xcs_trace_instruction){from->pc, (uint32_t)trace->names.count, from->name, from->start_ns, from->end_ns};
        xcs_text_add(&trace->names, node, length);
        xcs_text_add(&trace->names, "", 1);
    }
    if (trace->names.failed) {
        xcvm_deallocate(&trace->tracer->allocator, trace->instructions, bytes);
        trace->instructions = NULL;
        trace->instruction_count = 0;
    }
}

void xcs_trace_add_result(xcs_trace *trace, const xcs_result *result)
{
    if (trace == NULL)
        return;
    const uint64_t now = xcvm_clock_ns(), started = result->started_ns != 0 ? result->started_ns : now;
    trace->reason = result->reason;
    trace->batch_rows = result->batch_rows;
    xcs_trace_set_phase(trace, XCS_PHASE_QUEUE, result->submitted_ns, started);
    if (result->begun_ns != 0) {
        xcs_trace_set_phase(trace, XCS_PHASE_BATCH, started, result->begun_ns);
        xcs_trace_set_phase(trace, XCS_PHASE_RUN, result->begun_ns, result->ended_ns);
    } else if (result->run_ns != 0) { /* without a profile, the run includes the binding of inputs */
        xcs_trace_set_phase(trace, XCS_PHASE_RUN, started, started + result->run_ns);
    }
    copy_instructions(trace, result);
}

const char *xcs_trace_response(const xcs_trace *trace) { return trace != NULL ? trace->response : NULL; }
const char *xcs_trace_id(const xcs_trace *trace) { return trace != NULL ? trace->id_text : NULL; }

/* ---- The last traces ---- */

static size_t bytes_of(const xcs_trace *trace)
{
    return sizeof *trace + trace->names.capacity + trace->instruction_count * sizeof *trace->instructions;
}

/* Keeps a trace, and drops the oldest ones beyond the bounds. The last one is always kept. */
static void keep(xcs_tracer *tracer, xcs_trace *trace)
{
    xcs_trace *dropped[KEPT_TRACES];
    size_t drops = 0;
    pthread_mutex_lock(&tracer->mutex);
    tracer->bytes += bytes_of(trace);
    while (tracer->count > 0 && (tracer->count == KEPT_TRACES || tracer->bytes > KEPT_BYTES)) {
        xcs_trace *oldest = tracer->kept[tracer->first];
        tracer->bytes -= bytes_of(oldest);
        tracer->first = (tracer->first + 1) % KEPT_TRACES;
        tracer->count--;
        dropped[drops++] = oldest;
    }
    tracer->kept[(tracer->first + tracer->count++) % KEPT_TRACES] = xcs_trace_retain(trace);
    pthread_mutex_unlock(&tracer->mutex);
    while (drops > 0)
        xcs_trace_release(dropped[--drops]);
}

static void copy_text(char *to, size_t size, const char *from) { snprintf(to, size, "%s", from != NULL ? from : ""); }

void xcs_trace_end(xcs_trace *trace, const xcs_trace_request *request)
{
    if (trace == NULL)
        return;
    trace->end_ns = xcvm_clock_ns();
    for (int i = 0; i < XCS_PHASE_COUNT; i++)
        if (trace->phases[i].begin_ns != 0 && trace->phases[i].end_ns == 0)
            trace->phases[i].end_ns = trace->end_ns; /* the request ended in it */
    copy_text(trace->method, sizeof trace->method, request->method);
    copy_text(trace->path, sizeof trace->path, request->path);
    trace->route = request->route;
    trace->scheme = request->scheme;
    copy_text(trace->rpc_service, sizeof trace->rpc_service, request->rpc_service);
    copy_text(trace->rpc_method, sizeof trace->rpc_method, request->rpc_method);
    if (request->model != NULL) {
        copy_text(trace->model, sizeof trace->model, xcs_model_name(request->model));
        copy_text(trace->version, sizeof trace->version, xcs_model_version(request->model));
    }
    trace->status = request->status;
    trace->bytes_in = request->bytes_in;
    trace->bytes_out = request->bytes_out;
    trace->sent = request->sent;
    trace->failed = request->failed;
    /* Others see the trace as soon as it is kept. */
    if (trace->tracer->exporter != NULL)
        xcs_exporter_add(trace->tracer->exporter, trace);
    keep(trace->tracer, trace);
    xcs_trace_release(trace);
}

void xcs_tracer_describe(xcs_tracer *tracer, xcs_text *text)
{
    xcs_trace *traces[KEPT_TRACES] = {NULL};
    size_t count = 0;
    if (tracer != NULL) {
        pthread_mutex_lock(&tracer->mutex);
        for (; count < tracer->count; count++)
            traces[count] = xcs_trace_retain(tracer->kept[(tracer->first + count) % KEPT_TRACES]);
        pthread_mutex_unlock(&tracer->mutex);
    }
    xcs_chrome_write(traces, count, text);
    while (count > 0)
        xcs_trace_release(traces[--count]);
}

void xcs_tracer_describe_metrics(xcs_tracer *tracer, xcs_text *text)
{
    if (tracer == NULL)
        return;
    xcs_text_format(text,
                    "# HELP xcvm_traces_total Requests that were sampled for traces.\n"
                    "# TYPE xcvm_traces_total counter\nxcvm_traces_total %llu\n",
                    (unsigned long long)__atomic_load_n(&tracer->sampled, __ATOMIC_RELAXED));
    if (tracer->exporter == NULL)
        return;
    const xcs_exporter_counts counts = xcs_exporter_count(tracer->exporter);
    xcs_text_format(text,
                    "# HELP xcvm_exported_spans_total Spans that the collector accepted.\n"
                    "# TYPE xcvm_exported_spans_total counter\nxcvm_exported_spans_total %llu\n"
                    "# HELP xcvm_dropped_spans_total Spans that were not exported, by the reason.\n"
                    "# TYPE xcvm_dropped_spans_total counter\nxcvm_dropped_spans_total{reason=\"queue_full\"} %llu\n"
                    "xcvm_dropped_spans_total{reason=\"not_accepted\"} %llu\n",
                    (unsigned long long)counts.exported, (unsigned long long)counts.overflowed,
                    (unsigned long long)counts.failed);
}

/* ---- Creation and destruction ---- */

xcvm_status xcs_tracer_create(const xcs_tracer_options *options, xcs_tracer **tracer, xcvm_error *error)
{
    xcs_tracer_options o;
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    XCVM_CHECK(error, tracer != NULL, INVALID_ARGUMENT, "tracer is NULL");
    const xcvm_allocator *allocator = xcvm_allocator_or_default(NULL);
    xcs_tracer *created = xcvm_allocate_zeroed(allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for a tracer");
    created->allocator = *allocator;
    created->sample_every = o.sample_every;
    created->instructions = !o.no_instructions;
    if (getrandom(&created->seed, sizeof created->seed, GRND_NONBLOCK) != (ssize_t)sizeof created->seed)
        created->seed = xcvm_clock_ns() ^ (uint64_t)getpid() << 40;
    pthread_mutex_init(&created->mutex, NULL);
    xcvm_status status = o.otlp_endpoint == NULL
                             ? XCVM_OK
                             : xcs_exporter_create(o.otlp_endpoint, o.service_name != NULL ? o.service_name : "xcvm",
                                                   &created->exporter, error);
    if (status != XCVM_OK) {
        xcs_tracer_destroy(created);
        return status;
    }
    *tracer = created;
    return XCVM_OK;
}

void xcs_tracer_destroy(xcs_tracer *tracer)
{
    if (tracer == NULL)
        return;
    xcs_exporter_destroy(tracer->exporter);
    while (tracer->count > 0)
        xcs_trace_release(tracer->kept[(tracer->first + --tracer->count) % KEPT_TRACES]);
    pthread_mutex_destroy(&tracer->mutex);
    const xcvm_allocator allocator = tracer->allocator;
    xcvm_deallocate(&allocator, tracer, sizeof *tracer);
}
