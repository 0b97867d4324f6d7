/* Geometry and shape rules of convolutions and pools. */
#include "ops/conv/window.h"
#include "ops/elementwise/activation.h"
#include "ops/conv/blocked.h"

/* ---- Geometry ---- */

xcvm_window xcvm_window_of(const xcvm_value *x, const xcvm_value *y, const xcvm_window_attributes *a)
{
    xcvm_window w = {.in_size = 1, .out_size = 1, .kernel_size = 1};
    const int axes = x->rank - 2, before = XCVM_WINDOW_AXES - axes;
    for (int i = 0; i < XCVM_WINDOW_AXES; i++) {
        const int at = i - before;
        w.in[i] = at < 0 ? 1 : (size_t)x->dims[2 + at];
        w.out[i] = at < 0 ? 1 : (size_t)y->dims[2 + at];
        w.kernel[i] = at < 0 ? 1 : (size_t)a->kernel.at[at];
        w.stride[i] = at < 0 ? 1 : (size_t)a->strides.at[at];
        w.dilation[i] = at < 0 ? 1 : (size_t)a->dilations.at[at];
        w.pad[i] = at < 0 ? 0 : (ptrdiff_t)a->pads.at[at];
        w.pad_end[i] = at < 0 ? 0 : (ptrdiff_t)a->pads.at[axes + at];
        w.in_size *= w.in[i];
        w.out_size *= w.out[i];
        w.kernel_size *= w.kernel[i];
    }
    return w;
}

xcvm_conv_shape xcvm_conv_shape_of(const xcvm_value *x, const xcvm_value *w, const xcvm_value *y, xcvm_ints strides,
                                   xcvm_ints pads, xcvm_ints dilations, int64_t group)
{
    const xcvm_window_attributes a = {{w->dims + 2, (size_t)(w->rank - 2)}, strides, pads, dilations};
    return (xcvm_conv_shape){.window = xcvm_window_of(x, y, &a),
                             .batch = (size_t)x->dims[0],
                             .group = (size_t)group,
                             .channels = (size_t)w->dims[1],
                             .outputs = (size_t)(w->dims[0] / group)};
}

/* ---- Automatic padding ---- */

static bool is_same(int auto_pad)
{
    return auto_pad == XCVM_AUTO_PAD_SAME_UPPER || auto_pad == XCVM_AUTO_PAD_SAME_LOWER;
}

xcvm_ints xcvm_window_pads(int auto_pad, const xcvm_value *x, const xcvm_window_attributes *a,
                           int64_t room[2 * XCVM_MAX_RANK])
{
    const size_t axes = a->kernel.count;
    if (auto_pad == XCVM_AUTO_PAD_NOTSET)
        return a->pads;
    for (size_t i = 0; i < axes; i++) {
        const int64_t in = x->dims[2 + i], stride = a->strides.at[i];
        int64_t total = 0;
        if (is_same(auto_pad) && in > 0)
            total = (in - 1) / stride * stride + (a->kernel.at[i] - 1) * a->dilations.at[i] + 1 - in;
        total = total > 0 ? total : 0;
        room[i] = auto_pad == XCVM_AUTO_PAD_SAME_UPPER ? total / 2 : total - total / 2;
        room[axes + i] = total - room[i];
    }
    return (xcvm_ints){room, 2 * axes};
}

/* Returns true if the size of y is given, and determines the pads. */
static bool is_sized(const xcvm_ConvTranspose_args *a) { return a->output_shape.count > 0 || is_same(a->auto_pad); }

/* That size on spatial axis i; XCVM_ANY_DIM if unknown. */
static int64_t size_asked(const xcvm_ConvTranspose_args *a, size_t i)
{
    int64_t size = XCVM_ANY_DIM;
    if (i < a->output_shape.count)
        size = a->output_shape.at[i];
    else if (a->x->dims[2 + i] >= 0 && __builtin_mul_overflow(a->x->dims[2 + i], a->strides.at[i], &size))
        size = INT64_MAX;
    return size;
}

