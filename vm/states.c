/* States: tensors that a session keeps between runs. A Store writes to a second buffer or keeps its operand; all Stores
 * take effect together after a successful run. Instructions of the tail update states in place, after everything that
 * can fail. */
#include "base/retain.h"
#include "proto/name_index.h"
#include "vm/session.h"

#include <string.h>

/* ---- Creation and destruction ---- */

static xcvm_status allocate_like(xcvm_session *s, const xcvm_value *like, bool zeros, xcvm_value *value,
                                 xcvm_error *error)
{
    xcvm_storage *storage;
    XCVM_TRY((zeros ? xcvm_heap_allocate_zeros : xcvm_heap_allocate)(s->kernel.heap, like->bytes, &storage, error));
    *value = *like;
    value->refs = 0;
    value->memory_kind = XCVM_MEMORY_OWNED;
    value->storage = storage;
    value->data = storage->data;
    return XCVM_OK;
}

/* Returns the type of the initial value of state `index`, and its elements if the program has them. */
static xcvm_status describe_initial(const xcvm_session *s, size_t index, xcvm_value *like, xcvm_error *error)
{
    const xcvm_image *image = &s->program->image;
    const xcvm_state_declaration *state = &image->states[index];
    const xcvm_type *type = &state->declared.type;
    size_t count;
    *like = (xcvm_value){0};
    if (state->initial != 0) {
        *like = image->constants[state->initial - 1].value;
        return XCVM_OK;
    }
    int64_t dims[XCVM_MAX_RANK] = {0};
    for (int i = 0; i < type->rank; i++)
        dims[i] = type->dims[i] < 0 ? 0 : type->dims[i];
    xcvm_value_set_tensor(like, type->dtype, type->rank, dims);
    XCVM_CHECK(error, xcvm_tensor_size(type->dtype, type->rank, dims, &count, &like->bytes), OUT_OF_RANGE,
               "state \"%.100s\" is too large", state->declared.name);
    return XCVM_OK;
}

/* Creates the initial value of state `index`. */
static xcvm_status make_initial(xcvm_session *s, size_t index, xcvm_value *value, xcvm_error *error)
{
    const uint32_t initial = s->program->image.states[index].initial;
    xcvm_value like;
    XCVM_TRY(describe_initial(s, index, &like, error));
    const bool filled = initial == 0 && (s->program->state_uses[index] & XCVM_STATE_FILLED) != 0;
    XCVM_TRY(allocate_like(s, &like, filled, value, error));
    if (value->bytes > 0 && initial != 0)
        memcpy(value->data, like.data, value->bytes);
    else if (value->bytes > 0 && !filled)
        memset(value->data, 0, value->bytes);
    return XCVM_OK;
}

static xcvm_status create_state(xcvm_session *s, size_t index, xcvm_error *error)
{
    xcvm_state *state = xcvm_allocate_zeroed(&s->allocator, sizeof *state);
    XCVM_CHECK(error, state != NULL, OUT_OF_MEMORY, "no memory for a state");
    *state = (xcvm_state){.refs = 1, .allocator = s->allocator};
    s->states[index] = state;
    return make_initial(s, index, &state->value, error);
}

static xcvm_status share_state(xcvm_session *s, size_t index, const xcvm_session *with, size_t other, xcvm_error *error)
{
    const xcvm_value_info *mine = &s->program->image.states[index].declared,
                          *theirs = &with->program->image.states[other].declared;
    bool same = mine->type.dtype == theirs->type.dtype && mine->type.rank == theirs->type.rank;
    for (int i = 0; same && i < mine->type.rank; i++)
        same = mine->type.dims[i] == theirs->type.dims[i] || (mine->type.dims[i] < 0 && theirs->type.dims[i] < 0);
    char a[256], b[256];
    XCVM_CHECK(error, same, TYPE_MISMATCH, "state \"%.100s\" is %s, but %s in the session whose states are shared",
               mine->name, xcvm_type_describe(&mine->type, a, sizeof a),
               xcvm_type_describe(&theirs->type, b, sizeof b));
    s->states[index] = with->states[other];
    __atomic_fetch_add(&s->states[index]->refs, 1, __ATOMIC_RELAXED);
    return XCVM_OK;
}

static xcvm_status fill_states(xcvm_session *s, const xcvm_session *with, xcvm_name_index *theirs, xcvm_arena *room,
                               xcvm_error *error)
{
    const xcvm_image *image = &s->program->image;
    for (size_t i = 0; with != NULL && i < with->program->image.state_count; i++) {
        const char *name = with->program->image.states[i].declared.name;
        XCVM_CHECK(error, xcvm_name_index_add(theirs, room, name, strlen(name), i), OUT_OF_MEMORY,
                   "no memory for the names of %zu states", with->program->image.state_count);
    }
    xcvm_name_index_sort(theirs);
    for (size_t i = 0; i < image->state_count; i++) {
        const char *name = image->states[i].declared.name;
        const xcvm_indexed_name *found;
        if (xcvm_name_index_find(theirs, name, strlen(name), &found) != 0)
            XCVM_TRY(share_state(s, i, with, found->number, error));
        else
            XCVM_TRY(create_state(s, i, error));
    }
    return XCVM_OK;
}

