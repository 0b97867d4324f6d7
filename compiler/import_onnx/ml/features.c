/* Lowering of the operators of ai.onnx.ml that prepare features. */
#include "compiler/import_onnx/ml/ml.h"

#include "ops/util/keys.h"

#include <math.h>

static xcvm_dtype dtype_of(const xcc_value *v) { return (xcvm_dtype)v->type.dtype; }

static xcvm_status need_numbers(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    const xcc_value *x = n->inputs[0];
    XCVM_CHECK(n->m->error, x->type.kind == XCVM_KIND_TENSOR && xcvm_dtype_in(dtype_of(x), XCVM_TYPES_REAL),
               TYPE_MISMATCH, "operand 0 is no tensor of numbers");
    return XCVM_OK;
}

xcvm_status xcc_lower_ml_scaler(xcc_lowering *n)
{
    xcvm_floats offset, scale;
    XCVM_TRY(need_numbers(n));
    XCVM_TRY(xcc_attribute_floats(n, "offset", &offset));
    XCVM_TRY(xcc_attribute_floats(n, "scale", &scale));
    xcc_value *x = n->inputs[0];
    const xcvm_dtype dtype = dtype_of(x) == XCVM_F64 ? XCVM_F64 : XCVM_F32;
    x = xcc_build_cast(&n->b, x, dtype);
    if (offset.count > 0)
        x = xcc_build_sub(&n->b, x, xcc_ml_numbers(n, dtype, 0, offset.count, offset.at));
    if (scale.count > 0)
        x = xcc_build_mul(&n->b, x, xcc_ml_numbers(n, dtype, 0, scale.count, scale.at));
    return xcc_bind(n, 0, xcc_build_cast(&n->b, x, XCVM_F32));
}

xcvm_status xcc_lower_ml_binarizer(xcc_lowering *n)
{
    double threshold;
    XCVM_TRY(need_numbers(n));
    XCVM_TRY(xcc_attribute_float(n, "threshold", 0, &threshold));
    xcc_value *x = n->inputs[0];
    if (!xcvm_dtype_is_float(dtype_of(x)))
        threshold = floor(threshold);
    xcc_value *above = xcc_build_binary(&n->b, XCVM_OP_Greater, x, xcc_build_number(&n->b, x, threshold));
    return xcc_bind(n, 0, xcc_build_cast(&n->b, above, dtype_of(x)));
}

xcvm_status xcc_lower_ml_normalizer(xcc_lowering *n)
{
    xcvm_text norm;
    XCVM_TRY(need_numbers(n));
    XCVM_TRY(xcc_attribute_text(n, "norm", "MAX", &norm));
    xcc_value *x = xcc_build_cast(&n->b, n->inputs[0], XCVM_F32), *axes = XCC_BUILD_INTS(&n->b, -1);
    xcvm_opcode reduction;
    if (xcc_text_is(norm, "MAX"))
        reduction = XCVM_OP_ReduceMax;
    else if (xcc_text_is(norm, "L1"))
        reduction = XCVM_OP_ReduceL1;
    else if (xcc_text_is(norm, "L2"))
        reduction = XCVM_OP_ReduceL2;
    else
        XCVM_FAIL(n->m->error, INVALID_MODEL, "attribute 'norm' is '%.40s'; MAX, L1 or L2 is expected", norm.at);
    xcc_value *size = xcc_build_reduce(&n->b, reduction, x, axes, true);
    if (size == NULL)
        return xcc_failure(n);
    xcc_value *none = xcc_build_binary(&n->b, XCVM_OP_Equal, size, xcc_build_number(&n->b, size, 0));
    size = xcc_build_call(&n->b, XCVM_OP_Where, 3, (xcc_value *[]){none, xcc_build_number(&n->b, size, 1), size});
    return xcc_bind(n, 0, xcc_build_div(&n->b, x, size));
}

