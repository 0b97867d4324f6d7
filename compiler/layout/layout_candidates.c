/* Candidates of the pass layout: nodes that can compute on blocked channels. */
#include "compiler/layout/layout.h"
#include "ops/conv/blocked.h"

#include <math.h>

enum {
    CHANNELS = 1,
    FIRST_AXIS = 2,
    IMAGE_RANK = XCC_IMAGE_RANK,
    PLANE_RANK = FIRST_AXIS + 2,
    LINE_RANK = FIRST_AXIS + XCVM_BLOCKED_LEAST_AXES
};

/* Assumed height, width and depth of an image of unknown size. */
#define USUAL_SIZE 224.0
#define USUAL_DEPTH 16.0
/* Larger than any plausible scale of a Resize. */
#define LARGEST_SCALE 1e3

bool xcc_layout_is_image(const xcc_value *v)
{
    return v != NULL && v->type.kind == XCVM_KIND_TENSOR && v->type.dtype == XCVM_F32 && v->type.rank >= LINE_RANK &&
           v->type.rank <= IMAGE_RANK && v->type.dims[CHANNELS] > 0;
}

bool xcc_layout_is_point(const xcc_value *v)
{
    bool point = xcc_layout_is_image(v);
    for (int i = FIRST_AXIS; point && i < v->type.rank; i++)
        point = v->type.dims[i] == 1;
    return point;
}

static int64_t channels_of(const xcc_value *v) { return v->type.dims[CHANNELS]; }

static bool is_variable_image(const xcc_value *v) { return xcc_layout_is_image(v) && !xcc_is_constant(v); }

/* ---- Convolutions ---- */

static bool describe_conv(const xcc_node *n, xcc_layout_candidate *c)
{
    const xcvm_Conv_args *a = XCC_ARGS(Conv, n);
    const xcc_value *x = xcc_value_of(a->x), *w = xcc_value_of(a->w), *b = xcc_value_of(a->b), *z = xcc_value_of(a->z);
    if (!is_variable_image(x) || !xcc_layout_is_image(xcc_value_of(a->y)) || !xcc_is_constant(w) ||
        w->type.rank != x->type.rank || xcvm_element_count(&w->type) == 0 || (b != NULL && !xcc_is_constant(b)) ||
        (z != NULL && !is_variable_image(z)) || a->group > channels_of(x))
        return false;
    int64_t outputs = w->type.dims[0], channels = w->type.dims[1];
    c->kind = XCC_LAYOUT_CONV;
    if (a->group > 1 && channels == 1)
        return outputs == a->group;
    c->plain_input = a->group == 1 && channels <= XCVM_BLOCKED_PLAIN_CHANNELS;
    if (a->group > 1 && xcvm_blocked_is_small_group(channels))
        return outputs == a->group * channels;
    return a->group == 1 || (channels % XCVM_CHANNEL_BLOCK == 0 && outputs / a->group % XCVM_CHANNEL_BLOCK == 0);
}

/* Requires one group, no dilation, and known pads that only crop within the padding. */
static bool describe_conv_transpose(const xcc_node *n, xcc_layout_candidate *c)
{
    const xcvm_ConvTranspose_args *a = XCC_ARGS(ConvTranspose, n);
    const xcc_value *w = xcc_value_of(a->w), *b = xcc_value_of(a->b);
    c->kind = XCC_LAYOUT_TRANSPOSED;
    bool convertible = a->group == 1 && a->pads.count > 0;
    for (size_t i = 0; i < a->pads.count; i++)
        convertible = convertible && a->pads.at[i] >= 0;
    for (size_t i = 0; i < a->dilations.count && i + FIRST_AXIS < PLANE_RANK; i++)
        convertible =
            convertible && (a->dilations.at[i] == 1 || w->type.rank != PLANE_RANK || w->type.dims[FIRST_AXIS + i] == 1);
    return convertible && is_variable_image(xcc_value_of(a->x)) && xcc_is_constant(w) && w->type.rank == PLANE_RANK &&
           xcvm_blocked_takes_axes(XCVM_OP_BlockedConvTranspose, w->type.rank - FIRST_AXIS) &&
           xcvm_element_count(&w->type) > 0 && (b == NULL || xcc_is_constant(b)) &&
           xcc_may_copy(n->graph->module, w->type.bytes);
}

/* ---- Element-wise ---- */

/* A tensor of one element that broadcasts to a blocked tensor unchanged. */
static bool is_number(const xcc_value *v)
{
    return v->type.kind == XCVM_KIND_TENSOR && v->type.rank >= 0 && v->type.rank <= IMAGE_RANK &&
           xcvm_dims_known(&v->type) && xcvm_element_count(&v->type) == 1;
}

