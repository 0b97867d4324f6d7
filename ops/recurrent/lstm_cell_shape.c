/* Shape rules of LSTMCell and its gradient. */
#include "ops/recurrent/lstm_cell.h"
#include "ops/util/shape.h"

/* Derives the shape of a state from x: the same except for the last axis, which has one unit per group of gates. */
static xcvm_status read_state(const xcvm_inference *t, const xcvm_value *x, int64_t children, xcvm_value *state)
{
    const int64_t gates = (int64_t)xcvm_lstm_gates((size_t)children);
    xcvm_value_set_tensor(state, (xcvm_dtype)x->dtype, x->rank, x->dims);
    if (x->rank < 0)
        return XCVM_OK;
    XCVM_CHECK(t->error, x->rank >= 1, SHAPE_MISMATCH, "x has the wrong rank (0; expected at least 1)");
    int64_t *units = &state->dims[x->rank - 1];
    XCVM_CHECK(t->error, *units < 0 || *units % gates == 0, SHAPE_MISMATCH,
               "x has %lld columns, which is not a multiple of the %lld gates of a unit", (long long)*units,
               (long long)gates);
    *units = *units < 0 ? XCVM_ANY_DIM : *units / gates;
    return XCVM_OK;
}

/* Checks an operand with a state's shape, and merges its known dimensions into it. */
static xcvm_status agree(const xcvm_inference *t, const xcvm_value *v, const char *what, xcvm_value *state)
{
    if (v == NULL || v->rank < 0)
        return XCVM_OK;
    char given[192], expected[192];
    XCVM_CHECK(t->error, !xcvm_shapes_differ(v, state), SHAPE_MISMATCH, "%s has the wrong shape (%s; expected %s)",
               what, xcvm_dims_describe(v->rank, v->dims, given, sizeof given),
               xcvm_dims_describe(state->rank, state->dims, expected, sizeof expected));
    if (state->rank < 0)
        xcvm_value_set_tensor(state, (xcvm_dtype)state->dtype, v->rank, v->dims);
    for (int i = 0; i < v->rank; i++)
        (void)xcvm_dims_agree(&state->dims[i], v->dims[i]);
    return XCVM_OK;
}

static xcvm_status read_children(const xcvm_inference *t, const xcvm_inputs *c_prev, int64_t children,
                                 xcvm_value *state)
{
    XCVM_CHECK(t->error, c_prev->count <= (size_t)children, SHAPE_MISMATCH,
               "there are %zu c_prev, but x has the gates of %lld children", c_prev->count, (long long)children);
    for (size_t i = 0; i < c_prev->count; i++)
        XCVM_TRY(agree(t, c_prev->at[i], "c_prev", state));
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(LSTMCell)
{
    xcvm_value state;
    XCVM_TRY(read_state(t, a->x, a->children, &state));
    XCVM_TRY(read_children(t, &a->c_prev, a->children, &state));
    xcvm_value_set_tensor(a->h, (xcvm_dtype)a->x->dtype, state.rank, state.dims);
    xcvm_value_set_tensor(a->c, (xcvm_dtype)a->x->dtype, state.rank, state.dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(LSTMCellGradient)
{
    xcvm_value state;
    XCVM_TRY(read_state(t, a->x, a->children, &state));
    XCVM_TRY(read_children(t, &a->c_prev, a->children, &state));
    XCVM_TRY(agree(t, a->c, "c", &state));
    XCVM_TRY(agree(t, a->dh, "dh", &state));
    XCVM_TRY(agree(t, a->dc, "dc", &state));
    XCVM_CHECK(t->error, a->dc_prev.count == a->c_prev.count, SHAPE_MISMATCH, "there are %zu dc_prev, but %zu c_prev",
               a->dc_prev.count, a->c_prev.count);
    xcvm_value_set_tensor(a->dx, (xcvm_dtype)a->x->dtype, a->x->rank, a->x->dims);
    for (size_t i = 0; i < a->dc_prev.count; i++)
        xcvm_value_set_tensor(a->dc_prev.at[i], (xcvm_dtype)a->x->dtype, state.rank, state.dims);
    return XCVM_OK;
}