xcvm_status xcc_lower_ml_imputer(xcc_lowering *n)
{
    xcvm_floats floats;
    xcvm_ints ints;
    double missing;
    int64_t missing_int;
    XCVM_TRY(need_numbers(n));
    XCVM_TRY(xcc_attribute_floats(n, "imputed_value_floats", &floats));
    XCVM_TRY(xcc_attribute_ints(n, "imputed_value_int64s", &ints));
    XCVM_TRY(xcc_attribute_float(n, "replaced_value_float", 0, &missing));
    XCVM_TRY(xcc_attribute_int(n, "replaced_value_int64", 0, &missing_int));
    xcc_value *x = n->inputs[0], *where, *values;
    if (xcvm_dtype_is_float(dtype_of(x))) {
        XCVM_CHECK(n->m->error, floats.count > 0, INVALID_MODEL, "attribute 'imputed_value_floats' is missing");
        where = isnan(missing) ? xcc_build_unary(&n->b, XCVM_OP_IsNaN, x)
                               : xcc_build_binary(&n->b, XCVM_OP_Equal, x, xcc_build_number(&n->b, x, missing));
        values = xcc_ml_numbers(n, XCVM_F64, 0, floats.count, floats.at);
    } else {
        XCVM_CHECK(n->m->error, ints.count > 0, INVALID_MODEL, "attribute 'imputed_value_int64s' is missing");
        where = xcc_build_binary(&n->b, XCVM_OP_Equal, x,
                                 xcc_build_cast(&n->b, xcc_scalar_i64(n->b.graph, missing_int), dtype_of(x)));
        values = xcc_build_ints(&n->b, ints.count, ints.at);
    }
    values = xcc_build_cast(&n->b, values, dtype_of(x));
    return xcc_bind(n, 0, xcc_build_call(&n->b, XCVM_OP_Where, 3, (xcc_value *[]){where, values, x}));
}

xcvm_status xcc_lower_ml_array_feature_extractor(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    xcc_value *x = n->inputs[0];
    XCVM_CHECK(n->m->error, x->type.kind == XCVM_KIND_TENSOR && x->type.rank != 0, SHAPE_MISMATCH,
               "operand 0 must have at least one dimension");
    xcc_value *indices = xcc_build_reshape(&n->b, n->inputs[1], XCC_BUILD_INTS(&n->b, -1));
    xcc_value *y = xcc_build_gather(&n->b, x, indices, -1);
    if (x->type.rank == 1)
        y = xcc_build_unsqueeze(&n->b, y, 1, &(int64_t){0});
    return xcc_bind(n, 0, y);
}

xcvm_status xcc_lower_ml_feature_vectorizer(xcc_lowering *n)
{
    xcvm_ints widths;
    XCVM_TRY(xcc_need_inputs(n, n->input_count, SIZE_MAX));
    XCVM_TRY(xcc_attribute_ints(n, "inputdimensions", &widths));
    XCVM_CHECK(n->m->error, n->input_count > 0, INVALID_MODEL, "operands are missing");
    XCVM_CHECK(n->m->error, widths.count == 0 || widths.count == n->input_count, INVALID_MODEL,
               "attribute 'inputdimensions' has %zu entries for %zu operands", widths.count, n->input_count);
    xcc_value **parts = xcc_alloc(n->m, n->input_count * sizeof(xcc_value *));
    if (parts == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < n->input_count; i++) {
        xcc_value *x = xcc_build_cast(&n->b, n->inputs[i], XCVM_F32);
        XCVM_CHECK(n->m->error, x != NULL && x->type.kind == XCVM_KIND_TENSOR, TYPE_MISMATCH,
                   "operand %zu is no tensor", i);
        if (x->type.rank == 1)
            x = xcc_build_unsqueeze(&n->b, x, 1, &(int64_t){0});
        else if (x->type.rank > 2)
            x = xcc_apply(&n->b, Flatten, y, .x = XCC_IN(x), .axis = 1);
        /* A piece is cut, or filled up with zeros, to the width that is declared. */
        const int64_t width = widths.count > 0 ? widths.at[i] : -1;
        const int64_t given = x != NULL && x->type.rank == 2 ? x->type.dims[1] : -1;
        if (width >= 0 && given != width)
            x = xcc_build_slice(&n->b, x, 1, 0, width, 1);
        if (width >= 0 && given >= 0 && given < width)
            x = xcc_build_call(&n->b, XCVM_OP_Pad, 2,
                               (xcc_value *[]){x, XCC_BUILD_INTS(&n->b, 0, 0, 0, width - given)});
        parts[i] = x;
    }
    return xcc_bind(n, 0, xcc_build_concat(&n->b, n->input_count, parts, 1));
}

/* ---- Lookups ---- */

/* The keys in ascending order, their values likewise, from constants of rank 1; of equal keys the first counts. */
typedef struct lookup_table {
    const xcvm_value *keys;
    int64_t *order;
    size_t count;
} lookup_table;

static void merge(const lookup_table *t, int64_t *spare, size_t begin, size_t middle, size_t end)
{
    size_t i = begin, j = middle;
    for (size_t k = begin; k < end; k++) {
        const bool left = i < middle && (j >= end || xcvm_keys_compare(t->keys, (size_t)t->order[i], t->keys,
                                                                       (size_t)t->order[j]) <= 0);
        spare[k] = t->order[left ? i++ : j++];
    }
    memcpy(t->order + begin, spare + begin, (end - begin) * sizeof *spare);
}