/* A constant that depends only on the channel of an image. */
static bool is_per_channel(const xcc_value *v, const xcc_value *image)
{
    const xcvm_value *t = &v->type;
    const int rank = image->type.rank, at = t->rank - (rank - CHANNELS);
    bool fits = xcc_is_constant(v) && t->dtype == XCVM_F32 && (at == 0 || at == CHANNELS);
    for (int i = 0; fits && i < t->rank; i++)
        fits = t->dims[i] == (i == at ? channels_of(image) : 1);
    return fits;
}

static bool describe_unary(const xcc_node *n, xcc_layout_candidate *c)
{
    c->kind = XCC_LAYOUT_UNARY;
    size_t inputs = xcc_node_input_count(n);
    for (size_t i = 1; i < inputs; i++)
        if (xcc_node_input(n, i) != NULL && !is_number(xcc_node_input(n, i)))
            return false;
    return is_variable_image(xcc_node_input(n, 0));
}

static bool describe_binary(const xcc_node *n, xcc_layout_candidate *c)
{
    const xcc_value *y = xcc_node_output(n, 0);
    bool image = false;
    c->kind = XCC_LAYOUT_BINARY;
    if (!xcc_layout_is_image(y))
        return false;
    for (size_t i = 0; i < 2; i++) {
        const xcc_value *v = xcc_node_input(n, i);
        if (v->type.dtype != XCVM_F32)
            return false;
        if (is_number(v) || is_per_channel(v, y))
            continue;
        if (!is_variable_image(v) || v->type.rank != y->type.rank || channels_of(v) != channels_of(y))
            return false;
        image = true;
    }
    return image;
}

/* ---- Others ---- */

/* Pools of blocked tensors need at least two spatial axes. */
static bool describe_pool(const xcc_node *n, xcc_layout_candidate *c)
{
    c->kind = XCC_LAYOUT_POOL;
    return is_variable_image(xcc_node_input(n, 0)) && xcc_node_input(n, 0)->type.rank >= PLANE_RANK;
}

static bool describe_reduction(const xcc_node *n, xcc_layout_candidate *c)
{
    int64_t axes[IMAGE_RANK];
    const xcc_value *x = xcc_node_input(n, 0);
    bool reduced[IMAGE_RANK] = {false};
    c->kind = XCC_LAYOUT_REDUCE;
    if (!is_variable_image(x) || xcc_integers(xcc_node_input(n, 1), axes, IMAGE_RANK) != xcc_layout_axes(x))
        return false;
    for (int i = 0; i < xcc_layout_axes(x); i++) {
        const int64_t axis = axes[i] < 0 ? axes[i] + x->type.rank : axes[i];
        if (axis < FIRST_AXIS || axis >= x->type.rank || reduced[axis])
            return false;
        reduced[axis] = true;
    }
    return true;
}

static bool is_vector(const xcvm_value *v, int64_t count)
{
    const xcc_value *value = xcc_value_of(v);
    return xcc_is_constant(value) && v->rank == 1 && v->dims[0] == count;
}

static bool describe_batch_normalization(const xcc_node *n, xcc_layout_candidate *c)
{
    const xcvm_BatchNormalization_args *a = XCC_ARGS(BatchNormalization, n);
    c->kind = XCC_LAYOUT_AFFINE;
    if (!is_variable_image(xcc_value_of(a->x)) || a->training_mode != 0 || a->running_mean != NULL ||
        a->running_var != NULL || !xcvm_blocked_takes_axes(XCVM_OP_BlockedAffine, a->x->rank - FIRST_AXIS))
        return false;
    int64_t channels = a->x->dims[CHANNELS];
    return is_vector(a->scale, channels) && is_vector(a->b, channels) && is_vector(a->mean, channels) &&
           is_vector(a->var, channels);
}

/* Returns true if an axis, possibly negative, is the channel axis of an image. */
static bool is_channels(int64_t axis, const xcc_value *image)
{
    return axis == CHANNELS || axis == CHANNELS - image->type.rank;
}

static bool describe_concat(const xcc_node *n, xcc_layout_candidate *c)
{
    const xcvm_Concat_args *a = XCC_ARGS(Concat, n);
    c->kind = XCC_LAYOUT_CONCAT;
    if (!is_channels(a->axis, xcc_node_output(n, 0)) ||
        !xcvm_blocked_takes_axes(XCVM_OP_BlockedConcat, xcc_layout_axes(xcc_node_output(n, 0))))
        return false;
    for (size_t i = 0; i < a->xs.count; i++)
        if (!is_variable_image(xcc_value_of(a->xs.at[i])))
            return false;
    return a->xs.count > 0;
}

