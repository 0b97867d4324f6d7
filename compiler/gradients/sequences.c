/* Gradients of sequences and optionals: lists of the gradients of their items. */
#include "compiler/gradients/rule.h"

#define ARGS(Name) const xcvm_##Name##_args *a = XCC_ARGS(Name, d->node)
#define G xcc_g(d)

static xcc_value *scalar(xcc_vjp *d, int64_t value) { return xcc_scalar_i64(d->b->graph, value); }

static xcc_value *length_of(xcc_vjp *d, xcc_value *s)
{
    return s != NULL ? xcc_apply(d->b, SequenceLength, y, .s = XCC_IN(s)) : NULL;
}

/* The item of a gradient that corresponds to `like`, whose shape is known more precisely. */
static xcc_value *item_at(xcc_vjp *d, xcc_value *g, xcc_value *position, xcc_value *like)
{
    if (g == NULL || position == NULL || like == NULL)
        return NULL;
    xcc_value *item = xcc_apply(d->b, SequenceAt, y, .s = XCC_IN(g), .position = XCC_IN(position));
    return like->type.kind == XCVM_KIND_TENSOR ? xcc_reshape_like(d->b, item, like) : item;
}

static xcc_value *replace(xcc_vjp *d, xcc_value *s, xcc_value *position, xcc_value *item)
{
    if (s == NULL || position == NULL || item == NULL)
        return NULL;
    return xcc_apply(d->b, SequenceUpdate, y, .s = XCC_IN(s), .position = XCC_IN(position), .x = XCC_IN(item));
}

/* The position in a sequence as long as `s`, counted from the start; the end if it is absent. */
static xcc_value *from_start(xcc_vjp *d, const xcvm_value *position, xcc_value *s)
{
    double known;
    if (position == NULL)
        return length_of(d, s);
    xcc_value *p = xcc_build_cast(d->b, xcc_value_of(position), XCVM_I64);
    if (p != NULL && xcc_constant_number(p, &known) && known >= 0)
        return p;
    xcc_value *length = length_of(d, s);
    return xcc_where(d, xcc_op2(d, XCVM_OP_Less, p, scalar(d, 0)), xcc_add(d, p, length), p);
}

XCC_GRADIENT(Accumulate)
{
    for (size_t i = 0; i < 2; i++)
        if (xcc_wanted(d, i))
            xcc_set_gradient(d, i, G);
}

/* ---- Items ---- */

XCC_GRADIENT(SequenceConstruct)
{
    ARGS(SequenceConstruct);
    for (size_t i = 0; i < a->xs.count; i++)
        if (xcc_wanted(d, i))
            xcc_set_gradient(d, i, item_at(d, G, scalar(d, (int64_t)i), xcc_in(d, i)));
}

XCC_GRADIENT(SequenceAt) { xcc_set_gradient(d, 0, replace(d, xcc_zeros_like(d->b, xcc_in(d, 0)), xcc_in(d, 1), G)); }

/* At the end, the length of s is not needed. The item is read first, so that the others can be moved. */
XCC_GRADIENT(SequenceInsert)
{
    ARGS(SequenceInsert);
    xcc_value *at = a->position != NULL ? from_start(d, a->position, xcc_in(d, 0)) : scalar(d, -1);
    if (at == NULL) {
        d->failed = true;
        return;
    }
    if (xcc_wanted(d, 1))
        xcc_set_gradient(d, 1, item_at(d, G, at, xcc_in(d, 1)));
    if (xcc_wanted(d, 0))
        xcc_set_gradient(d, 0, xcc_apply(d->b, SequenceErase, y, .s = XCC_IN(G), .position = XCC_IN(at)));
}

XCC_GRADIENT(SequenceErase)
{
    ARGS(SequenceErase);
    xcc_value *s = xcc_in(d, 0), *at = from_start(d, a->position, s);
    if (a->position == NULL)
        at = xcc_sub(d, at, scalar(d, 1));
    xcc_value *gone = at != NULL ? xcc_apply(d->b, SequenceAt, y, .s = XCC_IN(s), .position = XCC_IN(at)) : NULL;
    xcc_value *zeros = gone != NULL ? xcc_apply(d->b, ZerosLike, y, .x = XCC_IN(gone)) : NULL;
    xcc_set_gradient(
        d, 0,
        zeros != NULL ? xcc_apply(d->b, SequenceInsert, y, .s = XCC_IN(G), .x = XCC_IN(zeros), .position = XCC_IN(at))
                      : NULL);
}

