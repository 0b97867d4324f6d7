/* Convolutions and pools. Instructions state each entry of their spatial attributes; omitted ones are filled in here.
 * Pools and transposed convolutions have the attribute auto_pad, which becomes pads if sizes are known
 * (compiler/passes/simplify_windows.c). For convolutions it becomes pads here or, if they depend on unknown sizes, a
 * Pad, so that their kernels have only pads. */
#include "compiler/import_onnx/lower/lower.h"
#include "ops/conv/window.h"

enum { SPATIAL = XCVM_MAX_RANK - 2 };

/* The window of one operator. */
typedef struct window {
    const xcc_value *x;
    xcc_value *weights;      /* NULL: the kernel is attribute kernel_shape */
    int rank;                /* spatial axes */
    int64_t kernel[SPATIAL]; /* below 0: not known */
    xcvm_ints strides, dilations, pads;
    int auto_pad;
    bool open; /* auto_pad is SAME along an axis whose size, or that of the kernel, is not known */
} window;

/* A list of `count` entries with one value, or the given list if it has as many. */
static xcvm_status complete(xcc_lowering *n, const char *name, size_t count, int64_t value, xcvm_ints *ints)
{
    XCVM_CHECK(n->m->error, ints->count == 0 || ints->count == count, INVALID_MODEL,
               "attribute '%s' has %zu entries, %zu are needed", name, ints->count, count);
    if (ints->count > 0)
        return XCVM_OK;
    int64_t *filled = xcc_alloc(n->m, count * sizeof *filled);
    if (filled == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        filled[i] = value;
    *ints = (xcvm_ints){filled, count};
    return XCVM_OK;
}

static xcvm_status need_range(xcc_lowering *n, const char *name, const xcvm_ints *ints, int64_t min)
{
    for (size_t i = 0; i < ints->count; i++)
        XCVM_CHECK(n->m->error, ints->at[i] >= min && ints->at[i] <= INT32_MAX, OUT_OF_RANGE,
                   "attribute '%s' has the entry %lld, %lld or more is expected", name, (long long)ints->at[i],
                   (long long)min);
    return XCVM_OK;
}

static xcvm_status read_auto_pad(xcc_lowering *n, int *auto_pad)
{
#define NAME(set, name) #name,
    static const char *const names[] = {XCVM_CHOICES_AUTO_PAD(NAME)};
#undef NAME
    xcvm_text mode;
    XCVM_TRY(xcc_attribute_text(n, "auto_pad", "NOTSET", &mode));
    *auto_pad = mode.length == 0 ? XCVM_AUTO_PAD_NOTSET : XCVM_AUTO_PAD_COUNT;
    for (int i = 0; i < XCVM_AUTO_PAD_COUNT; i++)
        if (xcc_text_is(mode, names[i]))
            *auto_pad = i;
    XCVM_CHECK(n->m->error, *auto_pad < XCVM_AUTO_PAD_COUNT, INVALID_MODEL,
               "attribute 'auto_pad' is '%.40s', one of NOTSET, SAME_UPPER, SAME_LOWER, VALID is expected", mode.at);
    return XCVM_OK;
}

/* The pads of auto_pad, where they are known. */
static xcvm_status auto_pads(xcc_lowering *n, window *w)
{
    const size_t count = (size_t)w->rank;
    int64_t *room = xcc_alloc(n->m, 2 * XCVM_MAX_RANK * sizeof *room);
    if (room == NULL)
        return XCVM_OUT_OF_MEMORY;
    /* With a stride of 1 pads are the same for every size. */
    xcvm_value x = {.rank = (int8_t)(w->rank + 2)};
    for (int i = 0; i < w->rank; i++) {
        x.dims[i + 2] = w->x->type.rank == x.rank ? w->x->type.dims[i + 2] : XCVM_ANY_DIM;
        if (x.dims[i + 2] < 0 && w->strides.at[i] == 1)
            x.dims[i + 2] = 1;
        w->open = w->open || x.dims[i + 2] < 0 || w->kernel[i] < 0;
    }
    w->open = w->open && w->auto_pad != XCVM_AUTO_PAD_VALID;
    const xcvm_window_attributes attributes = {{w->kernel, count}, w->strides, {NULL, 0}, w->dilations};
    if (!w->open)
        w->pads = xcvm_window_pads(w->auto_pad, &x, &attributes, room);
    return XCVM_OK;
}

/* Reads kernel_shape, strides, dilations, pads and auto_pad. `weights` NULL: the kernel is kernel_shape alone. */
static xcvm_status read_window(xcc_lowering *n, const xcc_value *x, xcc_value *weights, window *w)
{
    xcvm_ints kernel;
    *w = (window){.x = x, .weights = weights};
    XCVM_TRY(read_auto_pad(n, &w->auto_pad));
    XCVM_TRY(xcc_attribute_ints(n, "kernel_shape", &kernel));
    XCVM_TRY(xcc_attribute_ints(n, "strides", &w->strides));
    XCVM_TRY(xcc_attribute_ints(n, "dilations", &w->dilations));
    XCVM_TRY(xcc_attribute_ints(n, "pads", &w->pads));
    XCVM_CHECK(n->m->error, weights != NULL || kernel.count > 0, INVALID_MODEL, "attribute 'kernel_shape' is missing");
    XCVM_CHECK(n->m->error, x->type.kind == XCVM_KIND_TENSOR, TYPE_MISMATCH, "operand 0 is no tensor");
    if (weights != NULL && weights->type.rank >= 0)
        w->rank = weights->type.rank - 2;
    else if (x->type.rank >= 0)
        w->rank = x->type.rank - 2;
    else
        w->rank = kernel.count > 0 && kernel.count <= SPATIAL ? (int)kernel.count : -1;
    XCVM_CHECK(n->m->error, w->rank >= 0, UNSUPPORTED, "the number of spatial axes is not known, or more than %d",
               SPATIAL);
    XCVM_CHECK(n->m->error, x->type.rank < 0 || x->type.rank == w->rank + 2, SHAPE_MISMATCH,
               "the input has %d dimensions, %d are needed", x->type.rank, w->rank + 2);
    const size_t count = (size_t)w->rank;
    for (size_t i = 0; i < count; i++)
        w->kernel[i] = weights == NULL ? -1 : weights->type.rank >= 0 ? weights->type.dims[i + 2] : XCVM_ANY_DIM;
    XCVM_CHECK(n->m->error, kernel.count == 0 || kernel.count == count, INVALID_MODEL,
               "attribute 'kernel_shape' has %zu entries, %zu are needed", kernel.count, count);
    XCVM_TRY(need_range(n, "kernel_shape", &kernel, 1));
    for (size_t i = 0; i < kernel.count; i++) {
        XCVM_CHECK(n->m->error, w->kernel[i] < 0 || w->kernel[i] == kernel.at[i], SHAPE_MISMATCH,
                   "attribute 'kernel_shape' says %lld for axis %zu, the weights %lld", (long long)kernel.at[i], i,
                   (long long)w->kernel[i]);
        w->kernel[i] = kernel.at[i];
    }
    XCVM_TRY(complete(n, "strides", count, 1, &w->strides));
    XCVM_TRY(complete(n, "dilations", count, 1, &w->dilations));
    XCVM_TRY(need_range(n, "strides", &w->strides, 1));
    XCVM_TRY(need_range(n, "dilations", &w->dilations, 1));
    return XCVM_OK;
}

/* The value beyond the borders, for an operator with this operand; *value NULL: zero. */
static xcvm_status border_value(xcc_lowering *n, xcc_value **value)
{
    const char *name = n->op->info.name;
    *value = NULL;
    if ((strcmp(name, "ConvInteger") == 0 || strcmp(name, "QLinearConv") == 0) && xcc_input(n, 2) != NULL) {
        *value = xcc_build_reshape(&n->b, n->inputs[2], xcc_build_ints(&n->b, 0, NULL));
        return *value != NULL ? XCVM_OK : xcc_failure(n);
    }
    return XCVM_OK;
}

/* Positions that a window reaches over along a spatial axis, as a tensor of shape [1]. */
static xcc_value *reach_of(xcc_lowering *n, const window *w, int i)
{
    const int64_t dilation = w->dilations.at[i];
    if (w->kernel[i] >= 0)
        return XCC_BUILD_INTS(&n->b, (w->kernel[i] - 1) * dilation + 1);
    xcc_value *kernel = xcc_build_dim_of(&n->b, w->weights, i + 2);
    return xcc_build_add(&n->b, xcc_build_mul(&n->b, kernel, XCC_BUILD_INTS(&n->b, dilation)),
                         XCC_BUILD_INTS(&n->b, 1 - dilation));
}

/* x padded by auto_pad, with sizes that the run computes. */
static xcc_value *pad_same(xcc_lowering *n, const window *w, xcc_value *x, xcc_value *value)
{
    xcc_value *pads[2 * SPATIAL];
    int64_t axes[SPATIAL];
    xcc_value *zero = XCC_BUILD_INTS(&n->b, 0), *one = XCC_BUILD_INTS(&n->b, 1), *two = XCC_BUILD_INTS(&n->b, 2);
    for (int i = 0; i < w->rank; i++) {
        xcc_value *size = xcc_build_dim_of(&n->b, x, i + 2), *step = XCC_BUILD_INTS(&n->b, w->strides.at[i]);
        xcc_value *gaps =
            xcc_build_div(&n->b, xcc_build_sub(&n->b, size, one), step); /* one less than there are windows */
        xcc_value *all =
            xcc_build_sub(&n->b, xcc_build_add(&n->b, xcc_build_mul(&n->b, gaps, step), reach_of(n, w, i)), size);
        all = xcc_build_binary(&n->b, XCVM_OP_Max, all, zero);
        xcc_value *half = xcc_build_div(&n->b, all, two), *rest = xcc_build_sub(&n->b, all, half);
        const bool lower = w->auto_pad == XCVM_AUTO_PAD_SAME_LOWER;
        pads[i] = lower ? rest : half;
        pads[i + w->rank] = lower ? half : rest;
        axes[i] = i + 2;
    }
    xcc_value *list = xcc_build_concat(&n->b, 2 * (size_t)w->rank, pads, 0);
    xcc_value *along = xcc_build_ints(&n->b, (size_t)w->rank, axes);
    if (x == NULL || list == NULL || along == NULL)
        return NULL;
    return xcc_apply(&n->b, Pad, y, .x = XCC_IN(x), .pads = XCC_IN(list), .value = XCC_IN(value),
                     .axes = XCC_IN(along));
}

/* If auto_pad depends on unknown sizes, operand 0 is padded, and the window has no padding. */
static xcvm_status read_padded_window(xcc_lowering *n, const xcc_value *x, xcc_value *weights, window *w)
{
    XCVM_TRY(read_window(n, x, weights, w));
    if (w->auto_pad != XCVM_AUTO_PAD_NOTSET)
        XCVM_TRY(auto_pads(n, w));
    if (w->open) {
        xcc_value *value;
        XCVM_TRY(border_value(n, &value));
        XCVM_TRY(xcc_set_input(n, 0, pad_same(n, w, n->inputs[0], value)));
        w->pads.count = 0;
    }
    XCVM_TRY(complete(n, "pads", 2 * (size_t)w->rank, 0, &w->pads));
    return need_range(n, "pads", &w->pads, 0);
}

/* ---- Convolutions ---- */

/* An instruction of the operator's own name that has the spatial attributes; `weights` is the operand with the kernel.
 */
#define LOWER_WINDOW(function, Name, least, most, weights)                                                             \
    xcvm_status function(xcc_lowering *n)                                                                              \
    {                                                                                                                  \
        window w;                                                                                                      \
        XCVM_TRY(xcc_need_inputs(n, least, most));                                                                     \
        XCVM_TRY(read_padded_window(n, n->inputs[0], weights, &w));                                                    \
        XCC_ONE_TO_ONE_ARGS(n, Name, args);                                                                            \
        args.strides = w.strides;                                                                                      \
        args.dilations = w.dilations;                                                                                  \
        args.pads = w.pads;                                                                                            \
        return XCC_EMIT_ONE_TO_ONE(n, Name, args);                                                                     \
    }
LOWER_WINDOW(xcc_lower_conv, Conv, 2, 3, n->inputs[1])
/* ONNX Runtime's operator, which has a residual and an activation like the instruction. */
LOWER_WINDOW(xcc_lower_contrib_fused_conv, Conv, 2, 4, n->inputs[1])
LOWER_WINDOW(xcc_lower_conv_integer, ConvInteger, 2, 4, n->inputs[1])
LOWER_WINDOW(xcc_lower_qlinear_conv, QLinearConv, 8, 9, n->inputs[3])

/* Pads of pools and transposed convolutions, unless auto_pad determines them. */
static xcvm_status complete_pads(xcc_lowering *n, window *w, bool automatic, int64_t least)
{
    if (automatic) {
        w->pads.count = 0;
        return XCVM_OK;
    }
    XCVM_TRY(complete(n, "pads", 2 * (size_t)w->rank, 0, &w->pads));
    return need_range(n, "pads", &w->pads, least);
}

/* ---- Pooling ---- */

static xcvm_status read_pool(xcc_lowering *n, window *w)
{
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(read_window(n, n->inputs[0], NULL, w));
    return complete_pads(n, w, w->auto_pad != XCVM_AUTO_PAD_NOTSET, 0);
}

xcvm_status xcc_lower_average_pool(xcc_lowering *n)
{
    window w;
    XCVM_TRY(read_pool(n, &w));
    XCC_ONE_TO_ONE_ARGS(n, AveragePool, args);
    args.strides = w.strides;
    args.dilations = w.dilations;
    args.pads = w.pads;
    return XCC_EMIT_ONE_TO_ONE(n, AveragePool, args);
}

/* chainer_cover_all is what ONNX+ had before ONNX had ceil_mode. */
xcvm_status xcc_lower_max_pool(xcc_lowering *n)
{
    window w;
    bool cover_all;
    XCVM_TRY(read_pool(n, &w));
    XCVM_TRY(xcc_attribute_bool(n, "chainer_cover_all", false, &cover_all));
    XCC_ONE_TO_ONE_ARGS(n, MaxPool, args);
    args.strides = w.strides;
    args.dilations = w.dilations;
    args.pads = w.pads;
    args.ceil_mode = args.ceil_mode || cover_all;
    return XCC_EMIT_ONE_TO_ONE(n, MaxPool, args);
}

/* ---- Transposed convolutions ---- */

xcvm_status xcc_lower_conv_transpose(xcc_lowering *n)
{
    window w;
    XCVM_TRY(xcc_need_inputs(n, 2, 3));
    XCVM_TRY(read_window(n, n->inputs[0], n->inputs[1], &w));
    XCC_ONE_TO_ONE_ARGS(n, ConvTranspose, args);
    const size_t rank = (size_t)w.rank;
    XCVM_TRY(complete(n, "output_padding", rank, 0, &args.output_padding));
    /* Batch and channels may be given, too. */
    if (args.output_shape.count == rank + 2)
        args.output_shape = (xcvm_ints){args.output_shape.at + 2, rank};
    XCVM_CHECK(n->m->error, args.output_shape.count == 0 || args.output_shape.count == rank, INVALID_MODEL,
               "attribute 'output_shape' has %zu entries, %zu are needed", args.output_shape.count, rank);
    XCVM_TRY(complete_pads(n, &w, w.auto_pad != XCVM_AUTO_PAD_NOTSET || args.output_shape.count > 0, INT32_MIN));
    args.strides = w.strides;
    args.dilations = w.dilations;
    args.pads = w.pads;
    return XCC_EMIT_ONE_TO_ONE(n, ConvTranspose, args);
}

/* ---- Other pooling ---- */

static xcvm_status kernel_list(xcc_lowering *n, const window *w, xcvm_ints *kernel)
{
    int64_t *list = xcc_alloc(n->m, (size_t)w->rank * sizeof *list);
    if (list == NULL)
        return XCVM_OUT_OF_MEMORY;
    memcpy(list, w->kernel, (size_t)w->rank * sizeof *list);
    *kernel = (xcvm_ints){list, (size_t)w->rank};
    return XCVM_OK;
}

/* p is a float in the first version. */
static xcvm_status norm_order(xcc_lowering *n, int64_t *p)
{
    double number = 2;
    if (n->version >= 2) {
        XCVM_TRY(xcc_attribute_int(n, "p", 2, p));
    } else {
        XCVM_TRY(xcc_attribute_float(n, "p", 2, &number));
        XCVM_CHECK(n->m->error, number >= 1 && number <= 1e6 && number == (double)(int64_t)number, UNSUPPORTED,
                   "attribute 'p' is %g, a whole number from 1 on is expected", number);
        *p = (int64_t)number;
    }
    XCVM_CHECK(n->m->error, *p >= 1 && *p <= INT32_MAX, OUT_OF_RANGE, "attribute 'p' is %lld, 1 or more is expected",
               (long long)*p);
    return XCVM_OK;
}

xcvm_status xcc_lower_lp_pool(xcc_lowering *n)
{
    window w;
    xcvm_LpPool_args args = {.p = 2};
    XCVM_TRY(read_pool(n, &w));
    XCVM_TRY(norm_order(n, &args.p));
    XCVM_TRY(xcc_attribute_int(n, "ceil_mode", 0, &args.ceil_mode));
    XCVM_TRY(kernel_list(n, &w, &args.kernel_shape));
    xcc_value *y = xcc_result(n, 0);
    if (y == NULL)
        return xcc_failure(n);
    args.y = XCC_OUT(y);
    args.x = XCC_IN(n->inputs[0]);
    args.strides = w.strides;
    args.dilations = w.dilations;
    args.pads = w.pads;
    args.auto_pad = w.auto_pad;
    return XCC_EMIT_ONE_TO_ONE(n, LpPool, args);
}

/* Reduces over the spatial axes; there may be none. */
static xcc_value *reduce_spatial(xcc_lowering *n, xcvm_opcode opcode, xcc_value *x)
{
    if (x == NULL || x->type.rank == 2)
        return x;
    return xcc_build_reduce(&n->b, opcode, x, xcc_build_axes_from(&n->b, x, 2), true);
}

static xcvm_status need_channels(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_CHECK(n->m->error, n->inputs[0]->type.kind == XCVM_KIND_TENSOR, TYPE_MISMATCH, "operand 0 is no tensor");
    XCVM_CHECK(n->m->error, n->inputs[0]->type.rank < 0 || n->inputs[0]->type.rank >= 2, SHAPE_MISMATCH,
               "the input has %d dimensions, 2 or more are needed", n->inputs[0]->type.rank);
    return XCVM_OK;
}

xcvm_status xcc_lower_global_pool(xcc_lowering *n)
{
    XCVM_TRY(need_channels(n));
    bool mean = strcmp(n->op->info.name, "GlobalAveragePool") == 0;
    return xcc_bind(n, 0, reduce_spatial(n, mean ? XCVM_OP_ReduceMean : XCVM_OP_ReduceMax, n->inputs[0]));
}

xcvm_status xcc_lower_global_lp_pool(xcc_lowering *n)
{
    int64_t p;
    XCVM_TRY(need_channels(n));
    XCVM_TRY(norm_order(n, &p));
    xcc_value *x = n->inputs[0];
    if (p <= 2)
        return xcc_bind(n, 0,
                        reduce_spatial(n, p == 1 ? XCVM_OP_ReduceL1 : XCVM_OP_ReduceL2,
                                       x->type.rank == 2 ? xcc_build_unary(&n->b, XCVM_OP_Abs, x) : x));
    xcc_value *powers = xcc_build_binary(&n->b, XCVM_OP_Pow, xcc_build_unary(&n->b, XCVM_OP_Abs, x),
                                         xcc_build_number(&n->b, x, (double)p));
    xcc_value *sum = reduce_spatial(n, XCVM_OP_ReduceSum, powers);
    return xcc_bind(n, 0, xcc_build_binary(&n->b, XCVM_OP_Pow, sum, xcc_build_number(&n->b, x, 1.0 / (double)p)));
}

xcvm_status xcc_lower_max_unpool(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 3));
    XCC_ONE_TO_ONE_ARGS(n, MaxUnpool, args);
    XCVM_CHECK(n->m->error, args.kernel_shape.count > 0, INVALID_MODEL, "attribute 'kernel_shape' is missing");
    XCVM_TRY(complete(n, "strides", args.kernel_shape.count, 1, &args.strides));
    XCVM_TRY(complete(n, "pads", 2 * args.kernel_shape.count, 0, &args.pads));
    return XCC_EMIT_ONE_TO_ONE(n, MaxUnpool, args);
}

