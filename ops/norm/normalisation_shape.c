/* Shape rules of normalisations. */
#include "ops/shape.h"

/* Whether a per-channel operand fits the channels of x: a vector of so many elements. */
static xcvm_status check_channels(const xcvm_inference *t, const xcvm_value *v, const char *what, int64_t channels)
{
    XCVM_CHECK(t->error, v->rank < 0 || v->rank == 1, SHAPE_MISMATCH, "%s has rank %d, 1 is needed", what, v->rank);
    XCVM_CHECK(t->error, v->rank < 0 || !xcvm_dims_differ(v->dims[0], channels), SHAPE_MISMATCH,
               "%s has %lld elements, but x has %lld channels", what, (long long)v->dims[0], (long long)channels);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(BatchNormalization)
{
    XCVM_CHECK(t->error, a->x->rank < 0 || a->x->rank >= 2, SHAPE_MISMATCH, "x has rank %d, at least 2 is needed",
               a->x->rank);
    int64_t channels = a->x->rank < 0 ? XCVM_ANY_DIM : a->x->dims[1];
    XCVM_TRY(check_channels(t, a->scale, "scale", channels));
    XCVM_TRY(check_channels(t, a->b, "b", channels));
    XCVM_TRY(check_channels(t, a->mean, "mean", channels));
    XCVM_TRY(check_channels(t, a->var, "var", channels));
    xcvm_value_set_tensor(a->y, a->x->dtype, a->x->rank, a->x->dims);
    if (a->running_mean != NULL)
        xcvm_value_set_tensor(a->running_mean, a->mean->dtype, a->mean->rank, a->mean->dims);
    if (a->running_var != NULL)
        xcvm_value_set_tensor(a->running_var, a->var->dtype, a->var->rank, a->var->dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(BatchNormalizationGradient)
{
    const xcvm_value *x = a->x, *g = a->g;
    XCVM_CHECK(t->error, x->rank < 0 || x->rank >= 2, SHAPE_MISMATCH, "x has rank %d, at least 2 is needed", x->rank);
    char of_g[192], of_x[192];
    XCVM_CHECK(t->error, !xcvm_shapes_differ(x, g), SHAPE_MISMATCH, "g has shape %s, but x has shape %s",
               xcvm_dims_describe(g->rank, g->dims, of_g, sizeof of_g),
               xcvm_dims_describe(x->rank, x->dims, of_x, sizeof of_x));
    XCVM_TRY(check_channels(t, a->scale, "scale", x->rank < 0 ? XCVM_ANY_DIM : x->dims[1]));
    xcvm_value_set_tensor(a->dx, x->dtype, x->rank, x->dims);
    if (a->dscale != NULL)
        xcvm_value_set_tensor(a->dscale, a->scale->dtype, a->scale->rank, a->scale->dims);
    if (a->db != NULL)
        xcvm_value_set_tensor(a->db, a->scale->dtype, a->scale->rank, a->scale->dims);
    return XCVM_OK;
}

/* Whether `v` broadcasts to x without changing its shape. */
static xcvm_status check_broadcast(const xcvm_inference *t, const xcvm_value *v, const char *what)
{
    const xcvm_value *x = t->in[0];
    if (v == NULL || v->rank < 0 || x->rank < 0)
        return XCVM_OK;
    bool fits = v->rank <= x->rank;
    for (int i = 0; i < v->rank && fits; i++)
        fits = v->dims[i] == 1 || !xcvm_dims_differ(v->dims[i], x->dims[x->rank - v->rank + i]);
    char of_v[192], of_x[192];
    XCVM_CHECK(t->error, fits, SHAPE_MISMATCH, "%s of shape %s does not broadcast to x of shape %s", what,
               xcvm_dims_describe(v->rank, v->dims, of_v, sizeof of_v),
               xcvm_dims_describe(x->rank, x->dims, of_x, sizeof of_x));
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(LayerNormalization)
{
    XCVM_CHECK(t->error, xcvm_dtype_is_float(a->stash_type), INVALID_ARGUMENT, "stash_type is %s, no float type",
               xcvm_dtype_name(a->stash_type));
    XCVM_TRY(check_broadcast(t, a->scale, "scale"));
    XCVM_TRY(check_broadcast(t, a->b, "b"));
    xcvm_value_set_tensor(a->y, a->x->dtype, a->x->rank, a->x->dims);
    int64_t dims[XCVM_MAX_RANK];
    int rank = a->x->rank, axis = 0;
    if (rank >= 0)
        XCVM_TRY(xcvm_resolve_axis(t->error, a->axis, rank, &axis));
    for (int i = 0; i < rank; i++)
        dims[i] = i < axis ? a->x->dims[i] : 1;
    if (a->mean != NULL)
        xcvm_value_set_tensor(a->mean, a->stash_type, rank, dims);
    if (a->inv_std_dev != NULL)
        xcvm_value_set_tensor(a->inv_std_dev, a->stash_type, rank, dims);
    return XCVM_OK;
}