xcvm_ints xcvm_transposed_pads(const xcvm_ConvTranspose_args *a, int64_t room[2 * XCVM_MAX_RANK])
{
    const size_t axes = a->strides.count;
    if (!is_sized(a) && a->auto_pad != XCVM_AUTO_PAD_VALID)
        return a->pads;
    for (size_t i = 0; i < axes; i++) {
        const int64_t in = a->x->dims[2 + i], kernel = a->w->dims[2 + i], size = size_asked(a, i);
        int64_t total = 0, spread;
        /* If this overflows, so does the size of y, and its shape rule fails. */
        if (is_sized(a) && in > 0 && kernel > 0 && size >= 0 &&
            (__builtin_mul_overflow(in - 1, a->strides.at[i], &spread) ||
             __builtin_mul_overflow(kernel - 1, a->dilations.at[i], &total) ||
             __builtin_add_overflow(total, spread, &total) ||
             __builtin_add_overflow(total, a->output_padding.at[i] + 1, &total) ||
             __builtin_sub_overflow(total, size, &total)))
            total = 0;
        room[i] = total < 0 ? 0 : a->auto_pad == XCVM_AUTO_PAD_SAME_UPPER ? total / 2 : total - total / 2;
        room[axes + i] = total - room[i];
    }
    return (xcvm_ints){room, 2 * axes};
}

/* ---- Shape rules ---- */

static xcvm_status check_auto_pad(const xcvm_inference *t, xcvm_ints pads, bool automatic)
{
    XCVM_CHECK(t->error, !automatic || pads.count == 0, INVALID_ARGUMENT,
               "pads are given, and auto_pad or output_shape besides");
    return XCVM_OK;
}

/* Sizes up to this limit can be added and doubled without overflow. */
#define LARGEST (INT64_MAX / 8)

static xcvm_status check_counts(const xcvm_inference *t, int axes, const xcvm_window_attributes *a)
{
    const size_t n = (size_t)axes;
    XCVM_CHECK(t->error, a->kernel.count == n, SHAPE_MISMATCH, "the window has %zu axes, x has %d spatial ones",
               a->kernel.count, axes);
    XCVM_CHECK(t->error, a->strides.count == n && a->dilations.count == n, INVALID_ARGUMENT,
               "there are %zu strides and %zu dilations for %d spatial axes", a->strides.count, a->dilations.count,
               axes);
    return XCVM_OK;
}

xcvm_status xcvm_window_attributes_check(const xcvm_inference *t, int axes, const xcvm_window_attributes *a)
{
    const size_t n = (size_t)axes;
    XCVM_TRY(check_counts(t, axes, a));
    XCVM_CHECK(t->error, a->pads.count == 2 * n, INVALID_ARGUMENT,
               "pads has the wrong number of entries (%zu for %d spatial axes; expected %zu)", a->pads.count, axes,
               2 * n);
    return XCVM_OK;
}

/* Extent of a window, (kernel - 1) * dilation + 1. */
static xcvm_status extent(const xcvm_inference *t, int64_t kernel, int64_t dilation, int64_t *size)
{
    XCVM_CHECK(t->error, kernel >= 1, SHAPE_MISMATCH, "the window has size %lld along one axis", (long long)kernel);
    XCVM_CHECK(t->error, !__builtin_mul_overflow(kernel - 1, dilation, size) && *size < LARGEST, OUT_OF_RANGE,
               "the window is too large");
    *size += 1;
    return XCVM_OK;
}

xcvm_status xcvm_window_slide(const xcvm_inference *t, int64_t in, const xcvm_window_attributes *a, int axis, bool ceil,
                              int64_t *out)
{
    const int64_t stride = a->strides.at[axis], before = a->pads.at[axis];
    int64_t reach;
    *out = XCVM_ANY_DIM;
    if (a->kernel.at[axis] < 0)
        return XCVM_OK;
    XCVM_TRY(extent(t, a->kernel.at[axis], a->dilations.at[axis], &reach));
    if (in < 0) {
        /* If the padding equals the window's extent minus 1, the output size equals the input size, even if unknown. */
        if (stride == 1 && before + a->pads.at[(size_t)axis + a->kernel.count] == reach - 1)
            *out = in;
        return XCVM_OK;
    }
    XCVM_CHECK(t->error, in < LARGEST, OUT_OF_RANGE, "x is too large");
    const int64_t padded = in + before + a->pads.at[(size_t)axis + a->kernel.count];
    XCVM_CHECK(t->error, reach <= padded, SHAPE_MISMATCH,
               "the window reaches over %lld positions of spatial axis %d, x with its padding has %lld",
               (long long)reach, axis, (long long)padded);
    const int64_t room = padded - reach;
    int64_t count = room / stride + 1;
    if (ceil)
        count += room % stride != 0;
    if (ceil && count > 1 && (count - 1) * stride >= in + before)
        count--;
    *out = count;
    return XCVM_OK;
}

