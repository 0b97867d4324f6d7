/* Conversion of chosen nodes to blocked channels. Replacements are inserted before them one by one. The nodes are
 * removed at the end, after values needed elsewhere are converted back to the plain layout. */
#include "compiler/layout/layout_values.h"
#include "compiler/passes/fuse_ops.h"
#include "ops/conv/blocked.h"

#include <math.h>
#include <string.h>

enum { FIRST_AXIS = 2, IMAGE_RANK = XCC_IMAGE_RANK };

#define EMIT(s, c, Name, result, ...)                                                                                  \
    xcc_layout_emit(s, c, XCVM_OP_##Name, &(xcvm_##Name##_args){__VA_ARGS__}, offsetof(xcvm_##Name##_args, result))

/* ---- Convolutions ---- */

static xcc_value *pack(xcc_layout *s, const xcc_layout_algorithm *algorithm, const xcc_value *w)
{
    xcc_layout_packed **known = &s->values[w->id].packed;
    for (const xcc_layout_packed *p = *known; p != NULL; p = p->next)
        if (p->algorithm == algorithm)
            return p->packed;
    xcc_layout_packed *entry = xcc_alloc(s->m, sizeof *entry);
    if (entry == NULL)
        return NULL;
    int64_t dims[XCVM_MAX_RANK];
    int rank = xcc_layout_filter_dims(algorithm, w->type.rank, w->type.dims, dims);
    *entry = (xcc_layout_packed){algorithm, xcc_constant_blank(s->m->graph, XCVM_F32, rank, dims), *known};
    if (entry->packed == NULL)
        return NULL;
    xcc_layout_filter_pack(algorithm, w->type.data, w->type.rank, w->type.dims, entry->packed->type.data);
    *known = entry;
    return entry->packed;
}

/* Creates a vector with one element per channel, zero beyond the last. */
static xcc_value *new_vector(xcc_layout *s, int64_t channels)
{
    int64_t count = xcvm_blocks_of(channels) * XCVM_CHANNEL_BLOCK;
    xcc_value *v = xcc_constant_blank(s->m->graph, XCVM_F32, 1, &count);
    if (v != NULL)
        memset(v->type.data, 0, v->type.bytes);
    return v;
}

/* Pads a bias, if there is one, to whole blocks. */
static bool pad_bias(xcc_layout *s, int64_t outputs, xcc_value **bias)
{
    if (*bias == NULL)
        return true;
    xcc_value *padded = new_vector(s, outputs);
    if (padded != NULL)
        xcvm_blocked_pack_bias((*bias)->type.data, outputs, padded->type.data);
    *bias = padded;
    return padded != NULL;
}

static xcvm_status convert_conv(xcc_layout *s, const xcc_layout_candidate *c)
{
    const xcvm_Conv_args *a = XCC_ARGS(Conv, c->node);
    xcc_value *x = xcc_value_of(a->x), *w = xcc_value_of(a->w), *bias = xcc_value_of(a->b), *z = xcc_value_of(a->z);
    const xcc_value *packed = pack(s, c->algorithm, w);
    if (packed == NULL)
        return XCVM_OUT_OF_MEMORY;
    if (!pad_bias(s, w->type.dims[0], &bias))
        return XCVM_OUT_OF_MEMORY;
    const bool is_blocked = s->values[x->id].blocked != NULL && s->values[x->id].blocked->graph == s->g;
    if (!c->plain_input || (is_blocked && c->algorithm->choice != XCVM_BLOCKED_winograd_strided))
        x = xcc_layout_blocked(s, c->node, x);
    if (z != NULL)
        z = xcc_layout_blocked(s, c->node, z);
    if (x == NULL || (a->z != NULL && z == NULL))
        return s->m->error->status;
    XCVM_TRY(EMIT(s, c, BlockedConv, y, .x = XCC_IN(x), .w = XCC_IN(packed), .b = XCC_IN(bias), .z = XCC_IN(z),
                  .strides = a->strides, .pads = a->pads, .dilations = a->dilations, .group = a->group,
                  .activation = a->activation, .activation_params = a->activation_params,
                  .algorithm = c->algorithm->choice, .pool = 1, .affine = a->affine));
    xcc_node_set_input(c->node, 1, NULL);
    xcc_constant_release(w);
    return XCVM_OK;
}

/* Converts ConvTranspose `n`, fused with the activation `c` if it is one. */
static xcvm_status convert_transposed(xcc_layout *s, const xcc_layout_candidate *c, xcc_node *n)
{
    const xcvm_ConvTranspose_args *a = XCC_ARGS(ConvTranspose, n);
    double params[XCC_MOST_PARAMS];
    size_t count = 0;
    int activation = c->node != n ? xcc_activation_of(c->node, params, &count) : XCVM_ACTIVATION_none;
    xcc_value *w = xcc_value_of(a->w), *bias = xcc_value_of(a->b);
    const int64_t *d = w->type.dims;
    const int64_t dims[] = {xcvm_blocks_of(d[1]), d[0], d[2], d[3], XCVM_CHANNEL_BLOCK};
    const xcc_value *packed = xcc_constant_blank(s->m->graph, XCVM_F32, sizeof dims / sizeof *dims, dims);
    if (packed == NULL || !pad_bias(s, d[1], &bias))
        return XCVM_OUT_OF_MEMORY;
    xcvm_blocked_pack_transposed(w->type.data, d, a->strides.at, packed->type.data);
    const xcc_value *x = xcc_layout_blocked(s, c->node, xcc_value_of(a->x));
    if (x == NULL)
        return s->m->error->status;
    XCVM_TRY(EMIT(s, c, BlockedConvTranspose, y, .x = XCC_IN(x), .w = XCC_IN(packed), .b = XCC_IN(bias),
                  .strides = a->strides, .pads = a->pads, .output_padding = a->output_padding, .activation = activation,
                  .activation_params = {params, count}));
    xcc_node_set_input(n, 1, NULL);
    xcc_constant_release(w);
    return XCVM_OK;
}

/* ---- Element-wise ---- */

/* Reshapes a per-channel constant so that it broadcasts to the blocked form of `image`. */
static xcc_value *channel_constant(xcc_layout *s, const xcc_value *v, const xcc_value *image)
{
    int64_t dims[XCC_BLOCKED_RANK] = {1, xcc_layout_blocks_of(image), 1, 1, 1, 1};
    dims[image->type.rank] = XCVM_CHANNEL_BLOCK;
    xcc_value *result = xcc_constant_blank(s->m->graph, XCVM_F32, image->type.rank + 1, dims);
    if (result != NULL)
        xcvm_blocked_pack_bias(v->type.data, image->type.dims[1], result->type.data);
    return result;
}

/* The same instruction with the first `count` operands in blocked form. */
static xcvm_status convert_same(xcc_layout *s, const xcc_layout_candidate *c, size_t count)
{
    const xcvm_schema *schema = c->node->schema;
    void *args = xcc_alloc(s->m, schema->args_size);
    if (args == NULL)
        return XCVM_OUT_OF_MEMORY;
    memcpy(args, c->node->args, schema->args_size);
    for (size_t f = 0, i = 0; f < schema->field_count && i < count; f++) {
        if (!xcvm_field_is_input(&schema->fields[f]))
            continue;
        xcc_value *v = c->node->uses[i].value;
        if (xcc_layout_accepts_blocked(c, i))
            v = xcc_layout_blocked(s, c->node, v);
        else if (xcc_is_constant(v) && xcvm_element_count(&v->type) > 1)
            v = channel_constant(s, v, xcc_node_output(c->node, 0));
        if (v == NULL)
            return s->m->error->status;
        *(const xcvm_value **)(void *)((char *)args + schema->fields[f].offset) = &v->type;
        i++;
    }
    return xcc_layout_emit(s, c, schema->opcode, args, schema->fields[0].offset);
}

/* Scale and shift of a BatchNormalization, padded to whole blocks. */
static bool affine_constants(xcc_layout *s, const xcc_node *n, xcc_value **scale, xcc_value **shift)
{
    const xcvm_BatchNormalization_args *a = XCC_ARGS(BatchNormalization, n);
    int64_t channels = a->x->dims[1];
    *scale = new_vector(s, channels);
    *shift = *scale != NULL ? new_vector(s, channels) : NULL;
    for (size_t i = 0; *shift != NULL && i < (size_t)channels; i++) {
        double factor = xcvm_element_as_double(a->scale, i) / sqrt(xcvm_element_as_double(a->var, i) + a->epsilon);
        XCVM_DATA(float, &(*scale)->type)[i] = (float)factor;
        XCVM_DATA(float, &(*shift)->type)
        [i] = (float)(xcvm_element_as_double(a->b, i) - xcvm_element_as_double(a->mean, i) * factor);
    }
    return *shift != NULL;
}

/* The chosen candidate that is the only user of another's result, in blocked form. */
static const xcc_layout_candidate *sole_user(const xcc_layout *s, const xcc_layout_candidate *c)
{
    const xcc_value *v = xcc_node_output(c->node, 0);
    const xcc_layout_candidate *user = xcc_used_once(v) ? xcc_layout_candidate_of(s, v->users->node) : NULL;
    return user != NULL && user->chosen && xcc_layout_accepts_blocked(user, v->users->index) ? user : NULL;
}

/* Returns true if all operands of a Concat except the last end at a block boundary. */
static bool is_of_whole_blocks(const xcc_node *concat)
{
    size_t count = xcc_node_input_count(concat);
    bool whole = true;
    for (size_t i = 0; i + 1 < count; i++)
        whole = whole && concat->uses[i].value->type.dims[1] % XCVM_CHANNEL_BLOCK == 0;
    return whole;
}

/* Returns true if another candidate includes a node's work: BatchNormalization includes Concat, an activation includes
 * BatchNormalization and ConvTranspose. */
static bool is_absorbed(const xcc_layout *s, const xcc_layout_candidate *c)
{
    double params[XCC_MOST_PARAMS];
    size_t count;
    const xcc_layout_candidate *user =
        c->kind == XCC_LAYOUT_CONCAT || c->kind == XCC_LAYOUT_AFFINE || c->kind == XCC_LAYOUT_TRANSPOSED
            ? sole_user(s, c)
            : NULL;
    if (user == NULL)
        return false;
    return c->kind == XCC_LAYOUT_CONCAT ? user->kind == XCC_LAYOUT_AFFINE && is_of_whole_blocks(c->node)
                                        : user->kind == XCC_LAYOUT_UNARY &&
                                              xcc_activation_of(user->node, params, &count) != XCVM_ACTIVATION_none;
}

static xcvm_status blocked_list(xcc_layout *s, const xcc_layout_candidate *c, const xcc_node *list, xcvm_inputs *xs)
{
    size_t count = xcc_node_input_count(list);
    const xcvm_value **at = xcc_alloc(s->m, count * sizeof *at);
    if (at == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const xcc_value *v = xcc_layout_blocked(s, c->node, list->uses[i].value);
        if (v == NULL)
            return s->m->error->status;
        at[i] = &v->type;
    }
    *xs = (xcvm_inputs){at, count};
    return XCVM_OK;
}

/* Converts BatchNormalization `n`, fused with the activation `c` if it is one. */
static xcvm_status convert_affine(xcc_layout *s, const xcc_layout_candidate *c, const xcc_node *n)
{
    double params[XCC_MOST_PARAMS];
    size_t count = 0;
    int activation = c->node != n ? xcc_activation_of(c->node, params, &count) : XCVM_ACTIVATION_none;
    xcc_value *scale, *shift, *x = n->uses[0].value;
    const xcc_layout_candidate *concat = xcc_layout_candidate_of(s, x->producer);
    const xcvm_value *one[1];
    xcvm_inputs xs;
    if (!affine_constants(s, n, &scale, &shift))
        return XCVM_OUT_OF_MEMORY;
    if (concat != NULL && concat->chosen && concat->kind == XCC_LAYOUT_CONCAT && is_absorbed(s, concat)) {
        XCVM_TRY(blocked_list(s, c, concat->node, &xs));
    } else {
        x = xcc_layout_blocked(s, c->node, x);
        if (x == NULL)
            return s->m->error->status;
        one[0] = &x->type;
        xs = (xcvm_inputs){one, 1};
    }
    return EMIT(s, c, BlockedAffine, y, .xs = xs, .scale = XCC_IN(scale), .shift = XCC_IN(shift),
                .activation = activation, .activation_params = {params, count});
}

static xcvm_status convert_unary(xcc_layout *s, const xcc_layout_candidate *c)
{
    const xcc_layout_candidate *from = xcc_layout_candidate_of(s, c->node->uses[0].value->producer);
    if (from != NULL && from->chosen && is_absorbed(s, from)) {
        if (from->kind == XCC_LAYOUT_AFFINE)
            return convert_affine(s, c, from->node);
        if (from->kind == XCC_LAYOUT_TRANSPOSED)
            return convert_transposed(s, c, from->node);
    }
    return convert_same(s, c, 1);
}

/* ---- Pools and reductions ---- */

enum { POOL_INTS = 2 * (XCC_LAYOUT_AXES + 1) };

/* Attributes of `axes` axes extended by one axis with the value `last`. */
static xcvm_ints with_axis(xcvm_ints given, size_t axes, int64_t last, int64_t room[POOL_INTS])
{
    size_t count = 0;
    for (size_t i = 0; i < given.count; i++) {
        room[count++] = given.at[i];
        if ((i + 1) % axes == 0)
            room[count++] = last;
    }
    return (xcvm_ints){room, count};
}

/* The convolution that can include a max pooling of its otherwise unused results; NULL if there is none. */
static const xcc_node *pooling_conv(xcc_layout *s, const xcc_layout_candidate *c)
{
    const xcc_value *image = c->node->uses[0].value, *x = s->values[image->id].blocked;
    if (!xcc_is(c->node, XCVM_OP_MaxPool) || xcc_sole_producer(image, XCVM_OP_Conv) == NULL || x == NULL ||
        !xcc_is(x->producer, XCVM_OP_BlockedConv))
        return NULL;
    const xcvm_MaxPool_args *a = XCC_ARGS(MaxPool, c->node);
    const xcvm_BlockedConv_args *conv = XCC_ARGS(BlockedConv, x->producer);
    const bool side_by_side = a->kernel_shape.count == 2 && xcc_all_are(a->kernel_shape, 2) &&
                              xcc_all_are(a->strides, 2) && a->auto_pad == XCVM_AUTO_PAD_NOTSET &&
                              xcc_all_are(a->pads, 0) && xcc_all_are(a->dilations, 1) && !a->ceil_mode;
    const bool able = xcvm_blocked_is_winograd(conv->algorithm) && conv->z == NULL && xcc_all_are(conv->dilations, 1);
    return side_by_side && able ? x->producer : NULL;
}

static xcvm_status convert_pool(xcc_layout *s, const xcc_layout_candidate *c)
{
    const xcc_node *conv = pooling_conv(s, c);
    if (conv != NULL) {
        xcvm_BlockedConv_args pooled = *XCC_ARGS(BlockedConv, conv);
        pooled.pool = 2;
        return xcc_layout_emit(s, c, XCVM_OP_BlockedConv, &pooled, offsetof(xcvm_BlockedConv_args, y));
    }
    int64_t kernel[POOL_INTS], strides[POOL_INTS], pads[POOL_INTS], dilations[POOL_INTS];
    const xcc_value *x = xcc_layout_blocked(s, c->node, c->node->uses[0].value);
    if (x == NULL)
        return s->m->error->status;
    const size_t axes = (size_t)x->type.rank - FIRST_AXIS - 1;
    if (xcc_is(c->node, XCVM_OP_MaxPool)) {
        const xcvm_MaxPool_args *a = XCC_ARGS(MaxPool, c->node);
        return EMIT(s, c, MaxPool, y, .x = XCC_IN(x), .kernel_shape = with_axis(a->kernel_shape, axes, 1, kernel),
                    .strides = with_axis(a->strides, axes, 1, strides), .pads = with_axis(a->pads, axes, 0, pads),
                    .dilations = with_axis(a->dilations, axes, 1, dilations), .ceil_mode = a->ceil_mode,
                    .auto_pad = a->auto_pad);
    }
    const xcvm_AveragePool_args *a = XCC_ARGS(AveragePool, c->node);
    return EMIT(s, c, AveragePool, y, .x = XCC_IN(x), .kernel_shape = with_axis(a->kernel_shape, axes, 1, kernel),
                .strides = with_axis(a->strides, axes, 1, strides), .pads = with_axis(a->pads, axes, 0, pads),
                .dilations = with_axis(a->dilations, axes, 1, dilations), .ceil_mode = a->ceil_mode,
                .count_include_pad = a->count_include_pad, .auto_pad = a->auto_pad);
}

/* All reductions have the same arguments. */
static xcvm_status convert_reduction(xcc_layout *s, const xcc_layout_candidate *c)
{
    const xcvm_ReduceSum_args *a = XCC_ARGS(ReduceSum, c->node);
    xcc_value *old = xcc_node_output(c->node, 0), *x = c->node->uses[0].value;
    const xcc_value *axes = xcc_constant_i64(s->g, (size_t)xcc_layout_axes(x), (const int64_t[]){2, 3, 4});
    xcc_value *from = xcc_layout_blocked(s, c->node, x), *point = xcc_value_create(s->g, NULL);
    if (axes == NULL || from == NULL || point == NULL)
        return s->m->error->status;
    xcvm_value_set_tensor(&point->type, XCVM_F32, x->type.rank,
                          (const int64_t[IMAGE_RANK]){x->type.dims[0], x->type.dims[1], 1, 1, 1});
    xcvm_ReduceSum_args args = {.x = XCC_IN(from), .axes = XCC_IN(axes), .keepdims = 1};
    if (a->keepdims != 0)
        return xcc_layout_emit(s, c, c->node->schema->opcode, &args, offsetof(xcvm_ReduceSum_args, y));
    xcc_builder b = xcc_builder_before(c->node);
    xcc_value *reduced = xcc_layout_new_blocked(s, point);
    args.y = XCC_OUT(reduced);
    if (reduced == NULL || xcc_append(&b, c->node->schema->opcode, &args) == NULL)
        return s->m->error->status;
    xcc_value *plain = xcc_layout_unblocked(c->node, point, reduced);
    xcc_value *y = plain != NULL ? xcc_apply(&b, Squeeze, y, .x = XCC_IN(plain), .axes = XCC_IN(axes)) : NULL;
    xcc_rewrite r = {.m = s->m};
    xcc_rewrite_replace(&r, old, y);
    return y != NULL ? XCVM_OK : s->m->error->status;
}

/* ---- Channels ---- */

static xcvm_status convert_concat(xcc_layout *s, const xcc_layout_candidate *c)
{
    xcvm_inputs xs;
    XCVM_TRY(blocked_list(s, c, c->node, &xs));
    if (is_of_whole_blocks(c->node))
        return EMIT(s, c, Concat, y, .xs = xs, .axis = 1);
    int64_t *channels = xcc_alloc(s->m, xs.count * sizeof *channels);
    if (channels == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < xs.count; i++)
        channels[i] = c->node->uses[i].value->type.dims[1];
    return EMIT(s, c, BlockedConcat, y, .xs = xs, .channels = {channels, xs.count});
}

static xcvm_status convert_split(xcc_layout *s, const xcc_layout_candidate *c)
{
    size_t count = xcc_node_output_count(c->node);
    xcc_builder b = xcc_builder_before(c->node);
    xcvm_value **ys = xcc_alloc(s->m, count * sizeof *ys);
    int64_t *sizes = xcc_alloc(s->m, count * sizeof *sizes);
    const xcc_value *x = xcc_layout_blocked(s, c->node, c->node->uses[0].value);
    if (ys == NULL || sizes == NULL || x == NULL)
        return s->m->error->status;
    for (size_t i = 0; i < count; i++) {
        const xcc_value *y = xcc_node_output(c->node, i);
        xcc_value *part = xcc_layout_new_blocked(s, y);
        if (part == NULL)
            return XCVM_OUT_OF_MEMORY;
        sizes[i] = xcc_layout_blocks_of(y);
        s->values[y->id].blocked = part;
        ys[i] = &part->type;
    }
    const xcc_value *split = xcc_constant_i64(s->g, count, sizes);
    const xcc_node *made =
        split == NULL ? NULL
                      : xcc_emit(&b, Split, .ys = {ys, count}, .x = XCC_IN(x), .split = XCC_IN(split), .axis = 1);
    return made != NULL ? XCVM_OK : s->m->error->status;
}

static xcvm_status convert_slice(xcc_layout *s, const xcc_layout_candidate *c)
{
    const xcvm_Slice_args *a = XCC_ARGS(Slice, c->node);
    int64_t starts[IMAGE_RANK], ends[IMAGE_RANK], axes[IMAGE_RANK], steps[IMAGE_RANK] = {1, 1, 1, 1, 1};
    size_t count = (size_t)xcc_integers(xcc_value_of(a->starts), starts, IMAGE_RANK);
    xcc_integers(xcc_value_of(a->ends), ends, IMAGE_RANK);
    xcc_integers(xcc_value_of(a->axes), axes, IMAGE_RANK);
    if (a->steps != NULL)
        xcc_integers(xcc_value_of(a->steps), steps, IMAGE_RANK);
    for (size_t i = 0; i < count; i++) {
        axes[i] += axes[i] < 0 ? a->x->rank : 0;
        if (axes[i] != 1)
            continue;
        starts[i] = (starts[i] < 0 ? starts[i] + a->x->dims[1] : starts[i]) / XCVM_CHANNEL_BLOCK;
        ends[i] = starts[i] + xcvm_blocks_of(a->y->dims[1]);
    }
    const xcc_value *x = xcc_layout_blocked(s, c->node, c->node->uses[0].value);
    const xcc_value *from = xcc_constant_i64(s->g, count, starts), *to = xcc_constant_i64(s->g, count, ends);
    const xcc_value *along = xcc_constant_i64(s->g, count, axes), *by = xcc_constant_i64(s->g, count, steps);
    if (x == NULL || from == NULL || to == NULL || along == NULL || by == NULL)
        return s->m->error->status;
    return EMIT(s, c, Slice, y, .x = XCC_IN(x), .starts = XCC_IN(from), .ends = XCC_IN(to), .axes = XCC_IN(along),
                .steps = XCC_IN(by));
}

/* ---- Resize ---- */

/* The scales of all axes without batch and channels. */
static const xcc_value *spatial_scales(xcc_layout *s, const xcvm_value *scales, int64_t axes)
{
    const xcc_value *v = xcc_constant_blank(s->m->graph, XCVM_F32, 1, &axes);
    for (int64_t i = 0; v != NULL && i < axes; i++)
        XCVM_DATA(float, &v->type)[i] = XCVM_CDATA(float, scales)[FIRST_AXIS + i];
    return v;
}

static const xcc_value *spatial_sizes(xcc_layout *s, xcc_node *n, const xcvm_value *sizes, int64_t axes)
{
    xcc_builder b = xcc_builder_before(n);
    const xcc_value *from = xcc_constant_i64(s->g, 1, (const int64_t[]){FIRST_AXIS});
    const xcc_value *to = xcc_constant_i64(s->g, 1, (const int64_t[]){FIRST_AXIS + axes});
    const xcc_value *along = xcc_constant_i64(s->g, 1, (const int64_t[]){0});
    if (from == NULL || to == NULL || along == NULL)
        return NULL;
    return xcc_apply(&b, Slice, y, .x = sizes, .starts = XCC_IN(from), .ends = XCC_IN(to), .axes = XCC_IN(along));
}

static xcvm_status convert_resize(xcc_layout *s, const xcc_layout_candidate *c)
{
    static const int64_t spatial[XCC_LAYOUT_AXES] = {FIRST_AXIS, FIRST_AXIS + 1, FIRST_AXIS + 2};
    xcvm_Resize_args a = *XCC_ARGS(Resize, c->node);
    const int rank = a.x->rank;
    int64_t axes[XCC_LAYOUT_AXES];
    const xcc_value *x = xcc_layout_blocked(s, c->node, c->node->uses[0].value);
    if (x == NULL)
        return s->m->error->status;
    const bool by_scales = a.scales != NULL && (a.scales->rank != 1 || a.scales->dims[0] != 0);
    for (size_t i = 0; i < a.axes.count; i++)
        axes[i] = a.axes.at[i] + (a.axes.at[i] < 0 ? rank : 0);
    if (a.axes.count == 0) {
        const xcc_value *given = by_scales ? spatial_scales(s, a.scales, rank - FIRST_AXIS)
                                           : spatial_sizes(s, c->node, a.sizes, rank - FIRST_AXIS);
        if (given == NULL)
            return s->m->error->status;
        *(by_scales ? &a.scales : &a.sizes) = &given->type;
        a.axes = (xcvm_ints){spatial, (size_t)(rank - FIRST_AXIS)};
    } else {
        a.axes.at = axes;
    }
    *(by_scales ? &a.sizes : &a.scales) = NULL;
    a.roi = NULL;
    a.x = &x->type;
    return xcc_layout_emit(s, c, XCVM_OP_Resize, &a, offsetof(xcvm_Resize_args, y));
}

/* ---- All candidates ---- */

static xcvm_status convert_node(xcc_layout *s, const xcc_layout_candidate *c)
{
    switch (c->kind) {
    case XCC_LAYOUT_CONV:
        return convert_conv(s, c);
    case XCC_LAYOUT_TRANSPOSED:
        return convert_transposed(s, c, c->node);
    case XCC_LAYOUT_UNARY:
        return convert_unary(s, c);
    case XCC_LAYOUT_BINARY:
        return convert_same(s, c, 2);
    case XCC_LAYOUT_POOL:
        return convert_pool(s, c);
    case XCC_LAYOUT_REDUCE:
        return convert_reduction(s, c);
    case XCC_LAYOUT_AFFINE:
        return convert_affine(s, c, c->node);
    case XCC_LAYOUT_CONCAT:
        return convert_concat(s, c);
    case XCC_LAYOUT_SPLIT:
        return convert_split(s, c);
    case XCC_LAYOUT_RESIZE:
        return convert_resize(s, c);
    default:
        return convert_slice(s, c);
    }
}

/* Returns true if a user other than a converted candidate needs a value in plain form. */
static bool is_needed_plain(const xcc_layout *s, const xcc_value *v)
{
    for (const xcc_use *use = v->users; use != NULL; use = use->next) {
        const xcc_layout_candidate *c = use->graph == s->g ? xcc_layout_candidate_of(s, use->node) : NULL;
        if (c == NULL || !c->chosen)
            return true;
    }
    return false;
}

static xcvm_status restore(xcc_layout *s, const xcc_layout_candidate *c)
{
    size_t outputs = xcc_node_output_count(c->node);
    for (size_t i = 0; i < outputs; i++) {
        xcc_value *v = xcc_node_output(c->node, i);
        if (v == NULL || !is_needed_plain(s, v))
            continue;
        xcc_value *plain = xcc_layout_unblocked(c->node, v, s->values[v->id].blocked);
        if (plain == NULL)
            return s->m->error->status;
        xcc_rewrite r = {.m = s->m};
        xcc_rewrite_replace(&r, v, plain);
    }
    return XCVM_OK;
}

xcvm_status xcc_layout_convert(xcc_layout *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->candidates[i].chosen && !is_absorbed(s, &s->candidates[i])) {
            XCVM_TRY(xcc_poll(s->m));
            XCVM_TRY(convert_node(s, &s->candidates[i]));
        }
    for (size_t i = 0; i < s->count; i++)
        if (s->candidates[i].chosen)
            XCVM_TRY(restore(s, &s->candidates[i]));
    for (size_t i = s->count; i-- > 0;) {
        if (!s->candidates[i].chosen)
            continue;
        xcc_node_remove(s->candidates[i].node);
        s->m->changes++;
    }
    return XCVM_OK;
}
