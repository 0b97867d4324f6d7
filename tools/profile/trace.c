/* Chrome traces: events of instructions and of threads. */
#include "profile/trace.h"
#include "io/json.h"
#include "cli/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESS = 1 };

/* A recorded event. It is followed by `inputs` + `outputs` struct trace_type and then `spans` xcvm_span. */
struct trace_record {
    int32_t pc;
    uint32_t inputs, outputs, spans;
    uint64_t start_ns, end_ns, flops, bytes_read, bytes_written, output_bytes, live_bytes;
};

struct trace_type {
    int64_t dims[XCVM_MAX_RANK];
    int32_t rank, dtype; /* dtype XCVM_NO_DTYPE: no tensor */
};

/* ---- Noting ---- */

void trace_run(struct trace *trace, uint64_t start_ns, uint64_t end_ns)
{
    trace->runs = memory_append(trace->runs, trace->run_count, sizeof *trace->runs);
    trace->runs[trace->run_count++] = (struct trace_run){start_ns, end_ns};
}

static void note_names(struct trace *trace, const xcvm_event *event)
{
    size_t index = (size_t)(event->pc > 0 ? event->pc : 0);
    for (; trace->name_count <= index; trace->name_count++) {
        trace->names = memory_append(trace->names, trace->name_count, sizeof *trace->names);
        trace->names[trace->name_count] = (struct trace_name){0};
    }
    if (trace->names[index].instruction != NULL)
        return;
    trace->names[index].instruction = memory_text(event->instruction);
    trace->names[index].node = memory_text(event->node != NULL ? event->node : "");
}

static uint64_t note_types(struct trace *trace, const xcvm_value *const *values, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        struct trace_type type = {0};
        if (values[i] != NULL && xcvm_value_kind(values[i]) == XCVM_KIND_TENSOR) {
            type.dtype = (int32_t)xcvm_value_dtype(values[i]);
            type.rank = xcvm_value_rank(values[i]);
            for (int k = 0; k < type.rank; k++)
                type.dims[k] = xcvm_value_dims(values[i])[k];
            bytes += xcvm_value_bytes(values[i]);
        }
        buffer_append(&trace->records, &type, sizeof type);
    }
    return bytes;
}

void trace_event(struct trace *trace, const xcvm_event *event)
{
    note_names(trace, event);
    struct trace_record record = {.pc = event->pc,
                                  .inputs = (uint32_t)event->input_count,
                                  .outputs = (uint32_t)event->output_count,
                                  .spans = (uint32_t)event->span_count,
                                  .start_ns = event->start_ns,
                                  .end_ns = event->end_ns,
                                  .flops = event->flops,
                                  .bytes_read = event->bytes_read,
                                  .bytes_written = event->bytes_written,
                                  .live_bytes = event->live_bytes};
    size_t at = trace->records.length;
    buffer_append(&trace->records, &record, sizeof record);
    note_types(trace, event->inputs, event->input_count);
    record.output_bytes = note_types(trace, event->outputs, event->output_count);
    buffer_append(&trace->records, event->spans, event->span_count * sizeof *event->spans);
    memcpy(trace->records.data + at, &record, sizeof record);
}

void trace_release(struct trace *trace)
{
    for (size_t i = 0; i < trace->name_count; i++) {
        free(trace->names[i].instruction);
        free(trace->names[i].node);
    }
    free(trace->names);
    free(trace->runs);
    buffer_release(&trace->records);
    *trace = (struct trace){0};
}

/* ---- Writing ---- */

/* JSON on its way to a sink. */
struct writing {
    struct buffer text;
    uint64_t origin;
    bool any, good;
    int tracks;
    xcvm_sink sink;
};

static void flush_text(struct writing *writing)
{
    if (writing->good && writing->text.length != 0)
        writing->good = writing->sink.call(writing->sink.user, writing->text.data, writing->text.length);
    writing->text.length = 0;
}

