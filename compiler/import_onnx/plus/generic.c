/* ONNX+: operators that take tensors and sequences alike, null, element types as values, and functions of the host. */
#include "compiler/import_onnx/lower/loop.h"
#include "compiler/import_onnx/plus/plus.h"

static bool is_sequence(const xcc_value *v) { return v->type.kind == XCVM_KIND_SEQUENCE; }

static xcc_value *truth(xcc_lowering *n, bool value) { return xcc_scalar(n->b.graph, XCVM_BOOL, value); }

/* ---- Python's operators ---- */

xcvm_status xcc_lower_plus_generic_len(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 1));
    xcc_value *x = n->inputs[0];
    if (is_sequence(x))
        return xcc_bind(n, 0, xcc_build_unary(&n->b, XCVM_OP_SequenceLength, x));
    XCVM_TRY(xcc_plus_need_kind(n, x, XCVM_KIND_TENSOR));
    XCVM_CHECK(n->m->error, x->type.rank != 0, SHAPE_MISMATCH, "a tensor of rank 0 has no length");
    return xcc_bind(n, 0, xcc_plus_scalar(n, xcc_build_dim_of(&n->b, x, 0)));
}

xcvm_status xcc_lower_plus_generic_get_item(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 2, 2));
    xcc_value *x = n->inputs[0], *index = xcc_plus_scalar(n, n->inputs[1]);
    if (is_sequence(x))
        return xcc_bind(n, 0, xcc_build_binary(&n->b, XCVM_OP_SequenceAt, x, index));
    XCVM_TRY(xcc_plus_need_kind(n, x, XCVM_KIND_TENSOR));
    return xcc_bind(n, 0, xcc_build_gather(&n->b, x, index, 0));
}

static xcvm_status read_bounds(xcc_lowering *n, xcc_value *bounds[3])
{
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 4));
    for (size_t i = 0; i < 3; i++) {
        bounds[i] = NULL;
        if (!xcc_plus_is_null(n, i + 1) && (bounds[i] = xcc_plus_vector(n, xcc_plus_input(n, i + 1))) == NULL)
            return xcc_failure(n);
    }
    return XCVM_OK;
}

xcvm_status xcc_lower_plus_sequence_get_slice(xcc_lowering *n)
{
    xcc_value *bounds[3];
    XCVM_TRY(read_bounds(n, bounds));
    return xcc_bind(n, 0,
                    xcc_apply(&n->b, SequenceGetSlice, y, .s = XCC_IN(n->inputs[0]), .start = XCC_IN(bounds[0]),
                              .end = XCC_IN(bounds[1]), .step = XCC_IN(bounds[2])));
}

xcvm_status xcc_lower_plus_generic_get_slice(xcc_lowering *n)
{
    xcc_value *bounds[3], *x;
    double step = 1;
    XCVM_TRY(read_bounds(n, bounds));
    x = n->inputs[0];
    if (is_sequence(x))
        return xcc_lower_plus_sequence_get_slice(n);
    XCVM_TRY(xcc_plus_need_kind(n, x, XCVM_KIND_TENSOR));
    XCVM_CHECK(n->m->error,
               (bounds[0] != NULL && bounds[1] != NULL) || bounds[2] == NULL || xcc_constant_number(bounds[2], &step),
               UNSUPPORTED, "a slice without start or end needs a step that is known at compile time");
    xcc_value *start = bounds[0] != NULL ? bounds[0] : XCC_BUILD_INTS(&n->b, step > 0 ? 0 : INT64_MAX);
    xcc_value *end = bounds[1] != NULL ? bounds[1] : XCC_BUILD_INTS(&n->b, step > 0 ? INT64_MAX : INT64_MIN + 1);
    xcc_value *stride = bounds[2] != NULL ? bounds[2] : XCC_BUILD_INTS(&n->b, 1);
    return xcc_bind(
        n, 0,
        xcc_build_call(&n->b, XCVM_OP_Slice, 5, (xcc_value *[]){x, start, end, XCC_BUILD_INTS(&n->b, 0), stride}));
}

