/* Contributed operators: convolutions and pools with fused operations, with channels last, and in ONNX Runtime's
 * blocked layout. */
#include "base/isas.h"
#include "compiler/import_onnx/contrib/contrib.h"
#include "ops/table/table.h"
#include "proto/arguments.h"

/* ONNX's pools that these operators lower to. */
enum { POOL_OPSET = 12 };

static const char blocked_domain[] = "com.microsoft.nchwc";

/* ---- Layouts ---- */

static xcc_value *move_channels(xcc_lowering *n, xcc_value *x, bool last)
{
    int64_t perm[XCVM_MAX_RANK];
    if (x == NULL)
        return NULL;
    const int rank = x->type.rank;
    if (rank < 3) {
        xcvm_error_set(n->m->error, rank < 0 ? XCVM_UNSUPPORTED : XCVM_SHAPE_MISMATCH,
                       "an image has to have a known number of dimensions, 3 or more");
        return NULL;
    }
    perm[0] = 0;
    for (int i = 1; i < rank; i++)
        perm[i] = last ? (i + 1 < rank ? i + 1 : 1) : (i > 1 ? i - 1 : rank - 1);
    return xcc_build_transpose(&n->b, x, (size_t)rank, perm);
}

xcc_value *xcc_contrib_channels_first(xcc_lowering *n, xcc_value *x) { return move_channels(n, x, false); }

xcc_value *xcc_contrib_channels_last(xcc_lowering *n, xcc_value *x) { return move_channels(n, x, true); }

/* ---- Convolutions ---- */

/* The convolution of x with w, z added, activated, as FusedConv has it: one instruction (window.c). */
static xcvm_status convolve(xcc_lowering *n, xcc_value *x, xcc_value *w, xcc_value *b, xcc_value *z, xcc_value **y)
{
    return xcc_lower_inner(n, "com.microsoft", "FusedConv", 1, 4, (xcc_value *[]){x, w, b, z}, 1, y);
}

/* Weights are in ONNX's layout all the same. */
xcvm_status xcc_lower_contrib_nhwc_conv(xcc_lowering *n)
{
    xcc_value *y, *z = xcc_input(n, 3);
    XCVM_TRY(xcc_need_inputs(n, 2, 4));
    if (z != NULL && (z = xcc_contrib_channels_first(n, z)) == NULL)
        return xcc_failure(n);
    XCVM_TRY(convolve(n, xcc_contrib_channels_first(n, n->inputs[0]), n->inputs[1], xcc_input(n, 2), z, &y));
    return xcc_bind(n, 0, xcc_contrib_channels_last(n, y));
}

/* ONNX's operator of the same name, on images with their channels last. */
xcvm_status xcc_lower_contrib_nhwc(xcc_lowering *n)
{
    xcc_value *y;
    const char *name = strcmp(n->op->info.name, "NhwcMaxPool") == 0 ? "MaxPool" : n->op->info.name;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    xcc_value *x = xcc_contrib_channels_first(n, n->inputs[0]);
    XCVM_TRY(xcc_lower_inner(n, "", name, POOL_OPSET, 1, &x, 1, &y));
    return xcc_bind(n, 0, xcc_contrib_channels_last(n, y));
}

/* ---- Blocked layout ----
 *
 * Values are lowered as if they had ONNX's layout with channels padded to whole blocks with zeros. The operators
 * between ReorderInput and ReorderOutput do not depend on the layout. Weights are stored in memory layout. The size of
 * a block is the number of vector elements of the CPU that the model was saved on. */

enum { WIDE_BLOCK = 16, NARROW_BLOCK = 8 };

/* The model does not state its block size, but shapes of its weights may imply it. If none does, it is that of this
 * CPU, the only one for which ONNX Runtime would run the model. */
static int64_t block_of_cpu(void)
{
#if defined(__x86_64__)
    return XCVM_CPU_HAS("avx512f") ? WIDE_BLOCK : NARROW_BLOCK;
#else
    return WIDE_BLOCK;
#endif
}

