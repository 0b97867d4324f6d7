/* The caller's values at the edge of a program. */
#include "vm/session.h"

#include <stdio.h>

/* The same value for as long as it is bound; `to` is null before. */
static void hold(xcvm_value *to, const xcvm_value *from)
{
    xcvm_value_share(to, from);
    to->refs = 0;
}

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

static xcvm_status check_type(const xcvm_parameter *input, const xcvm_value *value, xcvm_error *error)
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

xcvm_status xcvm_session_set_input(xcvm_session *session, size_t index, xcvm_value *value, xcvm_error *error)
{
    XCVM_CHECK(error, session != NULL && value != NULL, INVALID_ARGUMENT, "session or value is NULL");
    const xcvm_image *image = &session->program->image;
    XCVM_CHECK(error, index < image->input_count, INVALID_ARGUMENT, "there is no input %zu; the program has %zu", index,
               image->input_count);
    XCVM_TRY(check_type(&image->inputs[index], value, error));
    xcvm_value *input = &session->inputs[index], old = *input;
    *input = (xcvm_value){0};
    hold(input, value);
    if (!xcvm_type_is_fixed(&image->inputs[index].type) &&
        (old.kind != value->kind || old.dtype != value->dtype || !xcvm_same_shape(&old, value)))
        xcvm_session_unsettle(session);
    xcvm_value_clear(&old);
    session->bound_anew = true;
    return XCVM_OK;
}

xcvm_status xcvm_session_set_output(xcvm_session *session, size_t index, xcvm_value *tensor, xcvm_error *error)
{
    XCVM_CHECK(error, session != NULL, INVALID_ARGUMENT, "session is NULL");
    const xcvm_image *image = &session->program->image;
    XCVM_CHECK(error, index < image->output_count, INVALID_ARGUMENT, "there is no output %zu; the program has %zu",
               index, image->output_count);
    char given[192];
    XCVM_CHECK(error, tensor == NULL || (tensor->kind == XCVM_KIND_TENSOR && tensor->dtype != XCVM_STRING),
               INVALID_ARGUMENT,
               "output \"%.100s\" can be written into a tensor other than of strings only, not into %s",
               image->outputs[index].name, xcvm_value_describe(tensor, given, sizeof given));
    xcvm_value *target = &session->targets[index], old = *target;
    *target = (xcvm_value){0};
    if (tensor != NULL)
        hold(target, tensor);
    xcvm_value_clear(&old);
    memset(session->direct, 0, image->instruction_count * sizeof *session->direct);
    for (size_t i = 0; i < image->output_count; i++)
        if (session->targets[i].kind != XCVM_KIND_NULL && session->program->makers[i].pc >= 0)
            session->direct[session->program->makers[i].pc] = true;
    xcvm_session_unsettle(session);
    session->bound_anew = true;
    return XCVM_OK;
}

/* ---- All together ---- */

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
    XCVM_TRY(xcvm_session_check_overlap(s, error));
    s->bound_anew = false;
    return XCVM_OK;
}
