/* Gradients of scattering: overwritten elements have no gradient, and combined ones share it. */
#include "compiler/gradients/rule.h"

#define G xcc_g(d)
#define X xcc_in(d, 0)
#define INDICES xcc_in(d, 1)
#define UPDATES xcc_in(d, 2)
#define Y xcc_out(d, 0)

/* ScatterElements and ScatterND, and the gathers at the same positions. */
typedef struct places {
    xcc_vjp *d;
    bool tuples; /* ScatterND */
    int64_t axis;
    int reduction;
} places;

static xcc_value *write(const places *p, xcc_value *x, xcc_value *updates, int reduction)
{
    xcc_vjp *d = p->d;
    if (x == NULL || updates == NULL)
        return NULL;
    if (p->tuples)
        return xcc_apply(d->b, ScatterND, y, .x = XCC_IN(x), .indices = XCC_IN(INDICES), .updates = XCC_IN(updates),
                         .reduction = reduction);
    return xcc_apply(d->b, ScatterElements, y, .x = XCC_IN(x), .indices = XCC_IN(INDICES), .updates = XCC_IN(updates),
                     .axis = p->axis, .reduction = reduction);
}

static xcc_value *read(const places *p, xcc_value *x)
{
    xcc_vjp *d = p->d;
    if (x == NULL)
        return NULL;
    if (p->tuples)
        return xcc_apply(d->b, GatherND, y, .x = XCC_IN(x), .indices = XCC_IN(INDICES));
    return xcc_apply(d->b, GatherElements, y, .x = XCC_IN(x), .indices = XCC_IN(INDICES), .axis = p->axis);
}

static xcc_value *mark(xcc_vjp *d, xcc_value *condition)
{
    return xcc_build_cast(d->b, condition, (xcvm_dtype)X->type.dtype);
}

/* Of several updates of one element, the last one wins. Its number is found by scattering and gathering the numbers of
 * all updates. */
static xcc_value *is_written_last(const places *p)
{
    xcc_vjp *d = p->d;
    xcc_builder *b = d->b;
    xcc_value *count = xcc_op1(d, XCVM_OP_Size, UPDATES), *zero = xcc_scalar_i64(b->graph, 0);
    xcc_value *numbers = xcc_build_call(b, XCVM_OP_Range, 3, (xcc_value *[]){zero, count, xcc_scalar_i64(b->graph, 1)});
    numbers = xcc_reshape_like(b, numbers, UPDATES);
    xcc_value *board = xcc_build_expand(b, zero, xcc_build_shape_of(b, X));
    return xcc_op2(d, XCVM_OP_Equal, read(p, write(p, board, numbers, XCVM_REDUCTION_none)), numbers);
}

static void overwrite(const places *p)
{
    xcc_vjp *d = p->d;
    if (xcc_wanted(d, 0))
        xcc_set_gradient(d, 0, write(p, G, xcc_zeros_like(d->b, UPDATES), XCVM_REDUCTION_none));
    if (xcc_wanted(d, 2))
        xcc_set_gradient(d, 2, xcc_where(d, is_written_last(p), read(p, G), xcc_num(d, G, 0)));
}

/* The product of the other factors, x and the updates of an element, without zeros, unless there are zeros other than
 * the factor itself. */
static void multiply(const places *p)
{
    xcc_vjp *d = p->d;
    xcc_value *none = xcc_num(d, X, 0), *one = xcc_num(d, X, 1);
    xcc_value *zero_x = xcc_op2(d, XCVM_OP_Equal, X, none), *zero_u = xcc_op2(d, XCVM_OP_Equal, UPDATES, none);
    xcc_value *x = xcc_where(d, zero_x, one, X), *u = xcc_where(d, zero_u, one, UPDATES);
    xcc_value *product = write(p, x, u, XCVM_REDUCTION_mul);
    xcc_value *zeros = write(p, mark(d, zero_x), mark(d, zero_u), XCVM_REDUCTION_add);
    if (xcc_wanted(d, 0)) {
        xcc_value *alone = xcc_op2(d, XCVM_OP_Equal, xcc_sub(d, zeros, mark(d, zero_x)), none);
        xcc_set_gradient(d, 0, xcc_mul(d, G, xcc_where(d, alone, xcc_div(d, product, x), none)));
    }
    if (xcc_wanted(d, 2)) {
        xcc_value *alone = xcc_op2(d, XCVM_OP_Equal, xcc_sub(d, read(p, zeros), mark(d, zero_u)), none);
        xcc_set_gradient(d, 2, xcc_mul(d, read(p, G), xcc_where(d, alone, xcc_div(d, read(p, product), u), none)));
    }
}

/* Equal extremes share the gradient, including x. */
static void extremes(const places *p)
{
    xcc_vjp *d = p->d;
    xcc_value *none = xcc_num(d, X, 0);
    xcc_value *x_won = xcc_op2(d, XCVM_OP_Equal, X, Y), *u_won = xcc_op2(d, XCVM_OP_Equal, UPDATES, read(p, Y));
    xcc_value *share = xcc_div(d, G, write(p, mark(d, x_won), mark(d, u_won), XCVM_REDUCTION_add));
    if (xcc_wanted(d, 0))
        xcc_set_gradient(d, 0, xcc_where(d, x_won, share, none));
    if (xcc_wanted(d, 2))
        xcc_set_gradient(d, 2, xcc_where(d, u_won, read(p, share), none));
}

static void scatter(const places *p)
{
    xcc_vjp *d = p->d;
    switch (p->reduction) {
    case XCVM_REDUCTION_none:
        overwrite(p);
        break;
    case XCVM_REDUCTION_add:
        if (xcc_wanted(d, 0))
            xcc_set_gradient(d, 0, G);
        if (xcc_wanted(d, 2))
            xcc_set_gradient(d, 2, read(p, G));
        break;
    case XCVM_REDUCTION_mul:
        multiply(p);
        break;
    default:
        extremes(p);
        break;
    }
}

XCC_GRADIENT(ScatterElements)
{
    const xcvm_ScatterElements_args *a = XCC_ARGS(ScatterElements, d->node);
    scatter(&(places){d, false, a->axis, a->reduction});
}

XCC_GRADIENT(ScatterND)
{
    const xcvm_ScatterND_args *a = XCC_ARGS(ScatterND, d->node);
    scatter(&(places){d, true, 0, a->reduction});
}
