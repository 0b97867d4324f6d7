/* Contributed operators that move, choose and number elements. */
#include "compiler/import_onnx/contrib/contrib.h"

#include <math.h>

/* Operators that the domain had before ONNX: ONNX's operator of that name and opset. */
static xcvm_status as_onnx(xcc_lowering *n, const char *name, int64_t version)
{
    xcc_value *y;
    XCVM_TRY(xcc_lower_inner(n, "", name, version, n->input_count, n->inputs, 1, &y));
    return xcc_bind(n, 0, y);
}

xcvm_status xcc_lower_contrib_trilu(xcc_lowering *n) { return as_onnx(n, "Trilu", 14); }
xcvm_status xcc_lower_contrib_gather_nd(xcc_lowering *n) { return as_onnx(n, "GatherND", 11); }
xcvm_status xcc_lower_contrib_grid_sample(xcc_lowering *n) { return as_onnx(n, "GridSample", 16); }
xcvm_status xcc_lower_contrib_sample(xcc_lowering *n) { return as_onnx(n, "Identity", 13); }

xcvm_status xcc_lower_contrib_pad(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 3));
    for (size_t i = 1; i < n->input_count; i++)
        if (n->inputs[i] != NULL && n->inputs[i]->type.rank != (int)(i % 2)) {
            xcc_value *shape = i == 1 ? XCC_BUILD_INTS(&n->b, -1) : xcc_build_ints(&n->b, 0, NULL);
            XCVM_TRY(xcc_set_input(n, i, xcc_build_reshape(&n->b, n->inputs[i], shape)));
        }
    return as_onnx(n, "Pad", 13);
}

xcvm_status xcc_lower_contrib_range(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 3));
    if (xcc_input(n, 2) == NULL)
        XCVM_TRY(xcc_set_input(n, 2, xcc_build_number(&n->b, n->inputs[0], 1)));
    for (size_t i = 0; i < 3; i++)
        if (n->inputs[i]->type.rank != 0)
            XCVM_TRY(xcc_set_input(n, i, xcc_build_reshape(&n->b, n->inputs[i], xcc_build_ints(&n->b, 0, NULL))));
    return as_onnx(n, "Range", 11);
}

xcvm_status xcc_lower_contrib_expand_dims(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    xcc_value *axis = xcc_build_cast(&n->b, n->inputs[1], XCVM_I64);
    XCVM_TRY(xcc_set_input(n, 1, xcc_build_reshape(&n->b, axis, XCC_BUILD_INTS(&n->b, 1))));
    return as_onnx(n, "Unsqueeze", 13);
}

/* Unique values in the order of first occurrence, the index of each element among them, and their counts. */
xcvm_status xcc_lower_contrib_unique(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[0], "x", 1, 1));
    xcvm_Unique_args args = {.x = XCC_IN(n->inputs[0]), .axis = INT64_MIN, .sorted = 0};
    xcvm_value **const to[] = {&args.y, &args.inverse, &args.counts};
    for (size_t i = 0; i < 3; i++)
        if (xcc_wants(n, i)) {
            xcc_value *v = xcc_result(n, i);
            if (v == NULL)
                return xcc_failure(n);
            *to[i] = XCC_OUT(v);
        }
    return xcc_append(&n->b, XCVM_OP_Unique, &args) != NULL ? XCVM_OK : xcc_failure(n);
}

/* ---- CropAndResize ---- */

