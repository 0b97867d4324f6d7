/* Sums over the processes that run a program together: asking the host, and messages that are under way. */
#include "ops/util/reducer_message.h"

xcvm_status xcvm_reducer_explain(xcvm_error *error, xcvm_status status)
{
    if (status != XCVM_OK && (error == NULL || error->status != status))
        return xcvm_error_set(error, status, "the sum over all processes failed");
    return status;
}

xcvm_status xcvm_reducer_sum(const xcvm_reducer *r, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error)
{
    return r->sum != NULL && count > 0 ? xcvm_reducer_explain(error, r->sum(r->user, dtype, elements, count, error))
                                       : XCVM_OK;
}

void xcvm_reducer_drop(xcvm_heap *heap, xcvm_message *message)
{
    xcvm_storage_release(message->elements);
    (void)xcvm_heap_account(heap, -(ptrdiff_t)message->counted, NULL);
    *message = (xcvm_message){.elements = NULL};
}

void xcvm_reducer_abandon(xcvm_reducer *r, xcvm_heap *heap)
{
    for (size_t i = 0; i < r->message_count; i++) {
        if (r->messages[i].asked)
            r->abandon(r->user, r->messages[i].request);
        if (r->messages[i].elements != NULL)
            xcvm_reducer_drop(heap, &r->messages[i]);
    }
}

void xcvm_reducer_release(xcvm_reducer *r, xcvm_heap *heap, const xcvm_allocator *allocator)
{
    xcvm_reducer_abandon(r, heap);
    xcvm_heap_destroy(r->heap);
    r->heap = NULL;
    xcvm_deallocate(allocator, r->messages, r->message_capacity * sizeof *r->messages);
    r->messages = NULL;
    r->message_count = r->message_capacity = 0;
}