XCC_GRADIENT(SequenceUpdate)
{
    xcc_value *s = xcc_in(d, 0), *at = xcc_in(d, 1);
    if (xcc_wanted(d, 0)) {
        xcc_value *old = xcc_apply(d->b, SequenceAt, y, .s = XCC_IN(s), .position = XCC_IN(at));
        xcc_set_gradient(d, 0, replace(d, G, at, old != NULL ? xcc_apply(d->b, ZerosLike, y, .x = XCC_IN(old)) : NULL));
    }
    if (xcc_wanted(d, 2))
        xcc_set_gradient(d, 2, item_at(d, G, at, xcc_in(d, 2)));
}

/* ---- Sublists ---- */

XCC_GRADIENT(SequenceExtend)
{
    xcc_value *length = length_of(d, xcc_in(d, 0)), *zero = scalar(d, 0);
    if (length == NULL || zero == NULL) {
        d->failed = true;
        return;
    }
    if (xcc_wanted(d, 0))
        xcc_set_gradient(
            d, 0, xcc_apply(d->b, SequenceGetSlice, y, .s = XCC_IN(G), .start = XCC_IN(zero), .end = XCC_IN(length)));
    if (xcc_wanted(d, 1))
        xcc_set_gradient(d, 1, xcc_apply(d->b, SequenceGetSlice, y, .s = XCC_IN(G), .start = XCC_IN(length)));
}

/* The body of a loop that replaces item places[i] by item i of `g`. */
static xcvm_status fill_loop(xcc_vjp *d, xcc_node *loop, xcc_value *g, xcc_value *places)
{
    xcc_graph *body = loop->bodies[0];
    xcc_builder b = {.graph = body, .name = d->b->name, .origin = d->b->origin};
    xcc_value *inputs[3];
    for (size_t i = 0; i < 3; i++)
        if ((inputs[i] = xcc_value_create(body, NULL)) == NULL)
            return body->module->error->status;
    xcvm_value_set_tensor(&inputs[0]->type, XCVM_I64, 0, NULL);
    xcvm_value_set_tensor(&inputs[1]->type, XCVM_BOOL, 0, NULL);
    xcvm_set_list(&inputs[2]->type, XCVM_KIND_SEQUENCE, (xcvm_dtype)loop->inputs[2]->type.dtype);
    XCVM_TRY(xcc_graph_set_inputs(body, 3, inputs));
    xcc_value *item = xcc_apply(&b, SequenceAt, y, .s = XCC_IN(g), .position = XCC_IN(inputs[0]));
    xcc_value *place = xcc_apply(&b, SequenceAt, y, .s = XCC_IN(places), .position = XCC_IN(inputs[0]));
    place = xcc_build_reshape(&b, place, xcc_build_ints(&b, 0, NULL));
    if (item == NULL || place == NULL)
        return body->module->error->status;
    xcc_value *next =
        xcc_apply(&b, SequenceUpdate, y, .s = XCC_IN(inputs[2]), .position = XCC_IN(place), .x = XCC_IN(item));
    return next != NULL ? xcc_graph_set_outputs(body, 2, (xcc_value *[]){inputs[1], next})
                        : body->module->error->status;
}

/* The same slice of all positions gives the selected items. */
XCC_GRADIENT(SequenceGetSlice)
{
    ARGS(SequenceGetSlice);
    if (d->b->graph->module->recorder != NULL) {
        xcc_refuse(d, "has a gradient that is built with a loop, which a tape does not build here");
        return;
    }
    xcc_value *s = xcc_in(d, 0), *zeros = xcc_zeros_like(d->b, s), *result = xcc_value_create(d->b->graph, NULL);
    xcc_value *all =
        xcc_build_call(d->b, XCVM_OP_Range, 3, (xcc_value *[]){scalar(d, 0), length_of(d, s), scalar(d, 1)});
    xcc_value *each = all != NULL ? xcc_apply(d->b, SplitToSequence, y, .x = XCC_IN(all)) : NULL;
    xcc_value *places = each != NULL ? xcc_apply(d->b, SequenceGetSlice, y, .s = XCC_IN(each), .start = a->start,
                                                 .end = a->end, .step = a->step)
                                     : NULL;
    xcc_value *trips = length_of(d, places);
    xcc_node *loop = zeros != NULL && trips != NULL && result != NULL
                         ? xcc_append_control(d->b, XCC_LOOP, 3, (xcc_value *[]){trips, NULL, zeros}, 1, &result, 1)
                         : NULL;
    if (loop == NULL || fill_loop(d, loop, G, places) != XCVM_OK || xcc_loop_infer_body(loop) != XCVM_OK ||
        xcc_node_infer(loop) != XCVM_OK)
        d->failed = true;
    else
        xcc_set_gradient(d, 0, result);
}

