/* ONNX+: GetItem and SetItem, NumPy's x[...] with an entry of slice_specs for each axis. */
#include "compiler/import_onnx/plus/plus.h"

/* The entries of slice_specs: all of the axis, one index, a slice of two or three numbers, a list of indices. */
enum { ALL, INDEX, RANGE, STRIDED, LIST };

typedef struct advanced {
    int64_t axis;
    xcc_value *index;
} advanced;

typedef struct subscript {
    xcvm_ints specs;
    size_t slice_count;
    xcc_value *starts[XCVM_MAX_RANK], *ends[XCVM_MAX_RANK], *steps[XCVM_MAX_RANK];
    int64_t slice_axes[XCVM_MAX_RANK];
    size_t count, lists; /* of indices, and how many of them are lists */
    advanced at[XCVM_MAX_RANK];
} subscript;

/* A list of indices may be a sequence of numbers. */
static xcc_value *index_list(xcc_lowering *n, xcc_value *v)
{
    static const int64_t none[1] = {0};
    if (v != NULL && v->type.kind == XCVM_KIND_SEQUENCE)
        v = xcc_apply(&n->b, ConcatFromSequence, y, .s = XCC_IN(v), .new_axis = 1, .empty_dims = {none, 1},
                      .empty_dtype = XCVM_I64);
    v = xcc_build_cast(&n->b, v, XCVM_I64);
    return v == NULL || v->type.rank > 0 ? v : xcc_build_reshape(&n->b, v, XCC_BUILD_INTS(&n->b, -1));
}

/* Bounds that are left out reach to the end that the step comes from or leads to. */
static xcvm_status read_slice(xcc_lowering *n, subscript *s, int64_t axis, size_t first, size_t count)
{
    xcc_value *bounds[3] = {NULL, NULL, NULL};
    const size_t i = s->slice_count++;
    double step = 1;
    bool known = true;
    for (size_t k = 0; k < count; k++)
        if (!xcc_plus_is_null(n, first + k) && (bounds[k] = xcc_plus_vector(n, xcc_plus_input(n, first + k))) == NULL)
            return xcc_failure(n);
    if (bounds[2] != NULL)
        known = xcc_constant_number(bounds[2], &step);
    XCVM_CHECK(n->m->error, known || (bounds[0] != NULL && bounds[1] != NULL), UNSUPPORTED,
               "a slice without start or end needs a step that is known at compile time");
    s->slice_axes[i] = axis;
    s->starts[i] = bounds[0] != NULL ? bounds[0] : XCC_BUILD_INTS(&n->b, step > 0 ? 0 : INT64_MAX);
    s->ends[i] = bounds[1] != NULL ? bounds[1] : XCC_BUILD_INTS(&n->b, step > 0 ? INT64_MAX : INT64_MIN + 1);
    s->steps[i] = bounds[2] != NULL ? bounds[2] : XCC_BUILD_INTS(&n->b, 1);
    return XCVM_OK;
}

static xcvm_status read_subscript(xcc_lowering *n, size_t first, size_t count, subscript *s)
{
    static const size_t operands[] = {0, 1, 2, 3, 1};
    *s = (subscript){.count = 0};
    XCVM_TRY(xcc_attribute_ints(n, "slice_specs", &s->specs));
    XCVM_CHECK(n->m->error, s->specs.count <= XCVM_MAX_RANK, INVALID_MODEL,
               "slice_specs has %zu entries, at most %d are possible", s->specs.count, XCVM_MAX_RANK);
    for (size_t i = 0; i < s->specs.count; i++) {
        const int64_t spec = s->specs.at[i];
        XCVM_CHECK(n->m->error, spec >= ALL && spec <= LIST, INVALID_MODEL,
                   "entry %zu of slice_specs is %lld, 0 to 4 is expected", i, (long long)spec);
        XCVM_CHECK(n->m->error, first + operands[spec] <= count, INVALID_MODEL,
                   "slice_specs selects more operands than the node has");
        if (spec == RANGE || spec == STRIDED) {
            XCVM_TRY(read_slice(n, s, (int64_t)i, first, operands[spec]));
        } else if (spec != ALL) {
            XCVM_CHECK(n->m->error, !xcc_plus_is_null(n, first), INVALID_MODEL, "operand %zu is missing", first);
            xcc_value *v = xcc_plus_input(n, first);
            v = spec == LIST ? index_list(n, v) : xcc_plus_scalar(n, v);
            if (v == NULL)
                return xcc_failure(n);
            s->lists += spec == LIST;
            s->at[s->count++] = (advanced){(int64_t)i, v};
        }
        first += operands[spec];
    }
    XCVM_CHECK(n->m->error, first == count, INVALID_MODEL, "slice_specs does not ask for operand %zu", first);
    return XCVM_OK;
}

