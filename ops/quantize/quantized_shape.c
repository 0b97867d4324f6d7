/* Shape rules of instructions for quantized integer regions. Images are batch x height x width x channels. */
#include "ops/conv/window.h"
#include "ops/quantize/quantized_panels.h"

enum { IMAGE_RANK = 4, AXES = 2 };

static xcvm_status check_rank(const xcvm_inference *t, const xcvm_value *v, const char *what, int rank)
{
    XCVM_CHECK(t->error, v->rank < 0 || v->rank == rank, SHAPE_MISMATCH, "%s has the wrong rank (%d; expected %d)",
               what, v->rank, rank);
    return XCVM_OK;
}

/* Checks a vector with one number for each of `count` outputs, which may be unknown. */
static xcvm_status check_numbers(const xcvm_inference *t, const xcvm_value *v, const char *what, int64_t *count)
{
    if (v == NULL)
        return XCVM_OK;
    XCVM_TRY(check_rank(t, v, what, 1));
    const int64_t given = v->rank == 1 ? v->dims[0] : XCVM_ANY_DIM;
    XCVM_CHECK(t->error, !xcvm_dims_differ(given, *count), SHAPE_MISMATCH, "%s has %lld numbers, b has %lld", what,
               (long long)given, (long long)*count);
    if (*count < 0)
        *count = given;
    return XCVM_OK;
}

static xcvm_status check_bounds(const xcvm_inference *t, int64_t low, int64_t high)
{
    XCVM_CHECK(t->error, low <= high, INVALID_ARGUMENT, "low is %lld, greater than high, %lld", (long long)low,
               (long long)high);
    return XCVM_OK;
}

/* Checks w, in the layout of ops/quantize/quantized_panels.h, with that many panels and lines. */
static xcvm_status check_panels(const xcvm_inference *t, const xcvm_value *w, size_t panels, size_t lines)
{
    char given[96], expected[96];
    const int64_t dims[] = {(int64_t)panels, (int64_t)lines, XCVM_QUANTIZED_OUTPUTS, XCVM_QUAD};
    if (w->rank < 0)
        return XCVM_OK;
    bool fits = w->rank == 4;
    for (int i = 0; i < 4 && fits; i++)
        fits = !xcvm_dims_differ(w->dims[i], dims[i]);
    XCVM_CHECK(t->error, fits, SHAPE_MISMATCH, "w has the wrong shape (%s; expected %s)",
               xcvm_dims_describe(w->rank, w->dims, given, sizeof given),
               xcvm_dims_describe(4, dims, expected, sizeof expected));
    return XCVM_OK;
}

/* Sets y to the result of a window over x with the given channels. */
static xcvm_status slide(const xcvm_inference *t, const xcvm_value *x, const xcvm_window_attributes *a, bool ceil,
                         int64_t channels, xcvm_value *y)
{
    int64_t dims[] = {XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_ANY_DIM, channels};
    XCVM_TRY(check_rank(t, x, "x", IMAGE_RANK));
    XCVM_TRY(xcvm_window_attributes_check(t, AXES, a));
    if (x->rank == IMAGE_RANK) {
        dims[0] = x->dims[0];
        for (int i = 0; i < AXES; i++)
            XCVM_TRY(xcvm_window_slide(t, x->dims[1 + i], a, i, ceil, &dims[1 + i]));
    }
    xcvm_value_set_tensor(y, XCVM_U8, IMAGE_RANK, dims);
    return XCVM_OK;
}

static int64_t channels_of(const xcvm_value *x) { return x->rank == IMAGE_RANK ? x->dims[3] : XCVM_ANY_DIM; }

XCVM_SHAPE_RULE_OF(QuantizedConv)
{
    const xcvm_window_attributes window = {a->kernel_shape, a->strides, a->pads, a->dilations};
    int64_t outputs = XCVM_ANY_DIM;
    XCVM_TRY(check_numbers(t, a->b, "b", &outputs));
    XCVM_TRY(check_numbers(t, a->scale, "scale", &outputs));
    XCVM_TRY(check_bounds(t, a->low, a->high));
    XCVM_TRY(slide(t, a->x, &window, false, outputs, a->y));
    const int64_t channels = channels_of(a->x);
    XCVM_CHECK(t->error, channels < 0 || channels % a->group == 0, SHAPE_MISMATCH,
               "x has %lld channels, which do not make %lld groups", (long long)channels, (long long)a->group);
    XCVM_CHECK(t->error, outputs < 0 || outputs % a->group == 0, SHAPE_MISMATCH,
               "there are %lld outputs, which do not make %lld groups", (long long)outputs, (long long)a->group);
    size_t positions;
    XCVM_CHECK(t->error,
               xcvm_size_mul((size_t)a->kernel_shape.at[0], (size_t)a->kernel_shape.at[1], &positions) &&
                   (channels < 0 || xcvm_size_mul(positions, (size_t)channels + XCVM_QUAD, &positions)),
               OUT_OF_RANGE, "the window is too large");
    if (channels < 0 || outputs < 0)
        return XCVM_OK;
    const xcvm_quantized_runs runs =
        xcvm_quantized_runs_of((size_t)a->kernel_shape.at[0], (size_t)a->kernel_shape.at[1], (size_t)a->dilations.at[1],
                               (size_t)(channels / a->group), (size_t)a->group);
    return check_panels(t, a->w, (size_t)a->group * xcvm_quantized_panels((size_t)(outputs / a->group)),
                        runs.segments * runs.quads);
}

