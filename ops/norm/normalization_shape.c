/* Shape rules of normalizations. */
#include "ops/util/shape.h"

/* Checks that a per-channel operand is a vector with one element per channel of x. */
static xcvm_status check_channels(const xcvm_inference *t, const xcvm_value *v, const char *what, int64_t channels)
{
    XCVM_CHECK(t->error, v->rank < 0 || v->rank == 1, SHAPE_MISMATCH, "%s has the wrong rank (%d; expected 1)", what,
               v->rank);
    XCVM_CHECK(t->error, v->rank < 0 || !xcvm_dims_differ(v->dims[0], channels), SHAPE_MISMATCH,
               "%s has %lld elements, but x has %lld channels", what, (long long)v->dims[0], (long long)channels);
    return XCVM_OK;
}

/* Sets the results of a BatchNormalization, whose first operands are x, scale, b, mean and var. */
static xcvm_status infer_batch(const xcvm_inference *t, xcvm_value *y, xcvm_value *running_mean,
                               xcvm_value *running_var)
{
    static const char *const names[] = {"scale", "b", "mean", "var"};
    const xcvm_value *x = t->in[0], *const *vectors = t->in + 1;
    XCVM_CHECK(t->error, x->rank < 0 || x->rank >= 2, SHAPE_MISMATCH, "x has the wrong rank (%d; expected at least 2)",
               x->rank);
    for (size_t i = 0; i < 4; i++)
        XCVM_TRY(check_channels(t, vectors[i], names[i], x->rank < 0 ? XCVM_ANY_DIM : x->dims[1]));
    xcvm_value_set_tensor(y, x->dtype, x->rank, x->dims);
    if (running_mean != NULL)
        xcvm_value_set_tensor(running_mean, vectors[2]->dtype, vectors[2]->rank, vectors[2]->dims);
    if (running_var != NULL)
        xcvm_value_set_tensor(running_var, vectors[3]->dtype, vectors[3]->rank, vectors[3]->dims);
    return XCVM_OK;
}

/* Sets the results of its gradient, whose first operands are g, x and scale. */
static xcvm_status infer_batch_gradient(const xcvm_inference *t, xcvm_value *dx, xcvm_value *dscale, xcvm_value *db)
{
    const xcvm_value *g = t->in[0], *x = t->in[1], *scale = t->in[2];
    XCVM_CHECK(t->error, x->rank < 0 || x->rank >= 2, SHAPE_MISMATCH, "x has the wrong rank (%d; expected at least 2)",
               x->rank);
    char of_g[192], of_x[192];
    XCVM_CHECK(t->error, !xcvm_shapes_differ(x, g), SHAPE_MISMATCH, "g has shape %s, but x has shape %s",
               xcvm_dims_describe(g->rank, g->dims, of_g, sizeof of_g),
               xcvm_dims_describe(x->rank, x->dims, of_x, sizeof of_x));
    XCVM_TRY(check_channels(t, scale, "scale", x->rank < 0 ? XCVM_ANY_DIM : x->dims[1]));
    xcvm_value_set_tensor(dx, x->dtype, x->rank, x->dims);
    if (dscale != NULL)
        xcvm_value_set_tensor(dscale, scale->dtype, scale->rank, scale->dims);
    if (db != NULL)
        xcvm_value_set_tensor(db, scale->dtype, scale->rank, scale->dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(BatchNormalization) { return infer_batch(t, a->y, a->running_mean, a->running_var); }

XCVM_SHAPE_RULE_OF(BatchNormalizationGradient) { return infer_batch_gradient(t, a->dx, a->dscale, a->db); }

/* Size of statistics: an element count, then a mean and a variance for each channel of x. */
static int64_t statistics_count(const xcvm_value *x)
{
    const int64_t channels = x->rank < 2 ? XCVM_ANY_DIM : x->dims[1];
    return channels >= 0 ? 2 * channels + 1 : XCVM_ANY_DIM;
}

XCVM_SHAPE_RULE_OF(SyncBatchNormalization)
{
    XCVM_TRY(infer_batch(t, a->y, a->running_mean, a->running_var));
    if (a->statistics != NULL)
        xcvm_value_set_tensor(a->statistics, XCVM_F64, 1, (const int64_t[]){statistics_count(a->x)});
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(SyncBatchNormalizationGradient)
{
    const xcvm_value *s = a->statistics;
    const int64_t count = statistics_count(a->x);
    XCVM_TRY(infer_batch_gradient(t, a->dx, a->dscale, a->db));
    XCVM_CHECK(t->error, s->rank < 0 || s->rank == 1, SHAPE_MISMATCH, "statistics has the wrong rank (%d; expected 1)",
               s->rank);
    XCVM_CHECK(t->error, s->rank < 0 || !xcvm_dims_differ(s->dims[0], count), SHAPE_MISMATCH,
               "statistics has %lld elements, but x has %lld channels, for which there are %lld", (long long)s->dims[0],
               (long long)a->x->dims[1], (long long)count);
    return XCVM_OK;
}

/* Checks that `v` broadcasts to x without changing its shape. */
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