/* Times of the format are microseconds; three decimals keep every nanosecond. */
static void put_time(struct writing *writing, const char *key, uint64_t ns)
{
    buffer_format(&writing->text, "\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static uint64_t since_origin(const struct writing *writing, uint64_t ns)
{
    return ns > writing->origin ? ns - writing->origin : 0;
}

static void begin_event(struct writing *writing, const char *name, const char *phase, int track)
{
    struct buffer *text = &writing->text;
    if (text->length > (1 << 16))
        flush_text(writing);
    buffer_text(text, writing->any ? ",\n{\"name\":" : "{\"name\":");
    writing->any = true;
    json_string(text, name);
    buffer_format(text, ",\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,", phase, PROCESS, track);
}

static void put_duration(struct writing *writing, const char *category, uint64_t start, uint64_t end)
{
    buffer_format(&writing->text, "\"cat\":\"%s\",", category);
    put_time(writing, "ts", since_origin(writing, start));
    buffer_text(&writing->text, ",");
    put_time(writing, "dur", end > start ? end - start : 0);
}

/* ONNX Runtime's names of element types, which scripts that read its profiles know. */
static const char *type_name(xcvm_dtype dtype)
{
    switch (dtype) {
    case XCVM_F32:
        return "float";
    case XCVM_F64:
        return "double";
    case XCVM_F16:
        return "float16";
    case XCVM_BF16:
        return "bfloat16";
    case XCVM_I8:
        return "int8";
    case XCVM_I16:
        return "int16";
    case XCVM_I32:
        return "int32";
    case XCVM_I64:
        return "int64";
    case XCVM_U8:
        return "uint8";
    case XCVM_U16:
        return "uint16";
    case XCVM_U32:
        return "uint32";
    case XCVM_U64:
        return "uint64";
    case XCVM_STRING:
        return "string";
    default:
        return xcvm_dtype_name(dtype);
    }
}

/* [{"float":[1,3,224,224]}, ...], of tensors. */
static void put_types(struct buffer *text, const char *key, const char *at, size_t count)
{
    buffer_format(text, ",\"%s\":[", key);
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        struct trace_type type;
        memcpy(&type, at + i * sizeof type, sizeof type);
        if (type.dtype == XCVM_NO_DTYPE)
            continue;
        buffer_format(text, "%s{\"%s\":[", any ? "," : "", type_name((xcvm_dtype)type.dtype));
        for (int k = 0; k < type.rank; k++)
            buffer_format(text, k != 0 ? ",%" PRId64 : "%" PRId64, type.dims[k]);
        buffer_text(text, "]}");
        any = true;
    }
    buffer_text(text, "]");
}

static void put_span(struct writing *writing, const struct trace_record *record, const char *instruction,
                     const xcvm_span *span)
{
    /* Clocks are read one after another: a span must not stick out of its instruction. */
    uint64_t start = span->start_ns < record->start_ns ? record->start_ns : span->start_ns;
    uint64_t end = span->end_ns > record->end_ns ? record->end_ns : span->end_ns;
    begin_event(writing, instruction, "X", span->worker);
    put_duration(writing, "Worker", start, end);
    buffer_format(&writing->text, ",\"args\":{\"pc\":%d,\"worker\":%d}}", record->pc, span->worker);
    if (span->worker >= writing->tracks)
        writing->tracks = span->worker + 1;
}

/* Writes the record at `at` and returns its end. */
static const char *put_record(struct writing *writing, const struct trace *trace, const char *at)
{
    struct trace_record record;
    memcpy(&record, at, sizeof record);
    const char *types = at + sizeof record;
    const char *spans = types + (record.inputs + record.outputs) * sizeof(struct trace_type);
    const struct trace_name *name = &trace->names[record.pc > 0 ? record.pc : 0];
    struct buffer *text = &writing->text;
    begin_event(writing, name->instruction, "X", 0);
    put_duration(writing, "Node", record.start_ns, record.end_ns);
    buffer_format(text, ",\"args\":{\"op_name\":\"%s\",\"pc\":%d,\"node_index\":%d,\"node\":", name->instruction,
                  record.pc, record.pc);
    json_string(text, name->node);
    buffer_format(text,
                  ",\"flops\":%" PRIu64 ",\"bytes_read\":%" PRIu64 ",\"bytes_written\":%" PRIu64
                  ",\"output_size\":%" PRIu64 ",\"threads\":%u",
                  record.flops, record.bytes_read, record.bytes_written, record.output_bytes,
                  record.spans != 0 ? record.spans : 1);
    put_types(text, "input_type_shape", types, record.inputs);
    put_types(text, "output_type_shape", types + record.inputs * sizeof(struct trace_type), record.outputs);
    buffer_text(text, "}}");
    for (uint32_t i = 0; i < record.spans; i++, spans += sizeof(xcvm_span)) {
        xcvm_span span;
        memcpy(&span, spans, sizeof span);
        put_span(writing, &record, name->instruction, &span);
    }
    begin_event(writing, "live_bytes", "C", 0);
    put_time(writing, "ts", since_origin(writing, record.end_ns));
    buffer_format(text, ",\"args\":{\"live_bytes\":%" PRIu64 "}}", record.live_bytes);
    return spans;
}

static void put_metadata(struct writing *writing, const char *kind, int track, const char *key, const char *value)
{
    begin_event(writing, kind, "M", track);
    buffer_format(&writing->text, "\"args\":{\"%s\":", key);
    json_string(&writing->text, value);
    buffer_text(&writing->text, "}}");
}

/* Writes the runs from number `run` on that started before the record at `at` (NULL: all), so that the events of a
 * track are in order of their start. Returns the number of the next run. */
static size_t put_runs(struct writing *writing, const struct trace *trace, size_t run, const char *at)
{
    struct trace_record record = {.start_ns = UINT64_MAX};
    if (at != NULL)
        memcpy(&record, at, sizeof record);
    for (; run < trace->run_count && trace->runs[run].start_ns <= record.start_ns; run++) {
        begin_event(writing, "run", "X", 0);
        put_duration(writing, "Session", trace->runs[run].start_ns, trace->runs[run].end_ns);
        buffer_format(&writing->text, ",\"args\":{\"iteration\":%zu}}", run);
    }
    return run;
}

static void put_all_metadata(struct writing *writing, const char *program)
{
    char *name = memory_format("xcvm %s", program);
    put_metadata(writing, "process_name", 0, "name", name);
    free(name);
    for (int i = 0; i < writing->tracks || i == 0; i++) {
        char *worker = i == 0 ? memory_text("main") : memory_format("worker %d", i);
        put_metadata(writing, "thread_name", i, "name", worker);
        free(worker);
        begin_event(writing, "thread_sort_index", "M", i);
        buffer_format(&writing->text, "\"args\":{\"sort_index\":%d}}", i);
    }
}

bool trace_write(const struct trace *trace, const struct trace_header *header, xcvm_sink sink)
{
    struct writing writing = {.good = true, .sink = sink};
    writing.origin = trace->run_count != 0 ? trace->runs[0].start_ns : 0;
    buffer_text(&writing.text, "{\"traceEvents\":[\n");
    const char *end = trace->records.length != 0 ? trace->records.data + trace->records.length : NULL;
    size_t run = 0;
    for (const char *at = trace->records.data; at != end && end != NULL && writing.good;) {
        run = put_runs(&writing, trace, run, at);
        at = put_record(&writing, trace, at);
    }
    put_runs(&writing, trace, run, NULL);
    put_all_metadata(&writing, header->program);
    buffer_text(&writing.text, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":");
    json_string(&writing.text, header->program);
    buffer_text(&writing.text, ",\"producer\":");
    json_string(&writing.text, header->producer != NULL ? header->producer : "");
    buffer_text(&writing.text, ",\"version\":");
    json_string(&writing.text, xcvm_version());
    buffer_format(&writing.text, ",\"threads\":\"%d\"}}\n", header->threads);
    flush_text(&writing);
    buffer_release(&writing.text);
    return writing.good;
}