/* Coordinates of a crop's rows (or columns) in the image, [boxes, count], in pixels. */
static xcc_value *crop_places(xcc_lowering *n, xcc_value *boxes, int64_t side, xcc_value *count, xcc_value *last)
{
    xcc_value *begin = xcc_build_slice(&n->b, boxes, 1, side, side + 1, 1);
    xcc_value *end = xcc_build_slice(&n->b, boxes, 1, side + 2, side + 3, 1);
    xcc_value *one = xcc_build_number(&n->b, boxes, 1), *two = xcc_build_number(&n->b, boxes, 2);
    xcc_value *steps = xcc_build_sub(&n->b, xcc_build_cast(&n->b, count, (xcvm_dtype)boxes->type.dtype), one);
    xcc_value *several = xcc_build_binary(&n->b, XCVM_OP_Greater, steps, xcc_build_number(&n->b, boxes, 0));
    xcc_value *index = xcc_build_call(&n->b, XCVM_OP_Range, 3,
                                      (xcc_value *[]){xcc_scalar_i64(n->b.graph, 0),
                                                      xcc_build_squeeze(&n->b, count, 1, (const int64_t[]){0}),
                                                      xcc_scalar_i64(n->b.graph, 1)});
    index = xcc_build_cast(&n->b, index, (xcvm_dtype)boxes->type.dtype);
    xcc_value *step = xcc_build_div(&n->b, xcc_build_mul(&n->b, xcc_build_sub(&n->b, end, begin), last),
                                    xcc_build_binary(&n->b, XCVM_OP_Max, steps, one));
    xcc_value *spread = xcc_build_add(&n->b, xcc_build_mul(&n->b, begin, last), xcc_build_mul(&n->b, index, step));
    /* The last one exactly, that rounding does not put it outside. */
    xcc_value *at_end = xcc_build_binary(&n->b, XCVM_OP_Equal, index, steps);
    spread = xcc_build_call(&n->b, XCVM_OP_Where, 3, (xcc_value *[]){at_end, xcc_build_mul(&n->b, end, last), spread});
    xcc_value *middle = xcc_build_mul(&n->b, xcc_build_div(&n->b, xcc_build_add(&n->b, begin, end), two), last);
    return xcc_build_call(&n->b, XCVM_OP_Where, 3, (xcc_value *[]){several, spread, middle});
}

/* Boxes of images, brought to one size; places outside of the image have a value of their own. */
xcvm_status xcc_lower_contrib_crop_and_resize(xcc_lowering *n)
{
    xcvm_text mode;
    double outside;
    XCVM_TRY(xcc_need_inputs(n, 4, 4));
    XCVM_TRY(xcc_attribute_text(n, "mode", "bilinear", &mode));
    XCVM_TRY(xcc_attribute_float(n, "extrapolation_value", 0, &outside));
    const bool nearest = xcc_text_is(mode, "nearest");
    XCVM_CHECK(n->m->error, nearest || xcc_text_is(mode, "bilinear"), UNSUPPORTED,
               "attribute 'mode' is '%.40s', one of bilinear, nearest is expected", mode.at);
    xcc_value *x = n->inputs[0], *boxes = n->inputs[1], *grid[2], *inside[2];
    XCVM_TRY(xcc_contrib_need_ranks(n, x, "X", 4, 4));
    XCVM_TRY(xcc_contrib_need_ranks(n, boxes, "rois", 2, 2));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[3], "crop_size", 1, 1));
    xcc_value *sizes = xcc_build_cast(&n->b, n->inputs[3], XCVM_I64);
    xcc_value *zero = xcc_build_number(&n->b, boxes, 0), *one = xcc_build_number(&n->b, boxes, 1),
              *two = xcc_build_number(&n->b, boxes, 2), *half = xcc_build_number(&n->b, boxes, 0.5);
    for (int64_t i = 0; i < 2; i++) {
        xcc_value *count = xcc_build_slice(&n->b, sizes, 0, i, i + 1, 1);
        xcc_value *last = xcc_build_sub(
            &n->b, xcc_build_cast(&n->b, xcc_build_dim_of(&n->b, x, (int)i + 2), (xcvm_dtype)boxes->type.dtype), one);
        xcc_value *place = crop_places(n, boxes, i, count, last);
        inside[i] = xcc_build_binary(&n->b, XCVM_OP_And, xcc_build_binary(&n->b, XCVM_OP_GreaterOrEqual, place, zero),
                                     xcc_build_binary(&n->b, XCVM_OP_LessOrEqual, place, last));
        if (nearest) /* away from 0 at halves */
            place = xcc_build_unary(&n->b, XCVM_OP_Floor, xcc_build_add(&n->b, place, half));
        xcc_value *scaled =
            xcc_build_div(&n->b, xcc_build_mul(&n->b, place, two), xcc_build_binary(&n->b, XCVM_OP_Max, last, one));
        grid[i] = xcc_build_sub(&n->b, scaled, one);
    }
    xcc_value *shape = xcc_build_concat(&n->b, 2, (xcc_value *[]){xcc_build_dim_of(&n->b, boxes, 0), sizes}, 0);
    xcc_value *down = xcc_build_expand(&n->b, xcc_build_unsqueeze(&n->b, grid[0], 1, (const int64_t[]){2}), shape);
    xcc_value *right = xcc_build_expand(&n->b, xcc_build_unsqueeze(&n->b, grid[1], 1, (const int64_t[]){1}), shape);
    const int64_t end[] = {3};
    xcc_value *points = xcc_build_concat(
        &n->b, 2, (xcc_value *[]){xcc_build_unsqueeze(&n->b, right, 1, end), xcc_build_unsqueeze(&n->b, down, 1, end)},
        3);
    xcc_value *images = xcc_build_gather(&n->b, x, n->inputs[2], 0);
    if (points == NULL || images == NULL)
        return xcc_failure(n);
    xcc_value *y = xcc_apply(&n->b, GridSample, y, .x = XCC_IN(images), .grid = XCC_IN(points),
                             .mode = nearest ? XCVM_GRID_MODE_nearest : XCVM_GRID_MODE_linear,
                             .padding_mode = XCVM_GRID_PADDING_border, .align_corners = 1);
    xcc_value *seen =
        xcc_build_binary(&n->b, XCVM_OP_And, xcc_build_unsqueeze(&n->b, inside[0], 1, (const int64_t[]){2}),
                         xcc_build_unsqueeze(&n->b, inside[1], 1, (const int64_t[]){1}));
    seen = xcc_build_unsqueeze(&n->b, seen, 1, (const int64_t[]){1});
    if (y == NULL)
        return xcc_failure(n);
    return xcc_bind(
        n, 0, xcc_build_call(&n->b, XCVM_OP_Where, 3, (xcc_value *[]){seen, y, xcc_build_number(&n->b, y, outside)}));
}