static xcvm_status sort_table(xcc_lowering *n, lookup_table *t)
{
    t->order = xcc_alloc(n->m, (t->count + 1) * sizeof *t->order);
    int64_t *spare = xcc_alloc(n->m, (t->count + 1) * sizeof *spare);
    if (t->order == NULL || spare == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < t->count; i++)
        t->order[i] = (int64_t)i;
    for (size_t width = 1; width < t->count; width *= 2)
        for (size_t begin = 0; begin + width < t->count; begin += 2 * width)
            merge(t, spare, begin, begin + width, begin + 2 * width < t->count ? begin + 2 * width : t->count);
    size_t kept = 0;
    for (size_t i = 0; i < t->count; i++)
        if (kept == 0 || xcvm_keys_compare(t->keys, (size_t)t->order[kept - 1], t->keys, (size_t)t->order[i]) != 0)
            t->order[kept++] = t->order[i];
    t->count = kept;
    return XCVM_OK;
}

/* Elements of x looked up among keys; `otherwise` for elements that are no key. All are constants except x. */
static xcvm_status look_up(xcc_lowering *n, xcc_value *x, xcc_value *keys, xcc_value *values, xcc_value *otherwise,
                           xcc_value **y)
{
    if (x == NULL || keys == NULL || values == NULL || otherwise == NULL)
        return xcc_failure(n);
    XCVM_CHECK(n->m->error, x->type.kind == XCVM_KIND_TENSOR && x->type.dtype == keys->type.dtype, TYPE_MISMATCH,
               "the operand has element type %s, the keys %s", xcvm_dtype_name(dtype_of(x)),
               xcvm_dtype_name(dtype_of(keys)));
    lookup_table t = {.keys = &keys->type, .count = xcvm_element_count(&keys->type)};
    XCVM_CHECK(n->m->error, t.count == xcvm_element_count(&values->type), INVALID_MODEL,
               "the number of keys is %zu, and the number of values is %zu", t.count,
               xcvm_element_count(&values->type));
    XCVM_TRY(sort_table(n, &t));
    xcc_value *order = xcc_build_ints(&n->b, t.count, t.order);
    keys = xcc_build_gather(&n->b, keys, order, 0);
    values = xcc_build_gather(&n->b, values, order, 0);
    *y = xcc_build_call(&n->b, XCVM_OP_LabelEncoder, 4, (xcc_value *[]){x, keys, values, otherwise});
    return *y != NULL ? XCVM_OK : xcc_failure(n);
}

static xcc_value *one_int(xcc_lowering *n, int64_t value) { return xcc_scalar_i64(n->b.graph, value); }

static xcc_value *counting(xcc_lowering *n, size_t count)
{
    int64_t *ints = xcc_alloc(n->m, (count + 1) * sizeof *ints);
    if (ints == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        ints[i] = (int64_t)i;
    return xcc_build_ints(&n->b, count, ints);
}

/* Between strings and their integers, either way. */
static xcvm_status map_category(xcc_lowering *n, xcc_value *ints, xcc_value *strings)
{
    int64_t default_int;
    xcvm_text default_text;
    xcc_value *y, *x = n->inputs[0];
    XCVM_TRY(xcc_attribute_int(n, "default_int64", -1, &default_int));
    XCVM_TRY(xcc_attribute_text(n, "default_string", "_Unused", &default_text));
    if (x->type.dtype == XCVM_STRING)
        XCVM_TRY(look_up(n, x, strings, ints, one_int(n, default_int), &y));
    else
        XCVM_TRY(look_up(n, x, ints, strings, xcc_build_strings(&n->b, 0, 1, &default_text), &y));
    return xcc_bind(n, 0, y);
}

xcvm_status xcc_lower_ml_category_mapper(xcc_lowering *n)
{
    xcvm_ints ints;
    xcvm_texts texts;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_ints(n, "cats_int64s", &ints));
    XCVM_TRY(xcc_attribute_texts(n, "cats_strings", &texts));
    return map_category(n, xcc_build_ints(&n->b, ints.count, ints.at),
                        xcc_build_strings(&n->b, 1, texts.count, texts.at));
}

