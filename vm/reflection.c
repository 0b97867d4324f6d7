/* Reflection: public information about op definitions, derived from the schema on request. */
#include "base/decimal.h"
#include "ops/op.h"
#include "ops/table/table.h"

#include <stdio.h>

static const uint16_t numbers[] = {
#define XCVM_OP(Name, number, ...) number,
#include "ops/instructions.def"
};

size_t xcvm_op_count(void) { return sizeof numbers / sizeof *numbers; }

static const xcvm_schema *row_at(size_t index)
{
    return index < xcvm_op_count() ? xcvm_schema_of(numbers[index]) : NULL;
}

/* Type variables are fields, but not public operands. */
static bool is_shown(const xcvm_field *field) { return field->role != XCVM_ROLE_TYPE; }

static const char *gradient_of(const xcvm_schema *schema)
{
    if (schema->gradient.zero || schema->gradient.step != NULL)
        return "zero";
    return schema->gradient.rule != NULL ? schema->gradient.rule : "none";
}

bool xcvm_op_at(size_t index, xcvm_op_info *info)
{
    const xcvm_schema *schema = row_at(index);
    if (schema == NULL)
        return false;
    *info = (xcvm_op_info){.name = schema->name,
                           .number = (int)schema->opcode,
                           .summary = schema->summary,
                           .shape_rule = schema->shape_name,
                           .gradient = gradient_of(schema)};
    for (size_t i = 0; i < schema->field_count; i++)
        info->operand_count += is_shown(&schema->fields[i]);
    return true;
}

static const char *kind_of(const xcvm_field *field)
{
    static const char *const kinds[] = {
        [XCVM_FIELD_TENSOR] = "tensor", [XCVM_FIELD_OPTIONAL] = "tensor", [XCVM_FIELD_SEQUENCE] = "sequence",
        [XCVM_FIELD_ANY] = "any",       [XCVM_FIELD_LIST] = "list",       [XCVM_FIELD_ANYS] = "list of any",
        [XCVM_FIELD_INT] = "int",       [XCVM_FIELD_INTS] = "ints",       [XCVM_FIELD_FLOAT] = "float",
        [XCVM_FIELD_FLOATS] = "floats", [XCVM_FIELD_TEXT] = "text",       [XCVM_FIELD_TEXTS] = "texts",
        [XCVM_FIELD_DTYPE] = "dtype",   [XCVM_FIELD_CHOICE] = "choice",   [XCVM_FIELD_TARGET] = "target",
    };
    return kinds[field->kind];
}

static void describe_choices(const xcvm_field *field, char *text, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; field->choices[i] != NULL && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i > 0 ? "|" : "", field->choices[i]);
}

static void describe_default(const xcvm_field *field, char *text, size_t size)
{
    char number[XCVM_DECIMAL_TEXT];
    switch (field->kind) {
    case XCVM_FIELD_INT:
        if (field->int_default == INT64_MIN || field->int_default == INT64_MAX)
            snprintf(text, size, field->int_default < 0 ? "-2^63" : "2^63 - 1");
        else
            snprintf(text, size, "%lld", (long long)field->int_default);
        break;
    case XCVM_FIELD_FLOAT:
        snprintf(text, size, "%s", xcvm_decimal_text(field->float_default, 9, number));
        break;
    case XCVM_FIELD_TEXT:
        snprintf(text, size, "%s", field->text_default);
        break;
    case XCVM_FIELD_DTYPE:
        if (field->int_default != XCVM_NO_DTYPE)
            snprintf(text, size, "%s", xcvm_dtype_name((xcvm_dtype)field->int_default));
        break;
    default:
        break;
    }
}

bool xcvm_op_operand_at(size_t index, size_t operand, xcvm_operand_info *info)
{
    const xcvm_schema *schema = row_at(index);
    for (size_t i = 0; schema != NULL && i < schema->field_count; i++) {
        const xcvm_field *field = &schema->fields[i];
        if (!is_shown(field) || operand-- > 0)
            continue;
        *info = (xcvm_operand_info){.name = field->name,
                                    .role = field->role == XCVM_ROLE_ATTRIBUTE ? "attribute"
                                            : field->role == XCVM_ROLE_OUT     ? "output"
                                                                               : "input",
                                    .kind = kind_of(field),
                                    .optional = field->kind == XCVM_FIELD_OPTIONAL};
        if (xcvm_field_is_operand(field))
            xcvm_dtypes_describe(xcvm_field_types(schema, field), info->types, sizeof info->types);
        else if (field->kind == XCVM_FIELD_CHOICE)
            describe_choices(field, info->choices, sizeof info->choices);
        else
            describe_default(field, info->choices, sizeof info->choices);
        return true;
    }
    return false;
}
