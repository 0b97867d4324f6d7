/* Simplification of data movement. */
#include "compiler/passes/rewrite.h"
#include "compiler/ir/shape_data.h"

#include <string.h>

static bool replace_with_operand(xcc_rewrite *r, xcc_node *n, const xcvm_value *operand)
{
    return xcc_rewrite_replace(r, xcc_node_output(n, 0), xcc_value_of(operand));
}

/* For instructions that return their operand if the type does not change. */
static bool same_as_operand(xcc_rewrite *r, xcc_node *n, const xcvm_value *operand)
{
    if (!xcc_same_type(xcc_node_output(n, 0), xcc_value_of(operand)))
        return false;
    return replace_with_operand(r, n, operand);
}

static bool identity(xcc_rewrite *r, xcc_node *n) { return replace_with_operand(r, n, XCC_ARGS(Identity, n)->x); }

static bool cast(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_Cast_args *a = XCC_ARGS(Cast, n);
    return a->x->dtype == a->to && a->x->kind == XCVM_KIND_TENSOR && replace_with_operand(r, n, a->x);
}

/* ---- Dimensions as values ---- */

static bool shape(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *y = xcc_node_output(n, 0);
    xcc_shape_datum sizes[XCC_SHAPE_DATA_LIMIT];
    int64_t ints[XCC_SHAPE_DATA_LIMIT];
    int count = xcc_shape_data(y, sizes);
    for (int i = 0; i < count; i++) {
        if (sizes[i].kind != XCC_SIZE_NUMBER)
            return false;
        ints[i] = sizes[i].value;
    }
    if (count < 0 || y->type.dtype != XCVM_I64)
        return false;
    int64_t dim = count;
    return xcc_rewrite_replace(r, y, xcc_constant(n->graph, NULL, XCVM_I64, y->type.rank, &dim, ints, false));
}

/* A dimension is not negative. */
static bool surely_differ(xcc_shape_datum a, xcc_shape_datum b)
{
    if (a.kind == XCC_SIZE_UNKNOWN || b.kind == XCC_SIZE_UNKNOWN)
        return false;
    const bool both = a.kind == XCC_SIZE_NUMBER && b.kind == XCC_SIZE_NUMBER;
    return both ? a.value != b.value
                : (a.kind == XCC_SIZE_NUMBER && a.value < 0) || (b.kind == XCC_SIZE_NUMBER && b.value < 0);
}

/* Exporters test for -1 in the target shape of Expand, because it means the existing size. */
static bool where_sizes(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_Where_args *a = XCC_ARGS(Where, n);
    const xcc_node *equal = xcc_producer(xcc_value_of(a->condition), XCVM_OP_Equal);
    xcc_shape_datum sizes[2][XCC_SHAPE_DATA_LIMIT];
    if (equal == NULL || !xcc_same_type(xcc_node_output(n, 0), xcc_value_of(a->z)))
        return false;
    const int count = xcc_shape_data(xcc_node_input(equal, 0), sizes[0]);
    if (count <= 0 || xcc_shape_data(xcc_node_input(equal, 1), sizes[1]) != count)
        return false;
    for (int i = 0; i < count; i++)
        if (!surely_differ(sizes[0][i], sizes[1][i]))
            return false;
    return replace_with_operand(r, n, a->z);
}

static bool size(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_value *x = XCC_ARGS(Size, n)->x;
    size_t count, bytes;
    if (x->kind != XCVM_KIND_TENSOR || x->rank < 0 ||
        !xcvm_tensor_size((xcvm_dtype)x->dtype, x->rank, x->dims, &count, &bytes) || (uint64_t)count > INT64_MAX)
        return false;
    return xcc_rewrite_replace(r, xcc_node_output(n, 0), xcc_scalar_i64(n->graph, (int64_t)count));
}

/* ---- Transpose ---- */

