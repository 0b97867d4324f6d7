/* Shape rules for tensors with blocked channels. */
#include "ops/conv/blocked_axes.h"
#include "ops/elementwise/activation.h"
#include "ops/conv/window.h"
#include "ops/matmul/pairs.h"

enum { MOST_AXES = XCVM_BLOCKED_MOST_AXES };

XCVM_SHAPE_RULE_OF(BlockChannels)
{
    const xcvm_value *x = a->x;
    int64_t dims[XCVM_MAX_RANK] = {0};
    if (x->rank < 0) {
        xcvm_set_unknown(a->y, XCVM_F32, -1);
        return XCVM_OK;
    }
    XCVM_CHECK(t->error, x->rank >= 2 && x->rank < XCVM_MAX_RANK, SHAPE_MISMATCH,
               "x has the wrong rank (%d; expected 2 to %d)", x->rank, XCVM_MAX_RANK - 1);
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    dims[1] = x->dims[1] < 0 ? XCVM_ANY_DIM : xcvm_blocks_of(x->dims[1]);
    dims[x->rank] = XCVM_CHANNEL_BLOCK;
    xcvm_value_set_tensor(a->y, XCVM_F32, x->rank + 1, dims);
    return XCVM_OK;
}

static xcvm_status check_block(const xcvm_inference *t, const xcvm_value *v, const char *what)
{
    const int64_t last = v->rank > 0 ? v->dims[v->rank - 1] : 0;
    XCVM_CHECK(t->error, v->rank < 0 || last < 0 || last == XCVM_CHANNEL_BLOCK, SHAPE_MISMATCH,
               "the last dimension of %s is %lld, blocks have %d channels", what, (long long)last, XCVM_CHANNEL_BLOCK);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(UnblockChannels)
{
    const xcvm_value *x = a->x;
    int64_t dims[XCVM_MAX_RANK] = {0};
    if (x->rank < 0) {
        xcvm_set_unknown(a->y, XCVM_F32, -1);
        return XCVM_OK;
    }
    XCVM_CHECK(t->error, x->rank >= 3, SHAPE_MISMATCH, "x has the wrong rank (%d; expected at least 3)", x->rank);
    XCVM_TRY(check_block(t, x, "x"));
    XCVM_CHECK(t->error, x->dims[1] < 0 || x->dims[1] == xcvm_blocks_of(a->channels), SHAPE_MISMATCH,
               "x has %lld blocks of channels, %lld channels take %lld", (long long)x->dims[1], (long long)a->channels,
               (long long)xcvm_blocks_of(a->channels));
    for (int i = 0; i < x->rank - 1; i++)
        dims[i] = x->dims[i];
    dims[1] = a->channels;
    xcvm_value_set_tensor(a->y, XCVM_F32, x->rank - 1, dims);
    return XCVM_OK;
}

/* Sizes derived from the shape of packed filters. */
typedef struct filter {
    int axes;                  /* number of spatial axes */
    int64_t outputs, channels; /* blocks of outputs; channels of a group, or blocks if depthwise */
    int64_t kernel[MOST_AXES];
} filter;

/* Reads the sizes of filters of channel pairs. */
static xcvm_status read_pairs(const xcvm_inference *t, const xcvm_BlockedConv_args *a, filter *f)
{
    const xcvm_value *w = a->w;
    const int rank = f->axes + 4;
    char text[96];
    XCVM_CHECK(t->error, w->rank == rank, SHAPE_MISMATCH, "w has the wrong rank (%d; expected %d)", w->rank, rank);
    XCVM_CHECK(t->error,
               !xcvm_dims_differ(w->dims[rank - 2], XCVM_CHANNEL_BLOCK) &&
                   !xcvm_dims_differ(w->dims[rank - 1], XCVM_PAIR),
               SHAPE_MISMATCH, "w has shape %s, which does not end in %d pairs",
               xcvm_dims_describe(rank, w->dims, text, sizeof text), XCVM_CHANNEL_BLOCK);
    f->outputs = w->dims[0];
    XCVM_CHECK(t->error, w->dims[1] < 0 || !__builtin_mul_overflow(w->dims[1], (int64_t)XCVM_PAIR, &f->channels),
               OUT_OF_RANGE, "w is too large");
    for (int i = 0; i < f->axes; i++)
        f->kernel[i] = w->dims[2 + i];
    return XCVM_OK;
}

static xcvm_status read_filter(const xcvm_inference *t, const xcvm_BlockedConv_args *a, filter *f)
{
    const xcvm_value *w = a->w;
    const int rank = f->axes + (xcvm_blocked_has_channels(a->algorithm) ? 3 : 2);
    const bool is_winograd = xcvm_blocked_is_winograd(a->algorithm);
    const bool is_strided = a->algorithm == XCVM_BLOCKED_winograd_strided;
    f->outputs = f->channels = XCVM_ANY_DIM;
    for (int i = 0; i < f->axes; i++)
        f->kernel[i] = is_strided ? XCVM_BLOCKED_STRIDED_WINDOW : is_winograd && i >= f->axes - 2 ? 3 : XCVM_ANY_DIM;
    if (w->rank < 0)
        return XCVM_OK;
    if (a->algorithm == XCVM_BLOCKED_direct_pairs)
        return read_pairs(t, a, f);
    XCVM_CHECK(t->error, w->rank == rank, SHAPE_MISMATCH, "w has the wrong rank (%d; expected %d)", w->rank, rank);
    XCVM_TRY(check_block(t, w, "w"));
    const int64_t *kernel = w->dims + rank - 1 - f->axes;
    switch (a->algorithm) {
    case XCVM_BLOCKED_direct:
    case XCVM_BLOCKED_depthwise:
    case XCVM_BLOCKED_grouped:
        f->outputs = w->dims[0];
        f->channels = a->algorithm == XCVM_BLOCKED_depthwise ? w->dims[0] : w->dims[1];
        for (int i = 0; i < f->axes; i++)
            f->kernel[i] = kernel[i];
        break;
    case XCVM_BLOCKED_winograd_untransformed:
        f->outputs = w->dims[0];
        f->channels = w->dims[1];
        for (int i = 0; i < f->axes; i++)
            XCVM_CHECK(t->error, kernel[i] < 0 || kernel[i] == 3, SHAPE_MISMATCH,
                       "w has windows of %lld, winograd needs 3", (long long)kernel[i]);
        break;
    case XCVM_BLOCKED_winograd_strided:
        XCVM_CHECK(t->error, w->dims[0] < 0 || w->dims[0] == 36, SHAPE_MISMATCH,
                   "w has the wrong number of points (%lld; expected 36)", (long long)w->dims[0]);
        XCVM_CHECK(t->error, w->dims[2] < 0 || (w->dims[2] % 4 == 0 && w->dims[2] <= XCVM_CHANNEL_BLOCK),
                   SHAPE_MISMATCH, "w has %lld phases of channels, four of up to %d are possible",
                   (long long)w->dims[2], XCVM_BLOCKED_STRIDED_CHANNELS);
        f->outputs = w->dims[1];
        f->channels = w->dims[2] < 0 ? XCVM_ANY_DIM : w->dims[2] / 4;
        break;
    default:
        XCVM_CHECK(t->error, w->dims[0] < 0 || w->dims[0] == 16 || w->dims[0] == 36, SHAPE_MISMATCH,
                   "w has the wrong number of points (%lld; expected 16 or 36)", (long long)w->dims[0]);
        f->outputs = w->dims[1];
        f->channels = w->dims[rank - 2];
        if (f->axes == 3)
            f->kernel[0] = w->dims[2];
        break;
    }
    return XCVM_OK;
}

static xcvm_status check_groups(const xcvm_inference *t, const xcvm_BlockedConv_args *a, const filter *f)
{
    const xcvm_value *x = a->x;
    const bool plain = x->rank == f->axes + 2;
    XCVM_CHECK(t->error, f->channels != 0, SHAPE_MISMATCH, "w has no input channels");
    if (xcvm_blocked_is_winograd(a->algorithm) || a->algorithm == XCVM_BLOCKED_winograd_strided)
        XCVM_CHECK(t->error, a->group == 1, INVALID_ARGUMENT, "there are %lld groups, winograd takes one",
                   (long long)a->group);
    if (xcvm_blocked_is_direct(a->algorithm) && a->group > 1) {
        XCVM_CHECK(t->error, !plain && (f->channels < 0 || f->channels % XCVM_CHANNEL_BLOCK == 0), SHAPE_MISMATCH,
                   "x is not blocked or groups are not whole blocks of channels");
        XCVM_CHECK(t->error, f->outputs < 0 || f->outputs % a->group == 0, SHAPE_MISMATCH,
                   "%lld blocks of outputs do not divide into %lld groups", (long long)f->outputs, (long long)a->group);
    }
    if (a->algorithm == XCVM_BLOCKED_grouped) {
        int64_t channels;
        XCVM_CHECK(t->error, f->channels < 0 || xcvm_blocked_is_small_group(f->channels), SHAPE_MISMATCH,
                   "w has groups of %lld channels, 2, 4 or 8 are possible", (long long)f->channels);
        XCVM_CHECK(
            t->error,
            f->channels < 0 || f->outputs < 0 ||
                (!__builtin_mul_overflow(f->channels, a->group, &channels) && xcvm_blocks_of(channels) == f->outputs),
            SHAPE_MISMATCH, "w has %lld blocks of outputs, not those of %lld groups of %lld", (long long)f->outputs,
            (long long)a->group, (long long)f->channels);
    }
    if (x->rank < 0 || x->dims[1] < 0 || f->channels < 0)
        return XCVM_OK;
    int64_t needed = a->algorithm == XCVM_BLOCKED_grouped ? f->outputs : f->channels;
    if (xcvm_blocked_is_direct(a->algorithm) && a->group > 1)
        XCVM_CHECK(t->error, !__builtin_mul_overflow(needed, a->group, &needed), OUT_OF_RANGE, "w is too large");
    if (needed < 0)
        return XCVM_OK;
    if (!plain && !xcvm_blocked_is_by_block(a->algorithm))
        needed = xcvm_blocks_of(needed);
    XCVM_CHECK(t->error, x->dims[1] == needed, SHAPE_MISMATCH, "x has %lld %s, w is made for %lld",
               (long long)x->dims[1], plain ? "channels" : "blocks of channels", (long long)needed);
    XCVM_CHECK(t->error, !plain || needed <= XCVM_BLOCKED_PLAIN_CHANNELS, SHAPE_MISMATCH,
               "x has %lld channels and is not blocked, up to %d are possible", (long long)needed,
               XCVM_BLOCKED_PLAIN_CHANNELS);
    return XCVM_OK;
}

/* Reduces `dims` by max pooling of a->pool x a->pool results. */
static xcvm_status pool(const xcvm_inference *t, const xcvm_BlockedConv_args *a, int64_t *dims)
{
    const int64_t sizes[] = {a->pool, a->pool}, zeros[4] = {0}, ones[] = {1, 1};
    const xcvm_window_attributes w = {{sizes, 2}, {sizes, 2}, {zeros, 4}, {ones, 2}};
    XCVM_CHECK(t->error, xcvm_blocked_is_winograd(a->algorithm) && a->strides.count == 2 && a->z == NULL,
               INVALID_ARGUMENT, "there is a pool, which is for winograd over two axes without z");
    for (int i = 0; i < 2; i++) {
        XCVM_CHECK(t->error, a->dilations.at[i] == 1, INVALID_ARGUMENT, "there is a pool, but dilation %lld",
                   (long long)a->dilations.at[i]);
        XCVM_TRY(xcvm_window_slide(t, dims[2 + i], &w, i, false, &dims[2 + i]));
    }
    return XCVM_OK;
}

static xcvm_status check_bias(const xcvm_inference *t, const xcvm_value *b, int64_t outputs)
{
    if (b == NULL || b->rank < 0)
        return XCVM_OK;
    XCVM_CHECK(t->error, b->rank == 1, SHAPE_MISMATCH, "b has the wrong rank (%d; expected 1)", b->rank);
    XCVM_CHECK(t->error,
               b->dims[0] < 0 || outputs < 0 ||
                   (b->dims[0] % XCVM_CHANNEL_BLOCK == 0 && b->dims[0] / XCVM_CHANNEL_BLOCK == outputs),
               SHAPE_MISMATCH, "b has %lld elements for %lld blocks of outputs", (long long)b->dims[0],
               (long long)outputs);
    return XCVM_OK;
}

static xcvm_status check_type(const xcvm_inference *t, const xcvm_BlockedConv_args *a)
{
    const char *const given = xcvm_dtype_name((xcvm_dtype)a->w->dtype);
    if (a->algorithm == XCVM_BLOCKED_direct_pairs) {
        XCVM_CHECK(t->error, a->w->dtype == XCVM_BF16, TYPE_MISMATCH, "w is %s, direct_pairs needs bf16", given);
        return XCVM_OK;
    }
    XCVM_CHECK(t->error, xcvm_blocked_takes_narrow(a->algorithm) || !xcvm_dtype_in(a->w->dtype, XCVM_TYPES_NARROW),
               TYPE_MISMATCH, "w is %s, %s needs f32", given,
               a->algorithm == XCVM_BLOCKED_winograd_strided ? "winograd_strided"
               : a->algorithm == XCVM_BLOCKED_grouped        ? "grouped"
                                                             : "depthwise");
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(BlockedConv)
{
    const xcvm_value *x = a->x, *b = a->b, *z = a->z;
    const bool is_direct = a->algorithm == XCVM_BLOCKED_direct;
    XCVM_TRY(xcvm_activation_check(t->error, a->activation, a->activation_params));
    XCVM_TRY(xcvm_affine_check(t->error, a->affine));
    const bool is_strided = a->algorithm == XCVM_BLOCKED_winograd_strided;
    XCVM_TRY(check_type(t, a));
    XCVM_CHECK(t->error,
               a->strides.count <= MOST_AXES && xcvm_blocked_conv_takes_axes(a->algorithm, (int)a->strides.count),
               INVALID_ARGUMENT, "the number of strides is not supported (%zu; expected %s)", a->strides.count,
               !xcvm_blocked_conv_takes_axes(a->algorithm, 3)  ? "2"
               : xcvm_blocked_conv_takes_axes(a->algorithm, 1) ? "1 to 3"
                                                               : "2 or 3");
    filter f = {.axes = (int)a->strides.count};
    const int rank = f.axes + 3;
    XCVM_TRY(read_filter(t, a, &f));
    XCVM_CHECK(t->error, !is_strided || x->rank < 0 || x->rank == rank - 1, SHAPE_MISMATCH,
               "x has the wrong rank (%d; expected 4, not blocked)", x->rank);
    XCVM_CHECK(t->error, x->rank < 0 || x->rank == rank || (x->rank == rank - 1 && (is_direct || is_strided)),
               SHAPE_MISMATCH, "x has the wrong rank (%d; expected %d%s)", x->rank, rank,
               !is_direct    ? ""
               : f.axes == 1 ? ", or 3 if it is not blocked"
               : f.axes == 2 ? ", or 4 if it is not blocked"
                             : ", or 5 if it is not blocked");
    if (x->rank == rank)
        XCVM_TRY(check_block(t, x, "x"));
    XCVM_TRY(check_groups(t, a, &f));
    int64_t dims[XCVM_MAX_RANK] = {x->rank < 0 ? XCVM_ANY_DIM : x->dims[0], f.outputs};
    const xcvm_window_attributes w = {{f.kernel, (size_t)f.axes}, a->strides, a->pads, a->dilations};
    XCVM_TRY(xcvm_window_attributes_check(t, f.axes, &w));
    for (int i = 0; i < f.axes; i++) {
        XCVM_CHECK(t->error, !xcvm_blocked_is_winograd(a->algorithm) || a->strides.at[i] == 1, INVALID_ARGUMENT,
                   "the stride is not 1, as winograd needs");
        XCVM_CHECK(t->error, a->algorithm != XCVM_BLOCKED_direct_pairs || a->dilations.at[i] == 1, INVALID_ARGUMENT,
                   "dilation %d is %lld, direct_pairs needs 1", i, (long long)a->dilations.at[i]);
        XCVM_CHECK(t->error, !is_strided || (a->strides.at[i] == 2 && a->dilations.at[i] == 1), INVALID_ARGUMENT,
                   "stride and dilation are not 2 and 1, as winograd_strided needs");
        XCVM_TRY(xcvm_window_slide(t, x->rank < 0 ? XCVM_ANY_DIM : x->dims[2 + i], &w, i, false, &dims[2 + i]));
    }
    dims[rank - 1] = XCVM_CHANNEL_BLOCK;
    if (a->pool > 1)
        XCVM_TRY(pool(t, a, dims));
    XCVM_TRY(check_bias(t, b, f.outputs));
    xcvm_value_set_tensor(a->y, XCVM_F32, rank, dims);
    bool same = z == NULL || z->rank < 0 || z->rank == rank;
    for (int i = 0; same && z != NULL && i < z->rank; i++)
        same = z->dims[i] < 0 || dims[i] < 0 || z->dims[i] == dims[i];
    char text[96], of[96];
    XCVM_CHECK(t->error, same, SHAPE_MISMATCH, "z has shape %s, the result %s",
               xcvm_dims_describe(z->rank, z->dims, text, sizeof text), xcvm_dims_describe(rank, dims, of, sizeof of));
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(BlockedConvTranspose)
{
    static const int64_t once[] = {1, 1};
    const xcvm_value *x = a->x, *w = a->w;
    int64_t kernel[] = {XCVM_ANY_DIM, XCVM_ANY_DIM};
    int64_t dims[XCVM_MAX_RANK] = {XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_CHANNEL_BLOCK};
    XCVM_TRY(xcvm_activation_check(t->error, a->activation, a->activation_params));
    XCVM_CHECK(t->error, x->rank < 0 || xcvm_blocked_takes_rank(XCVM_OP_BlockedConvTranspose, x->rank), SHAPE_MISMATCH,
               "x has the wrong rank (%d; expected 5)", x->rank);
    XCVM_CHECK(t->error, w->rank < 0 || w->rank == 5, SHAPE_MISMATCH, "w has the wrong rank (%d; expected 5)", w->rank);
    XCVM_TRY(check_block(t, x, "x"));
    XCVM_TRY(check_block(t, w, "w"));
    if (w->rank >= 0) {
        XCVM_CHECK(t->error, w->dims[1] != 0, SHAPE_MISMATCH, "w has no input channels");
        dims[1] = w->dims[0];
        kernel[0] = w->dims[2];
        kernel[1] = w->dims[3];
        XCVM_CHECK(t->error,
                   x->rank < 0 || x->dims[1] < 0 || w->dims[1] < 0 || x->dims[1] == xcvm_blocks_of(w->dims[1]),
                   SHAPE_MISMATCH, "x has %lld blocks of channels, w is made for %lld", (long long)x->dims[1],
                   (long long)xcvm_blocks_of(w->dims[1]));
    }
    const xcvm_window_attributes window = {{kernel, 2}, a->strides, a->pads, {once, 2}};
    XCVM_TRY(xcvm_window_attributes_check(t, 2, &window));
    XCVM_CHECK(t->error, a->output_padding.count == 2, INVALID_ARGUMENT,
               "there are %zu output paddings for 2 spatial axes", a->output_padding.count);
    XCVM_TRY(check_bias(t, a->b, dims[1]));
    if (x->rank >= 0) {
        dims[0] = x->dims[0];
        for (int i = 0; i < 2; i++)
            XCVM_TRY(xcvm_window_spread(t, x->dims[2 + i], &window, i, a->output_padding.at[i], &dims[2 + i]));
    }
    xcvm_value_set_tensor(a->y, XCVM_F32, 5, dims);
    return XCVM_OK;
}
