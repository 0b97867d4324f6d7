/* Element-wise operators whose meaning changed, and those of any number of operands. */
#include "base/element.h"
#include "compiler/import_onnx/lower/lower.h"
#include "ops/table/table.h"

/* The result of xcc_lower_one_to_one for the operator's own instruction. */
static xcvm_opcode own_opcode(const xcc_lowering *n)
{
    const xcvm_schema *schema = xcvm_schema_named(n->op->info.name, strlen(n->op->info.name));
    return schema != NULL ? schema->opcode : XCVM_OP_NONE;
}

/* Aligns b with the dimensions of a from `axis` on, as broadcasting was before opset 7. */
static xcvm_status align(xcc_lowering *n, int64_t axis)
{
    xcc_value *a = xcc_input(n, 0), *b = xcc_input(n, 1);
    int64_t axes[XCVM_MAX_RANK];
    size_t count = 0;
    XCVM_TRY(xcc_need_rank(n, a, "operand 0"));
    XCVM_TRY(xcc_need_rank(n, b, "operand 1"));
    XCVM_TRY(xcc_need_axis(n, axis, a->type.rank, &axis));
    XCVM_CHECK(n->m->error, axis + b->type.rank <= a->type.rank, SHAPE_MISMATCH,
               "operand 1 has %d dimensions, which do not fit into the %d of operand 0 from axis %lld on", b->type.rank,
               a->type.rank, (long long)axis);
    for (int64_t i = axis + b->type.rank; i < a->type.rank; i++)
        axes[count++] = i - axis;
    return xcc_set_input(n, 1, xcc_build_unsqueeze(&n->b, b, count, axes));
}

xcvm_status xcc_lower_legacy_broadcast(xcc_lowering *n)
{
    if (n->version >= 7)
        return xcc_lower_one_to_one(n);
    bool broadcast;
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_attribute_bool(n, "broadcast", false, &broadcast));
    const Onnx__AttributeProto *given = xcc_attribute_find(n, "axis");
    int64_t axis;
    XCVM_TRY(xcc_attribute_int(n, "axis", 0, &axis));
    if (broadcast && given != NULL)
        XCVM_TRY(align(n, axis));
    return xcc_lower_one_to_one(n);
}

/* Before opset 7 a slope of one dimension is one for each channel, which is dimension 1. */
xcvm_status xcc_lower_legacy_prelu(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    const xcc_value *slope = xcc_input(n, 1);
    bool per_channel = n->version < 7 && slope->type.rank == 1 && slope->type.dims[0] != 1;
    if (per_channel)
        XCVM_TRY(align(n, 1));
    return xcc_lower_one_to_one(n);
}

/* Max, Min and Sum of any number of operands. */
static xcvm_status chain(xcc_lowering *n, xcvm_opcode opcode, xcc_value **result)
{
    XCVM_TRY(xcc_need_inputs(n, n->input_count > 0 ? n->input_count : 1, SIZE_MAX));
    xcc_attribute_ignore(n, "consumed_inputs");
    *result = n->inputs[0];
    for (size_t i = 1; i < n->input_count; i++)
        *result = xcc_build_binary(&n->b, opcode, *result, n->inputs[i]);
    return *result != NULL ? XCVM_OK : xcc_failure(n);
}

xcvm_status xcc_lower_chain(xcc_lowering *n)
{
    xcc_value *y;
    XCVM_TRY(chain(n, strcmp(n->op->info.name, "Sum") == 0 ? XCVM_OP_Add : own_opcode(n), &y));
    return xcc_bind(n, 0, y);
}

xcvm_status xcc_lower_mean(xcc_lowering *n)
{
    xcc_value *sum;
    XCVM_TRY(chain(n, XCVM_OP_Add, &sum));
    if (n->input_count == 1)
        return xcc_bind(n, 0, sum);
    return xcc_bind(n, 0, xcc_build_div(&n->b, sum, xcc_build_number(&n->b, sum, (double)n->input_count)));
}

/* The bounds are attributes before opset 11. */
/* Bounds that are left out are the type's lowest and greatest number since opset 6, so that infinities do not stay. */
xcvm_status xcc_lower_clip(xcc_lowering *n)
{
    static const char *const names[] = {"min", "max"};
    XCVM_TRY(xcc_need_inputs(n, 1, n->version >= 11 ? 3 : 1));
    const xcc_value *x = n->inputs[0];
    const xcvm_float_format *format = xcvm_float_format_of((xcvm_dtype)x->type.dtype);
    for (size_t i = 0; i < 2; i++) {
        double bound = 0;
        bool given = n->version < 11 && xcc_attribute_find(n, names[i]) != NULL;
        if (given)
            XCVM_TRY(xcc_attribute_float(n, names[i], 0, &bound));
        if (!given && xcc_input(n, i + 1) == NULL && n->version >= 6 && format != NULL) {
            given = true;
            bound = xcvm_float_decode(format, format->greatest | (i == 0 ? format->sign : 0));
        }
        if (given)
            XCVM_TRY(xcc_set_input(n, i + 1, xcc_build_number(&n->b, x, bound)));
    }
    return xcc_lower_one_to_one(n);
}

/* The first version rounds its defaults to four places. */
xcvm_status xcc_lower_selu(xcc_lowering *n)
{
    if (n->version < 6)
        xcc_attribute_ignore(n, "consumed_inputs");
    XCC_ONE_TO_ONE_ARGS(n, Selu, args);
    if (n->version < 6 && xcc_attribute_find(n, "alpha") == NULL)
        args.alpha = 1.6732f;
    if (n->version < 6 && xcc_attribute_find(n, "gamma") == NULL)
        args.gamma = 1.0507f;
    return XCC_EMIT_ONE_TO_ONE(n, Selu, args);
}

/* Before opset 6 the type is given by name. */
xcvm_status xcc_lower_cast(xcc_lowering *n)
{
    if (n->version >= 6)
        return xcc_lower_one_to_one(n);
    xcvm_text text;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_text(n, "to", "", &text));
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value_by_name(&onnx__tensor_proto__data_type__descriptor, text.at);
    XCVM_CHECK(n->m->error, value != NULL, INVALID_MODEL, "attribute 'to' is '%.40s', which is no element type",
               text.at);
    xcvm_dtype dtype;
    XCVM_TRY(xcc_dtype_read(value->value, &dtype, n->m->error));
    return xcc_bind(n, 0, xcc_build_cast(&n->b, n->inputs[0], dtype));
}

xcvm_status xcc_lower_cast_like(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    const xcvm_dtype dtype = (xcvm_dtype)n->inputs[1]->type.dtype;
    XCVM_CHECK(n->m->error, n->inputs[1]->type.kind == XCVM_KIND_TENSOR, TYPE_MISMATCH, "operand 1 is no tensor");
    XCVM_TRY(xcc_table_put(n->m, &n->importer->likes, n->inputs[1]->name, 1));
    n->input_count = 1;
    XCC_ONE_TO_ONE_ARGS(n, Cast, args);
    args.to = dtype;
    return XCC_EMIT_ONE_TO_ONE(n, Cast, args);
}

/* IsNaN and IsInf of the narrow floats. */
xcvm_status xcc_lower_predicate(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    if (xcvm_dtype_in((xcvm_dtype)n->inputs[0]->type.dtype, XCVM_TYPES_F8 | XCVM_DTYPE_BIT(F8E8M0)))
        XCVM_TRY(xcc_set_input(n, 0, xcc_build_cast(&n->b, n->inputs[0], XCVM_F32)));
    return xcc_lower_one_to_one(n);
}