static bool describe_split(const xcc_node *n, xcc_layout_candidate *c)
{
    const xcvm_Split_args *a = XCC_ARGS(Split, n);
    c->kind = XCC_LAYOUT_SPLIT;
    if (!is_variable_image(xcc_value_of(a->x)) || !is_channels(a->axis, xcc_value_of(a->x)))
        return false;
    for (size_t i = 0; i < a->ys.count; i++) {
        const xcc_value *v = xcc_value_of(a->ys.at[i]);
        if (!xcc_layout_is_image(v) || (i + 1 < a->ys.count && channels_of(v) % XCVM_CHANNEL_BLOCK != 0))
            return false;
    }
    return a->ys.count > 0;
}

static bool is_given(const xcvm_value *v) { return v != NULL && (v->rank != 1 || v->dims[0] != 0); }

/* Only along spatial axes. Others count as resized if positions could move although their sizes stay. */
static bool describe_resize(const xcc_node *n, xcc_layout_candidate *c)
{
    const xcvm_Resize_args *a = XCC_ARGS(Resize, n);
    const xcc_value *x = xcc_value_of(a->x), *y = xcc_value_of(a->y), *scales = xcc_value_of(a->scales);
    c->kind = XCC_LAYOUT_RESIZE;
    if (!is_variable_image(x) || y->type.rank != x->type.rank ||
        a->coordinate_transformation_mode == XCVM_COORDINATE_tf_crop_and_resize ||
        is_given(a->scales) == is_given(a->sizes))
        return false;
    if (is_given(a->scales) && (!xcc_is_constant(scales) || scales->type.rank != 1))
        return false;
    const size_t count = a->axes.count != 0 ? a->axes.count : (size_t)x->type.rank;
    if (is_given(a->scales) ? xcvm_element_count(&scales->type) != count : a->sizes->rank != 1)
        return false;
    for (size_t i = 0; i < a->axes.count; i++)
        if ((a->axes.at[i] < 0 ? a->axes.at[i] + x->type.rank : a->axes.at[i]) < FIRST_AXIS)
            return false;
    if (a->axes.count != 0)
        return true;
    if (a->coordinate_transformation_mode == XCVM_COORDINATE_tf_half_pixel_for_nn)
        return false;
    for (int i = 0; i < FIRST_AXIS; i++)
        if (is_given(a->scales) ? xcvm_element_as_double(&scales->type, (size_t)i) != 1.0
                                : a->keep_aspect_ratio_policy != XCVM_ASPECT_stretch ||
                                      x->type.dims[i] == XCVM_ANY_DIM || x->type.dims[i] != y->type.dims[i])
            return false;
    return true;
}

/* Spatial and batch axes are sliced directly, channels only between blocks. */
static bool describe_slice(const xcc_node *n, xcc_layout_candidate *c)
{
    const xcvm_Slice_args *a = XCC_ARGS(Slice, n);
    int64_t starts[IMAGE_RANK], ends[IMAGE_RANK], axes[IMAGE_RANK], steps[IMAGE_RANK];
    c->kind = XCC_LAYOUT_SLICE;
    int count = xcc_integers(xcc_value_of(a->starts), starts, IMAGE_RANK);
    if (!is_variable_image(xcc_value_of(a->x)) || !xcc_layout_is_image(xcc_value_of(a->y)) || count < 0 ||
        xcc_integers(xcc_value_of(a->ends), ends, IMAGE_RANK) != count ||
        xcc_integers(xcc_value_of(a->axes), axes, IMAGE_RANK) != count ||
        (a->steps != NULL && xcc_integers(xcc_value_of(a->steps), steps, IMAGE_RANK) != count))
        return false;
    int64_t channels = a->x->dims[CHANNELS];
    for (int i = 0; i < count; i++) {
        if (!is_channels(axes[i], xcc_value_of(a->x)))
            continue;
        int64_t start = starts[i] < 0 ? starts[i] + channels : starts[i];
        if ((a->steps != NULL && steps[i] != 1) || start < 0 || start % XCVM_CHANNEL_BLOCK != 0)
            return false;
    }
    return true;
}