XCVM_SHAPE_RULE_OF(QuantizedDepthwiseConv)
{
    int64_t channels = XCVM_ANY_DIM, kernel[] = {XCVM_ANY_DIM, XCVM_ANY_DIM};
    XCVM_TRY(check_numbers(t, a->b, "b", &channels));
    XCVM_TRY(check_numbers(t, a->scale, "scale", &channels));
    XCVM_TRY(check_bounds(t, a->low, a->high));
    XCVM_TRY(check_rank(t, a->w, "w", 3));
    if (a->w->rank == 3) {
        memcpy(kernel, a->w->dims, sizeof kernel);
        XCVM_CHECK(t->error, !xcvm_dims_differ(a->w->dims[2], channels), SHAPE_MISMATCH,
                   "w has %lld channels, b has %lld numbers", (long long)a->w->dims[2], (long long)channels);
    }
    XCVM_CHECK(t->error, !xcvm_dims_differ(channels_of(a->x), channels), SHAPE_MISMATCH,
               "x has %lld channels, b has %lld numbers", (long long)channels_of(a->x), (long long)channels);
    const xcvm_window_attributes window = {{kernel, AXES}, a->strides, a->pads, a->dilations};
    return slide(t, a->x, &window, false, channels, a->y);
}

XCVM_SHAPE_RULE_OF(QuantizedGemm)
{
    int64_t columns = XCVM_ANY_DIM, dims[XCVM_MAX_RANK];
    XCVM_TRY(check_numbers(t, a->b, "b", &columns));
    XCVM_TRY(check_numbers(t, a->scale, "scale", &columns));
    XCVM_TRY(check_numbers(t, a->shift, "shift", &columns));
    XCVM_TRY(check_bounds(t, a->low, a->high));
    XCVM_CHECK(t->error, xcvm_dtype_in(a->output_dtype, XCVM_TYPES_U8_F32), INVALID_ARGUMENT,
               "output_dtype is not supported (%s; expected u8 or f32)", xcvm_dtype_name(a->output_dtype));
    const xcvm_value *x = a->a;
    XCVM_CHECK(t->error, x->rank != 0, SHAPE_MISMATCH, "a is a scalar (rank 0; expected a matrix)");
    if (x->rank < 0) {
        xcvm_set_unknown(a->y, a->output_dtype, -1);
        return XCVM_OK;
    }
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    const int64_t depth = dims[x->rank - 1];
    dims[x->rank - 1] = columns;
    xcvm_value_set_tensor(a->y, a->output_dtype, x->rank, dims);
    if (depth < 0 || columns < 0)
        return XCVM_OK;
    const xcvm_quantized_runs runs = xcvm_quantized_runs_of(1, 1, 1, (size_t)depth, 1);
    return check_panels(t, a->w, xcvm_quantized_panels((size_t)columns), runs.quads);
}

XCVM_SHAPE_RULE_OF(Lookup)
{
    XCVM_TRY(check_rank(t, a->table, "table", 1));
    XCVM_CHECK(t->error, a->table->rank < 0 || !xcvm_dims_differ(a->table->dims[0], 256), SHAPE_MISMATCH,
               "table has the wrong number of elements (%lld; expected 256)", (long long)a->table->dims[0]);
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->table->dtype, a->x->rank, a->x->dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(QuantizedMaxPool)
{
    const xcvm_window_attributes window = {a->kernel_shape, a->strides, a->pads, a->dilations};
    return slide(t, a->x, &window, a->ceil_mode != 0, channels_of(a->x), a->y);
}

XCVM_SHAPE_RULE_OF(QuantizedAveragePool)
{
    static const int64_t ones[] = {1, 1};
    XCVM_TRY(check_bounds(t, a->low, a->high));
    if (a->kernel_shape.count == 0) {
        const int64_t dims[] = {a->x->rank == IMAGE_RANK ? a->x->dims[0] : XCVM_ANY_DIM, 1, 1, channels_of(a->x)};
        XCVM_TRY(check_rank(t, a->x, "x", IMAGE_RANK));
        XCVM_CHECK(t->error, a->x->rank < 0 || (a->x->dims[1] != 0 && a->x->dims[2] != 0), SHAPE_MISMATCH,
                   "x has no positions, of which there is no mean");
        xcvm_value_set_tensor(a->y, XCVM_U8, IMAGE_RANK, dims);
        return XCVM_OK;
    }
    const xcvm_window_attributes window = {a->kernel_shape, a->strides, a->pads, {ones, AXES}};
    return slide(t, a->x, &window, a->ceil_mode != 0, channels_of(a->x), a->y);
}