static xcvm_status check_axes(const xcvm_inference *t, int axes)
{
    XCVM_CHECK(t->error, axes <= XCVM_WINDOW_AXES, UNSUPPORTED, "x has %d spatial axes, up to %d are possible", axes,
               XCVM_WINDOW_AXES);
    return XCVM_OK;
}

typedef struct conv_operands {
    const xcvm_value *x, *w, *b;
    xcvm_value *y;
    int64_t group;
    xcvm_window_attributes attributes;
} conv_operands;

/* The common fields of convolutions, from their argument struct `a`; b is NULL. */
#define CONV_OPERANDS(a)                                                                                               \
    {                                                                                                                  \
        .x = (a)->x, .w = (a)->w, .y = (a)->y, .group = (a)->group, .attributes = {                                    \
            .strides = (a)->strides,                                                                                   \
            .pads = (a)->pads,                                                                                         \
            .dilations = (a)->dilations                                                                                \
        }                                                                                                              \
    }

/* Checks known channels and groups. */
static xcvm_status check_channels(const xcvm_inference *t, const conv_operands *o, int64_t x_channels,
                                  int64_t w_channels, int64_t outputs)
{
    if (x_channels >= 0 && w_channels >= 0) {
        int64_t needed;
        XCVM_CHECK(t->error, !__builtin_mul_overflow(w_channels, o->group, &needed) && needed == x_channels,
                   SHAPE_MISMATCH, "x has %lld channels, w is made for %lld in each of %lld groups",
                   (long long)x_channels, (long long)w_channels, (long long)o->group);
    }
    XCVM_CHECK(t->error, outputs < 0 || outputs % o->group == 0, SHAPE_MISMATCH,
               "%lld channels do not divide into %lld groups", (long long)outputs, (long long)o->group);
    return XCVM_OK;
}

static xcvm_status check_bias(const xcvm_inference *t, const xcvm_value *b, int64_t outputs)
{
    if (b == NULL || b->rank < 0)
        return XCVM_OK;
    XCVM_CHECK(t->error, b->rank == 1, SHAPE_MISMATCH, "b has the wrong rank (%d; expected 1)", b->rank);
    XCVM_CHECK(t->error, b->dims[0] < 0 || outputs < 0 || b->dims[0] == outputs, SHAPE_MISMATCH,
               "b has %lld elements for %lld channels", (long long)b->dims[0], (long long)outputs);
    return XCVM_OK;
}

static xcvm_status check_ranks(const xcvm_inference *t, const xcvm_value *x, const xcvm_value *w)
{
    XCVM_CHECK(t->error, x->rank < 0 || x->rank >= 3, SHAPE_MISMATCH, "x has the wrong rank (%d; expected at least 3)",
               x->rank);
    XCVM_CHECK(t->error, w->rank < 0 || w->rank >= 3, SHAPE_MISMATCH, "w has the wrong rank (%d; expected at least 3)",
               w->rank);
    XCVM_CHECK(t->error, x->rank < 0 || w->rank < 0 || x->rank == w->rank, SHAPE_MISMATCH,
               "x has rank %d and w rank %d; they must be equal", x->rank, w->rank);
    return XCVM_OK;
}

static xcvm_status conv_shape(const xcvm_inference *t, conv_operands *o)
{
    const xcvm_value *x = o->x, *w = o->w;
    XCVM_TRY(check_ranks(t, x, w));
    if (w->rank < 0 || x->rank < 0) {
        xcvm_value_set_tensor(o->y, o->y->dtype, -1, NULL);
        return XCVM_OK;
    }
    XCVM_TRY(check_axes(t, x->rank - 2));
    o->attributes.kernel = (xcvm_ints){w->dims + 2, (size_t)(w->rank - 2)};
    XCVM_TRY(xcvm_window_attributes_check(t, x->rank - 2, &o->attributes));
    XCVM_TRY(check_channels(t, o, x->dims[1], w->dims[1], w->dims[0]));
    XCVM_TRY(check_bias(t, o->b, w->dims[0]));
    int64_t dims[XCVM_MAX_RANK] = {x->dims[0], w->dims[0]};
    for (int i = 0; i < x->rank - 2; i++)
        XCVM_TRY(xcvm_window_slide(t, x->dims[2 + i], &o->attributes, i, false, &dims[2 + i]));
    xcvm_value_set_tensor(o->y, o->y->dtype, x->rank, dims);
    return XCVM_OK;
}