/* ---- Images ---- */

xcvm_status xcc_lower_deform_conv(xcc_lowering *n)
{
    window w;
    XCVM_TRY(xcc_need_inputs(n, 3, 5));
    XCVM_TRY(read_padded_window(n, n->inputs[0], n->inputs[1], &w));
    XCC_ONE_TO_ONE_ARGS(n, DeformConv, args);
    args.strides = w.strides;
    args.dilations = w.dilations;
    args.pads = w.pads;
    return XCC_EMIT_ONE_TO_ONE(n, DeformConv, args);
}

xcvm_status xcc_lower_roi_align(xcc_lowering *n)
{
    XCC_ONE_TO_ONE_ARGS(n, RoiAlign, args);
    if (n->version < 16)
        args.coordinate_transformation_mode = XCVM_ROI_COORDINATE_output_half_pixel;
    return XCC_EMIT_ONE_TO_ONE(n, RoiAlign, args);
}

xcvm_status xcc_lower_col2im(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 3, 3));
    XCC_ONE_TO_ONE_ARGS(n, Col2Im, args);
    const xcvm_value *block = args.block_shape, *image = args.image_shape;
    const size_t counts[] = {args.strides.count, args.dilations.count, args.pads.count / 2,
                             block->rank == 1 && block->dims[0] > 0 ? (size_t)block->dims[0] : 0,
                             image->rank == 1 && image->dims[0] > 0 ? (size_t)image->dims[0] : 0};
    size_t rank = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && rank == 0; i++)
        rank = counts[i];
    XCVM_CHECK(n->m->error, rank <= SPATIAL, UNSUPPORTED, "the number of spatial axes is %zu; expected at most %d",
               rank, SPATIAL);
    if (rank == 0)
        return XCC_EMIT_ONE_TO_ONE(n, Col2Im, args);
    XCVM_TRY(complete(n, "strides", rank, 1, &args.strides));
    XCVM_TRY(complete(n, "dilations", rank, 1, &args.dilations));
    XCVM_TRY(complete(n, "pads", 2 * rank, 0, &args.pads));
    return XCC_EMIT_ONE_TO_ONE(n, Col2Im, args);
}
