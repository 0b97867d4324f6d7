/* Operands and results of the node being lowered, and operators that are one instruction. */
#include "compiler/onnx/lower/lower.h"
#include "proto/arguments.h"

#include <stdio.h>
#include <string.h>

/* ---- Operands and results ---- */

xcvm_status xcc_failure(const xcc_lowering *n)
{
    xcvm_status status = n->m->error->status;
    return status != XCVM_OK ? status
                             : xcvm_error_set(n->m->error, XCVM_INTERNAL, "a lowering failed without a reason");
}

xcvm_status xcc_need_inputs(const xcc_lowering *n, size_t least, size_t most)
{
    XCC_NEED(n, n->input_count <= most, INVALID_MODEL, "%zu operands are given, %s of opset %lld takes at most %zu",
             n->input_count, n->op->info.name, (long long)n->version, most);
    for (size_t i = 0; i < least; i++)
        XCC_NEED(n, xcc_input(n, i) != NULL, INVALID_MODEL, "operand %zu is missing, %s takes at least %zu", i,
                 n->op->info.name, least);
    return XCVM_OK;
}

xcvm_status xcc_set_input(xcc_lowering *n, size_t i, xcc_value *value)
{
    if (value == NULL)
        return xcc_failure(n);
    XCC_NEED(n, i < n->input_capacity, INVALID_MODEL, "too many operands");
    while (n->input_count <= i)
        n->inputs[n->input_count++] = NULL;
    n->inputs[i] = value;
    return XCVM_OK;
}

xcvm_status xcc_attribute_to_input(xcc_lowering *n, const char *name, size_t i, int64_t since)
{
    xcvm_ints ints;
    if (n->version >= since)
        return XCVM_OK;
    XCC_NEED(n, n->input_count <= i, INVALID_MODEL, "%zu operands are given, %s of opset %lld takes %zu",
             n->input_count, n->op->info.name, (long long)n->version, i);
    bool given = xcc_attribute_find(n, name) != NULL;
    XCVM_TRY(xcc_attribute_ints(n, name, &ints));
    return given ? xcc_set_input(n, i, xcc_low_ints(n, ints.count, ints.at)) : XCVM_OK;
}

/* Results of the model's own graph that are its outputs have their very names; others get unique ones. */
static bool is_model_output(const xcc_lowering *n, const char *name)
{
    const xcc_importer *imp = n->importer;
    return imp->frame->caller == NULL && n->scope->graph == n->m->graph &&
           xcc_table_lookup(&imp->outputs, name) != NULL;
}

xcc_value *xcc_result(xcc_lowering *n, size_t i)
{
    const char *name = xcc_wants(n, i) ? n->proto->output[i] : NULL;
    xcc_value *v = xcc_value_create(n->b.graph, name);
    if (v == NULL)
        return NULL;
    if (name != NULL) {
        if (is_model_output(n, name))
            v->name = name;
        v->mark = n->number;
        n->outputs[i] = v;
    }
    return v;
}

xcvm_status xcc_bind(xcc_lowering *n, size_t i, xcc_value *value)
{
    if (value == NULL)
        return xcc_failure(n);
    if (!xcc_wants(n, i))
        return XCVM_OK;
    const char *name = n->proto->output[i];
    const bool fresh = value->id >= n->first_id && value->graph == n->b.graph && value->mark != n->number;
    n->outputs[i] = value;
    if (!fresh)
        return XCVM_OK;
    value->mark = n->number;
    if (!is_model_output(n, name))
        return xcc_value_rename(value, name);
    value->name = name;
    return XCVM_OK;
}

/* ---- One-to-one ---- */

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
        XCC_REFUSE(n, UNSUPPORTED, "attribute '%s' is '%.60s', one of %s is expected", f->name, text.at, known);
    }
    *value = index;
    return XCVM_OK;
}

static xcvm_status check_range(const xcc_lowering *n, const xcvm_field *f, int64_t value)
{
    XCC_NEED(n, value >= f->min && value <= f->max, OUT_OF_RANGE, "attribute '%s' is %lld, %lld to %lld is expected",
             f->name, (long long)value, (long long)f->min, (long long)f->max);
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
        XCC_NEED(n, v != NULL, INVALID_MODEL, "operand %zu is missing", *position + i);
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

xcvm_status xcc_plain_fill(xcc_lowering *n, const xcvm_row *row, void *args)
{
    xcvm_args_default(row, args);
    size_t input = 0, output = 0;
    for (size_t i = 0; i < row->field_count; i++) {
        const xcvm_field *f = &row->fields[i];
        void *at = (char *)args + f->offset;
        if (f->role == XCVM_ROLE_ATTRIBUTE) {
            XCVM_TRY(fill_attribute(n, f, at));
        } else if (xcvm_field_is_list(f)) {
            XCVM_TRY(fill_list(n, f, f->role == XCVM_ROLE_OUT ? &output : &input, at));
        } else if (f->role == XCVM_ROLE_OUT) {
            XCVM_TRY(fill_result(n, f, output++, at));
        } else if (xcvm_field_is_input(f)) {
            xcc_value *v = xcc_input(n, input);
            XCC_NEED(n, v != NULL || f->kind == XCVM_FIELD_OPTIONAL, INVALID_MODEL, "operand %zu (%s) is missing",
                     input, f->name);
            *(const xcvm_value **)at = XCC_IN(v);
            input++;
        }
    }
    XCC_NEED(n, n->input_count <= input, INVALID_MODEL, "%zu operands are given, %s takes at most %zu", n->input_count,
             row->name, input);
    XCC_NEED(n, n->output_count <= output, INVALID_MODEL, "%zu results are wanted, %s gives at most %zu",
             n->output_count, row->name, output);
    return XCVM_OK;
}

xcvm_status xcc_plain_emit(xcc_lowering *n, const xcvm_row *row, const void *args)
{
    return xcc_append(&n->b, row->opcode, args) != NULL ? XCVM_OK : xcc_failure(n);
}

/* Room for the arguments of any instruction. */
typedef union any_args {
#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, sentence) xcvm_##name##_args name;
#include "ops/instructions.def"
} any_args;

xcvm_status xcc_lower_as(xcc_lowering *n, xcvm_opcode opcode)
{
    any_args args;
    const xcvm_row *row = xcvm_row_of(opcode);
    XCVM_TRY(xcc_plain_fill(n, row, &args));
    return xcc_plain_emit(n, row, &args);
}

xcvm_status xcc_lower_plain(xcc_lowering *n)
{
    const xcvm_row *row = n->op->instruction != XCVM_OP_NONE
                              ? xcvm_row_of(n->op->instruction)
                              : xcvm_row_named(n->op->info.name, strlen(n->op->info.name));
    XCC_NEED(n, row != NULL, UNSUPPORTED, "there is no instruction for it");
    /* What the first opsets said about memory. */
    if (n->version < 6)
        xcc_attribute_ignore(n, "consumed_inputs");
    return xcc_lower_as(n, row->opcode);
}