xcvm_status xcvm_session_create_states(xcvm_session *s, const xcvm_session *with, xcvm_error *error)
{
    xcvm_arena room = {.allocator = &s->allocator};
    xcvm_name_index theirs = {0};
    xcvm_status status = fill_states(s, with, &theirs, &room, error);
    xcvm_arena_release(&room);
    return status;
}

void xcvm_session_release_states(xcvm_session *s)
{
    for (size_t i = 0; i < s->program->image.state_count; i++) {
        xcvm_state *state = s->states[i];
        if (state == NULL || __atomic_sub_fetch(&state->refs, 1, __ATOMIC_ACQ_REL) != 0)
            continue;
        xcvm_allocator allocator = state->allocator;
        xcvm_value_clear(&state->value);
        xcvm_value_clear(&state->spare);
        xcvm_deallocate(&allocator, state, sizeof *state);
    }
}

void xcvm_session_lend_state(xcvm_session *s, size_t index, const xcvm_value *value, const xcvm_value *next)
{
    xcvm_state *state = s->states[index];
    if (!state->lent && state->value.storage != NULL)
        xcvm_heap_discard(s->kernel.heap, state->value.storage);
    state->lent = true;
    state->value = *value;
    state->spare = next != NULL ? *next : (xcvm_value){.refs = 0};
    state->value.refs = state->spare.refs = 0;
    state->value.memory_kind = state->spare.memory_kind = XCVM_MEMORY_BORROWED;
    state->value.storage = state->spare.storage = NULL;
}

/* ---- During a run ---- */

/* True for memory of the session's heap with a single reference. Memory that a caller wrapped is visible to the caller
 * and must never be written. */
static bool is_exclusive(const xcvm_value *value)
{
    return value->memory_kind == XCVM_MEMORY_OWNED && value->storage != NULL && value->storage->single_thread &&
           __atomic_load_n(&value->storage->refs, __ATOMIC_ACQUIRE) == 1;
}

/* Copies a mostly zero state into zeroed memory. Pages that were never written stay unallocated in the copy. */
static void copy_filled(char *to, const char *from, size_t bytes)
{
    enum { PIECE = 4096 };
    static const char zeros[PIECE];
    for (size_t at = 0; at < bytes; at += PIECE) {
        const size_t length = xcvm_min(bytes - at, PIECE);
        if (memcmp(from + at, zeros, length) != 0)
            memcpy(to + at, from + at, length);
    }
}

/* A value that is updated in place must not be shared. */
static xcvm_status make_exclusive(xcvm_session *s, size_t index, xcvm_error *error)
{
    xcvm_state *state = s->states[index];
    const bool filled = (s->program->state_uses[index] & XCVM_STATE_FILLED) != 0;
    xcvm_value own;
    if (state->lent || is_exclusive(&state->value))
        return XCVM_OK;
    XCVM_TRY(allocate_like(s, &state->value, filled, &own, error));
    if (filled)
        copy_filled(own.data, state->value.data, own.bytes);
    else if (own.bytes > 0)
        memcpy(own.data, state->value.data, own.bytes);
    xcvm_value_clear(&state->value);
    state->value = own;
    return XCVM_OK;
}

/* Provides the unshared second buffer of a state of fixed type. */
static xcvm_status provide_spare(xcvm_session *s, xcvm_state *state, xcvm_error *error)
{
    if (state->lent || (state->spare.kind == XCVM_KIND_TENSOR && is_exclusive(&state->spare)))
        return XCVM_OK;
    xcvm_value_clear(&state->spare);
    return allocate_like(s, &state->value, false, &state->spare, error);
}

/* Returns the required size of a linked state dimension, or -1 if the input is not bound. */
static int64_t linked_size(const xcvm_session *s, const xcvm_state_link *link)
{
    const xcvm_value *input = &s->inputs[link->input];
    return input->kind == XCVM_KIND_TENSOR ? input->dims[link->input_dim] : -1;
}

/* Replaces an empty state by zeros of its type. */
static xcvm_status enlarge(xcvm_session *s, size_t index, const int64_t *dims, xcvm_error *error)
{
    xcvm_value *value = &s->states[index]->value, like = {0}, larger;
    size_t count;
    xcvm_value_set_tensor(&like, (xcvm_dtype)value->dtype, value->rank, dims);
    XCVM_CHECK(error, xcvm_tensor_size((xcvm_dtype)value->dtype, value->rank, dims, &count, &like.bytes), OUT_OF_RANGE,
               "state \"%.100s\" is too large", s->program->image.states[index].declared.name);
    XCVM_TRY(allocate_like(s, &like, false, &larger, error));
    if (larger.bytes > 0)
        memset(larger.data, 0, larger.bytes);
    xcvm_value_clear(value);
    *value = larger;
    return XCVM_OK;
}