/* ---- Splitting and joining tensors ---- */

XCC_GRADIENT(SplitToSequence)
{
    ARGS(SplitToSequence);
    static const int64_t none[] = {0};
    const bool dropped = a->split == NULL && !a->keepdims;
    xcc_value *joined = xcc_apply(d->b, ConcatFromSequence, y, .s = XCC_IN(G), .axis = a->axis, .new_axis = dropped,
                                  .empty_dims = {none, 1}, .empty_dtype = (xcvm_dtype)xcc_in(d, 0)->type.dtype);
    xcc_set_gradient(d, 0, xcc_reshape_like(d->b, joined, xcc_in(d, 0)));
}

XCC_GRADIENT(ConcatFromSequence)
{
    ARGS(ConcatFromSequence);
    xcc_value *sizes = NULL;
    if (!a->new_axis && (sizes = xcc_apply(d->b, SequenceSizes, y, .s = a->s, .axis = a->axis)) == NULL) {
        d->failed = true;
        return;
    }
    xcc_set_gradient(d, 0,
                     xcc_apply(d->b, SplitToSequence, y, .x = XCC_IN(G), .split = XCC_IN(sizes), .axis = a->axis,
                               .keepdims = !a->new_axis));
}

/* Padding repeats one number. */
XCC_GRADIENT(SequencePad)
{
    ARGS(SequencePad);
    xcc_value *lengths = xcc_apply(d->b, SequenceLengths, y, .s = a->s);
    xcc_value *items =
        lengths != NULL ? xcc_apply(d->b, SequenceUnpad, y, .x = XCC_IN(G), .lengths = XCC_IN(lengths)) : NULL;
    if (items == NULL) {
        d->failed = true;
        return;
    }
    if (xcc_wanted(d, 0))
        xcc_set_gradient(d, 0, items);
    if (xcc_wanted(d, 1)) {
        xcc_value *inner = xcc_apply(d->b, SequencePad, y, .s = XCC_IN(items), .length = a->length);
        xcc_value *filled = xcc_sub(d, G, inner);
        xcc_set_gradient(
            d, 1, xcc_reshape_like(d->b, xcc_build_reduce(d->b, XCVM_OP_ReduceSum, filled, NULL, false), xcc_in(d, 1)));
    }
}

/* An item of zeros as long as x follows the others, so that all are padded to that length. */
XCC_GRADIENT(SequenceUnpad)
{
    xcc_value *x = xcc_in(d, 0), *one = XCC_BUILD_INTS(d->b, 1);
    xcc_value *shape = xcc_build_slice(d->b, xcc_build_shape_of(d->b, x), 0, 1, INT64_MAX, 1);
    xcc_value *zeros = xcc_build_expand(d->b, xcc_num(d, x, 0), shape);
    xcc_value *more = zeros != NULL ? xcc_apply(d->b, SequenceInsert, y, .s = XCC_IN(G), .x = XCC_IN(zeros)) : NULL;
    xcc_value *all = more != NULL ? xcc_apply(d->b, SequencePad, y, .s = XCC_IN(more)) : NULL;
    xcc_value *sizes[] = {xcc_add(d, xcc_build_dim_of(d->b, x, 0), one), shape};
    all = xcc_build_reshape_to(d->b, all, xcc_build_concat(d->b, 2, sizes, 0));
    xcc_set_gradient(d, 0, xcc_reshape_like(d->b, xcc_build_slice(d->b, all, 0, 0, -1, 1), x));
}

/* ---- Optionals ---- */

XCC_GRADIENT(Optional)
{
    xcc_value *x = xcc_in(d, 0), *inner = xcc_apply(d->b, OptionalGetElement, y, .x = XCC_IN(G));
    xcc_set_gradient(d, 0, x->type.kind == XCVM_KIND_TENSOR ? xcc_reshape_like(d->b, inner, x) : inner);
}

/* A value that is not an optional is passed through. */
XCC_GRADIENT(OptionalGetElement)
{
    xcvm_value *g = XCC_IN(G);
    const bool optional = xcc_in(d, 0)->type.kind == XCVM_KIND_OPTIONAL;
    xcc_set_gradient(d, 0, optional ? xcc_apply(d->b, Optional, y, .xs = {(const xcvm_value *const[]){g}, 1}) : G);
}