/* Indices of several axes belong together, one tuple for each element of their common shape. The axes of that come
 * first, or in the place of the indexed ones where these are neighbors, as in NumPy. */
static xcvm_status gather_tuples(xcc_lowering *n, const subscript *s, xcc_value *x, xcc_value **y)
{
    static const int64_t behind[1] = {-1};
    int64_t perm[XCVM_MAX_RANK];
    xcc_value *tuples[XCVM_MAX_RANK], *sum = s->at[0].index;
    size_t used = 0;
    XCVM_TRY(xcc_need_rank(n, x, "the indexed tensor"));
    const int rank = x->type.rank;
    bool indexed[XCVM_MAX_RANK] = {false};
    for (size_t i = 0; i < s->count; i++) {
        XCVM_CHECK(n->m->error, s->at[i].axis < rank, INVALID_MODEL,
                   "slice_specs has more entries than the tensor dimensions");
        indexed[s->at[i].axis] = true;
        perm[used++] = s->at[i].axis;
        if (i > 0)
            sum = xcc_build_add(&n->b, sum, s->at[i].index);
    }
    for (int64_t i = 0; i < rank; i++)
        if (!indexed[i])
            perm[used++] = i;
    /* Adding 0 in the common shape is how the indices get that. */
    xcc_value *zero = xcc_build_sub(&n->b, sum, sum);
    for (size_t i = 0; i < s->count; i++)
        if ((tuples[i] = xcc_build_unsqueeze(&n->b, xcc_build_add(&n->b, s->at[i].index, zero), 1, behind)) == NULL)
            return xcc_failure(n);
    xcc_value *indices = xcc_build_concat(&n->b, s->count, tuples, -1);
    xcc_value *front = xcc_build_transpose(&n->b, x, (size_t)rank, perm);
    if (indices == NULL || front == NULL || zero == NULL)
        return xcc_failure(n);
    *y = xcc_apply(&n->b, GatherND, y, .x = XCC_IN(front), .indices = XCC_IN(indices));
    const int64_t first = s->at[0].axis, last = s->at[s->count - 1].axis;
    if (*y == NULL || first == 0 || last - first + 1 != (int64_t)s->count)
        return *y != NULL ? XCVM_OK : xcc_failure(n);
    XCVM_TRY(xcc_need_rank(n, zero, "a list of indices"));
    const int64_t common = zero->type.rank, all = common + rank - (int64_t)s->count;
    XCVM_CHECK(n->m->error, all <= XCVM_MAX_RANK, UNSUPPORTED, "the result has rank %lld, at most %d is supported",
               (long long)all, XCVM_MAX_RANK);
    for (int64_t i = 0; i < all; i++)
        perm[i] = i < first ? common + i : i < first + common ? i - first : i;
    *y = xcc_build_transpose(&n->b, *y, (size_t)all, perm);
    return *y != NULL ? XCVM_OK : xcc_failure(n);
}

static xcvm_status apply(xcc_lowering *n, const subscript *s, xcc_value *x, xcc_value **y)
{
    if (s->slice_count > 0)
        x = xcc_build_call(&n->b, XCVM_OP_Slice, 5,
                           (xcc_value *[]){x, xcc_build_concat(&n->b, s->slice_count, s->starts, 0),
                                           xcc_build_concat(&n->b, s->slice_count, s->ends, 0),
                                           xcc_build_ints(&n->b, s->slice_count, s->slice_axes),
                                           xcc_build_concat(&n->b, s->slice_count, s->steps, 0)});
    if (x != NULL && s->lists > 0 && s->count > 1)
        return gather_tuples(n, s, x, y);
    for (size_t i = s->count; i-- > 0;)
        x = xcc_build_gather(&n->b, x, s->at[i].index, s->at[i].axis);
    *y = x;
    return x != NULL ? XCVM_OK : xcc_failure(n);
}

