/* Operators that are one instruction: its arguments from the attributes and operands of the node. */
#include "compiler/import_onnx/lower/lower.h"
#include "ops/table/table.h"
#include "proto/arguments.h"

#include <stdio.h>
#include <string.h>

xcvm_status xcc_attribute_to_input(xcc_lowering *n, const char *name, size_t i, int64_t since)
{
    xcvm_ints ints;
    if (n->version >= since)
        return XCVM_OK;
    XCVM_CHECK(n->m->error, n->input_count <= i, INVALID_MODEL, "the node has %zu operands; %s of opset %lld has %zu",
               n->input_count, n->op->info.name, (long long)n->version, i);
    bool given = xcc_attribute_find(n, name) != NULL;
    XCVM_TRY(xcc_attribute_ints(n, name, &ints));
    return given ? xcc_set_input(n, i, xcc_build_ints(&n->b, ints.count, ints.at)) : XCVM_OK;
}

/* Names that later opsets changed. */
static int old_choice(const xcvm_field *f, xcvm_text text)
{
    static const char *const renamed[][2] = {{"bilinear", "linear"}, {"bicubic", "cubic"}};
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (xcc_text_is(text, renamed[i][0]))
            return xcvm_choice_index(f, renamed[i][1], strlen(renamed[i][1]));
    return -1;
}

static xcvm_status fill_choice(xcc_lowering *n, const xcvm_field *f, int *value)
{
    xcvm_text text;
    XCVM_TRY(xcc_attribute_text(n, f->name, f->choices[*value], &text));
    /* An empty text is one that is left out. */
    int index = text.length == 0 ? *value : xcvm_choice_index(f, text.at, text.length);
    if (index < 0)
        index = old_choice(f, text);
    if (index < 0) {
        char known[256];
        size_t used = 0;
        for (size_t i = 0; f->choices[i] != NULL && used < sizeof known - 1; i++) {
            int written = snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", f->choices[i]);
            used += written > 0 ? (size_t)written : 0;
        }
        XCVM_FAIL(n->m->error, UNSUPPORTED, "attribute '%s' is '%.60s', one of %s is expected", f->name, text.at,
                  known);
    }
    *value = index;
    return XCVM_OK;
}

static xcvm_status check_range(const xcc_lowering *n, const xcvm_field *f, int64_t value)
{
    XCVM_CHECK(n->m->error, value >= f->min && value <= f->max, OUT_OF_RANGE,
               "attribute '%s' is %lld, %lld to %lld is expected", f->name, (long long)value, (long long)f->min,
               (long long)f->max);
    return XCVM_OK;
}

static xcvm_status fill_attribute(xcc_lowering *n, const xcvm_field *f, void *at)
{
    switch (f->kind) {
    case XCVM_FIELD_INT: {
        int64_t *value = at;
        XCVM_TRY(xcc_attribute_int(n, f->name, f->int_default, value));
        return check_range(n, f, *value);
    }
    case XCVM_FIELD_INTS: {
        xcvm_ints *ints = at;
        XCVM_TRY(xcc_attribute_ints(n, f->name, ints));
        for (size_t i = 0; i < ints->count; i++)
            XCVM_TRY(check_range(n, f, ints->at[i]));
        return XCVM_OK;
    }
    case XCVM_FIELD_FLOAT:
        return xcc_attribute_float(n, f->name, f->float_default, at);
    case XCVM_FIELD_FLOATS:
        return xcc_attribute_floats(n, f->name, at);
    case XCVM_FIELD_TEXT:
        return xcc_attribute_text(n, f->name, f->text_default, at);
    case XCVM_FIELD_TEXTS:
        return xcc_attribute_texts(n, f->name, at);
    case XCVM_FIELD_DTYPE:
        return xcc_attribute_dtype(n, f->name, (xcvm_dtype)f->int_default, at);
    case XCVM_FIELD_CHOICE:
        return fill_choice(n, f, at);
    default:
        return XCVM_OK;
    }
}

static xcvm_status fill_list(xcc_lowering *n, const xcvm_field *f, size_t *position, void *at)
{
    bool output = f->role == XCVM_ROLE_OUT;
    size_t all = output ? n->output_count : n->input_count, count = all > *position ? all - *position : 0;
    const xcvm_value **values = xcc_alloc(n->m, count * sizeof *values);
    if (values == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        xcc_value *v = output ? xcc_result(n, *position + i) : n->inputs[*position + i];
        if (v == NULL && output)
            return xcc_failure(n);
        XCVM_CHECK(n->m->error, v != NULL, INVALID_MODEL, "operand %zu is missing", *position + i);
        values[i] = &v->type;
    }
    /* xcvm_outputs is laid out alike. */
    *(xcvm_inputs *)at = (xcvm_inputs){values, count};
    *position += count;
    return XCVM_OK;
}

