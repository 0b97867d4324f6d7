/* Events of profiled runs. The observer keeps plain structs while the interpreter lock is released; afterwards they
 * become tuples, whose fields xcvm/profile.py names. */
#include "xcvm_python.h"

#include <stdlib.h>
#include <string.h>

typedef struct kept_event {
    int32_t pc;
    long run;
    char instruction[32];
    char *node;
    uint64_t start_ns, end_ns, flops, bytes_read, bytes_written;
    size_t live_bytes, span_count;
    xcvm_span *spans;
} kept_event;

typedef struct recording {
    kept_event *events;
    size_t count, capacity;
    long run;
    bool failed; /* no memory */
} recording;

static char *copy_text(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    return copy != NULL ? strcpy(copy, text) : NULL;
}

static xcvm_status keep_event(void *user, const xcvm_event *event, xcvm_error *error)
{
    (void)error;
    recording *self = user;
    if (self->count == self->capacity) {
        const size_t capacity = self->capacity != 0 ? self->capacity * 2 : 256;
        kept_event *events = realloc(self->events, capacity * sizeof *events);
        self->failed = self->failed || events == NULL;
        if (self->failed)
            return XCVM_OUT_OF_MEMORY;
        self->events = events;
        self->capacity = capacity;
    }
    kept_event *kept = &self->events[self->count];
    *kept = (kept_event){.pc = event->pc,
                         .run = self->run,
                         .node = copy_text(event->node != NULL ? event->node : ""),
                         .start_ns = event->start_ns,
                         .end_ns = event->end_ns,
                         .flops = event->flops,
                         .bytes_read = event->bytes_read,
                         .bytes_written = event->bytes_written,
                         .live_bytes = event->live_bytes,
                         .span_count = event->span_count};
    strncpy(kept->instruction, event->instruction, sizeof kept->instruction - 1);
    self->count++;
    if (event->span_count != 0) {
        kept->spans = malloc(event->span_count * sizeof *kept->spans);
        if (kept->spans != NULL)
            memcpy(kept->spans, event->spans, event->span_count * sizeof *kept->spans);
        else
            kept->span_count = 0;
    }
    self->failed = self->failed || kept->node == NULL;
    return self->failed ? XCVM_OUT_OF_MEMORY : XCVM_OK;
}

static PyObject *spans_tuple(const kept_event *event)
{
    PyObject *spans = PyTuple_New((Py_ssize_t)event->span_count);
    for (size_t i = 0; spans != NULL && i < event->span_count; i++) {
        const xcvm_span *span = &event->spans[i];
        PyObject *item =
            Py_BuildValue("(iKK)", span->worker, (unsigned long long)span->start_ns, (unsigned long long)span->end_ns);
        if (item == NULL || PyTuple_SetItem(spans, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(spans);
    }
    return spans;
}

static PyObject *event_tuple(const kept_event *event)
{
    PyObject *node = PyUnicode_DecodeUTF8(event->node, (Py_ssize_t)strlen(event->node), "replace");
    PyObject *spans = spans_tuple(event);
    if (node == NULL || spans == NULL) {
        Py_XDECREF(node);
        Py_XDECREF(spans);
        return NULL;
    }
    return Py_BuildValue("(lisNKKKKKnN)", event->run, (int)event->pc, event->instruction, node,
                         (unsigned long long)event->start_ns, (unsigned long long)event->end_ns,
                         (unsigned long long)event->flops, (unsigned long long)event->bytes_read,
                         (unsigned long long)event->bytes_written, (Py_ssize_t)event->live_bytes, spans);
}

PyObject *runner_profile(session_runner *runner, const run_arguments *arguments, long runs, bool spans)
{
    recording kept = {0};
    const xcvm_observer observer = {.size = sizeof observer, .after = keep_event, .user = &kept, .want_spans = spans};
    xcvm_session_set_observer(runner->session, &observer);
    PyObject *outputs = NULL;
    for (kept.run = 0; kept.run < runs && (kept.run == 0 || outputs != NULL); kept.run++) {
        Py_XDECREF(outputs);
        outputs = runner_run(runner, arguments);
    }
    xcvm_session_set_observer(runner->session, NULL);
    PyObject *events = outputs != NULL ? PyList_New(0) : NULL;
    for (size_t i = 0; events != NULL && i < kept.count; i++) {
        PyObject *event = event_tuple(&kept.events[i]);
        if (event == NULL || PyList_Append(events, event) < 0)
            Py_CLEAR(events);
        Py_XDECREF(event);
    }
    for (size_t i = 0; i < kept.count; i++) {
        free(kept.events[i].node);
        free(kept.events[i].spans);
    }
    free(kept.events);
    if (events != NULL)
        return Py_BuildValue("(NN)", events, outputs);
    Py_XDECREF(outputs);
    return NULL;
}
