/* Bindings: the caller's values as inputs and outputs of a session, checked against the program's declarations. */
#include "base/retain.h"
#include "vm/session.h"

#include <stdio.h>

xcvm_status xcvm_type_match(const xcvm_type *type, const xcvm_value *value)
{
    if (type->kind == XCVM_KIND_NULL)
        return XCVM_OK;
    if (value->kind != type->kind)
        return XCVM_TYPE_MISMATCH;
    /* An empty list has no element type. */
    if (type->dtype != XCVM_NO_DTYPE && value->dtype != type->dtype &&
        (type->kind == XCVM_KIND_TENSOR || value->dtype != XCVM_NO_DTYPE))
        return XCVM_TYPE_MISMATCH;
    if (type->kind != XCVM_KIND_TENSOR || type->rank < 0)
        return XCVM_OK;
    if (value->rank != type->rank)
        return XCVM_SHAPE_MISMATCH;
    for (int i = 0; i < type->rank; i++)
        if (type->dims[i] >= 0 && value->dims[i] != type->dims[i])
            return XCVM_SHAPE_MISMATCH;
    return XCVM_OK;
}

bool xcvm_type_is_fixed(const xcvm_type *type)
{
    bool fixed =
        type->kind == XCVM_KIND_TENSOR && type->dtype != XCVM_NO_DTYPE && type->dtype != XCVM_STRING && type->rank >= 0;
    for (int i = 0; fixed && i < type->rank; i++)
        fixed = type->dims[i] >= 0;
    return fixed;
}

static xcvm_status check_type(const xcvm_value_info *input, const xcvm_value *value, xcvm_error *error)
{
    const xcvm_type *type = &input->type;
    xcvm_status status = value->kind != XCVM_KIND_NULL ? xcvm_type_match(type, value) : XCVM_TYPE_MISMATCH;
    if (status == XCVM_OK)
        return XCVM_OK;
    char expected[256], given[192];
    return xcvm_error_set(error, status, "input \"%.100s\" is declared as %s, but was given %s", input->name,
                          xcvm_type_describe(type, expected, sizeof expected),
                          xcvm_value_describe(value, given, sizeof given));
}

/* Returns true if a tensor and a value share memory. */
static bool overlap(const xcvm_value *tensor, const xcvm_value *value)
{
    if (xcvm_kind_is_list(value->kind)) {
        for (uint32_t i = 0; i < value->count; i++)
            if (overlap(tensor, xcvm_items(value) + i))
                return true;
        return false;
    }
    const char *a = tensor->data, *b = value->data;
    return tensor->bytes > 0 && value->bytes > 0 && a < b + value->bytes && b < a + tensor->bytes;
}

/* Every run writes to the arena, so a tensor that wraps arena memory must be a mistake. */
static xcvm_status check_apart_from_arena(const xcvm_session *s, const xcvm_value *v, const char *what,
                                          const char *name, xcvm_error *error)
{
    const xcvm_value arena = {.kind = XCVM_KIND_TENSOR, .data = s->arena, .bytes = s->arena_bytes};
    XCVM_CHECK(error, v->kind != XCVM_KIND_TENSOR || v->memory_kind != XCVM_MEMORY_OWNED || !overlap(&arena, v),
               INVALID_ARGUMENT, "%s \"%.100s\": the tensor is in memory that the session's plan owns", what, name);
    return XCVM_OK;
}

static bool same_type(const xcvm_value *a, const xcvm_value *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && xcvm_same_shape(a, b);
}

xcvm_status xcvm_session_set_input(xcvm_session *session, size_t index, const xcvm_value *value, xcvm_error *error)
{
    XCVM_CHECK(error, session != NULL && value != NULL, INVALID_ARGUMENT, "session or value is NULL");
    const xcvm_image *image = &session->program->image;
    XCVM_CHECK(error, index < image->input_count, INVALID_ARGUMENT, "there is no input %zu; the program has %zu", index,
               image->input_count);
    XCVM_TRY(check_type(&image->inputs[index], value, error));
    XCVM_TRY(check_apart_from_arena(session, value, "input", image->inputs[index].name, error));
    xcvm_value held = {0};
    XCVM_TRY(
        xcvm_value_retain_with(&(xcvm_retention){.heap = session->kernel.heap, .share = true}, &held, value, error));
    xcvm_value *input = &session->inputs[index];
    if (!xcvm_type_is_fixed(&image->inputs[index].type) && !same_type(input, &held))
        xcvm_session_invalidate(session);
    xcvm_value_clear(input);
    *input = held;
    session->bindings_dirty = true;
    return XCVM_OK;
}

xcvm_status xcvm_session_set_output(xcvm_session *session, size_t index, xcvm_value *tensor, xcvm_error *error)
{
    XCVM_CHECK(error, session != NULL, INVALID_ARGUMENT, "session is NULL");
    const xcvm_image *image = &session->program->image;
    XCVM_CHECK(error, index < image->output_count, INVALID_ARGUMENT, "there is no output %zu; the program has %zu",
               index, image->output_count);
    const char *name = image->outputs[index].name;
    xcvm_value *target = &session->bound_outputs[index], held = {0};
    if (tensor != NULL) {
        char given[192];
        XCVM_CHECK(error, tensor->kind == XCVM_KIND_TENSOR && tensor->dtype != XCVM_STRING, INVALID_ARGUMENT,
                   "output \"%.100s\" can be written into a tensor other than of strings only, not into %s", name,
                   xcvm_value_describe(tensor, given, sizeof given));
        XCVM_CHECK(error, tensor->refs != 0, INVALID_ARGUMENT,
                   "output \"%.100s\" can be written into a tensor of the caller's only, not into a lent one", name);
        XCVM_TRY(check_apart_from_arena(session, tensor, "output", name, error));
        xcvm_value_share(&held, tensor);
    }
    session->bound_outputs_dirty = session->bound_outputs_dirty || !same_type(target, &held);
    xcvm_value_clear(target);
    *target = held;
    session->bindings_dirty = true;
    return XCVM_OK;
}