static xcvm_status fill_result(xcc_lowering *n, const xcvm_field *f, size_t i, xcvm_value **at)
{
    if (!xcc_wants(n, i) && f->kind == XCVM_FIELD_OPTIONAL)
        return XCVM_OK;
    xcc_value *v = xcc_result(n, i);
    if (v == NULL)
        return xcc_failure(n);
    *at = &v->type;
    return XCVM_OK;
}

xcvm_status xcc_one_to_one_fill(xcc_lowering *n, const xcvm_schema *schema, void *args)
{
    xcvm_args_default(schema, args);
    size_t input = 0, output = 0;
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        void *at = (char *)args + f->offset;
        if (f->role == XCVM_ROLE_ATTRIBUTE) {
            XCVM_TRY(fill_attribute(n, f, at));
        } else if (xcvm_field_is_list(f)) {
            XCVM_TRY(fill_list(n, f, f->role == XCVM_ROLE_OUT ? &output : &input, at));
        } else if (f->role == XCVM_ROLE_OUT) {
            XCVM_TRY(fill_result(n, f, output++, at));
        } else if (xcvm_field_is_input(f)) {
            xcc_value *v = xcc_input(n, input);
            XCVM_CHECK(n->m->error, v != NULL || f->kind == XCVM_FIELD_OPTIONAL, INVALID_MODEL,
                       "operand %zu (%s) is missing", input, f->name);
            *(const xcvm_value **)at = XCC_IN(v);
            input++;
        }
    }
    XCVM_CHECK(n->m->error, n->input_count <= input, INVALID_MODEL, "the node has %zu operands; %s has at most %zu",
               n->input_count, schema->name, input);
    XCVM_CHECK(n->m->error, n->output_count <= output, INVALID_MODEL, "the node has %zu results; %s has at most %zu",
               n->output_count, schema->name, output);
    return XCVM_OK;
}

xcvm_status xcc_one_to_one_emit(xcc_lowering *n, const xcvm_schema *schema, const void *args)
{
    return xcc_append(&n->b, schema->opcode, args) != NULL ? XCVM_OK : xcc_failure(n);
}

xcvm_status xcc_need_axis(xcc_lowering *n, int64_t axis, int rank, int64_t *resolved)
{
    XCVM_CHECK(n->m->error, axis >= -rank && axis < rank, OUT_OF_RANGE, "axis is %lld, %d to %d is expected",
               (long long)axis, -rank, rank - 1);
    *resolved = axis < 0 ? axis + rank : axis;
    return XCVM_OK;
}

xcvm_status xcc_need_rank(const xcc_lowering *n, const xcc_value *value, const char *what)
{
    XCVM_CHECK(n->m->error, value->type.kind == XCVM_KIND_TENSOR, TYPE_MISMATCH, "%s is no tensor", what);
    XCVM_CHECK(n->m->error, value->type.rank >= 0, UNSUPPORTED,
               "the number of dimensions of %s is not known at compile time", what);
    return XCVM_OK;
}

/* Room for the arguments of any instruction. */
typedef union any_args {
#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, onnx, summary) xcvm_##name##_args name;
#include "ops/instructions.def"
} any_args;

xcvm_status xcc_lower_as(xcc_lowering *n, xcvm_opcode opcode)
{
    any_args args;
    const xcvm_schema *schema = xcvm_schema_of(opcode);
    XCVM_TRY(xcc_one_to_one_fill(n, schema, &args));
    return xcc_one_to_one_emit(n, schema, &args);
}

xcvm_status xcc_lower_one_to_one(xcc_lowering *n)
{
    const xcvm_schema *schema = xcvm_schema_named(n->op->info.name, strlen(n->op->info.name));
    XCVM_CHECK(n->m->error, schema != NULL, UNSUPPORTED, "no instruction computes it");
    /* Attributes of the first opsets about memory. */
    if (n->version < 6)
        xcc_attribute_ignore(n, "consumed_inputs");
    return xcc_lower_as(n, schema->opcode);
}
