/* Algebraic simplifications. They preserve every bit, including signed zeros and NaNs, except for those of Pow. */
#include "compiler/passes/rewrite.h"

#include <math.h>

static bool replace_if_same_type(xcc_rewrite *r, xcc_node *n, xcc_value *v)
{
    return xcc_same_type(xcc_node_output(n, 0), v) && xcc_rewrite_replace(r, xcc_node_output(n, 0), v);
}

/* -0 + 0 is 0, so for floats only -0 is neutral in addition, and only 0 as the subtrahend. */
static bool add(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *other;
    double number;
    if (!xcc_split_number(xcc_node_input(n, 0), xcc_node_input(n, 1), &other, &number) || number != 0)
        return false;
    return (!xcc_is_float(other) || signbit(number)) && replace_if_same_type(r, n, other);
}

static bool sub(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *x = xcc_node_input(n, 0);
    double number;
    if (!xcc_number(xcc_node_input(n, 1), &number) || number != 0 || (xcc_is_float(x) && signbit(number)))
        return false;
    return replace_if_same_type(r, n, x);
}

static bool mul(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *other, *y = xcc_node_output(n, 0);
    double number;
    if (!xcc_split_number(xcc_node_input(n, 0), xcc_node_input(n, 1), &other, &number))
        return false;
    if (number == 1)
        return replace_if_same_type(r, n, other);
    if (number != -1 || !xcc_is_float(other) || !xcc_same_type(y, other))
        return false;
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(r, y, xcc_apply(&b, Neg, y, .x = XCC_IN(other)));
}

static bool div_by_one(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *x = xcc_node_input(n, 0), *d = xcc_node_input(n, 1), *y = xcc_node_output(n, 0);
    double number;
    if (xcc_number(d, &number) && number == 1)
        return replace_if_same_type(r, n, x);
    if (!xcc_number(x, &number) || number != 1 || !xcc_is_float(d) || !xcc_same_type(y, d))
        return false;
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(r, y, xcc_apply(&b, Reciprocal, y, .x = XCC_IN(d)));
}

static bool pow_of_two(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *x = xcc_node_input(n, 0), *y = xcc_node_output(n, 0);
    double number;
    if (!xcc_number(xcc_node_input(n, 1), &number) || !xcc_same_type(x, y))
        return false;
    if (number == 1)
        return xcc_rewrite_replace(r, y, x);
    if (number != 2 || !xcc_is_float(x))
        return false;
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(r, y, xcc_apply(&b, Mul, y, .a = XCC_IN(x), .b = XCC_IN(x)));
}

/* ---- Bounds ---- */

typedef struct limits {
    double low, high; /* infinite if absent */
} limits;

static bool constant_limits(const xcvm_Clip_args *a, limits *l)
{
    *l = (limits){-INFINITY, INFINITY};
    if (a->min != NULL && !xcc_number(xcc_value_of(a->min), &l->low))
        return false;
    if (a->max != NULL && !xcc_number(xcc_value_of(a->max), &l->high))
        return false;
    return !isnan(l->low) && !isnan(l->high);
}

/* Numbers of more than 53 bits are not exact as double. */
static bool exact(const xcc_value *v) { return v->type.dtype != XCVM_I64 && v->type.dtype != XCVM_U64; }

static bool replace_with_clip(xcc_rewrite *r, xcc_node *n, xcc_value *x, limits l)
{
    xcc_value *y = xcc_node_output(n, 0), *low = NULL, *high = NULL;
    xcvm_dtype dtype = (xcvm_dtype)x->type.dtype;
    xcc_builder b = xcc_builder_before(n);
    if (l.low == 0 && !signbit(l.low) && l.high == (double)INFINITY)
        return xcc_rewrite_replace(r, y, xcc_apply(&b, Relu, y, .x = XCC_IN(x)));
    if (l.low != -(double)INFINITY && (low = xcc_scalar(n->graph, dtype, l.low)) == NULL)
        return xcc_rewrite_replace(r, y, NULL);
    if (l.high != (double)INFINITY && (high = xcc_scalar(n->graph, dtype, l.high)) == NULL)
        return xcc_rewrite_replace(r, y, NULL);
    return xcc_rewrite_replace(r, y, xcc_apply(&b, Clip, y, .x = XCC_IN(x), .min = XCC_IN(low), .max = XCC_IN(high)));
}

