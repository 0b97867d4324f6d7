/* Metadata, repository index and statistics as JSON. */
#include "server/oip/describe.h"

#include "server/oip/datatype.h"

#include <string.h>
#include <time.h>

static void put_quoted(xcs_text *text, const char *string) { xcs_text_quote(text, string, strlen(string)); }

void xcs_describe_error(xcs_text *text, const char *message)
{
    xcs_text_put(text, "{\"error\":");
    put_quoted(text, message);
    xcs_text_put(text, "}");
}

void xcs_describe_server(xcs_text *text)
{
    xcs_text_format(text,
                    "{\"name\":\"xcvm\",\"version\":\"%s\",\"extensions\":[\"binary_tensor_data\",\"model_repository\","
                    "\"parameters\",\"sequence\",\"statistics\"]}",
                    xcvm_version());
}

static void describe_tensor(xcs_text *text, const xcvm_value_info *info)
{
    xcs_text_put(text, "{\"name\":");
    put_quoted(text, info->name);
    xcs_text_format(text, ",\"datatype\":\"%s\",\"shape\":[", xcs_datatype_name(info->type.dtype));
    for (int i = 0; i < info->type.rank; i++)
        xcs_text_format(text, "%s%lld", i > 0 ? "," : "",
                        info->type.dims[i] < 0 ? -1LL : (long long)info->type.dims[i]);
    xcs_text_put(text, "]}");
}

typedef struct listing {
    xcs_text *text;
    const char *name, *version;
    bool only_ready;
    size_t count;
} listing;

static void list_version(void *user, const xcs_model_info *info)
{
    listing *l = user;
    if (!info->ready || strcmp(info->name, l->name) != 0)
        return;
    xcs_text_format(l->text, "%s\"%s\"", l->count++ > 0 ? "," : "", info->version);
}

/* The names of classes that the program's metadata have, one per line. */
static void describe_classes(xcs_text *text, const xcvm_program *program)
{
    const char *names = xcvm_program_metadata(program, "class_names");
    const char *output = xcvm_program_metadata(program, "class_output");
    if (names == NULL)
        return;
    xcs_text_put(text, ",\"parameters\":{\"class_names\":");
    put_quoted(text, names);
    if (output != NULL) {
        xcs_text_put(text, ",\"class_output\":");
        put_quoted(text, output);
    }
    xcs_text_put(text, "}");
}

xcvm_status xcs_describe_model(xcs_server *server, const xcs_model *model, xcs_text *text, xcvm_error *error)
{
    const xcvm_program *program = xcs_model_program(model);
    listing l = {.text = text, .name = xcs_model_name(model)};
    xcs_text_put(text, "{\"name\":");
    put_quoted(text, l.name);
    xcs_text_put(text, ",\"versions\":[");
    XCVM_TRY(xcs_server_visit_models(server, list_version, &l, error));
    xcs_text_put(text, "],\"platform\":\"xcvm_program\",\"inputs\":[");
    for (size_t i = 0; i < xcvm_program_input_count(program); i++) {
        xcs_text_put(text, i > 0 ? "," : "");
        describe_tensor(text, xcvm_program_input_at(program, i));
    }
    xcs_text_put(text, "],\"outputs\":[");
    for (size_t i = 0; i < xcvm_program_output_count(program); i++) {
        xcs_text_put(text, i > 0 ? "," : "");
        describe_tensor(text, xcvm_program_output_at(program, i));
    }
    xcs_text_put(text, "]");
    describe_classes(text, program);
    xcs_text_put(text, "}");
    return XCVM_OK;
}

static void list_model(void *user, const xcs_model_info *info)
{
    listing *l = user;
    if (l->only_ready && !info->ready)
        return;
    xcs_text_put(l->text, l->count++ > 0 ? ",{\"name\":" : "{\"name\":");
    put_quoted(l->text, info->name);
    xcs_text_format(l->text, ",\"version\":\"%s\",\"state\":\"%s\",\"reason\":", info->version,
                    info->ready ? "READY" : "UNAVAILABLE");
    put_quoted(l->text, info->reason);
    xcs_text_put(l->text, "}");
}