/* Sequences are put together; a sequence meets a tensor as the tensor of its items. */
xcvm_status xcc_lower_plus_generic_add(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 2, 2));
    xcc_value *a = n->inputs[0], *b = n->inputs[1];
    if (is_sequence(a) && is_sequence(b))
        return xcc_bind(n, 0, xcc_build_binary(&n->b, XCVM_OP_SequenceExtend, a, b));
    a = is_sequence(a) ? xcc_plus_stack(n, a, 0) : a;
    b = is_sequence(b) ? xcc_plus_stack(n, b, 0) : b;
    return xcc_bind(n, 0, xcc_build_add(&n->b, a, b));
}

static bool may_be_truth(const xcc_value *v)
{
    return v->type.kind != XCVM_KIND_SEQUENCE && v->type.dtype == XCVM_BOOL && v->type.rank <= 0;
}

/* Booleans by value, null by being null, all else by being the same value of the model. */
xcvm_status xcc_lower_plus_generic_is(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    const bool nulls[2] = {xcc_plus_is_null(n, 0), xcc_plus_is_null(n, 1)};
    if (nulls[0] || nulls[1]) {
        const xcc_value *other = n->inputs[nulls[0] ? 1 : 0];
        if (nulls[0] == nulls[1] || other->type.kind != XCVM_KIND_OPTIONAL)
            return xcc_bind(n, 0, truth(n, nulls[0] == nulls[1]));
        const xcvm_value *x = &other->type;
        xcc_value *has = xcc_apply(&n->b, OptionalHasElement, y, .x = {&x, 1});
        return xcc_bind(n, 0, has != NULL ? xcc_build_unary(&n->b, XCVM_OP_Not, has) : NULL);
    }
    XCVM_TRY(xcc_plus_need_inputs(n, 2, 2));
    xcc_value *a = n->inputs[0], *b = n->inputs[1];
    if (a == b || !may_be_truth(a) || !may_be_truth(b))
        return xcc_bind(n, 0, truth(n, a == b));
    if (a->type.rank == 0 && b->type.rank == 0)
        return xcc_bind(n, 0, xcc_build_binary(&n->b, XCVM_OP_Equal, a, b));
    xcc_value *equal =
        xcc_build_binary(&n->b, XCVM_OP_Equal, xcc_build_reduce(&n->b, XCVM_OP_ReduceMax, a, NULL, false),
                         xcc_build_reduce(&n->b, XCVM_OP_ReduceMax, b, NULL, false));
    xcc_value *ranks = xcc_build_add(&n->b, xcc_build_rank_of(&n->b, a), xcc_build_rank_of(&n->b, b));
    xcc_value *scalars = xcc_build_binary(&n->b, XCVM_OP_Equal, ranks, xcc_scalar_i64(n->b.graph, 0));
    return xcc_bind(n, 0, xcc_build_binary(&n->b, XCVM_OP_And, equal, scalars));
}

/* ---- Gradients that may be null ---- */

static xcc_value *accumulate(xcc_lowering *n, xcc_value *a, xcc_value *b);

static xcvm_status fill_sums(xcc_lowering *n, xcc_node *loop, void *context)
{
    xcc_value *const *ab = context, *const *parameters = loop->bodies[0]->inputs;
    xcc_value *sum = xcc_build_add(&n->b, xcc_build_binary(&n->b, XCVM_OP_SequenceAt, ab[0], parameters[0]),
                                   xcc_build_binary(&n->b, XCVM_OP_SequenceAt, ab[1], parameters[0]));
    xcc_value *longer = xcc_build_binary(&n->b, XCVM_OP_SequenceInsert, parameters[2], sum);
    return longer != NULL ? xcc_build_loop_outputs(n, loop, 1, &longer) : xcc_failure(n);
}