/* ---- Relative positions ---- */

/* The bucket of each distance of a key from a query: near ones have one each, farther ones share by their logarithm. */
xcvm_status xcc_lower_contrib_relative_position_bias(xcc_lowering *n)
{
    int64_t most;
    bool both;
    XCVM_TRY(xcc_need_inputs(n, 3, 3));
    XCVM_TRY(xcc_contrib_need_int(n, "max_distance", 1, INT32_MAX, &most));
    XCVM_TRY(xcc_attribute_bool(n, "is_bidirectional", false, &both));
    xcc_value *table = n->inputs[0], *range[2];
    XCVM_CHECK(n->m->error, table->type.rank == 2 && table->type.dims[0] > 0, UNSUPPORTED,
               "bias_table has to have 2 dimensions, the first known");
    const int64_t buckets = both ? table->type.dims[0] / 2 : table->type.dims[0], exact = buckets / 2;
    XCVM_CHECK(n->m->error, exact > 0 && most > exact, OUT_OF_RANGE,
               "%lld buckets do not go with a max_distance of %lld", (long long)table->type.dims[0], (long long)most);
    for (size_t i = 0; i < 2; i++)
        range[i] =
            xcc_build_call(&n->b, XCVM_OP_Range, 3,
                           (xcc_value *[]){xcc_scalar_i64(n->b.graph, 0),
                                           xcc_build_reshape(&n->b, n->inputs[i + 1], xcc_build_ints(&n->b, 0, NULL)),
                                           xcc_scalar_i64(n->b.graph, 1)});
    xcc_value *query = xcc_build_unsqueeze(&n->b, range[0], 1, (const int64_t[]){1});
    xcc_value *behind = xcc_build_sub(&n->b, query, range[1]); /* by how much the key is before the query */
    xcc_value *zero = xcc_scalar_i64(n->b.graph, 0), *first = zero;
    if (both) {
        xcc_value *after = xcc_build_binary(&n->b, XCVM_OP_Less, behind, zero);
        first = xcc_build_mul(&n->b, xcc_build_cast(&n->b, after, XCVM_I64), xcc_scalar_i64(n->b.graph, buckets));
        behind = xcc_build_unary(&n->b, XCVM_OP_Abs, behind);
    } else {
        behind = xcc_build_binary(&n->b, XCVM_OP_Max, behind, zero);
    }
    xcc_value *limit = xcc_scalar_i64(n->b.graph, exact);
    xcc_value *far = xcc_build_cast(&n->b, xcc_build_binary(&n->b, XCVM_OP_Max, behind, limit), XCVM_F32);
    far = xcc_build_div(&n->b, far, xcc_build_number(&n->b, far, (double)exact));
    far = xcc_build_unary(&n->b, XCVM_OP_Log, far);
    far =
        xcc_build_mul(&n->b, xcc_build_div(&n->b, far, xcc_build_number(&n->b, far, log((double)most / (double)exact))),
                      xcc_build_number(&n->b, far, (double)(buckets - exact)));
    far = xcc_build_add(&n->b, xcc_build_cast(&n->b, far, XCVM_I64), limit);
    far = xcc_build_binary(&n->b, XCVM_OP_Min, far, xcc_scalar_i64(n->b.graph, buckets - 1));
    xcc_value *near = xcc_build_binary(&n->b, XCVM_OP_Less, behind, limit);
    xcc_value *bucket = xcc_build_call(&n->b, XCVM_OP_Where, 3, (xcc_value *[]){near, behind, far});
    /* Heads first, as the result has them. */
    xcc_value *by_head = xcc_build_transpose(&n->b, table, 2, (const int64_t[]){1, 0});
    xcc_value *y = xcc_build_gather(&n->b, by_head, xcc_build_add(&n->b, first, bucket), 1);
    return xcc_bind(n, 0, xcc_build_unsqueeze(&n->b, y, 1, (const int64_t[]){0}));
}