/* Finds the value and the bounds of a Relu and a Clip. */
static bool limits_of(xcc_value *v, xcc_value **x, limits *l)
{
    const xcc_node *relu = xcc_sole_producer(v, XCVM_OP_Relu), *clip = xcc_sole_producer(v, XCVM_OP_Clip);
    if (relu != NULL) {
        *x = xcc_node_input(relu, 0);
        *l = (limits){0, INFINITY};
        return true;
    }
    *x = clip != NULL ? xcc_node_input(clip, 0) : NULL;
    return clip != NULL && constant_limits(XCC_ARGS(Clip, clip), l);
}

static double clamp(double value, limits l) { return fmin(fmax(value, l.low), l.high); }

/* Combines two bounds. */
static bool limit(xcc_rewrite *r, xcc_node *n, xcc_value *v, limits outer)
{
    xcc_value *x;
    limits inner;
    if (!exact(v) || !limits_of(v, &x, &inner))
        return false;
    return replace_with_clip(r, n, x, (limits){clamp(inner.low, outer), clamp(inner.high, outer)});
}

static bool clip(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_Clip_args *a = XCC_ARGS(Clip, n);
    xcc_value *x = xcc_value_of(a->x);
    limits l;
    if (!constant_limits(a, &l) || !exact(x))
        return false;
    if (l.low == -(double)INFINITY && l.high == (double)INFINITY)
        return xcc_rewrite_replace(r, xcc_node_output(n, 0), x);
    if (limit(r, n, x, l))
        return true;
    return l.low == 0 && !signbit(l.low) && l.high == (double)INFINITY && replace_with_clip(r, n, x, l);
}

static bool relu(xcc_rewrite *r, xcc_node *n) { return limit(r, n, xcc_node_input(n, 0), (limits){0, INFINITY}); }

/* Max and Min with a number. */
static bool extreme(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *x;
    double number;
    if (!xcc_split_number(xcc_node_input(n, 0), xcc_node_input(n, 1), &x, &number) || isnan(number) || !exact(x) ||
        !xcc_same_type(x, xcc_node_output(n, 0)) || xcc_is_constant(x))
        return false;
    limits l = xcc_is(n, XCVM_OP_Max) ? (limits){number, INFINITY} : (limits){-INFINITY, number};
    return limit(r, n, x, l) || replace_with_clip(r, n, x, l);
}

/* Where with a negated condition swaps its choices. */
static bool where_not(xcc_rewrite *r, xcc_node *n)
{
    const xcc_node *negation = xcc_producer(xcc_node_input(n, 0), XCVM_OP_Not);
    if (negation == NULL)
        return false;
    const xcvm_Where_args *a = XCC_ARGS(Where, n);
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(
        r, xcc_node_output(n, 0),
        xcc_apply(&b, Where, y, .condition = XCC_IN(xcc_node_input(negation, 0)), .x = a->z, .z = a->x));
}

const xcc_rule xcc_rules_arithmetic[] = {
    {XCVM_OP_Add, add, "addition or subtraction of 0"},
    {XCVM_OP_Sub, sub, "addition or subtraction of 0"},
    {XCVM_OP_Mul, mul, "multiplication by 1 or -1"},
    {XCVM_OP_Div, div_by_one, "division by 1, or of 1"},
    {XCVM_OP_Pow, pow_of_two, "powers 1 and 2"},
    {XCVM_OP_Clip, clip, "without limits, from 0 on, or of a clipped value"},
    {XCVM_OP_Relu, relu, "of a clipped value"},
    {XCVM_OP_Max, extreme, "maximum or minimum with a number"},
    {XCVM_OP_Min, extreme, "maximum or minimum with a number"},
    {XCVM_OP_Where, where_not, "negated condition"},
};
const size_t xcc_rules_arithmetic_count = sizeof xcc_rules_arithmetic / sizeof *xcc_rules_arithmetic;