xcvm_status xcc_lower_plus_get_item(xcc_lowering *n)
{
    subscript s;
    xcc_value *y;
    XCVM_TRY(xcc_plus_need_inputs(n, 1, SIZE_MAX));
    XCVM_TRY(xcc_plus_need_kind(n, n->inputs[0], XCVM_KIND_TENSOR));
    XCVM_TRY(read_subscript(n, 1, n->input_count, &s));
    XCVM_TRY(apply(n, &s, n->inputs[0], &y));
    return xcc_bind(n, 0, y);
}

/* x[i, j, ...] = value for indices of the first axes: writes only the selected elements. */
static xcc_value *set_entry(xcc_lowering *n, const subscript *s, xcc_value *x, xcc_value *value)
{
    xcc_value *tuple[XCVM_MAX_RANK];
    for (size_t i = 0; i < s->count; i++)
        tuple[i] = xcc_plus_vector(n, s->at[i].index);
    xcc_value *indices = xcc_build_concat(&n->b, s->count, tuple, 0);
    xcc_value *shape = xcc_build_slice(&n->b, xcc_build_shape_of(&n->b, x), 0, (int64_t)s->count, INT64_MAX, 1);
    return xcc_build_call(&n->b, XCVM_OP_ScatterND, 3,
                          (xcc_value *[]){x, indices, xcc_build_expand(&n->b, value, shape)});
}

/* The same subscript of the numbers of all elements says which ones to write. */
static xcvm_status set_elements(xcc_lowering *n, const subscript *s, xcc_value *x, xcc_value *value, xcc_value **y)
{
    xcc_value *shape = xcc_build_shape_of(&n->b, x), *flat = XCC_BUILD_INTS(&n->b, -1), *places;
    xcc_value *size = xcc_build_unary(&n->b, XCVM_OP_Size, x);
    xcc_value *numbers = xcc_build_call(
        &n->b, XCVM_OP_Range, 3, (xcc_value *[]){xcc_scalar_i64(n->b.graph, 0), size, xcc_scalar_i64(n->b.graph, 1)});
    numbers = xcc_build_reshape_to(&n->b, numbers, shape);
    if (numbers == NULL)
        return xcc_failure(n);
    XCVM_TRY(apply(n, s, numbers, &places));
    value = xcc_build_expand(&n->b, value, xcc_build_shape_of(&n->b, places));
    *y = xcc_build_call(&n->b, XCVM_OP_ScatterElements, 3,
                        (xcc_value *[]){xcc_build_reshape(&n->b, x, flat), xcc_build_reshape(&n->b, places, flat),
                                        xcc_build_reshape(&n->b, value, flat)});
    *y = xcc_build_reshape_to(&n->b, *y, shape);
    return XCVM_OK;
}

xcvm_status xcc_lower_plus_set_item(xcc_lowering *n)
{
    subscript s;
    XCVM_TRY(xcc_plus_need_inputs(n, 1, SIZE_MAX));
    XCVM_CHECK(n->m->error, n->input_count >= 2 && !xcc_plus_is_null(n, n->input_count - 1), INVALID_MODEL,
               "the operand with the value is missing");
    xcc_value *x = n->inputs[0], *value = xcc_plus_input(n, n->input_count - 1), *y = NULL;
    XCVM_TRY(xcc_plus_need_kind(n, x, XCVM_KIND_TENSOR));
    XCVM_TRY(read_subscript(n, 1, n->input_count - 1, &s));
    value = xcc_build_cast(&n->b, value, (xcvm_dtype)x->type.dtype);
    size_t first = 0;
    while (first < s.specs.count && s.specs.at[first] == INDEX)
        first++;
    if (s.count > 0 && s.lists == 0 && s.slice_count == 0 && first == s.count)
        y = set_entry(n, &s, x, value);
    else
        XCVM_TRY(set_elements(n, &s, x, value, &y));
    return xcc_bind(n, 0, y);
}