/* Returns true if a permutation keeps the order of all dimensions that may differ from 1. */
static bool keeps_order(const xcvm_value *x, const xcvm_ints *perm)
{
    int64_t last = -1;
    for (size_t i = 0; i < perm->count; i++) {
        if (x->dims[perm->at[i]] == 1)
            continue;
        if (perm->at[i] < last)
            return false;
        last = perm->at[i];
    }
    return true;
}

/* Returns true if the target shape of a Reshape has -1 at index `i`. */
static bool asks_for_rest(const xcc_node *n, int i)
{
    xcc_shape_datum sizes[XCC_SHAPE_DATA_LIMIT];
    return xcc_is(n, XCVM_OP_Reshape) && xcc_shape_data(xcc_node_input(n, 1), sizes) > i &&
           sizes[i].kind == XCC_SIZE_NUMBER && sizes[i].value == -1;
}

/* Writes the shape of n's result y as a constant operand of Reshape(x): 0 for an open dimension that x has at the same
 * index, -1 for one other. With both, -1 is undefined for an empty x, so the model itself must use them. */
static bool shape_operand(const xcc_node *n, const xcvm_value *x, int64_t ints[XCVM_MAX_RANK], bool *zeros)
{
    const xcvm_value *y = &xcc_node_output(n, 0)->type;
    int copied = 0, rest = -1;
    *zeros = false;
    if (y->kind != XCVM_KIND_TENSOR || y->rank < 0)
        return false;
    for (int i = 0; i < y->rank; i++) {
        ints[i] = y->dims[i];
        *zeros = *zeros || y->dims[i] == 0;
        if (y->dims[i] >= 0)
            continue;
        bool same = i < x->rank && x->dims[i] == y->dims[i] && y->dims[i] != XCVM_ANY_DIM;
        if (!same && rest >= 0)
            return false;
        ints[i] = same ? 0 : -1;
        copied += same;
        rest = same ? rest : i;
    }
    if (copied > 0 && rest >= 0)
        return !*zeros && asks_for_rest(n, rest);
    return !*zeros || (copied == 0 && rest < 0);
}

/* Replaces n's result by a Reshape of x if the shape is sufficiently known. */
static bool replace_with_reshape(xcc_rewrite *r, xcc_node *n, xcc_value *x)
{
    xcc_value *y = xcc_node_output(n, 0);
    int64_t ints[XCVM_MAX_RANK];
    bool zeros;
    if (!shape_operand(n, &x->type, ints, &zeros))
        return false;
    xcc_builder b = xcc_builder_before(n);
    xcc_value *shape_value = xcc_constant_i64(n->graph, (size_t)y->type.rank, ints);
    if (shape_value == NULL)
        return xcc_rewrite_replace(r, y, NULL);
    return xcc_rewrite_replace(
        r, y, xcc_apply(&b, Reshape, y, .x = XCC_IN(x), .shape = XCC_IN(shape_value), .allowzero = zeros));
}

static bool transpose(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_Transpose_args *a = XCC_ARGS(Transpose, n);
    bool same = true;
    for (size_t i = 0; i < a->perm.count; i++)
        same = same && a->perm.at[i] == (int64_t)i;
    if (same && a->perm.count > 0)
        return replace_with_operand(r, n, a->x);
    if (a->x->rank < 0 || a->perm.count != (size_t)a->x->rank)
        return false;
    if (keeps_order(a->x, &a->perm))
        return replace_with_reshape(r, n, xcc_value_of(a->x));
    const xcc_node *inner = xcc_producer(xcc_value_of(a->x), XCVM_OP_Transpose);
    if (inner == NULL || XCC_ARGS(Transpose, inner)->perm.count != a->perm.count)
        return false;
    int64_t perm[XCVM_MAX_RANK];
    for (size_t i = 0; i < a->perm.count; i++)
        perm[i] = XCC_ARGS(Transpose, inner)->perm.at[a->perm.at[i]];
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(
        r, xcc_node_output(n, 0),
        xcc_apply(&b, Transpose, y, .x = XCC_ARGS(Transpose, inner)->x, .perm = {perm, a->perm.count}));
}

