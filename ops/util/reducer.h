/* Sums over the processes that run a program together: how the host makes them, and those that are under way. */
#ifndef XCVM_OPS_UTIL_REDUCER_H
#define XCVM_OPS_UTIL_REDUCER_H

#include "base/heap.h"

/* Elements on their way to being the sums. */
typedef struct xcvm_message {
    xcvm_storage *elements; /* NULL: there is no message of this number */
    size_t counted;         /* bytes of it that the session's heap counts though they are from outside */
    xcvm_dtype dtype;
    size_t count;
    void *request; /* the host's */
    bool asked;    /* the host has been asked, and has not said yet that it is done */
} xcvm_message;

typedef struct xcvm_reducer {
    /* xcvm_session_options.all_reduce and its like */
    xcvm_status (*sum)(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error);
    xcvm_status (*begin)(void *user, xcvm_dtype dtype, void *elements, size_t count, void **request, xcvm_error *error);
    xcvm_status (*end)(void *user, void *request, bool *done, xcvm_error *error);
    void (*abandon)(void *user, void *request);
    void *user;
    xcvm_heap *heap; /* of elements, from the host's allocator; NULL: they are of the session's heap */
    xcvm_message *messages;
    size_t message_count, message_capacity;
} xcvm_reducer;

/* Replaces elements of f32 or f64 by their sums over all processes; leaves them as they are where there is one process.
 */
xcvm_status xcvm_reducer_sum(const xcvm_reducer *r, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error);

/* Gives up all messages that nobody has taken: at the end of a run. `heap` is the session's, `allocator` too. */
void xcvm_reducer_abandon(xcvm_reducer *r, xcvm_heap *heap);
void xcvm_reducer_release(xcvm_reducer *r, xcvm_heap *heap, const xcvm_allocator *allocator);

#endif