static xcvm_status refuse_size(const xcvm_session *s, const xcvm_state_link *link, xcvm_error *error)
{
    const xcvm_image *image = &s->program->image;
    const xcvm_value_info *state = &image->states[link->state].declared;
    return xcvm_error_set(
        error, XCVM_SHAPE_MISMATCH,
        "dimension %.60s is %lld in state \"%.100s\" (axis %u), but %lld in input \"%.100s\" (axis %u). "
        "Reset the states to begin with another size",
        state->type.dim_names[link->dim], (long long)s->states[link->state]->value.dims[link->dim], state->name,
        (unsigned)link->dim, (long long)linked_size(s, link), image->inputs[link->input].name,
        (unsigned)link->input_dim);
}

/* Empty states, as after a reset, get the sizes of the inputs. Others must agree with them. */
static xcvm_status take_input_sizes(xcvm_session *s, xcvm_error *error)
{
    const xcvm_program *program = s->program;
    const xcvm_state_link *links = program->state_links;
    for (size_t i = 0, next; i < program->state_link_count; i = next) {
        const size_t index = links[i].state;
        const xcvm_value *value = &s->states[index]->value;
        int64_t dims[XCVM_MAX_RANK];
        bool differs = false;
        memcpy(dims, value->dims, sizeof dims);
        for (next = i; next < program->state_link_count && links[next].state == index; next++) {
            const int64_t size = linked_size(s, &links[next]);
            if (size < 0 || size == dims[links[next].dim])
                continue;
            if (s->states[index]->lent || dims[links[next].dim] != 0)
                return refuse_size(s, &links[next], error);
            dims[links[next].dim] = size;
            differs = true;
        }
        if (differs)
            XCVM_TRY(enlarge(s, index, dims, error));
    }
    return XCVM_OK;
}

xcvm_status xcvm_session_begin_states(xcvm_session *s, xcvm_error *error)
{
    const xcvm_program *program = s->program;
    const xcvm_image *image = &program->image;
    XCVM_TRY(take_input_sizes(s, error));
    for (size_t i = 0; i < image->state_count; i++) {
        /* Must precede every Load, because registers keep the address of a state. */
        if ((program->state_uses[i] & XCVM_STATE_UPDATED) != 0)
            XCVM_TRY(make_exclusive(s, i, error));
        if ((program->state_uses[i] & XCVM_STATE_STORED) == 0 || !xcvm_type_is_fixed(&image->states[i].declared.type))
            continue;
        xcvm_value *target = &s->bound_outputs[image->output_count + i];
        XCVM_TRY(provide_spare(s, s->states[i], error));
        s->bound_outputs_dirty = s->bound_outputs_dirty || target->kind == XCVM_KIND_NULL;
        *target = s->states[i]->spare;
        target->memory_kind = XCVM_MEMORY_BORROWED;
        target->storage = NULL;
    }
    return XCVM_OK;
}

void xcvm_session_load_state(xcvm_session *s, size_t pc)
{
    const xcvm_step *step = &s->program->steps[pc];
    const int32_t id = s->program->image.instructions[pc].out[0];
    xcvm_value *v = s->out[step->out_at];
    *v = s->states[step->target]->value;
    v->memory_kind = XCVM_MEMORY_BORROWED;
    v->storage = NULL;
    const bool fixed = xcvm_type_is_fixed(&s->program->image.states[step->target].declared.type);
    s->known[id] = !fixed ? 0 : step->has_cached_types ? XCVM_KNOWN_TYPE : XCVM_KNOWN_TYPE | XCVM_KNOWN_ALWAYS;
}

void xcvm_session_commit_states(xcvm_session *s)
{
    const xcvm_image *image = &s->program->image;
    for (size_t i = 0; i < image->state_count; i++) {
        xcvm_value *stored = &s->outputs[image->output_count + i];
        xcvm_state *state = s->states[i];
        if (stored->kind == XCVM_KIND_NULL)
            continue;
        if (state->lent) {
            xcvm_value_clear(stored);
        } else if (s->bound_outputs[image->output_count + i].kind != XCVM_KIND_NULL) {
            const xcvm_value before = state->value;
            state->value = state->spare;
            state->spare = before;
            xcvm_value_clear(stored);
        } else {
            xcvm_value_clear(&state->value);
            state->value = *stored;
            *stored = (xcvm_value){0};
        }
    }
}

/* ---- The tail ---- */