bool xcc_layout_classify(xcc_node *n, xcc_layout_candidate *c)
{
    *c = (xcc_layout_candidate){.node = n};
    if (n->kind != XCC_INSTRUCTION || n->schema->effect != XCVM_PURE)
        return false;
    if (xcvm_schema_has_class(n->schema, XCVM_CLASS_reduction))
        return describe_reduction(n, c);
    if (!xcc_layout_is_image(xcc_node_output(n, 0)))
        return false;
    switch (n->schema->opcode) {
    case XCVM_OP_Conv:
        return describe_conv(n, c);
    case XCVM_OP_ConvTranspose:
        return describe_conv_transpose(n, c);
    case XCVM_OP_MaxPool:
        return describe_pool(n, c) && xcc_node_output(n, 1) == NULL;
    case XCVM_OP_AveragePool:
        return describe_pool(n, c);
    case XCVM_OP_Resize:
        return describe_resize(n, c);
    case XCVM_OP_BatchNormalization:
        return describe_batch_normalization(n, c);
    case XCVM_OP_Concat:
        return describe_concat(n, c);
    case XCVM_OP_Split:
        return describe_split(n, c);
    case XCVM_OP_Slice:
        return describe_slice(n, c);
    default:
        return xcvm_schema_has_class(n->schema, XCVM_CLASS_unary)    ? describe_unary(n, c)
               : xcvm_schema_has_class(n->schema, XCVM_CLASS_binary) ? describe_binary(n, c)
                                                                     : false;
    }
}

bool xcc_layout_accepts_blocked(const xcc_layout_candidate *c, size_t index)
{
    switch (c->kind) {
    case XCC_LAYOUT_CONV:
        return index == 0 || index == 3;
    case XCC_LAYOUT_CONCAT:
        return true;
    case XCC_LAYOUT_BINARY:
        return is_variable_image(c->node->uses[index].value) && !is_number(c->node->uses[index].value);
    default:
        return index == 0;
    }
}

bool xcc_layout_produces_blocked(const xcc_layout_candidate *c)
{
    return c->kind != XCC_LAYOUT_REDUCE || XCC_ARGS(ReduceSum, c->node)->keepdims != 0;
}

/* ---- Sizes ---- */

static const xcc_value *first_image(const xcc_node *n)
{
    size_t inputs = n->kind == XCC_INSTRUCTION ? xcc_node_input_count(n) : 0;
    for (size_t i = 0; i < inputs; i++)
        if (is_variable_image(n->uses[i].value))
            return n->uses[i].value;
    return NULL;
}

static xcvm_ints strides_of(const xcc_node *n)
{
    switch (n->kind == XCC_INSTRUCTION ? n->schema->opcode : XCVM_OP_NONE) {
    case XCVM_OP_Conv:
        return XCC_ARGS(Conv, n)->strides;
    case XCVM_OP_ConvTranspose:
        return XCC_ARGS(ConvTranspose, n)->strides;
    case XCVM_OP_MaxPool:
        return XCC_ARGS(MaxPool, n)->strides;
    case XCVM_OP_AveragePool:
        return XCC_ARGS(AveragePool, n)->strides;
    default:
        return (xcvm_ints){NULL, 0};
    }
}

/* Growth factor of a spatial axis; 1 if unknown. */
static double scale_of(const xcc_node *n, int axis)
{
    if (n == NULL || !xcc_is(n, XCVM_OP_Resize))
        return 1.0;
    const xcvm_Resize_args *a = XCC_ARGS(Resize, n);
    const xcc_value *scales = xcc_value_of(a->scales);
    if (!is_given(a->scales) || !xcc_is_constant(scales))
        return 1.0;
    const size_t entries = xcvm_element_count(&scales->type);
    size_t at = (size_t)axis + FIRST_AXIS;
    if (a->axes.count != 0)
        for (at = 0; at < a->axes.count; at++)
            if (a->axes.at[at] == axis + FIRST_AXIS || a->axes.at[at] + a->x->rank == axis + FIRST_AXIS)
                break;
    const double scale = at < entries ? xcvm_element_as_double(&scales->type, at) : 1.0;
    return scale > 0 && scale < LARGEST_SCALE ? scale : 1.0;
}

void xcc_layout_assume_size(xcc_layout *s, const xcc_value *y, const xcc_node *n)
{
    if (!xcc_layout_is_image(y))
        return;
    const xcc_value *x = n != NULL ? first_image(n) : NULL;
    xcvm_ints strides = n != NULL ? strides_of(n) : (xcvm_ints){NULL, 0};
    const int axes = xcc_layout_axes(y);
    for (int axis = 0; axis < axes; axis++) {
        double size = axis + 2 < axes ? USUAL_DEPTH : USUAL_SIZE;
        if (x != NULL && x->type.rank == y->type.rank && s->values[x->id].size[axis] > 0)
            size = s->values[x->id].size[axis];
        if (strides.count == (size_t)axes)
            size = xcc_is(n, XCVM_OP_ConvTranspose) ? size * (double)strides.at[axis]
                                                    : ceil(size / (double)strides.at[axis]);
        size *= scale_of(n, axis);
        s->values[y->id].size[axis] = y->type.dims[2 + axis] >= 0 ? (double)y->type.dims[2 + axis] : size;
    }
}
