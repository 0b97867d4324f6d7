/* Sums over the processes that run a program together: callbacks of the host, and pending messages. */
#ifndef XCVM_OPS_UTIL_REDUCER_H
#define XCVM_OPS_UTIL_REDUCER_H

#include "base/heap.h"

/* Elements of a pending sum. */
typedef struct xcvm_message {
    xcvm_storage *elements; /* NULL: no message of this number */
    size_t counted;         /* bytes of external memory that the session's heap counts */
    xcvm_dtype dtype;
    size_t count;
    void *request; /* the host's request */
    bool asked;    /* the request has begun and is not yet reported as done */
} xcvm_message;

typedef struct xcvm_reducer {
    /* xcvm_session_options.all_reduce and its like */
    xcvm_status (*sum)(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error);
    xcvm_status (*begin)(void *user, xcvm_dtype dtype, void *elements, size_t count, void **request, xcvm_error *error);
    xcvm_status (*end)(void *user, void *request, bool *done, xcvm_error *error);
    void (*abandon)(void *user, void *request);
    void *user;
    xcvm_heap *heap; /* elements come from the host's allocator; NULL: from the session's heap */
    xcvm_message *messages;
    size_t message_count, message_capacity;
} xcvm_reducer;

/* Replaces f32 or f64 elements by their sums over all processes; leaves them unchanged if there is one process. */
xcvm_status xcvm_reducer_sum(const xcvm_reducer *r, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error);

/* Abandons all pending messages at the end of a run. `heap` and `allocator` are the session's. */
void xcvm_reducer_abandon(xcvm_reducer *r, xcvm_heap *heap);
void xcvm_reducer_release(xcvm_reducer *r, xcvm_heap *heap, const xcvm_allocator *allocator);

#endif