/* Item by item; that there are not as many of both shows when one is missing. */
static xcc_value *accumulate_items(xcc_lowering *n, xcc_value *a, xcc_value *b)
{
    const xcvm_dtype dtype = (xcvm_dtype)(a->type.dtype != XCVM_NO_DTYPE ? a->type.dtype : b->type.dtype);
    xcc_value *count = xcc_build_binary(&n->b, XCVM_OP_Max, xcc_build_unary(&n->b, XCVM_OP_SequenceLength, a),
                                        xcc_build_unary(&n->b, XCVM_OP_SequenceLength, b));
    xcc_value *inputs[3] = {count, NULL, xcc_apply(&n->b, SequenceConstruct, y, .dtype = dtype)};
    xcc_value **y = xcc_build_values(n, 1);
    const xcc_loop_body body = {fill_sums, (xcc_value *[]){a, b}};
    if (count == NULL || inputs[2] == NULL || y == NULL)
        return NULL;
    return xcc_build_loop(n, 3, inputs, 1, y, &body) == XCVM_OK ? y[0] : NULL;
}

/* Adds b to the content of the optional a, if it has one. The result is an optional if b is one. */
static xcc_value *accumulate_optional(xcc_lowering *n, xcc_value *a, xcc_value *b)
{
    const xcc_builder outer = n->b;
    const xcvm_value *x = &a->type;
    xcc_value *has = xcc_apply(&n->b, OptionalHasElement, y, .x = {&x, 1}), *y = xcc_value_create(outer.graph, NULL);
    if (has == NULL || y == NULL)
        return NULL;
    xcc_node *node = xcc_append_control(&n->b, XCC_IF, 1, &has, 1, &y, 2);
    if (node == NULL)
        return NULL;
    n->b.graph = node->bodies[0];
    n->b.before = NULL;
    xcc_value *sum = accumulate(n, xcc_build_unary(&n->b, XCVM_OP_OptionalGetElement, a), b);
    if (sum != NULL && b->type.kind == XCVM_KIND_OPTIONAL && sum->type.kind != XCVM_KIND_OPTIONAL) {
        x = &sum->type;
        sum = xcc_apply(&n->b, Optional, y, .xs = {&x, 1});
    }
    n->b = outer;
    if (sum == NULL || xcc_graph_set_outputs(node->bodies[0], 1, &sum) != XCVM_OK ||
        xcc_graph_set_outputs(node->bodies[1], 1, &b) != XCVM_OK || xcc_node_infer(node) != XCVM_OK)
        return NULL;
    return y;
}

static xcc_value *accumulate(xcc_lowering *n, xcc_value *a, xcc_value *b)
{
    if (a == NULL || b == NULL)
        return NULL;
    if (a->type.kind == XCVM_KIND_OPTIONAL)
        return accumulate_optional(n, a, b);
    if (b->type.kind == XCVM_KIND_OPTIONAL)
        return accumulate_optional(n, b, a);
    return is_sequence(a) || is_sequence(b) ? accumulate_items(n, a, b) : xcc_build_add(&n->b, a, b);
}

xcvm_status xcc_lower_plus_generic_accumulate_grad(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    for (size_t i = 0; i < 2; i++)
        if (xcc_plus_is_null(n, i))
            return xcc_bind(n, 0, n->inputs[1 - i]);
    return xcc_bind(n, 0, accumulate(n, n->inputs[0], n->inputs[1]));
}

/* ---- Null, element types, text ---- */

/* Null is an optional that holds nothing. */
xcvm_status xcc_lower_plus_null_constant(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 0, 0));
    return xcc_bind(n, 0, xcc_apply(&n->b, Optional, y, .xs = {NULL, 0}));
}

/* The number of the element type, as in ONNX. */
xcvm_status xcc_lower_plus_dtype(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 1));
    XCVM_CHECK(n->m->error, n->inputs[0]->type.dtype != XCVM_NO_DTYPE, UNSUPPORTED,
               "the element type of the operand is not known at compile time");
    return xcc_bind(n, 0, xcc_scalar_i64(n->b.graph, n->inputs[0]->type.dtype));
}

xcvm_status xcc_lower_plus_dynamic_cast(xcc_lowering *n)
{
    double to;
    XCVM_TRY(xcc_plus_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_plus_need_kind(n, n->inputs[0], XCVM_KIND_TENSOR));
    XCVM_CHECK(n->m->error, xcc_constant_number(n->inputs[1], &to), UNSUPPORTED,
               "the element type to cast to is not known at compile time");
    XCVM_CHECK(n->m->error, to > 0 && to < 64 && xcvm_dtype_bits((xcvm_dtype)to) != 0, OUT_OF_RANGE,
               "%g is no element type", to);
    return xcc_bind(n, 0, xcc_build_cast(&n->b, n->inputs[0], (xcvm_dtype)to));
}