xcvm_status xcvm_session_pair(xcvm_session *session, size_t output, size_t input, xcvm_error *error)
{
    XCVM_CHECK(error, session != NULL, INVALID_ARGUMENT, "session is NULL");
    const xcvm_image *image = &session->program->image;
    XCVM_CHECK(error, output < image->output_count && input < image->input_count, INVALID_ARGUMENT,
               "there is no pair of output %zu and input %zu; the program has %zu and %zu", output, input,
               image->output_count, image->input_count);
    session->pairs[output] = (uint32_t)input + 1;
    session->bindings_dirty = true;
    return XCVM_OK;
}

/* ---- Lending (unchecked binding for one run) ---- */

static void lend(xcvm_value *to, const xcvm_value *value)
{
    xcvm_value_clear(to);
    *to = *value;
    to->refs = 0;
    to->memory_kind = XCVM_MEMORY_BORROWED;
    to->storage = NULL;
}

void xcvm_session_lend_input(xcvm_session *s, size_t index, const xcvm_value *value)
{
    xcvm_value *input = &s->inputs[index];
    if (!xcvm_type_is_fixed(&s->program->image.inputs[index].type) && !same_type(input, value))
        xcvm_session_invalidate(s);
    lend(input, value);
}

void xcvm_session_lend_output(xcvm_session *s, size_t index, const xcvm_value *tensor)
{
    xcvm_value *target = &s->bound_outputs[index];
    s->bound_outputs_dirty = s->bound_outputs_dirty || !same_type(target, tensor);
    lend(target, tensor);
}

/* ---- Checks of all bindings together ---- */

static xcvm_status fail_missing(const xcvm_session *s, xcvm_error *error)
{
    const xcvm_image *image = &s->program->image;
    char list[480];
    size_t length = 0, missing = 0;
    for (size_t i = 0; i < image->input_count; i++) {
        if (s->inputs[i].kind != XCVM_KIND_NULL)
            continue;
        char type[256];
        xcvm_type_describe(&image->inputs[i].type, type, sizeof type);
        missing++;
        int written = snprintf(list + length, sizeof list - length, "%s\"%.100s\" (%s)", missing > 1 ? ", " : "",
                               image->inputs[i].name, type);
        if (written < 0 || (size_t)written >= sizeof list - length)
            break;
        length += (size_t)written;
    }
    return xcvm_error_set(error, XCVM_INVALID_ARGUMENT, "%s bound: %s",
                          missing == 1 ? "an input is not" : "inputs are not", list);
}

/* Returns true if output `index` is bound to the memory of its paired input. */
static bool is_staged(const xcvm_session *s, size_t index)
{
    const xcvm_value *target = &s->bound_outputs[index];
    const xcvm_value *input = s->pairs[index] != 0 ? &s->inputs[s->pairs[index] - 1] : NULL;
    return input != NULL && target->kind == XCVM_KIND_TENSOR && input->kind == XCVM_KIND_TENSOR &&
           target->data == input->data && target->bytes == input->bytes;
}

/* Must be called when the set of instructions that write to bound outputs has changed: memory of results is assigned
 * again. */
static void invalidate_allocations(xcvm_session *s)
{
    const xcvm_program *program = s->program;
    const size_t count = program->image.instruction_count;
    memset(s->direct, 0, count * sizeof *s->direct);
    for (size_t i = 0; i < xcvm_program_result_count(program); i++)
        if (s->bound_outputs[i].kind != XCVM_KIND_NULL && !s->staged[i] && program->producers[i].pc >= 0)
            s->direct[program->producers[i].pc] = true;
    for (size_t pc = 0; pc < count; pc++)
        if (s->shapes_valid[pc] == XCVM_ALLOCATED)
            s->shapes_valid[pc] = XCVM_INFERRED;
    s->bound_outputs_dirty = false;
}

xcvm_status xcvm_session_check_bindings(xcvm_session *s, xcvm_error *error)
{
    const xcvm_program *program = s->program;
    const xcvm_image *image = &program->image;
    for (size_t i = 0; i < image->input_count; i++)
        if (s->inputs[i].kind == XCVM_KIND_NULL)
            return fail_missing(s, error);
    for (size_t i = 0; i < program->link_count; i++) {
        const xcvm_dim_link *link = &program->links[i];
        int64_t first = s->inputs[link->first_input].dims[link->first_dim],
                second = s->inputs[link->input].dims[link->dim];
        XCVM_CHECK(error, first == second, SHAPE_MISMATCH,
                   "dimension %s is %lld in input \"%.100s\" (axis %u), but %lld in input \"%.100s\" (axis %u)",
                   image->inputs[link->input].type.dim_names[link->dim], (long long)first,
                   image->inputs[link->first_input].name, (unsigned)link->first_dim, (long long)second,
                   image->inputs[link->input].name, (unsigned)link->dim);
    }
    for (size_t i = 0; i < image->output_count; i++) {
        const bool staged = is_staged(s, i);
        s->bound_outputs_dirty = s->bound_outputs_dirty || staged != s->staged[i];
        s->staged[i] = staged;
    }
    XCVM_TRY(xcvm_session_check_overlap(s, error));
    if (s->bound_outputs_dirty)
        invalidate_allocations(s);
    s->bindings_dirty = false;
    return XCVM_OK;
}
