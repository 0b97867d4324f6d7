/* Chrome trace JSON of traces: a track for each request, with its phases and the instructions of its run. */
#include "server/trace/record.h"

#include <string.h>

#define PHASE_NAME(name, text) text,
static const char *const phase_names[] = {XCS_PHASE_LIST(PHASE_NAME)};

const char *xcs_phase_name(xcs_phase phase) { return phase_names[phase]; }

static void put_quoted(xcs_text *text, const char *string) { xcs_text_quote(text, string, strlen(string)); }

/* Microseconds since the first request; three decimals keep every nanosecond. */
static void put_time(xcs_text *text, const char *key, uint64_t ns)
{
    xcs_text_format(text, ",\"%s\":%llu.%03u", key, (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

/* Begins a complete event. The caller adds arguments and closes the braces. */
static void begin_event(xcs_text *text, const char *name, const char *category, size_t track, uint64_t origin,
                        uint64_t begin_ns, uint64_t end_ns)
{
    xcs_text_put(text, ",\n{\"name\":");
    put_quoted(text, name);
    xcs_text_format(text, ",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%zu", category, track);
    put_time(text, "ts", begin_ns > origin ? begin_ns - origin : 0);
    put_time(text, "dur", end_ns > begin_ns ? end_ns - begin_ns : 0);
}

static void put_request(xcs_text *text, const xcs_trace *trace, size_t track, uint64_t origin)
{
    begin_event(text, trace->model[0] != '\0' ? trace->model : trace->path, "Request", track, origin, trace->begin_ns,
                trace->end_ns);
    xcs_text_format(text, ",\"args\":{\"trace_id\":\"%s\",\"method\":", trace->id_text);
    put_quoted(text, trace->method);
    xcs_text_put(text, ",\"path\":");
    put_quoted(text, trace->path);
    xcs_text_format(text,
                    ",\"version\":\"%s\",\"status\":%d,\"bytes_in\":%zu,\"bytes_out\":%zu,\"sent\":%s,"
                    "\"batch_rows\":%lld,\"instructions_left_out\":%zu}}",
                    trace->version, trace->status, trace->bytes_in, trace->bytes_out, trace->sent ? "true" : "false",
                    (long long)trace->batch_rows, trace->instructions_left_out);
}

static void put_instructions(xcs_text *text, const xcs_trace *trace, size_t track, uint64_t origin)
{
    for (size_t i = 0; i < trace->instruction_count; i++) {
        const xcs_trace_instruction *instruction = &trace->instructions[i];
        begin_event(text, instruction->name, "Node", track, origin, instruction->start_ns, instruction->end_ns);
        xcs_text_format(text, ",\"args\":{\"pc\":%d,\"node\":", instruction->pc);
        put_quoted(text, trace->names.at + instruction->node);
        xcs_text_put(text, "}}");
    }
}

static void put_trace(xcs_text *text, const xcs_trace *trace, size_t track, uint64_t origin)
{
    xcs_text_format(text, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%zu,\"args\":{\"name\":\"%s\"}}",
                    track, trace->id_text);
    xcs_text_format(text,
                    ",\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":1,\"tid\":%zu,"
                    "\"args\":{\"sort_index\":%zu}}",
                    track, track);
    put_request(text, trace, track, origin);
    for (int phase = 0; phase < XCS_PHASE_COUNT; phase++) {
        if (trace->phases[phase].begin_ns == 0)
            continue;
        begin_event(text, phase_names[phase], "Phase", track, origin, trace->phases[phase].begin_ns,
                    trace->phases[phase].end_ns);
        xcs_text_put(text, "}");
        if (phase == XCS_PHASE_RUN)
            put_instructions(text, trace, track, origin);
    }
}

void xcs_chrome_write(xcs_trace *const *traces, size_t count, xcs_text *text)
{
    uint64_t origin = count > 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < count; i++)
        origin = traces[i]->begin_ns < origin ? traces[i]->begin_ns : origin;
    xcs_text_put(text,
                 "{\"traceEvents\":[\n"
                 "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"xcvm serve\"}}");
    for (size_t i = 0; i < count; i++)
        put_trace(text, traces[i], i + 1, origin);
    xcs_text_format(text, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"version\":\"%s\",\"requests\":\"%zu\"}}\n",
                    xcvm_version(), count);
}
