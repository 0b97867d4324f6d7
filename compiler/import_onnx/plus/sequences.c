/* ONNX+: lowering of sequences. */
#include "compiler/import_onnx/plus/plus.h"

xcvm_status xcc_lower_plus_sequence_constants(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 0, 0));
    const Onnx__AttributeProto *a = xcc_attribute_find(n, "tensor_values");
    const size_t count = a != NULL ? a->n_tensors : 0;
    const xcvm_value **items = xcc_alloc(n->m, (count + 1) * sizeof *items);
    if (items == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        xcc_tensor t;
        XCVM_TRY(xcc_tensor_read(a->tensors[i], &n->m->arena, &n->importer->files, &t, n->m->error));
        xcc_value *v = xcc_constant(n->b.graph, NULL, t.dtype, t.rank, t.dims, t.data, true);
        if (v == NULL)
            return xcc_failure(n);
        items[i] = &v->type;
    }
    return xcc_bind(n, 0, xcc_apply(&n->b, SequenceConstruct, y, .xs = {items, count}));
}

xcvm_status xcc_lower_plus_sequence_create(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, n->input_count, SIZE_MAX));
    return xcc_lower_as(n, XCVM_OP_SequenceConstruct);
}

static xcvm_status lower_to(xcc_lowering *n, xcvm_opcode opcode, size_t least)
{
    XCVM_TRY(xcc_plus_need_inputs(n, least, SIZE_MAX));
    return xcc_lower_as(n, opcode);
}

xcvm_status xcc_lower_plus_sequence_append(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 2, 2));
    return xcc_lower_as(n, XCVM_OP_SequenceInsert);
}

xcvm_status xcc_lower_plus_sequence_extend(xcc_lowering *n) { return lower_to(n, XCVM_OP_SequenceExtend, 2); }
xcvm_status xcc_lower_plus_sequence_size(xcc_lowering *n) { return lower_to(n, XCVM_OP_SequenceLength, 1); }

xcvm_status xcc_lower_plus_sequence_lookup(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 2, 2));
    return xcc_bind(n, 0, xcc_build_binary(&n->b, XCVM_OP_SequenceAt, n->inputs[0], xcc_plus_scalar(n, n->inputs[1])));
}

xcvm_status xcc_lower_plus_sequence_update(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 3, 3));
    return xcc_bind(n, 0,
                    xcc_build_call(&n->b, XCVM_OP_SequenceUpdate, 3,
                                   (xcc_value *[]){n->inputs[0], xcc_plus_scalar(n, n->inputs[1]), n->inputs[2]}));
}

/* The sequence without its last item, and that item. */
xcvm_status xcc_lower_plus_sequence_pop(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 1));
    if (xcc_wants(n, 1))
        XCVM_TRY(
            xcc_bind(n, 1, xcc_build_binary(&n->b, XCVM_OP_SequenceAt, n->inputs[0], xcc_scalar_i64(n->b.graph, -1))));
    return xcc_bind(n, 0, xcc_build_unary(&n->b, XCVM_OP_SequenceErase, n->inputs[0]));
}

xcvm_status xcc_lower_plus_sequence_clear(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_plus_need_kind(n, n->inputs[0], XCVM_KIND_SEQUENCE));
    return xcc_bind(n, 0, xcc_apply(&n->b, SequenceConstruct, y, .dtype = (xcvm_dtype)n->inputs[0]->type.dtype));
}

/* Copy and Move: values never change, so that both are the sequence itself. */
xcvm_status xcc_lower_plus_sequence_same(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_plus_need_kind(n, n->inputs[0], XCVM_KIND_SEQUENCE));
    return xcc_bind(n, 0, n->inputs[0]);
}

/* ---- Tensors from sequences ---- */

xcvm_status xcc_lower_plus_sequence_stack(xcc_lowering *n)
{
    int64_t axis;
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_int(n, "axis", 0, &axis));
    XCVM_CHECK(n->m->error, axis >= -8 && axis <= 7, OUT_OF_RANGE, "axis is %lld", (long long)axis);
    return xcc_bind(n, 0, xcc_plus_stack(n, n->inputs[0], axis));
}

xcvm_status xcc_lower_plus_sequence_concat(xcc_lowering *n) { return lower_to(n, XCVM_OP_ConcatFromSequence, 1); }

xcvm_status xcc_lower_plus_sequence_pad(xcc_lowering *n)
{
    int64_t length;
    double padding;
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_int(n, "length", 0, &length));
    XCVM_TRY(xcc_attribute_float(n, "value", 0, &padding));
    XCVM_CHECK(n->m->error, length >= 0, OUT_OF_RANGE, "length is %lld", (long long)length);
    const xcc_value *s = n->inputs[0];
    XCVM_CHECK(n->m->error, padding == 0 || s->type.dtype != XCVM_NO_DTYPE, UNSUPPORTED,
               "the element type of the sequence is not known at compile time");
    xcc_value *value = NULL;
    if (padding != 0 && (value = xcc_build_number(&n->b, s, padding)) == NULL)
        return xcc_failure(n);
    return xcc_bind(n, 0, xcc_apply(&n->b, SequencePad, y, .s = XCC_IN(s), .value = XCC_IN(value), .length = length));
}