xcvm_status xcs_describe_repository(xcs_server *server, bool only_ready, xcs_text *text, xcvm_error *error)
{
    listing l = {.text = text, .only_ready = only_ready};
    xcs_text_put(text, "[");
    XCVM_TRY(xcs_server_visit_models(server, list_model, &l, error));
    xcs_text_put(text, "]");
    return XCVM_OK;
}

static void put_duration(xcs_text *text, const char *name, uint64_t count, uint64_t ns)
{
    xcs_text_format(text, "\"%s\":{\"count\":%llu,\"ns\":%llu}", name, (unsigned long long)count,
                    (unsigned long long)ns);
}

/* Milliseconds since 1970 of a time on the monotonic clock. */
static uint64_t wall_ms(uint64_t monotonic_ns)
{
    struct timespec wall, monotonic;
    if (monotonic_ns == 0 || clock_gettime(CLOCK_REALTIME, &wall) != 0 ||
        clock_gettime(CLOCK_MONOTONIC, &monotonic) != 0)
        return 0;
    const uint64_t ago = (uint64_t)monotonic.tv_sec * 1000000000 + (uint64_t)monotonic.tv_nsec - monotonic_ns;
    return ((uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec - ago) / 1000000;
}

/* The histogram of the metrics: bounds of the buckets, and a count for each and for what is beyond the last. */
static void put_latency(xcs_text *text, const xcs_statistics *s)
{
    xcs_text_put(text, "\"latency\":{\"bounds_ns\":[");
    uint64_t bound = XCS_HISTOGRAM_FIRST_NS;
    for (int i = 0; i + 1 < XCS_HISTOGRAM_BUCKETS; i++, bound *= 2)
        xcs_text_format(text, "%s%llu", i > 0 ? "," : "", (unsigned long long)bound);
    xcs_text_put(text, "],\"counts\":[");
    for (int i = 0; i < XCS_HISTOGRAM_BUCKETS; i++)
        xcs_text_format(text, "%s%llu", i > 0 ? "," : "", (unsigned long long)s->histogram[i]);
    xcs_text_put(text, "]}");
}

static void list_statistics(void *user, const xcs_model_info *info)
{
    listing *l = user;
    const xcs_statistics *s = &info->statistics;
    if ((l->name != NULL && strcmp(info->name, l->name) != 0) ||
        (l->version != NULL && strcmp(info->version, l->version) != 0))
        return;
    xcs_text_put(l->text, l->count++ > 0 ? ",{\"name\":" : "{\"name\":");
    put_quoted(l->text, info->name);
    xcs_text_format(l->text,
                    ",\"version\":\"%s\",\"last_inference\":%llu,\"inference_count\":%llu,\"execution_count\":%llu,"
                    "\"inference_stats\":{",
                    info->version, (unsigned long long)wall_ms(s->last_ns), (unsigned long long)s->inferences,
                    (unsigned long long)s->executions);
    put_duration(l->text, "success", s->succeeded, s->total_ns);
    xcs_text_put(l->text, ",");
    put_duration(l->text, "fail", s->failed + s->timed_out + s->cancelled, 0);
    xcs_text_put(l->text, ",");
    put_duration(l->text, "queue", s->succeeded, s->queue_ns);
    xcs_text_put(l->text, ",");
    put_duration(l->text, "compute_infer", s->succeeded, s->run_ns);
    xcs_text_format(l->text,
                    "},\"refused_count\":%llu,\"timeout_count\":%llu,\"cancelled_count\":%llu,\"waiting\":%zu,"
                    "\"running\":%zu,\"clients\":%zu,\"memory_bytes\":%zu,",
                    (unsigned long long)s->refused, (unsigned long long)s->timed_out, (unsigned long long)s->cancelled,
                    s->waiting, s->running, s->clients, s->memory_bytes);
    put_latency(l->text, s);
    xcs_text_put(l->text, "}");
}

xcvm_status xcs_describe_statistics(xcs_server *server, const char *name, const char *version, xcs_text *text,
                                    xcvm_error *error)
{
    listing l = {.text = text, .name = name, .version = version};
    xcs_text_put(text, "{\"model_stats\":[");
    XCVM_TRY(xcs_server_visit_models(server, list_statistics, &l, error));
    xcs_text_put(text, "]}");
    return XCVM_OK;
}