xcvm_status xcvm_session_enter_tail(xcvm_session *s, size_t *pc)
{
    static const uint32_t never = 0;
    const xcvm_program *program = s->program;
    XCVM_TRY(xcvm_kernel_poll(&s->kernel));
    for (size_t i = 0; i < program->image.state_count; i++)
        if ((program->state_uses[i] & XCVM_STATE_UPDATED) != 0)
            XCVM_TRY(make_exclusive(s, i, s->kernel.error));
    for (; *pc < program->image.instruction_count; ++*pc) {
        const xcvm_inference inference = xcvm_session_inference(s, *pc);
        if (program->steps[*pc].action == XCVM_ACTION_LOAD)
            xcvm_session_load_state(s, *pc);
        if (program->steps[*pc].action != XCVM_ACTION_KERNEL)
            continue;
        XCVM_TRY(xcvm_infer_run(&inference));
        /* It has no results that need memory. */
        s->shapes_valid[*pc] = XCVM_ALLOCATED;
    }
    s->kernel.deadline_ns = 0;
    s->kernel.cancelled = &never;
    return XCVM_OK;
}

/* ---- Public functions ---- */

const xcvm_value *xcvm_session_get_state(const xcvm_session *session, size_t index)
{
    return session != NULL && index < session->program->image.state_count ? &session->states[index]->value : NULL;
}

xcvm_status xcvm_session_set_state(xcvm_session *session, size_t index, const xcvm_value *value, xcvm_error *error)
{
    XCVM_CHECK(error, session != NULL && value != NULL, INVALID_ARGUMENT, "session or value is NULL");
    const xcvm_image *image = &session->program->image;
    XCVM_CHECK(error, index < image->state_count, INVALID_ARGUMENT, "there is no state %zu; the program has %zu", index,
               image->state_count);
    const xcvm_value_info *declared = &image->states[index].declared;
    char given[192], type[256];
    xcvm_status status = xcvm_type_match(&declared->type, value);
    if (status != XCVM_OK)
        return xcvm_error_set(error, status, "state \"%.100s\" is %s, but %s is given", declared->name,
                              xcvm_type_describe(&declared->type, type, sizeof type),
                              xcvm_value_describe(value, given, sizeof given));
    xcvm_value held = {0};
    XCVM_TRY(
        xcvm_value_retain_with(&(xcvm_retention){.heap = session->kernel.heap, .share = true}, &held, value, error));
    xcvm_value_clear(&session->states[index]->value);
    session->states[index]->value = held;
    return XCVM_OK;
}

/* Returns true if a state can be reset in its own memory. */
static bool can_reset_in_place(const xcvm_session *s, size_t index, const xcvm_value *like)
{
    const xcvm_value *value = &s->states[index]->value;
    return is_exclusive(value) && value->rank == like->rank && memcmp(value->dims, like->dims, sizeof value->dims) == 0;
}

/* Does everything that allocates and may fail before any state changes. */
static xcvm_status prepare_reset(xcvm_session *s, xcvm_value *fresh, xcvm_error *error)
{
    for (size_t i = 0; i < s->program->image.state_count; i++) {
        xcvm_value like;
        XCVM_TRY(describe_initial(s, i, &like, error));
        if (!can_reset_in_place(s, i, &like))
            XCVM_TRY(make_initial(s, i, &fresh[i], error));
    }
    return XCVM_OK;
}

static void reset_state(xcvm_session *s, size_t index, xcvm_value *fresh)
{
    const xcvm_image *image = &s->program->image;
    xcvm_value *value = &s->states[index]->value;
    const uint32_t initial = image->states[index].initial;
    if (fresh->kind != XCVM_KIND_NULL) {
        xcvm_value_clear(value);
        *value = *fresh;
        *fresh = (xcvm_value){0};
    } else if (initial == 0) {
        xcvm_heap_clear(value->storage);
    } else if (value->bytes > 0) {
        memcpy(value->data, image->constants[initial - 1].value.data, value->bytes);
    }
}

xcvm_status xcvm_session_reset_states(xcvm_session *session, xcvm_error *error)
{
    XCVM_CHECK(error, session != NULL, INVALID_ARGUMENT, "session is NULL");
    const size_t count = session->program->image.state_count, room = count * sizeof(xcvm_value);
    xcvm_value *fresh = xcvm_allocate_zeroed(&session->allocator, room);
    XCVM_CHECK(error, fresh != NULL, OUT_OF_MEMORY, "no memory to reset %zu states", count);
    const xcvm_status status = prepare_reset(session, fresh, error);
    for (size_t i = 0; i < count; i++) {
        if (status == XCVM_OK)
            reset_state(session, i, &fresh[i]);
        else
            xcvm_value_clear(&fresh[i]);
    }
    xcvm_deallocate(&session->allocator, fresh, room);
    return status;
}