/* rel_pos times a gate that each query makes for itself. */
xcvm_status xcc_lower_contrib_gated_relative_position_bias(xcc_lowering *n)
{
    int64_t heads;
    XCVM_TRY(xcc_need_inputs(n, 6, 6)); /* a token_offset represents queries without padding */
    XCVM_TRY(xcc_contrib_need_int(n, "num_heads", 1, INT32_MAX, &heads));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[0], "query_layer", 3, 3));
    XCVM_CHECK(n->m->error,
               n->inputs[3]->type.rank == 2 && n->inputs[3]->type.dims[1] > 0 && n->inputs[3]->type.dims[1] % 2 == 0,
               UNSUPPORTED, "the weight has to have 2 dimensions, the second known and even");
    const int64_t half = n->inputs[3]->type.dims[1] / 2;
    xcc_value *q = xcc_build_add(&n->b, n->inputs[0], n->inputs[1]);
    q = xcc_build_reshape(&n->b, q, XCC_BUILD_INTS(&n->b, 0, 0, heads, -1));
    q = xcc_build_transpose(&n->b, q, 4, (const int64_t[]){0, 2, 1, 3});
    xcc_value *d = xcc_build_add(&n->b, xcc_build_binary(&n->b, XCVM_OP_MatMul, q, n->inputs[3]), n->inputs[4]);
    xcc_value *gate[2], *axis = XCC_BUILD_INTS(&n->b, 3);
    for (int64_t i = 0; i < 2; i++) {
        xcc_value *part = xcc_build_slice(&n->b, d, 3, i * half, (i + 1) * half, 1);
        gate[i] = xcc_build_unary(&n->b, XCVM_OP_Sigmoid, xcc_build_reduce(&n->b, XCVM_OP_ReduceSum, part, axis, true));
    }
    xcc_value *inner = xcc_build_mul(&n->b, gate[1], n->inputs[5]);
    inner = xcc_build_sub(&n->b, inner, xcc_build_number(&n->b, n->inputs[0], 1));
    inner = xcc_build_add(&n->b, xcc_build_mul(&n->b, gate[0], inner), xcc_build_number(&n->b, n->inputs[0], 2));
    return xcc_bind(n, 0, xcc_build_mul(&n->b, inner, n->inputs[2]));
}

