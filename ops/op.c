/* Fields of argument structs: their types, choices, operands and results. */
#include "ops/op.h"

#include <string.h>

xcvm_dtypes xcvm_field_types(const xcvm_schema *schema, const xcvm_field *field)
{
    if (!(field->types & XCVM_TYPE_VARIABLES))
        return field->types;
    for (size_t i = 0; i < schema->field_count; i++)
        if (schema->fields[i].role == XCVM_ROLE_TYPE && schema->fields[i].variable == field->types)
            return schema->fields[i].types;
    return 0;
}

int xcvm_choice_index(const xcvm_field *field, const char *name, size_t length)
{
    for (int i = 0; field->choices[i] != NULL; i++)
        if (strlen(field->choices[i]) == length && memcmp(field->choices[i], name, length) == 0)
            return i;
    return -1;
}

size_t xcvm_field_count(const xcvm_field *field, const void *args)
{
    const char *at = (const char *)args + field->offset;
    if (!xcvm_field_is_list(field))
        return 1;
    return field->role == XCVM_ROLE_OUT ? ((const xcvm_outputs *)(const void *)at)->count
                                        : ((const xcvm_inputs *)(const void *)at)->count;
}

const xcvm_value *xcvm_field_value(const xcvm_field *field, const void *args, size_t index)
{
    const char *at = (const char *)args + field->offset;
    if (!xcvm_field_is_list(field))
        return *(const xcvm_value *const *)(const void *)at;
    return field->role == XCVM_ROLE_OUT ? ((const xcvm_outputs *)(const void *)at)->at[index]
                                        : ((const xcvm_inputs *)(const void *)at)->at[index];
}

void xcvm_bind_operands(const xcvm_schema *schema, void *args, const xcvm_value **in, xcvm_value **out)
{
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *field = &schema->fields[i];
        void *at = (char *)args + field->offset;
        if (!xcvm_field_is_operand(field))
            continue;
        const size_t count = xcvm_field_count(field, args);
        const bool is_result = field->role == XCVM_ROLE_OUT;
        if (xcvm_field_is_list(field) && is_result)
            *(xcvm_outputs *)at = (xcvm_outputs){out, count};
        else if (xcvm_field_is_list(field))
            *(xcvm_inputs *)at = (xcvm_inputs){in, count};
        else if (is_result)
            *(xcvm_value **)at = *out;
        else
            *(const xcvm_value **)at = *in;
        if (is_result)
            out += count;
        else
            in += count;
    }
}
