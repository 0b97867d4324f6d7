/* Export as C: identifiers, and expressions for the bytes of values. */
#include "compiler/export_c/export_c.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Names ---- */

const char *xcc_c_format(xcc_c_export *x, const char *format, ...)
{
    char line[600];
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    const bool fits = length >= 0 && (size_t)length < sizeof line;
    const char *kept = fits ? xcvm_arena_string(&x->arena, line, (size_t)length) : NULL;
    x->body.failed = x->body.failed || kept == NULL;
    return kept != NULL ? kept : "";
}

static const char *const prefixes[XCC_C_KINDS] = {"in", "out", "state"};

static size_t name_count(const xcc_c_export *x, xcc_c_kind kind)
{
    const xcvm_image *image = x->image;
    return kind == XCC_C_INPUTS ? image->input_count : kind == XCC_C_OUTPUTS ? image->output_count : image->state_count;
}

static const char *name_at(const xcc_c_export *x, xcc_c_kind kind, size_t index)
{
    return kind == XCC_C_INPUTS    ? x->image->inputs[index].name
           : kind == XCC_C_OUTPUTS ? x->image->outputs[index].name
                                   : x->image->states[index].declared.name;
}

static char *small_letters(xcvm_arena *arena, const char *name)
{
    char *text = xcvm_arena_string(arena, name, strlen(name));
    for (char *at = text; at != NULL && *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
    return text;
}

xcvm_status xcc_c_index_names(xcc_c_export *x)
{
    for (int kind = 0; kind < XCC_C_KINDS; kind++) {
        for (size_t i = 0; i < name_count(x, (xcc_c_kind)kind); i++) {
            const char *name = small_letters(&x->arena, name_at(x, (xcc_c_kind)kind, i));
            if (name == NULL || !xcvm_name_index_add(&x->names[kind], &x->arena, name, strlen(name), i))
                return XCVM_OUT_OF_MEMORY;
        }
        xcvm_name_index_sort(&x->names[kind]);
    }
    return XCVM_OK;
}

/* Returns true if an earlier name of the same kind has the same letters. */
static bool is_repeated(xcc_c_export *x, xcc_c_kind kind, size_t index)
{
    xcvm_arena arena = {.allocator = x->arena.allocator};
    const xcvm_indexed_name *first;
    const char *name = small_letters(&arena, name_at(x, kind, index));
    x->body.failed = x->body.failed || name == NULL;
    const bool found = name != NULL && xcvm_name_index_find(&x->names[kind], name, strlen(name), &first) > 0;
    const bool repeated = found && first->number < index;
    xcvm_arena_release(&arena);
    return repeated;
}

/* Makes a C identifier from a prefix and a name of the model. A number makes it unique if characters were dropped. */
static const char *identifier(xcc_c_export *x, xcc_c_kind kind, size_t index)
{
    const char *prefix = prefixes[kind], *name = name_at(x, kind, index);
    char text[64];
    size_t count = 0;
    /* Names that differ only in case would give the same macro. */
    bool lost = *name == '\0' || isdigit((unsigned char)*name) || is_repeated(x, kind, index);
    for (; *name != '\0' && count + 1 < sizeof text; name++) {
        const bool good = isalnum((unsigned char)*name) || *name == '_';
        lost = lost || !good;
        text[count++] = good ? *name : '_';
    }
    text[count] = '\0';
    lost = lost || *name != '\0';
    return lost ? xcc_c_format(x, "%s_%zu_%s", prefix, index, text) : xcc_c_format(x, "%s_%s", prefix, text);
}

const char *xcc_c_upper(xcc_c_export *x, const char *name)
{
    char text[300];
    size_t count = 0;
    for (; *name != '\0' && count + 1 < sizeof text; name++)
        text[count++] = (char)toupper((unsigned char)*name);
    text[count] = '\0';
    return xcc_c_format(x, "%s", text);
}

const char *xcc_c_input_name(xcc_c_export *x, size_t i) { return identifier(x, XCC_C_INPUTS, i); }
const char *xcc_c_output_name(xcc_c_export *x, size_t i) { return identifier(x, XCC_C_OUTPUTS, i); }
const char *xcc_c_state_name(xcc_c_export *x, size_t i) { return identifier(x, XCC_C_STATES, i); }

/* ---- Expressions ---- */

static const char *place_of(xcc_c_export *x, const xcvm_value *v, const char *qualifier)
{
    const xcc_c_value *value = xcc_c_value_of(v);
    const char *type = xcc_c_type((xcvm_dtype)v->dtype);
    switch (value->place) {
    case XCC_C_CONSTANT:
        x->used_constants[value->index] = true;
        if (x->options->weights.call == NULL)
            return xcc_c_format(x, "(const %s *)xc_constant_%u", type, (unsigned)value->index);
        /* The offset of an empty constant may be after all data. */
        return xcc_c_format(x, "(const %s *)(const void *)(weights + %" PRIu64 ")", type,
                            v->bytes > 0 ? x->image->constants[value->index].offset : 0);
    case XCC_C_INPUT:
        return xcc_c_format(x, "(const %s *)%s", type, xcc_c_input_name(x, value->index));
    case XCC_C_STATE:
        return xcc_c_format(x, "(%s%s *)context->%s", qualifier, type, xcc_c_state_name(x, value->index));
    default:
        return xcc_c_format(x, "(%s%s *)(%svoid *)(arena + %" PRIu64 ")", qualifier, type, qualifier, value->offset);
    }
}

const char *xcc_c_read(xcc_c_export *x, const xcvm_value *v) { return v != NULL ? place_of(x, v, "const ") : "NULL"; }
const char *xcc_c_write(xcc_c_export *x, const xcvm_value *v) { return v != NULL ? place_of(x, v, "") : "NULL"; }

const char *xcc_c_number(xcc_c_export *x, xcvm_dtype dtype, double value)
{
    xcc_c_text text = {.allocator = x->arena.allocator};
    xcc_c_put_number(&text, dtype, value);
    const char *kept = xcc_c_format(x, "%s", text.at != NULL ? text.at : "");
    x->body.failed = x->body.failed || text.failed;
    xcc_c_text_release(&text);
    return kept;
}

const char *xcc_c_table(xcc_c_export *x, const char *type, const int64_t *numbers, size_t count)
{
    const size_t index = x->table_count++;
    xcc_c_put(&x->tables, "\nstatic const %s xc_table_%zu[] = {", type, index);
    for (size_t i = 0; i < count; i++)
        xcc_c_put(&x->tables, "%s%s%" PRId64, i > 0 ? "," : "", i % 16 == 15 ? "\n    " : i > 0 ? " " : "", numbers[i]);
    xcc_c_put(&x->tables, "%s};\n", count == 0 ? "0" : "");
    return xcc_c_format(x, "xc_table_%zu", index);
}

const char *xcc_c_scratch(xcc_c_export *x, uint64_t bytes)
{
    const uint64_t room = xcvm_round_up((size_t)bytes, XCVM_ALIGNMENT);
    x->scratch_bytes = room > x->scratch_bytes ? room : x->scratch_bytes;
    return xcc_c_format(x, "(float *)(void *)(arena + %" PRIu64 ")", x->scratch_offset);
}

void xcc_c_note_outputs(xcc_c_export *x, int64_t outputs) { x->outputs = outputs > x->outputs ? outputs : x->outputs; }

bool xcc_c_ints(xcc_c_export *x, const xcvm_value *v, const char *what, int64_t *ints, size_t capacity, size_t *count)
{
    *count = 0;
    if (v == NULL)
        return true;
    if (v->data == NULL)
        return xcc_c_refuse(x, "%s is not constant", what);
    *count = xcvm_element_count(v);
    if (*count > capacity)
        return xcc_c_refuse(x, "%s has too many elements", what);
    for (size_t i = 0; i < *count; i++)
        ints[i] = xcvm_element_as_int(v, i);
    return true;
}

void xcc_c_strides(const xcvm_value *v, int64_t strides[XCVM_MAX_RANK])
{
    int64_t stride = (int64_t)xcvm_dtype_size((xcvm_dtype)v->dtype);
    for (int i = v->rank; i-- > 0; stride *= v->dims[i])
        strides[i] = stride;
}

const xcvm_value *xcc_c_output_value(const xcc_c_export *x, size_t index)
{
    for (size_t pc = 0; pc < x->image->instruction_count; pc++)
        if (x->program->steps[pc].action == XCVM_ACTION_OUT && (size_t)x->program->steps[pc].target == index)
            return x->steps[pc].in[0];
    return NULL;
}