/* ---- Words ---- */

/* Letters of words [words, letters] become vectors, to which windows of filters are applied. The result is the maximum
 * of each filter over the positions of the word. Words are padded with letters 0. */
xcvm_status xcc_lower_contrib_word_conv_embedding(xcc_lowering *n)
{
    static const char *const names[] = {"embedding_size", "conv_window_size", "char_embedding_size"};
    XCVM_TRY(xcc_need_inputs(n, 4, 4));
    for (size_t i = 0; i < 3; i++)
        xcc_attribute_ignore(n, names[i]);
    xcc_value *letters = n->inputs[0], *w = n->inputs[1], *b = n->inputs[2], *table = n->inputs[3];
    XCVM_TRY(xcc_contrib_need_ranks(n, letters, "Sequence", 2, 2));
    XCVM_TRY(xcc_contrib_need_ranks(n, b, "B", 1, 1));
    XCVM_TRY(xcc_contrib_need_ranks(n, table, "C", 2, 2));
    XCVM_CHECK(n->m->error, w->type.rank == 4 && w->type.dims[2] > 0, UNSUPPORTED,
               "W has to have 4 dimensions, the third known");
    const int64_t width = w->type.dims[2];
    xcc_value *one = XCC_BUILD_INTS(&n->b, 1), *zero = xcc_build_number(&n->b, letters, 0);
    xcc_value *there = xcc_build_binary(&n->b, XCVM_OP_Greater, letters, zero);
    xcc_value *lengths = xcc_build_reduce(&n->b, XCVM_OP_ReduceSum, xcc_build_cast(&n->b, there, XCVM_I64), one, true);
    xcc_value *vectors = xcc_build_gather(&n->b, table, letters, 0);
    xcc_value *images = xcc_build_unsqueeze(&n->b, vectors, 1, (const int64_t[]){1}), *y;
    XCVM_TRY(xcc_lower_inner(n, "", "Conv", 11, 3, (xcc_value *[]){images, w, b}, 1, &y));
    y = xcc_build_squeeze(&n->b, xcc_build_unary(&n->b, XCVM_OP_Tanh, y), 1, (const int64_t[]){3});
    /* Windows that begin after the last complete one of the word are ignored. */
    xcc_value *places = xcc_build_squeeze(&n->b, xcc_build_dim_of(&n->b, y, 2), 1, (const int64_t[]){0});
    xcc_value *place = xcc_build_call(
        &n->b, XCVM_OP_Range, 3, (xcc_value *[]){xcc_scalar_i64(n->b.graph, 0), places, xcc_scalar_i64(n->b.graph, 1)});
    xcc_value *count = xcc_build_sub(&n->b, lengths, XCC_BUILD_INTS(&n->b, width - 1));
    count = xcc_build_binary(&n->b, XCVM_OP_Max, count, one);
    xcc_value *counts = xcc_build_binary(&n->b, XCVM_OP_Less, place, count);
    counts = xcc_build_unsqueeze(&n->b, counts, 1, (const int64_t[]){1});
    if (y == NULL)
        return xcc_failure(n);
    y = xcc_build_call(&n->b, XCVM_OP_Where, 3, (xcc_value *[]){counts, y, xcc_build_number(&n->b, y, -1e12)});
    return xcc_bind(n, 0, xcc_build_reduce(&n->b, XCVM_OP_ReduceMax, y, XCC_BUILD_INTS(&n->b, 2), false));
}

/* ---- What is not there ---- */

/* The page of operators, and this message, say why. */
xcvm_status xcc_lower_contrib_refused(xcc_lowering *n)
{
    XCVM_FAIL(n->m->error, UNSUPPORTED, "%s", n->op->info.lowering);
}