/* Checks for one number, or one per output channel. */
static xcvm_status check_per_channel(const xcvm_inference *t, const xcvm_value *q, int64_t outputs, const char *what)
{
    if (q == NULL || q->rank < 0 || !xcvm_dims_known(q))
        return XCVM_OK;
    const size_t count = xcvm_element_count(q);
    XCVM_CHECK(t->error, q->rank <= 1 && (count == 1 || outputs < 0 || count == (size_t)outputs), SHAPE_MISMATCH,
               "%s has the wrong number of elements (%zu; expected 1, or one for each of %lld channels)", what, count,
               (long long)outputs);
    return XCVM_OK;
}

static xcvm_status check_scalar(const xcvm_inference *t, const xcvm_value *scalar, const char *what)
{
    bool known;
    return scalar != NULL ? xcvm_scalar_check(t->error, scalar, what, &known) : XCVM_OK;
}

static int64_t output_channels(const xcvm_value *w) { return w->rank > 0 ? w->dims[0] : XCVM_ANY_DIM; }

XCVM_SHAPE_RULE(Conv)
{
    if (t->schema->opcode == XCVM_OP_ConvInteger) {
        const xcvm_ConvInteger_args *a = t->args;
        conv_operands o = CONV_OPERANDS(a);
        XCVM_TRY(check_scalar(t, a->x_zero_point, "x_zero_point"));
        XCVM_TRY(check_per_channel(t, a->w_zero_point, output_channels(a->w), "w_zero_point"));
        return conv_shape(t, &o);
    }
    const xcvm_Conv_args *a = t->args;
    conv_operands o = CONV_OPERANDS(a);
    o.b = a->b;
    XCVM_TRY(xcvm_activation_check(t->error, a->activation, a->activation_params));
    XCVM_TRY(xcvm_affine_check(t->error, a->affine));
    XCVM_TRY(conv_shape(t, &o));
    const xcvm_value *y = a->y, *z = a->z;
    if (z != NULL && z->rank >= 0 && y->rank >= 0) {
        bool same = z->rank == y->rank;
        for (int i = 0; same && i < y->rank; i++)
            same = z->dims[i] < 0 || y->dims[i] < 0 || z->dims[i] == y->dims[i];
        char text[96], of[96];
        XCVM_CHECK(t->error, same, SHAPE_MISMATCH, "z has shape %s, the result %s",
                   xcvm_dims_describe(z->rank, z->dims, text, sizeof text),
                   xcvm_dims_describe(y->rank, y->dims, of, sizeof of));
    }
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(QLinearConv)
{
    conv_operands o = CONV_OPERANDS(a);
    o.b = a->b;
    const int64_t outputs = output_channels(a->w);
    XCVM_TRY(check_scalar(t, a->x_scale, "x_scale"));
    XCVM_TRY(check_scalar(t, a->x_zero_point, "x_zero_point"));
    XCVM_TRY(check_per_channel(t, a->w_scale, outputs, "w_scale"));
    XCVM_TRY(check_per_channel(t, a->w_zero_point, outputs, "w_zero_point"));
    XCVM_TRY(check_scalar(t, a->y_scale, "y_scale"));
    XCVM_TRY(check_scalar(t, a->y_zero_point, "y_zero_point"));
    return conv_shape(t, &o);
}

xcvm_status xcvm_window_spread(const xcvm_inference *t, int64_t in, const xcvm_window_attributes *a, int axis,
                               int64_t output_padding, int64_t *out)
{
    int64_t reach, size;
    *out = XCVM_ANY_DIM;
    if (in < 0 || a->kernel.at[axis] < 0)
        return XCVM_OK;
    XCVM_TRY(extent(t, a->kernel.at[axis], a->dilations.at[axis], &reach));
    XCVM_CHECK(t->error, !__builtin_mul_overflow(in - 1, a->strides.at[axis], &size) && size < LARGEST, OUT_OF_RANGE,
               "the result is too large");
    size += reach + output_padding - a->pads.at[axis] - a->pads.at[a->kernel.count + (size_t)axis];
    XCVM_CHECK(t->error, in > 0 && size > 0, SHAPE_MISMATCH, "the result has %lld positions along spatial axis %d",
               (long long)size, axis);
    *out = size;
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(ConvTranspose)
{
    const xcvm_value *x = a->x, *w = a->w;
    const conv_operands o = {.group = a->group};
    XCVM_TRY(check_ranks(t, x, w));
    if (x->rank < 0 || w->rank < 0) {
        xcvm_value_set_tensor(a->y, a->y->dtype, -1, NULL);
        return XCVM_OK;
    }
    const int axes = x->rank - 2;
    XCVM_TRY(check_axes(t, axes));
    XCVM_CHECK(t->error,
               a->strides.count == (size_t)axes && a->output_padding.count == (size_t)axes &&
                   a->dilations.count == (size_t)axes,
               INVALID_ARGUMENT, "there are %zu strides, %zu dilations and %zu output paddings for %d spatial axes",
               a->strides.count, a->dilations.count, a->output_padding.count, axes);
    XCVM_CHECK(t->error, a->output_shape.count == 0 || a->output_shape.count == (size_t)axes, INVALID_ARGUMENT,
               "output_shape has %zu entries for %d spatial axes", a->output_shape.count, axes);
    XCVM_TRY(check_auto_pad(t, a->pads, a->auto_pad != XCVM_AUTO_PAD_NOTSET || a->output_shape.count > 0));
    int64_t room[2 * XCVM_MAX_RANK];
    const xcvm_window_attributes attributes = {
        {w->dims + 2, (size_t)axes}, a->strides, xcvm_transposed_pads(a, room), a->dilations};
    XCVM_TRY(xcvm_window_attributes_check(t, axes, &attributes));
    const int64_t x_channels = x->dims[1];
    XCVM_CHECK(t->error, x_channels < 0 || w->dims[0] < 0 || x_channels == w->dims[0], SHAPE_MISMATCH,
               "x has %lld channels, w is made for %lld", (long long)x_channels, (long long)w->dims[0]);
    XCVM_TRY(check_channels(t, &o, XCVM_ANY_DIM, XCVM_ANY_DIM, x_channels < 0 ? w->dims[0] : x_channels));
    int64_t dims[XCVM_MAX_RANK] = {x->dims[0], XCVM_ANY_DIM};
    if (w->dims[1] >= 0)
        XCVM_CHECK(t->error, !__builtin_mul_overflow(w->dims[1], a->group, &dims[1]), OUT_OF_RANGE, "w is too large");
    XCVM_TRY(check_bias(t, a->b, dims[1]));
    for (int i = 0; i < axes; i++) {
        XCVM_TRY(xcvm_window_spread(t, x->dims[2 + i], &attributes, i, a->output_padding.at[i], &dims[2 + i]));
        if (dims[2 + i] == XCVM_ANY_DIM && is_sized(a))
            dims[2 + i] = size_asked(a, (size_t)i);
    }
    xcvm_value_set_tensor(a->y, a->y->dtype, x->rank, dims);
    return XCVM_OK;
}

/* Windows without a position of g may remain at the end, as with output padding of a transposed convolution. */
static xcvm_status check_met(const xcvm_inference *t, int64_t windows, int64_t size, int axis)
{
    XCVM_CHECK(t->error, windows < 0 || size < 0 || size <= windows, SHAPE_MISMATCH,
               "g has %lld positions along spatial axis %d, x has %lld windows there", (long long)size, axis,
               (long long)windows);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(ConvFilterGradient)
{
    const xcvm_value *x = a->x, *g = a->g;
    const xcvm_window_attributes attributes = {a->kernel_shape, a->strides, a->pads, a->dilations};
    const int rank = x->rank >= 0 ? x->rank : g->rank;
    XCVM_CHECK(t->error, x->rank < 0 || g->rank < 0 || x->rank == g->rank, SHAPE_MISMATCH,
               "x has rank %d and g rank %d; they must be equal", x->rank, g->rank);
    if (rank < 0) {
        xcvm_value_set_tensor(a->y, a->y->dtype, -1, NULL);
        return XCVM_OK;
    }
    XCVM_CHECK(t->error, rank >= 3, SHAPE_MISMATCH, "x has the wrong rank (%d; expected at least 3)", rank);
    XCVM_TRY(check_axes(t, rank - 2));
    XCVM_TRY(xcvm_window_attributes_check(t, rank - 2, &attributes));
    int64_t dims[XCVM_MAX_RANK] = {XCVM_ANY_DIM, XCVM_ANY_DIM};
    if (g->rank >= 0)
        dims[0] = g->dims[1];
    if (x->rank >= 0 && x->dims[1] >= 0)
        dims[1] = x->dims[1] / a->group;
    XCVM_CHECK(t->error, dims[1] < 0 || x->dims[1] % a->group == 0, SHAPE_MISMATCH,
               "%lld channels do not divide into %lld groups", (long long)x->dims[1], (long long)a->group);
    XCVM_CHECK(t->error, dims[0] < 0 || dims[0] % a->group == 0, SHAPE_MISMATCH,
               "%lld channels do not divide into %lld groups", (long long)dims[0], (long long)a->group);
    for (int i = 0; i < rank - 2; i++)
        dims[2 + i] = a->kernel_shape.at[i];
    if (x->rank >= 0 && g->rank >= 0) {
        XCVM_CHECK(t->error, !xcvm_dims_differ(x->dims[0], g->dims[0]), SHAPE_MISMATCH, "x has %lld images, g %lld",
                   (long long)x->dims[0], (long long)g->dims[0]);
        for (int i = 0; i < rank - 2; i++) {
            int64_t windows;
            XCVM_TRY(xcvm_window_slide(t, x->dims[2 + i], &attributes, i, false, &windows));
            XCVM_TRY(check_met(t, windows, g->dims[2 + i], i));
        }
    }
    xcvm_value_set_tensor(a->y, a->y->dtype, rank, dims);
    return XCVM_OK;
}

/* Returns true if the last axis of x is the channels of blocks (ops/conv/blocked.h), over which windows do not move.
 * Then one more axis is allowed. */
static bool is_of_blocks(const xcvm_inference *t, const xcvm_window_attributes *w)
{
    const xcvm_value *x = t->in[0];
    const size_t axes = (size_t)x->rank - 2, last = axes - 1;
    const int64_t channels = x->dims[x->rank - 1];
    const bool indices = t->out_count > 1 && t->out[1] != NULL;
    return axes == XCVM_WINDOW_AXES + 1 && x->dtype == XCVM_F32 && (channels < 0 || channels == XCVM_CHANNEL_BLOCK) &&
           w->kernel.at[last] == 1 && w->strides.at[last] == 1 && w->pads.at[last] == 0 &&
           w->pads.at[axes + last] == 0 && t->schema->opcode != XCVM_OP_LpPool && !indices;
}

XCVM_SHAPE_RULE(pool)
{
    const xcvm_value *x = t->in[0];
    xcvm_window_attributes w;
    bool ceil;
    int auto_pad;
#define POOL_ATTRIBUTES(Name)                                                                                          \
    {                                                                                                                  \
        const xcvm_##Name##_args *a = t->args;                                                                         \
        w = (xcvm_window_attributes){a->kernel_shape, a->strides, a->pads, a->dilations};                              \
        ceil = a->ceil_mode != 0;                                                                                      \
        auto_pad = a->auto_pad;                                                                                        \
    }
    if (t->schema->opcode == XCVM_OP_MaxPool)
        POOL_ATTRIBUTES(MaxPool)
    else if (t->schema->opcode == XCVM_OP_AveragePool)
        POOL_ATTRIBUTES(AveragePool)
    else
        POOL_ATTRIBUTES(LpPool)
#undef POOL_ATTRIBUTES
    XCVM_TRY(check_auto_pad(t, w.pads, auto_pad != XCVM_AUTO_PAD_NOTSET));
    int64_t dims[XCVM_MAX_RANK] = {0};
    XCVM_CHECK(t->error, x->rank < 0 || x->rank >= 3, SHAPE_MISMATCH, "x has the wrong rank (%d; expected at least 3)",
               x->rank);
    if (x->rank >= 3) {
        int64_t room[2 * XCVM_MAX_RANK];
        XCVM_TRY(check_counts(t, x->rank - 2, &w));
        w.pads = xcvm_window_pads(auto_pad, x, &w, room);
        XCVM_TRY(xcvm_window_attributes_check(t, x->rank - 2, &w));
        if (!is_of_blocks(t, &w))
            XCVM_TRY(check_axes(t, x->rank - 2));
        dims[0] = x->dims[0];
        dims[1] = x->dims[1];
        for (int i = 0; i < x->rank - 2; i++)
            XCVM_TRY(xcvm_window_slide(t, x->dims[2 + i], &w, i, ceil, &dims[2 + i]));
    }
    xcvm_value_set_tensor(t->out[0], t->out[0]->dtype, x->rank, dims);
    if (t->out_count > 1 && t->out[1] != NULL)
        xcvm_value_set_tensor(t->out[1], XCVM_I64, x->rank, dims);
    return XCVM_OK;
}
