/* States as a safetensors file, each under its name. */
#include "base/budget.h"
#include "formats/safetensors.h"
#include "proto/recognize.h"
#include "vm/session.h"

#include <string.h>

static xcvm_status write_states(const xcvm_session *s, xcvm_safetensor *tensors, xcvm_sink sink, xcvm_error *error)
{
    const xcvm_image *image = &s->program->image;
    for (size_t i = 0; i < image->state_count; i++) {
        const xcvm_value *value = &s->states[i]->value;
        tensors[i] = (xcvm_safetensor){.name = image->states[i].declared.name,
                                       .dtype = (xcvm_dtype)value->dtype,
                                       .rank = value->rank,
                                       .data = value->data,
                                       .bytes = value->bytes};
        memcpy(tensors[i].dims, value->dims, sizeof tensors[i].dims);
    }
    return xcvm_safetensors_write(tensors, image->state_count, NULL, 0, &s->allocator, sink, error);
}

xcvm_status xcvm_session_save_states(const xcvm_session *session, xcvm_sink sink, xcvm_error *error)
{
    XCVM_CHECK(error, session != NULL && sink.call != NULL, INVALID_ARGUMENT, "session or sink is NULL");
    const size_t bytes = session->program->image.state_count * sizeof(xcvm_safetensor);
    xcvm_safetensor *tensors = xcvm_allocate(&session->allocator, bytes);
    XCVM_CHECK(error, tensors != NULL, OUT_OF_MEMORY, "no memory to save %zu states",
               session->program->image.state_count);
    xcvm_status status = write_states(session, tensors, sink, error);
    xcvm_deallocate(&session->allocator, tensors, bytes);
    return status;
}

/* Copies a state, because elements in the file may be unaligned. */
static xcvm_status read_state(xcvm_session *s, size_t index, const xcvm_safetensors *file, xcvm_value *value,
                              xcvm_error *error)
{
    const xcvm_value_info *declared = &s->program->image.states[index].declared;
    const xcvm_safetensor *tensor = xcvm_safetensors_find(file, declared->name);
    XCVM_CHECK(error, tensor != NULL, INVALID_ARGUMENT, "state \"%.100s\" is not among the file's %zu tensors",
               declared->name, file->count);
    xcvm_storage *storage;
    xcvm_value read = {0};
    char given[192], type[256];
    xcvm_value_set_tensor(&read, tensor->dtype, tensor->rank, tensor->dims);
    const xcvm_status status = xcvm_type_match(&declared->type, &read);
    if (status != XCVM_OK)
        return xcvm_error_set(error, status, "state \"%.100s\" is %s, but %s in the file", declared->name,
                              xcvm_type_describe(&declared->type, type, sizeof type),
                              xcvm_value_describe(&read, given, sizeof given));
    XCVM_TRY(xcvm_heap_allocate(s->kernel.heap, tensor->bytes, &storage, error));
    read.bytes = tensor->bytes;
    read.memory_kind = XCVM_MEMORY_OWNED;
    read.storage = storage;
    read.data = storage->data;
    const uint8_t *from = tensor->data;
    uint8_t *to = storage->data;
    for (size_t i = 0; i < tensor->bytes && tensor->dtype == XCVM_BOOL; i++)
        to[i] = from[i] != 0;
    if (tensor->bytes > 0 && tensor->dtype != XCVM_BOOL)
        memcpy(to, from, tensor->bytes);
    *value = read;
    return XCVM_OK;
}

static xcvm_status read_states(xcvm_session *s, const xcvm_safetensors *file, xcvm_value *values, xcvm_error *error)
{
    const size_t count = s->program->image.state_count;
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < count && status == XCVM_OK; i++)
        status = read_state(s, i, file, &values[i], error);
    for (size_t i = 0; i < count; i++) {
        xcvm_value *place = status == XCVM_OK ? &s->states[i]->value : &values[i];
        xcvm_value_clear(place);
        if (status == XCVM_OK)
            *place = values[i];
    }
    return status;
}

/* Reads names and shapes of the file's tensors. They count against the session's memory limit. */
static xcvm_status read_header(xcvm_safetensors *file, xcvm_budget *budget, const xcvm_session *s, const void *bytes,
                               size_t count, xcvm_error *error)
{
    const size_t left = xcvm_heap_left(s->kernel.heap);
    xcvm_budget_begin(budget, &s->allocator, left == SIZE_MAX ? 0 : left > 0 ? left : 1);
    xcvm_status status = xcvm_safetensors_read(file, bytes, count, error);
    status = xcvm_recognize_failure(status, bytes, count, XCVM_FILE_ARRAYS, error);
    if (status == XCVM_INVALID_ARGUMENT)
        xcvm_error_prefix(error, "these are no states that --save-state or xcvm_session_save_states wrote");
    if (status == XCVM_OUT_OF_MEMORY && budget->refused != 0)
        return xcvm_error_set(
            error, status, "the names of the file's tensors take more than the %zu bytes that the memory limit leaves",
            left);
    return status;
}

xcvm_status xcvm_session_load_states(xcvm_session *session, const void *bytes, size_t count, xcvm_error *error)
{
    XCVM_CHECK(error, session != NULL && bytes != NULL, INVALID_ARGUMENT, "session or bytes is NULL");
    xcvm_heap *heap = session->kernel.heap;
    const size_t room = session->program->image.state_count * sizeof(xcvm_value);
    xcvm_value *values = xcvm_allocate_zeroed(&session->allocator, room);
    XCVM_CHECK(error, values != NULL, OUT_OF_MEMORY, "no memory for %zu states", session->program->image.state_count);
    xcvm_budget budget;
    xcvm_safetensors file = {.arena = {.allocator = &budget.allocator}};
    xcvm_status status = read_header(&file, &budget, session, bytes, count, error);
    const ptrdiff_t held = (ptrdiff_t)budget.held;
    if (status == XCVM_OK)
        status = xcvm_heap_account(heap, held, error);
    if (status == XCVM_OK) {
        status = read_states(session, &file, values, error);
        (void)xcvm_heap_account(heap, -held, NULL);
    }
    xcvm_safetensors_release(&file);
    xcvm_deallocate(&session->allocator, values, room);
    return status;
}
