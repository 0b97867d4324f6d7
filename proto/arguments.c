/* Argument structs: defaults, copies, operands and results, driven by the fields of the schema. */
#include "proto/arguments.h"
#include "proto/image.h"

#include <string.h>

void xcvm_args_default(const xcvm_schema *schema, void *args)
{
    memset(args, 0, schema->args_size);
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        if (!xcvm_field_is_attribute(f))
            continue;
        switch (f->kind) {
        case XCVM_FIELD_INT:
            *XCVM_FIELD(int64_t, f, args) = f->int_default;
            break;
        case XCVM_FIELD_FLOAT:
            *XCVM_FIELD(double, f, args) = f->float_default;
            break;
        case XCVM_FIELD_TEXT:
            *XCVM_FIELD(xcvm_text, f, args) = (xcvm_text){f->text_default, strlen(f->text_default)};
            break;
        case XCVM_FIELD_DTYPE:
            *XCVM_FIELD(xcvm_dtype, f, args) = (xcvm_dtype)f->int_default;
            break;
        case XCVM_FIELD_CHOICE:
            *XCVM_FIELD(int, f, args) = (int)f->int_default;
            break;
        default: /* lists start empty, and the producer sets targets */
            break;
        }
    }
}

void *xcvm_args_create(xcvm_arena *arena, const xcvm_schema *schema)
{
    void *args = xcvm_arena_allocate(arena, schema->args_size);
    if (args != NULL)
        xcvm_args_default(schema, args);
    return args;
}

void xcvm_args_set_count(const xcvm_field *field, void *args, size_t count)
{
    if (field->role == XCVM_ROLE_OUT)
        XCVM_FIELD(xcvm_outputs, field, args)->count = count;
    else
        XCVM_FIELD(xcvm_inputs, field, args)->count = count;
}

xcvm_status xcvm_field_check_int(xcvm_error *error, const xcvm_field *field, int64_t value)
{
    XCVM_CHECK(error, value >= field->min && value <= field->max, INVALID_PROGRAM,
               "%s is %lld, not between %lld and %lld", field->name, (long long)value, (long long)field->min,
               (long long)field->max);
    return XCVM_OK;
}

xcvm_arity xcvm_schema_results(const xcvm_schema *schema)
{
    xcvm_arity arity = {0, false};
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        if (f->role != XCVM_ROLE_OUT)
            continue;
        if (xcvm_field_is_list(f))
            arity.list = true;
        else
            arity.fixed++;
    }
    return arity;
}

bool xcvm_args_set_results(const xcvm_schema *schema, void *args, size_t count)
{
    xcvm_arity arity = xcvm_schema_results(schema);
    if (count < arity.fixed || (count > arity.fixed && !arity.list))
        return false;
    for (size_t i = 0; i < schema->field_count; i++)
        if (schema->fields[i].role == XCVM_ROLE_OUT && xcvm_field_is_list(&schema->fields[i]))
            xcvm_args_set_count(&schema->fields[i], args, count - arity.fixed);
    return true;
}

const char *xcvm_field_kind_name(const xcvm_field *field)
{
    static const char *const names[] = {
        [XCVM_FIELD_TENSOR] = "tensor",        [XCVM_FIELD_OPTIONAL] = "optional tensor",
        [XCVM_FIELD_SEQUENCE] = "sequence",    [XCVM_FIELD_ANY] = "value",
        [XCVM_FIELD_LIST] = "list of tensors", [XCVM_FIELD_ANYS] = "list of values",
        [XCVM_FIELD_INT] = "integer",          [XCVM_FIELD_INTS] = "list of integers",
        [XCVM_FIELD_FLOAT] = "number",         [XCVM_FIELD_FLOATS] = "list of numbers",
        [XCVM_FIELD_TEXT] = "string",          [XCVM_FIELD_TEXTS] = "list of strings",
        [XCVM_FIELD_DTYPE] = "element type",   [XCVM_FIELD_CHOICE] = "choice",
        [XCVM_FIELD_TARGET] = "label",         [XCVM_FIELD_NONE] = "nothing",
    };
    return names[field->kind];
}

/* Copies `count` entries of `size` bytes. Returns false if there is no memory. */
static bool copy_array(xcvm_arena *arena, const void *from, size_t count, size_t size, const void **copy)
{
    void *memory = NULL;
    size_t bytes;
    if (count > 0) {
        if (!xcvm_size_mul(count, size, &bytes) || (memory = xcvm_arena_allocate(arena, bytes)) == NULL)
            return false;
        memcpy(memory, from, bytes);
    }
    *copy = memory;
    return true;
}

static bool copy_text(xcvm_arena *arena, xcvm_text *text)
{
    text->at = xcvm_arena_string(arena, text->at != NULL ? text->at : "", text->length);
    return text->at != NULL;
}

static bool detach_attribute(xcvm_arena *arena, const xcvm_field *f, void *args)
{
    const void *copy;
    switch (f->kind) {
    case XCVM_FIELD_INTS: {
        xcvm_ints *ints = XCVM_FIELD(xcvm_ints, f, args);
        if (!copy_array(arena, ints->at, ints->count, sizeof *ints->at, &copy))
            return false;
        ints->at = copy;
        return true;
    }
    case XCVM_FIELD_FLOATS: {
        xcvm_floats *floats = XCVM_FIELD(xcvm_floats, f, args);
        if (!copy_array(arena, floats->at, floats->count, sizeof *floats->at, &copy))
            return false;
        floats->at = copy;
        return true;
    }
    case XCVM_FIELD_TEXT:
        return copy_text(arena, XCVM_FIELD(xcvm_text, f, args));
    case XCVM_FIELD_TEXTS: {
        xcvm_texts *texts = XCVM_FIELD(xcvm_texts, f, args);
        xcvm_text *list = xcvm_arena_allocate(arena, texts->count * sizeof *list);
        for (size_t i = 0; list != NULL && i < texts->count; i++) {
            list[i] = texts->at[i];
            if (!copy_text(arena, &list[i]))
                return false;
        }
        texts->at = list;
        return list != NULL;
    }
    default:
        return true;
    }
}

void *xcvm_args_detach(xcvm_arena *arena, const xcvm_schema *schema, const void *args)
{
    char *copy = xcvm_arena_allocate(arena, schema->args_size);
    if (copy == NULL)
        return NULL;
    memcpy(copy, args, schema->args_size);
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        if (xcvm_field_is_attribute(f)) {
            if (!detach_attribute(arena, f, copy))
                return NULL;
        } else if (xcvm_field_is_operand(f) && xcvm_field_is_list(f)) {
            if (f->role == XCVM_ROLE_OUT)
                XCVM_FIELD(xcvm_outputs, f, copy)->at = NULL;
            else
                XCVM_FIELD(xcvm_inputs, f, copy)->at = NULL;
        } else if (xcvm_field_is_operand(f)) {
            *XCVM_FIELD(const xcvm_value *, f, copy) = NULL;
        }
    }
    return copy;
}