/* ---- Reshape and similar ---- */

static const xcc_node *view_of(const xcc_value *v)
{
    static const xcvm_opcode views[] = {XCVM_OP_Reshape, XCVM_OP_Flatten, XCVM_OP_Squeeze, XCVM_OP_Unsqueeze};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (xcc_producer(v, views[i]) != NULL)
            return v->producer;
    return NULL;
}

/* Gives the result's open dimensions the sizes or names that the shape is computed from. */
static void name_dims(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *y = xcc_node_output(n, 0);
    xcc_shape_datum sizes[XCC_SHAPE_DATA_LIMIT];
    int64_t dims[XCVM_MAX_RANK];
    if (xcc_shape_data(xcc_node_input(n, 1), sizes) != y->type.rank)
        return;
    for (int i = 0; i < y->type.rank; i++) {
        bool unnamed = y->type.dims[i] < 0 && xcc_symbol_name(r->m, y->type.dims[i]) == NULL;
        bool known = sizes[i].kind == XCC_SIZE_SYMBOL || (sizes[i].kind == XCC_SIZE_NUMBER && sizes[i].value > 0);
        dims[i] = unnamed && known ? sizes[i].value : y->type.dims[i];
    }
    if (y->type.rank >= 0)
        xcvm_value_set_tensor(&y->type, (xcvm_dtype)y->type.dtype, y->type.rank, dims);
}

static bool reshape(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *x = xcc_node_input(n, 0);
    if (xcc_is(n, XCVM_OP_Reshape))
        name_dims(r, n);
    if (same_as_operand(r, n, &x->type))
        return true;
    if (view_of(x) != NULL)
        return replace_with_reshape(r, n, xcc_node_input(view_of(x), 0));
    return xcc_is(n, XCVM_OP_Reshape) && !xcc_is_constant(xcc_node_input(n, 1)) && replace_with_reshape(r, n, x);
}

/* ---- Others ---- */

/* Returns true if a value is a concatenation used only by another one along the same axis. */
static bool is_part(const xcc_value *v)
{
    const xcc_node *inner = xcc_sole_producer(v, XCVM_OP_Concat), *outer = inner != NULL ? v->users->node : NULL;
    return xcc_is(outer, XCVM_OP_Concat) && v->type.rank > 0 &&
           (XCC_ARGS(Concat, inner)->axis - XCC_ARGS(Concat, outer)->axis) % v->type.rank == 0;
}

/* The operands of a concatenation, with nested ones expanded. Returns their count; `to` may be NULL. */
static size_t collect_parts(xcc_node *n, const xcvm_value **to)
{
    size_t count = 0;
    n->pending = NULL; /* the concatenation that contains it */
    n->mark = 0;       /* number of operands visited */
    while (n != NULL) {
        const xcvm_inputs *xs = &XCC_ARGS(Concat, n)->xs;
        if (n->mark == xs->count) {
            n = n->pending;
            continue;
        }
        const xcvm_value *x = xs->at[n->mark++];
        if (is_part(xcc_value_of(x))) {
            xcc_node *part = xcc_value_of(x)->producer;
            part->pending = n;
            part->mark = 0;
            n = part;
        } else {
            if (to != NULL)
                to[count] = x;
            count++;
        }
    }
    return count;
}

/* Only the outermost one is flattened, because a chain would otherwise be copied repeatedly. */
static bool concat(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_Concat_args *a = XCC_ARGS(Concat, n);
    xcc_value *y = xcc_node_output(n, 0);
    if (a->xs.count == 1)
        return replace_with_operand(r, n, a->xs.at[0]);
    size_t count;
    if (is_part(y) || (count = collect_parts(n, NULL)) == a->xs.count)
        return false;
    const xcvm_value **xs = xcc_alloc(r->m, count * sizeof *xs);
    if (xs == NULL)
        return xcc_rewrite_replace(r, y, NULL);
    collect_parts(n, xs);
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(r, y, xcc_apply(&b, Concat, y, .xs = {xs, count}, .axis = a->axis));
}

