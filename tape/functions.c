/* Functions that are composed of several op calls. */
#include "tape/tape.h"
#include "xcvm/functions.h"
#include "xcvm/layers.h"

static int rank_of(xcvm_tape *t, xcvm_var x)
{
    const tape_variable *v = tape_is_unusable(t) ? NULL : tape_resolve(t, x, "the operand of a function");
    return v != NULL ? tape_variable_type(v)->rank : -1;
}

static xcvm_dtype dtype_of(xcvm_tape *t, xcvm_var x)
{
    const tape_variable *v = tape_is_unusable(t) ? NULL : tape_resolve(t, x, "the operand of a function");
    return v != NULL ? (xcvm_dtype)tape_variable_type(v)->dtype : XCVM_F32;
}

/* A scalar of the type of x. */
static xcvm_var number_like(xcvm_tape *t, xcvm_var x, double number)
{
    const xcvm_dtype dtype = dtype_of(t, x);
    return xcvm_tape_scalar(t, dtype, number);
}

xcvm_var xcvm_tape_pick_neg_log_softmax(xcvm_tape *tape, xcvm_var scores, xcvm_var target)
{
    if (!TAPE_ENTER(tape, xcvm_tape_pick_neg_log_softmax))
        return TAPE_FAILED;
    const int rank = rank_of(tape, scores);
    if (rank > 2)
        tape_fail(tape, XCVM_SHAPE_MISMATCH, "scores of rank %d; they are of [classes], or of [batch, classes]", rank);
    if (rank > 1)
        return xcvm_NegativeLogLikelihoodLoss(tape, xcvm_LogSoftmax(tape, scores), target,
                                              .reduction = XCVM_LOSS_REDUCTION_none);
    return xcvm_Neg(tape, xcvm_Gather(tape, xcvm_LogSoftmax(tape, scores), target));
}

xcvm_var xcvm_tape_affine_transform(xcvm_tape *tape, size_t count, const xcvm_var *terms)
{
    if (!TAPE_ENTER(tape, xcvm_tape_affine_transform))
        return TAPE_FAILED;
    if (count % 2 == 0 || terms == NULL) {
        tape_fail(tape, XCVM_INVALID_ARGUMENT, "an affine transform of %zu terms; it has an odd number", count);
        return TAPE_FAILED;
    }
    xcvm_var y = terms[0];
    for (size_t i = 1; i < count; i += 2)
        y = xcvm_Add(tape, y, xcvm_MatMul(tape, terms[i], terms[i + 1]));
    return y;
}

xcvm_var xcvm_tape_hinge(xcvm_tape *tape, xcvm_var scores, xcvm_var target, double margin)
{
    if (!TAPE_ENTER(tape, xcvm_tape_hinge))
        return TAPE_FAILED;
    const xcvm_var room = number_like(tape, scores, margin);
    const xcvm_var best = xcvm_Gather(tape, scores, target);
    const xcvm_var losses = xcvm_Relu(tape, xcvm_Add(tape, xcvm_Sub(tape, scores, best), room));
    /* The target's own loss is the margin, for any scores. */
    const xcvm_var own = xcvm_Relu(tape, room);
    return xcvm_Sub(tape, xcvm_ReduceSum(tape, losses, .keepdims = 0), own);
}

/* ---- Scaled gradients ---- */

static xcvm_status scale_forward(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in, size_t out_count,
                                 xcvm_var *out)
{
    (void)user;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_var_detach(tape, in[0]);
    return XCVM_OK;
}

static xcvm_status scale_backward(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in, size_t out_count,
                                  const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    (void)user;
    (void)in_count;
    (void)out_count;
    (void)out;
    in_gradients[0] = out_gradients[0].at != NULL ? xcvm_Mul(tape, out_gradients[0], in[1]) : XCVM_ABSENT;
    return XCVM_OK;
}

xcvm_var xcvm_tape_scale_gradient(xcvm_tape *tape, xcvm_var x, double scale)
{
    static const xcvm_operation operation = {
        .size = sizeof operation, .name = "scale_gradient", .forward = scale_forward, .backward = scale_backward};
    if (!TAPE_ENTER(tape, xcvm_tape_scale_gradient))
        return TAPE_FAILED;
    const xcvm_var in[] = {x, number_like(tape, x, scale)};
    xcvm_var y;
    return xcvm_tape_call_operation(tape, &operation, 2, in, 1, &y);
}