/* The block size that the shape of the weights implies; 0 if both are possible. */
static int64_t find_block_size(const xcc_lowering *n, const Onnx__NodeProto *node)
{
    xcc_value *w;
    if (strcmp(xcc_domain(node->domain), blocked_domain) != 0 || strcmp(node->op_type, "Conv") != 0 ||
        node->n_input < 2 || !xcc_scope_find(n->scope, node->input[1], &w) || w == NULL || w->type.rank != 4)
        return 0;
    const int64_t *dims = w->type.dims;
    /* Inputs that do not fill a block are not filled up. */
    if (dims[1] > NARROW_BLOCK && dims[1] < WIDE_BLOCK)
        return WIDE_BLOCK;
    return dims[0] % WIDE_BLOCK != 0 || (dims[1] > WIDE_BLOCK && dims[1] % WIDE_BLOCK != 0) ? NARROW_BLOCK : 0;
}

static int64_t block_of(xcc_lowering *n)
{
    xcc_importer *imp = n->importer;
    const Onnx__GraphProto *g = imp->model->graph;
    for (size_t i = 0; i < g->n_node && imp->nchwc_block == 0; i++)
        imp->nchwc_block = find_block_size(n, g->node[i]);
    if (imp->nchwc_block == 0)
        imp->nchwc_block = block_of_cpu();
    return imp->nchwc_block;
}

/* Blocked weights [out, in, height, width] in ONNX's layout: in memory there are blocks of outputs, then of inputs if
 * there are as many, then the window, then inputs and outputs within their blocks. */
static xcc_value *unblocked(xcc_lowering *n, xcc_value *w, int64_t block)
{
    const int64_t *d = w->type.dims;
    xcc_value *shape = XCC_BUILD_INTS(&n->b, d[0], d[1], d[2], d[3]), *x;
    if (d[1] >= block) {
        x = xcc_build_reshape(&n->b, w, XCC_BUILD_INTS(&n->b, d[0] / block, d[1] / block, d[2], d[3], block, block));
        x = xcc_build_transpose(&n->b, x, 6, (const int64_t[]){0, 5, 1, 4, 2, 3});
    } else {
        x = xcc_build_reshape(&n->b, w, XCC_BUILD_INTS(&n->b, d[0] / block, d[1], d[2], d[3], block));
        x = xcc_build_transpose(&n->b, x, 5, (const int64_t[]){0, 4, 1, 2, 3});
    }
    return xcc_build_reshape(&n->b, x, shape);
}

xcvm_status xcc_lower_contrib_nchwc_conv(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 4));
    xcc_value *w = n->inputs[1], *y;
    const int64_t block = block_of(n);
    const xcvm_value *type = &w->type;
    XCVM_CHECK(n->m->error, type->kind == XCVM_KIND_TENSOR && type->rank == 4, SHAPE_MISMATCH,
               "the blocked weights have %d dimensions, 4 are expected", type->rank);
    XCVM_CHECK(n->m->error, type->dims[0] > 0 && type->dims[1] > 0 && type->dims[2] > 0 && type->dims[3] > 0,
               UNSUPPORTED, "the shape of the blocked weights has to be known");
    XCVM_CHECK(n->m->error, type->dims[0] % block == 0 && (type->dims[1] < block || type->dims[1] % block == 0),
               SHAPE_MISMATCH, "%lld x %lld channels of weights do not come in blocks of %lld",
               (long long)type->dims[0], (long long)type->dims[1], (long long)block);
    XCVM_TRY(convolve(n, n->inputs[0], unblocked(n, w, block), xcc_input(n, 2), xcc_input(n, 3), &y));
    return xcc_bind(n, 0, y);
}

xcvm_status xcc_lower_contrib_nchwc_pool(xcc_lowering *n)
{
    xcc_value *y;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_lower_inner(n, "", n->op->info.name, POOL_OPSET, 1, n->inputs, 1, &y));
    return xcc_bind(n, 0, y);
}