/* ---- Sequences from tensors ---- */

/* x cut into its slices along axis, which go without it. */
static xcc_value *separate(xcc_lowering *n, xcc_value *x, int64_t axis)
{
    return x == NULL ? NULL : xcc_apply(&n->b, SplitToSequence, y, .x = XCC_IN(x), .axis = axis, .keepdims = 0);
}

xcvm_status xcc_lower_plus_sequence_lengths(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 1));
    return xcc_bind(n, 0, separate(n, xcc_build_unary(&n->b, XCVM_OP_SequenceLengths, n->inputs[0]), 0));
}

xcvm_status xcc_lower_plus_sequence_separate(xcc_lowering *n)
{
    int64_t axis;
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_int(n, "axis", 0, &axis));
    XCVM_CHECK(n->m->error, axis >= -8 && axis <= 7, OUT_OF_RANGE, "axis is %lld", (long long)axis);
    return xcc_bind(n, 0, separate(n, n->inputs[0], axis));
}

/* The lengths are a sequence of numbers, or a tensor. */
xcvm_status xcc_lower_plus_sequence_unpad(xcc_lowering *n)
{
    static const int64_t none[1] = {0};
    XCVM_TRY(xcc_plus_need_inputs(n, 2, 2));
    xcc_value *lengths = n->inputs[1];
    if (lengths->type.kind == XCVM_KIND_SEQUENCE) {
        lengths = xcc_apply(&n->b, ConcatFromSequence, y, .s = XCC_IN(lengths), .new_axis = 1, .empty_dims = {none, 1},
                            .empty_dtype = XCVM_I64);
        lengths = xcc_build_reshape(&n->b, lengths, XCC_BUILD_INTS(&n->b, -1));
    }
    return xcc_bind(
        n, 0, xcc_build_binary(&n->b, XCVM_OP_SequenceUnpad, n->inputs[0], xcc_build_cast(&n->b, lengths, XCVM_I64)));
}

/* Python's range: (stop), (start, stop) or (start, stop, step). */
xcvm_status xcc_lower_plus_sequence_range(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 3));
    xcc_value *bounds[3] = {xcc_scalar_i64(n->b.graph, 0), NULL, xcc_scalar_i64(n->b.graph, 1)};
    const bool has_start = !xcc_plus_is_null(n, 1);
    bounds[has_start ? 0 : 1] = xcc_plus_scalar(n, n->inputs[0]);
    if (has_start)
        bounds[1] = xcc_plus_scalar(n, xcc_plus_input(n, 1));
    if (!xcc_plus_is_null(n, 2)) {
        XCVM_CHECK(n->m->error, has_start, INVALID_MODEL, "a step needs start and stop");
        bounds[2] = xcc_plus_scalar(n, xcc_plus_input(n, 2));
    }
    return xcc_bind(n, 0, separate(n, xcc_build_call(&n->b, XCVM_OP_Range, 3, bounds), 0));
}

/* Splits at the given positions, or into pieces of one size. */
xcvm_status xcc_lower_plus_sequence_split_axis(xcc_lowering *n)
{
    int64_t axis;
    XCVM_TRY(xcc_plus_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_attribute_int(n, "axis", 0, &axis));
    xcc_value *x = n->inputs[0], *where = xcc_build_cast(&n->b, n->inputs[1], XCVM_I64), *sizes;
    if (where == NULL)
        return xcc_failure(n);
    XCVM_TRY(xcc_need_rank(n, x, "the tensor to split"));
    XCVM_TRY(xcc_need_rank(n, where, "the operand with the positions"));
    XCVM_TRY(xcc_need_axis(n, axis, x->type.rank, &axis));
    xcc_value *dim = xcc_build_dim_of(&n->b, x, (int)axis);
    if (where->type.rank == 0) {
        sizes = xcc_build_expand(&n->b, xcc_build_div(&n->b, dim, where), xcc_plus_vector(n, where));
    } else {
        xcc_value *zero = XCC_BUILD_INTS(&n->b, 0);
        sizes = xcc_build_sub(&n->b, xcc_build_concat(&n->b, 2, (xcc_value *[]){where, dim}, 0),
                              xcc_build_concat(&n->b, 2, (xcc_value *[]){zero, where}, 0));
    }
    if (sizes == NULL)
        return xcc_failure(n);
    return xcc_bind(
        n, 0,
        xcc_apply(&n->b, SplitToSequence, y, .x = XCC_IN(x), .split = XCC_IN(sizes), .axis = axis, .keepdims = 1));
}