xcvm_status xcc_lower_plus_print(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, n->input_count, SIZE_MAX));
    return xcc_lower_as(n, XCVM_OP_Print);
}

/* ---- DoSomething ---- */

static const Onnx__TypeProto *type_in(Onnx__ValueInfoProto *const *infos, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (infos[i]->name != NULL && strcmp(infos[i]->name, name) == 0)
            return infos[i]->type;
    return NULL;
}

/* The type that the model declares for a result, in the graph or a body. */
static const Onnx__TypeProto *declared_type(const Onnx__GraphProto *g, const char *name)
{
    const Onnx__TypeProto *type = type_in(g->output, g->n_output, name);
    if (type == NULL)
        type = type_in(g->value_info, g->n_value_info, name);
    for (size_t i = 0; i < g->n_node && type == NULL; i++)
        for (size_t k = 0; k < g->node[i]->n_attribute && type == NULL; k++)
            if (g->node[i]->attribute[k]->g != NULL)
                type = declared_type(g->node[i]->attribute[k]->g, name);
    return type;
}

/* A result is of the type that the model declares for it; without that, a tensor of the first operand's element type.
 */
static xcvm_status expect_result(xcc_lowering *n, size_t i, int64_t *dtype, int64_t *rank)
{
    const Onnx__TypeProto *type = NULL;
    xcvm_value declared = {.rank = -1};
    if (xcc_wants(n, i) && n->importer->frame->caller == NULL)
        type = declared_type(n->importer->model->graph, n->proto->output[i]);
    if (type != NULL && type->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET) {
        XCVM_TRY(xcc_type_read(n->m, type, &declared));
        XCVM_CHECK(n->m->error, declared.kind == XCVM_KIND_TENSOR, UNSUPPORTED,
                   "result %zu is declared to be no tensor", i);
    }
    const xcc_value *first = xcc_input(n, 0);
    *dtype = declared.dtype != XCVM_NO_DTYPE ? declared.dtype : first != NULL ? first->type.dtype : XCVM_NO_DTYPE;
    *rank = declared.rank;
    XCVM_CHECK(n->m->error, *dtype != XCVM_NO_DTYPE, UNSUPPORTED,
               "the element type of result %zu is not known at compile time", i);
    return XCVM_OK;
}

xcvm_status xcc_lower_plus_do_something(xcc_lowering *n)
{
    xcvm_text name;
    XCVM_TRY(xcc_attribute_text(n, "function_name", "", &name));
    XCVM_CHECK(n->m->error, name.length > 0, INVALID_MODEL, "attribute 'function_name' is missing");
    const size_t inputs = n->input_count, outputs = n->proto->n_output;
    const xcvm_value **xs = xcc_alloc(n->m, (inputs + 1) * sizeof *xs);
    xcvm_value **ys = xcc_alloc(n->m, (outputs + 1) * sizeof *ys);
    int64_t *dtypes = xcc_alloc(n->m, 2 * (outputs + 1) * sizeof *dtypes),
            *ranks = dtypes != NULL ? dtypes + outputs + 1 : NULL;
    if (xs == NULL || ys == NULL || dtypes == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcc_need_inputs(n, inputs, SIZE_MAX));
    for (size_t i = 0; i < inputs; i++)
        xs[i] = XCC_IN(n->inputs[i]);
    for (size_t i = 0; i < outputs; i++) {
        XCVM_TRY(expect_result(n, i, &dtypes[i], &ranks[i]));
        xcc_value *y = xcc_result(n, i);
        if (y == NULL)
            return xcc_failure(n);
        ys[i] = XCC_OUT(y);
    }
    const xcc_node *node = xcc_emit(&n->b, HostCall, .ys = {ys, outputs}, .xs = {xs, inputs}, .function = name,
                                    .dtypes = {dtypes, outputs}, .ranks = {ranks, outputs});
    return node != NULL ? XCVM_OK : xcc_failure(n);
}