xcvm_status xcc_lower_contrib_reorder_input(xcc_lowering *n)
{
    bool last;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_bool(n, "channels_last", false, &last));
    xcc_value *x = last ? xcc_contrib_channels_first(n, n->inputs[0]) : n->inputs[0];
    if (x == NULL)
        return xcc_failure(n);
    XCVM_CHECK(n->m->error, x->type.rank == 4 && x->type.dims[1] > 0, UNSUPPORTED,
               "the image has to have 4 dimensions and a known number of channels");
    const int64_t block = block_of(n), rest = x->type.dims[1] % block;
    if (rest == 0)
        return xcc_bind(n, 0, x);
    xcc_value *pads = XCC_BUILD_INTS(&n->b, 0, 0, 0, 0, 0, block - rest, 0, 0);
    return xcc_bind(n, 0, xcc_build_binary(&n->b, XCVM_OP_Pad, x, pads));
}

xcvm_status xcc_lower_contrib_reorder_output(xcc_lowering *n)
{
    bool last;
    int64_t channels;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_bool(n, "channels_last", false, &last));
    XCVM_TRY(xcc_contrib_need_int(n, "channels", 1, INT32_MAX, &channels));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[0], "the image", 3, XCVM_MAX_RANK));
    const xcvm_value *type = &n->inputs[0]->type;
    XCVM_CHECK(n->m->error, type->rank < 0 || type->dims[1] < 0 || channels <= type->dims[1], SHAPE_MISMATCH,
               "attribute 'channels' is %lld; expected at most %lld", (long long)channels, (long long)type->dims[1]);
    xcc_value *y = xcc_build_slice(&n->b, n->inputs[0], 1, 0, channels, 1);
    return xcc_bind(n, 0, last ? xcc_contrib_channels_last(n, y) : y);
}

/* Larger by whole numbers along height and width. */
xcvm_status xcc_lower_contrib_nchwc_upsample(xcc_lowering *n)
{
    static const char *const places[] = {"asymmetric", "align_corners", "half_pixel"};
    static const int coordinates[] = {XCVM_COORDINATE_asymmetric, XCVM_COORDINATE_align_corners,
                                      XCVM_COORDINATE_half_pixel};
    xcvm_ints scales;
    xcvm_text mode, coordinate;
    float factors[4];
    const int64_t four = 4;
    size_t place = 0;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_ints(n, "scales", &scales));
    XCVM_TRY(xcc_attribute_text(n, "mode", "nearest", &mode));
    XCVM_TRY(xcc_attribute_text(n, "coordinate_transformation_mode", "asymmetric", &coordinate));
    XCVM_CHECK(n->m->error, scales.count == 4, INVALID_MODEL, "attribute 'scales' has %zu entries, 4 are expected",
               scales.count);
    for (size_t i = 0; i < 4; i++) {
        XCVM_CHECK(n->m->error, scales.at[i] >= 1 && scales.at[i] <= INT16_MAX && (i > 1 || scales.at[i] == 1),
                   OUT_OF_RANGE, "entry %zu of 'scales' is %lld", i, (long long)scales.at[i]);
        factors[i] = (float)scales.at[i];
    }
    const bool linear = xcc_text_is(mode, "linear");
    XCVM_CHECK(n->m->error, linear || xcc_text_is(mode, "nearest"), UNSUPPORTED,
               "attribute 'mode' is '%.40s', one of nearest, linear is expected", mode.at);
    while (place < 3 && !xcc_text_is(coordinate, places[place]))
        place++;
    XCVM_CHECK(n->m->error, place < 3, UNSUPPORTED,
               "attribute 'coordinate_transformation_mode' is '%.40s', one of asymmetric, align_corners, half_pixel is "
               "expected",
               coordinate.at);
    xcc_value *factor = xcc_literal(xcc_constant(n->b.graph, NULL, XCVM_F32, 1, &four, factors, false));
    if (factor == NULL)
        return xcc_failure(n);
    xcvm_Resize_args args;
    xcvm_args_default(xcvm_schema_of(XCVM_OP_Resize), &args);
    args.x = XCC_IN(n->inputs[0]);
    args.scales = XCC_IN(factor);
    args.mode = linear ? XCVM_RESIZE_MODE_linear : XCVM_RESIZE_MODE_nearest;
    args.coordinate_transformation_mode = coordinates[linear ? place : 0];
    args.nearest_mode = XCVM_NEAREST_floor;
    return xcc_bind(n, 0, xcc_apply_at(&n->b, XCVM_OP_Resize, &args, offsetof(xcvm_Resize_args, y)));
}
