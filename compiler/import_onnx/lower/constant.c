/* Lowering of Constant and ConstantOfShape. */
#include "compiler/import_onnx/lower/lower.h"

static xcc_value *constant_of(xcc_lowering *n, const xcc_tensor *t)
{
    return xcc_literal(xcc_constant(n->b.graph, NULL, t->dtype, t->rank, t->dims, t->data, true));
}

xcvm_status xcc_build_tensor(xcc_lowering *n, const char *name, xcc_tensor *t, bool *given)
{
    const Onnx__TensorProto *proto;
    XCVM_TRY(xcc_attribute_tensor(n, name, &proto));
    *given = proto != NULL;
    if (proto == NULL)
        return XCVM_OK;
    xcvm_status status = xcc_tensor_read(proto, &n->m->arena, &n->importer->files, t, n->m->error);
    if (status != XCVM_OK)
        xcvm_error_prefix(n->m->error, "attribute '%s'", name);
    return status;
}

static xcc_value *floats(xcc_lowering *n, int rank, size_t count, const float *values)
{
    const int64_t dim = (int64_t)count;
    return xcc_literal(
        xcc_constant(n->b.graph, NULL, XCVM_F32, rank, &dim, count > 0 ? (const void *)values : "", false));
}

static xcc_value *ints(xcc_lowering *n, int rank, size_t count, const int64_t *values)
{
    const int64_t dim = (int64_t)count;
    return xcc_constant(n->b.graph, NULL, XCVM_I64, rank, &dim, count > 0 ? (const void *)values : "", false);
}

xcvm_status xcc_lower_constant(xcc_lowering *n)
{
    xcc_tensor t;
    bool given;
    XCVM_TRY(xcc_need_inputs(n, 0, 0));
    XCVM_CHECK(n->m->error, n->attribute_count == 1, INVALID_MODEL, "%zu attributes are given, one value is needed",
               n->attribute_count);
    XCVM_TRY(xcc_build_tensor(n, "value", &t, &given));
    if (given)
        return xcc_bind(n, 0, constant_of(n, &t));
    const Onnx__AttributeProto *a = xcc_attribute_find(n, "sparse_value");
    if (a != NULL && a->sparse_tensor != NULL) {
        XCVM_TRY(xcc_sparse_read(n->importer, a->sparse_tensor, &t));
        return xcc_bind(n, 0, constant_of(n, &t));
    }
    if ((a = xcc_attribute_find(n, "value_float")) != NULL)
        return xcc_bind(n, 0, floats(n, 0, 1, &a->f));
    if ((a = xcc_attribute_find(n, "value_floats")) != NULL)
        return xcc_bind(n, 0, floats(n, 1, a->n_floats, a->floats));
    if ((a = xcc_attribute_find(n, "value_int")) != NULL)
        return xcc_bind(n, 0, ints(n, 0, 1, &a->i));
    if ((a = xcc_attribute_find(n, "value_ints")) != NULL)
        return xcc_bind(n, 0, ints(n, 1, a->n_ints, a->ints));
    if (xcc_attribute_find(n, "value_string") != NULL) {
        xcvm_text text;
        XCVM_TRY(xcc_attribute_text(n, "value_string", "", &text));
        return xcc_bind(n, 0, xcc_build_strings(&n->b, 0, 1, &text));
    }
    if (xcc_attribute_find(n, "value_strings") != NULL) {
        xcvm_texts texts;
        XCVM_TRY(xcc_attribute_texts(n, "value_strings", &texts));
        return xcc_bind(n, 0, xcc_build_strings(&n->b, 1, texts.count, texts.at));
    }
    XCVM_FAIL(n->m->error, INVALID_MODEL, "attribute '%s' is no value", n->attributes[0].name);
}

xcvm_status xcc_lower_constant_of_shape(xcc_lowering *n)
{
    static const float zero;
    xcc_tensor t = {.dtype = XCVM_F32, .data = &zero, .count = 1};
    bool given;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_build_tensor(n, "value", &t, &given));
    XCVM_CHECK(n->m->error, t.count == 1, INVALID_MODEL, "attribute 'value' has %zu elements, one is needed", t.count);
    t.rank = 0;
    return xcc_bind(n, 0, xcc_build_expand(&n->b, constant_of(n, &t), n->inputs[0]));
}
