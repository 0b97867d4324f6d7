/* Metrics in the text format of Prometheus. */
#include "server/oip/describe.h"

#include <string.h>

typedef enum metric_kind { COUNTER, GAUGE } metric_kind;

#define MEMBER(name) offsetof(xcs_statistics, name)
static const struct {
    const char *name, *labels, *help;
    metric_kind kind;
    size_t member; /* a uint64_t or size_t */
    bool is_ns;    /* the metric has seconds */
} metrics[] = {
    {"xcvm_requests_total", "outcome=\"succeeded\"", "Requests by their outcome.", COUNTER, MEMBER(succeeded), false},
    {"xcvm_requests_total", "outcome=\"failed\"", NULL, COUNTER, MEMBER(failed), false},
    {"xcvm_requests_total", "outcome=\"refused\"", NULL, COUNTER, MEMBER(refused), false},
    {"xcvm_requests_total", "outcome=\"timed_out\"", NULL, COUNTER, MEMBER(timed_out), false},
    {"xcvm_requests_total", "outcome=\"cancelled\"", NULL, COUNTER, MEMBER(cancelled), false},
    {"xcvm_inferences_total", "", "Rows of successful requests.", COUNTER, MEMBER(inferences), false},
    {"xcvm_executions_total", "", "Successful runs; a batch is one run.", COUNTER, MEMBER(executions), false},
    {"xcvm_queue_seconds_total", "", "Time of successful requests in the queue.", COUNTER, MEMBER(queue_ns), true},
    {"xcvm_run_seconds_total", "", "Time of the runs of successful requests.", COUNTER, MEMBER(run_ns), true},
    {"xcvm_loads_total", "result=\"succeeded\"", "Loads of the model.", COUNTER, MEMBER(loads), false},
    {"xcvm_loads_total", "result=\"failed\"", NULL, COUNTER, MEMBER(failed_loads), false},
    {"xcvm_waiting_requests", "", "Requests in the queue.", GAUGE, MEMBER(waiting), false},
    {"xcvm_waiting_bytes", "", "Bytes of inputs in the queue.", GAUGE, MEMBER(waiting_bytes), false},
    {"xcvm_running_requests", "", "Runs that are in progress.", GAUGE, MEMBER(running), false},
    {"xcvm_clients", "", "Clients with states.", GAUGE, MEMBER(clients), false},
    {"xcvm_memory_bytes", "", "Memory of the model and its requests.", GAUGE, MEMBER(memory_bytes), false},
    {"xcvm_memory_peak_bytes", "", "Maximum of the memory.", GAUGE, MEMBER(peak_memory_bytes), false},
};
_Static_assert(sizeof(size_t) == sizeof(uint64_t), "members are read as uint64_t");

typedef struct metric_listing {
    xcs_text *text;
    size_t metric;
} metric_listing;

/* Writes {model="...",version="...",extra. The caller closes the braces. */
static void put_labels(xcs_text *text, const xcs_model_info *info, const char *extra)
{
    xcs_text_put(text, "{model=\"");
    for (const char *c = info->name; *c != '\0'; c++) {
        if (*c == '\n')
            xcs_text_put(text, "\\n");
        else
            xcs_text_format(text, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    xcs_text_format(text, "\",version=\"%s\"%s%s", info->version, *extra != '\0' ? "," : "", extra);
}

static void put_seconds(xcs_text *text, uint64_t ns)
{
    xcs_text_format(text, "%llu.%09llu", (unsigned long long)(ns / 1000000000), (unsigned long long)(ns % 1000000000));
}

static void list_metric(void *user, const xcs_model_info *info)
{
    const metric_listing *l = user;
    uint64_t value;
    memcpy(&value, (const char *)&info->statistics + metrics[l->metric].member, sizeof value);
    xcs_text_put(l->text, metrics[l->metric].name);
    put_labels(l->text, info, metrics[l->metric].labels);
    xcs_text_put(l->text, "} ");
    if (metrics[l->metric].is_ns)
        put_seconds(l->text, value);
    else
        xcs_text_format(l->text, "%llu", (unsigned long long)value);
    xcs_text_put(l->text, "\n");
}

static void list_readiness(void *user, const xcs_model_info *info)
{
    const metric_listing *l = user;
    xcs_text_put(l->text, "xcvm_model_ready");
    put_labels(l->text, info, "");
    xcs_text_format(l->text, "} %d\n", info->ready);
}

static void list_histogram(void *user, const xcs_model_info *info)
{
    const metric_listing *l = user;
    const xcs_statistics *s = &info->statistics;
    uint64_t sum = 0, bound = XCS_HISTOGRAM_FIRST_NS;
    for (int i = 0; i < XCS_HISTOGRAM_BUCKETS; i++, bound *= 2) {
        sum += s->histogram[i];
        xcs_text_put(l->text, "xcvm_request_seconds_bucket");
        put_labels(l->text, info, "le=\"");
        if (i + 1 < XCS_HISTOGRAM_BUCKETS)
            put_seconds(l->text, bound);
        else
            xcs_text_put(l->text, "+Inf");
        xcs_text_format(l->text, "\"} %llu\n", (unsigned long long)sum);
    }
    xcs_text_put(l->text, "xcvm_request_seconds_sum");
    put_labels(l->text, info, "");
    xcs_text_put(l->text, "} ");
    put_seconds(l->text, s->total_ns);
    xcs_text_put(l->text, "\nxcvm_request_seconds_count");
    put_labels(l->text, info, "");
    xcs_text_format(l->text, "} %llu\n", (unsigned long long)sum);
}

xcvm_status xcs_describe_metrics(xcs_server *server, xcs_text *text, xcvm_error *error)
{
    metric_listing l = {.text = text};
    xcs_text_put(text, "# HELP xcvm_model_ready 1 if the model serves requests.\n# TYPE xcvm_model_ready gauge\n");
    XCVM_TRY(xcs_server_visit_models(server, list_readiness, &l, error));
    for (; l.metric < sizeof metrics / sizeof *metrics; l.metric++) {
        if (metrics[l.metric].help != NULL)
            xcs_text_format(text, "# HELP %s %s\n# TYPE %s %s\n", metrics[l.metric].name, metrics[l.metric].help,
                            metrics[l.metric].name, metrics[l.metric].kind == COUNTER ? "counter" : "gauge");
        XCVM_TRY(xcs_server_visit_models(server, list_metric, &l, error));
    }
    xcs_text_put(text, "# HELP xcvm_request_seconds Time of successful requests in the pool.\n"
                       "# TYPE xcvm_request_seconds histogram\n");
    return xcs_server_visit_models(server, list_histogram, &l, error);
}