static bool split(xcc_rewrite *r, xcc_node *n)
{
    return xcc_node_output_count(n) == 1 && same_as_operand(r, n, XCC_ARGS(Split, n)->x);
}

static bool expand(xcc_rewrite *r, xcc_node *n) { return same_as_operand(r, n, XCC_ARGS(Expand, n)->x); }

static bool tile(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_Tile_args *a = XCC_ARGS(Tile, n);
    int64_t repeats[XCVM_MAX_RANK];
    int count = xcc_integers(xcc_value_of(a->repeats), repeats, XCVM_MAX_RANK);
    for (int i = 0; i < count; i++)
        if (repeats[i] != 1)
            return false;
    return count >= 0 && replace_with_operand(r, n, a->x);
}

static bool pad(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_Pad_args *a = XCC_ARGS(Pad, n);
    int64_t pads[2 * XCVM_MAX_RANK];
    int count = xcc_integers(xcc_value_of(a->pads), pads, 2 * XCVM_MAX_RANK);
    for (int i = 0; i < count; i++)
        if (pads[i] != 0)
            return false;
    return count >= 0 && replace_with_operand(r, n, a->x);
}

/* With positive steps, a slice as large as its operand is all of it. */
static bool slice(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_Slice_args *a = XCC_ARGS(Slice, n);
    int64_t steps[XCVM_MAX_RANK];
    int count = a->steps != NULL ? xcc_integers(xcc_value_of(a->steps), steps, XCVM_MAX_RANK) : 0;
    for (int i = 0; i < count; i++)
        if (steps[i] < 0)
            return false;
    return count >= 0 && same_as_operand(r, n, a->x);
}

static bool dropout(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_Dropout_args *a = XCC_ARGS(Dropout, n);
    double training = 0;
    if (a->mask != NULL && xcc_value_of(a->mask)->uses > 0)
        return false;
    if (a->training_mode != NULL && (!xcc_number(xcc_value_of(a->training_mode), &training) || training != 0))
        return false;
    return replace_with_operand(r, n, a->x);
}

const xcc_rule xcc_rules_shapes[] = {
    {XCVM_OP_Identity, identity, "a copy"},
    {XCVM_OP_Cast, cast, "a cast to the same type"},
    {XCVM_OP_Dropout, dropout, "dropout without training mode"},
    {XCVM_OP_Shape, shape, "known dimensions"},
    {XCVM_OP_Gather, shape, "one of the known dimensions"},
    {XCVM_OP_Slice, shape, "some of the known dimensions"},
    {XCVM_OP_Where, where_sizes, "selection of -1 in a shape without -1"},
    {XCVM_OP_Size, size, "product of known dimensions"},
    {XCVM_OP_Transpose, transpose, "two in a row, identities, and moves of dimensions of size 1"},
    {XCVM_OP_Reshape, reshape, "several in a row, to the same shape, or to a known shape"},
    {XCVM_OP_Flatten, reshape, "several in a row, or to the same shape"},
    {XCVM_OP_Squeeze, reshape, "several in a row"},
    {XCVM_OP_Unsqueeze, reshape, "several in a row"},
    {XCVM_OP_Concat, concat, "of one operand, or of a concatenation"},
    {XCVM_OP_Split, split, "into one piece"},
    {XCVM_OP_Expand, expand, "to the same shape"},
    {XCVM_OP_Tile, tile, "with one repetition"},
    {XCVM_OP_Pad, pad, "with zero pads"},
    {XCVM_OP_Slice, slice, "of the whole tensor"},
};
const size_t xcc_rules_shapes_count = sizeof xcc_rules_shapes / sizeof *xcc_rules_shapes;