/* A list attribute, in one of three types: keys_strings, keys_int64s, keys_floats; or the tensor keys_tensor. */
static xcvm_status read_list(xcc_lowering *n, const char *const names[4], xcc_value **list)
{
    xcvm_texts texts;
    xcvm_ints ints;
    xcvm_floats floats;
    xcc_tensor tensor;
    bool given = false;
    XCVM_TRY(xcc_attribute_texts(n, names[0], &texts));
    XCVM_TRY(xcc_attribute_ints(n, names[1], &ints));
    XCVM_TRY(xcc_attribute_floats(n, names[2], &floats));
    if (n->version >= 4)
        XCVM_TRY(xcc_build_tensor(n, names[3], &tensor, &given));
    XCVM_CHECK(n->m->error, (texts.count > 0) + (ints.count > 0) + (floats.count > 0) + given == 1, INVALID_MODEL,
               "exactly one of the attributes '%s', '%s', '%s' and '%s' must be given", names[0], names[1], names[2],
               names[3]);
    if (given)
        *list = xcc_literal(
            xcc_constant(n->b.graph, NULL, tensor.dtype, 1, &(int64_t){(int64_t)tensor.count}, tensor.data, true));
    else if (texts.count > 0)
        *list = xcc_build_strings(&n->b, 1, texts.count, texts.at);
    else if (ints.count > 0)
        *list = xcc_build_ints(&n->b, ints.count, ints.at);
    else
        *list = xcc_ml_numbers(n, XCVM_F32, 0, floats.count, floats.at);
    return *list != NULL ? XCVM_OK : xcc_failure(n);
}

/* The result for elements that are no key, in the type of the values. */
static xcvm_status read_default(xcc_lowering *n, xcvm_dtype dtype, xcc_value **otherwise)
{
    xcvm_text text;
    int64_t integer;
    double real;
    xcc_tensor tensor;
    bool given = false;
    XCVM_TRY(xcc_attribute_text(n, "default_string", "_Unused", &text));
    XCVM_TRY(xcc_attribute_int(n, "default_int64", -1, &integer));
    XCVM_TRY(xcc_attribute_float(n, "default_float", -0.0, &real));
    if (n->version >= 4)
        XCVM_TRY(xcc_build_tensor(n, "default_tensor", &tensor, &given));
    if (given) {
        XCVM_CHECK(n->m->error, tensor.count == 1 && tensor.dtype == dtype, INVALID_MODEL,
                   "attribute 'default_tensor' has %zu elements of %s, one of %s is needed", tensor.count,
                   xcvm_dtype_name(tensor.dtype), xcvm_dtype_name(dtype));
        *otherwise = xcc_literal(xcc_constant(n->b.graph, NULL, dtype, 0, NULL, tensor.data, true));
    } else if (dtype == XCVM_STRING) {
        *otherwise = xcc_build_strings(&n->b, 0, 1, &text);
    } else if (xcvm_dtype_is_float(dtype)) {
        *otherwise = xcc_scalar(n->b.graph, dtype, real);
    } else {
        *otherwise = xcc_build_cast(&n->b, one_int(n, integer), dtype);
    }
    return *otherwise != NULL ? XCVM_OK : xcc_failure(n);
}

xcvm_status xcc_lower_ml_label_encoder(xcc_lowering *n)
{
    static const char *const key_names[] = {"keys_strings", "keys_int64s", "keys_floats", "keys_tensor"};
    static const char *const value_names[] = {"values_strings", "values_int64s", "values_floats", "values_tensor"};
    xcc_value *keys, *values, *otherwise, *y;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    if (n->version < 2) {
        xcvm_texts texts;
        XCVM_TRY(xcc_attribute_texts(n, "classes_strings", &texts));
        return map_category(n, counting(n, texts.count), xcc_build_strings(&n->b, 1, texts.count, texts.at));
    }
    XCVM_TRY(read_list(n, key_names, &keys));
    XCVM_TRY(read_list(n, value_names, &values));
    XCVM_TRY(read_default(n, dtype_of(values), &otherwise));
    XCVM_TRY(look_up(n, n->inputs[0], keys, values, otherwise, &y));
    return xcc_bind(n, 0, y);
}

xcvm_status xcc_lower_ml_one_hot_encoder(xcc_lowering *n)
{
    xcc_value *categories, *index, *x;
    size_t count;
    bool zeros;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_ml_labels(n, "cats_int64s", "cats_strings", &categories, &count));
    XCVM_TRY(xcc_attribute_bool(n, "zeros", true, &zeros));
    x = n->inputs[0]->type.dtype == XCVM_STRING ? n->inputs[0] : xcc_build_cast(&n->b, n->inputs[0], XCVM_I64);
    XCVM_TRY(look_up(n, x, categories, counting(n, count), one_int(n, (int64_t)count), &index));
    /* Elements that are no category have an index that Gather refuses, and for which OneHot returns zeros. */
    if (!zeros)
        index = xcc_build_gather(&n->b, counting(n, count), index, 0);
    xcc_value *off_on = xcc_ml_numbers(n, XCVM_F32, 0, 2, (const double[]){0, 1});
    xcc_value *depth = one_int(n, (int64_t)count);
    if (index == NULL || off_on == NULL || depth == NULL)
        return xcc_failure(n);
    return xcc_bind(n, 0,
                    xcc_apply(&n->b, OneHot, y, .indices = XCC_IN(index), .depth = XCC_IN(depth),
                              .values = XCC_IN(off_on), .axis = -1));
}
