/* Any bytes as headers of a trace context, as the URL of a collector, and as its answer. */
#include "fuzz.h"

#include "server/json/document.h"
#include "server/trace/collector.h"
#include "server/trace/context.h"

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t count, size_t capacity, unsigned seed)
{
    (void)seed;
    return LLVMFuzzerMutate(bytes, count, capacity);
}

/* A state that is kept is valid when it is read again, and reads as the same. */
static void check_state(const xcs_trace_headers *headers)
{
    const char *state = xcs_trace_headers_state(headers);
    xcs_trace_headers again = {.parents = 0};
    if (strlen(state) > XCS_TRACE_STATE_BYTES || (state[0] != '\0' && strlen(state) != headers->state_length))
        abort();
    xcs_trace_headers_add_state(&again, state);
    if (strcmp(xcs_trace_headers_state(&again), state) != 0)
        abort();
}

static void check_collector(const char *text)
{
    xcs_collector collector;
    xcvm_error error;
    if (xcs_collector_read(text, &collector, &error) != XCVM_OK)
        return;
    if (collector.host[0] == '\0' || collector.port[0] == '\0' || collector.path[0] != '/' ||
        strpbrk(collector.host, "/ \r\n@") != NULL || strpbrk(collector.path, " \r\n") != NULL)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    xcs_trace_headers headers = {.parents = 0};
    char *text = malloc(count + 1);
    if (text == NULL || xcs_json_load_library(NULL) != XCVM_OK)
        abort();
    if (count > 0)
        memcpy(text, bytes, count);
    text[count] = '\0';
    check_collector(text);
    const xcs_collector_answer answer = xcs_collector_read_answer(text, count);
    if (answer.status < 0 || answer.status > 999)
        abort();
    /* Lines are headers in turn. */
    char *rest = text;
    for (bool is_parent = true; rest != NULL; is_parent = !is_parent) {
        const char *line = strsep(&rest, "\n");
        if (is_parent)
            xcs_trace_headers_add_parent(&headers, line);
        else
            xcs_trace_headers_add_state(&headers, line);
    }
    check_state(&headers);
    free(text);
    return 0;
}
