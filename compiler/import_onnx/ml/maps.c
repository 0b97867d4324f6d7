/* Lowering of the maps of ai.onnx.ml. */
#include "compiler/import_onnx/ml/ml.h"

xcvm_status xcc_lower_ml_zip_map(xcc_lowering *n)
{
    xcc_value *keys, *x;
    size_t count;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_ml_labels(n, "classlabels_int64s", "classlabels_strings", &keys, &count));
    XCVM_TRY(xcc_ml_matrix(n, n->inputs[0], XCVM_F32, &x));
    return xcc_bind(n, 0, xcc_apply(&n->b, ZipMap, y, .x = XCC_IN(x), .keys = XCC_IN(keys)));
}

/* The items as one row. */
static xcc_value *row_of_items(xcc_lowering *n, xcc_value *keys)
{
    xcc_value *items = xcc_apply(&n->b, MapItems, y, .x = XCC_IN(n->inputs[0]), .keys = XCC_IN(keys));
    const int64_t count = keys != NULL ? keys->type.dims[0] : -1;
    return xcc_build_reshape(&n->b, items, XCC_BUILD_INTS(&n->b, 1, count));
}

xcvm_status xcc_lower_ml_dict_vectorizer(xcc_lowering *n)
{
    xcc_value *keys;
    size_t count;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_ml_labels(n, "int64_vocabulary", "string_vocabulary", &keys, &count));
    return xcc_bind(n, 0, row_of_items(n, keys));
}

xcvm_status xcc_lower_ml_cast_map(xcc_lowering *n)
{
    static const struct {
        const char *name;
        xcvm_dtype dtype;
    } targets[] = {{"TO_FLOAT", XCVM_F32}, {"TO_STRING", XCVM_STRING}, {"TO_INT64", XCVM_I64}};
    xcvm_text to, form;
    int64_t size;
    xcvm_dtype dtype = XCVM_NO_DTYPE;
    xcc_value *keys = NULL;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_text(n, "cast_to", "TO_FLOAT", &to));
    XCVM_TRY(xcc_attribute_text(n, "map_form", "DENSE", &form));
    XCVM_TRY(xcc_attribute_int(n, "max_map", 1, &size));
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (xcc_text_is(to, targets[i].name))
            dtype = targets[i].dtype;
    XCVM_CHECK(n->m->error, dtype != XCVM_NO_DTYPE, INVALID_MODEL,
               "attribute 'cast_to' is '%.40s'; TO_FLOAT, TO_STRING or TO_INT64 is expected", to.at);
    const bool sparse = xcc_text_is(form, "SPARSE");
    XCVM_CHECK(n->m->error, sparse || xcc_text_is(form, "DENSE"), INVALID_MODEL,
               "attribute 'map_form' is '%.40s'; DENSE or SPARSE is expected", form.at);
    if (sparse) {
        XCVM_CHECK(n->m->error, size > 0 && size <= INT32_MAX, INVALID_MODEL, "attribute 'max_map' is %lld",
                   (long long)size);
        keys = xcc_build_call(&n->b, XCVM_OP_Range, 3,
                              (xcc_value *[]){xcc_scalar_i64(n->b.graph, 0), xcc_scalar_i64(n->b.graph, size),
                                              xcc_scalar_i64(n->b.graph, 1)});
        if (keys == NULL)
            return xcc_failure(n);
    }
    xcc_value *y = row_of_items(n, keys);
    if (y == NULL)
        return xcc_failure(n);
    /* Keys that the map does not have are empty strings, which are no numbers. */
    if (sparse && y->type.dtype == XCVM_STRING && dtype != XCVM_STRING) {
        xcc_value *empty = xcc_build_strings(&n->b, 0, 1, &(xcvm_text){"", 0});
        xcc_value *zero = xcc_build_strings(&n->b, 0, 1, &(xcvm_text){"0", 1});
        y = xcc_build_call(&n->b, XCVM_OP_Where, 3,
                           (xcc_value *[]){xcc_build_binary(&n->b, XCVM_OP_Equal, y, empty), zero, y});
    }
    return xcc_bind(n, 0, xcc_build_cast(&n->b, y, dtype));
}
