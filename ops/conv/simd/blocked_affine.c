/* BlockedAffine: BatchNormalization in inference form, fused with a preceding Concat and a following activation. */
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/conv/simd/blocked_conv.h"

#include <math.h>

enum {
    CHUNK = 32 * XCVM_CHANNEL_BLOCK, /* floats that are finished while they are in the first-level cache */
    THREAD_FLOATS = 32 * 1024
};

typedef struct blocked_affine_loop {
    const xcvm_BlockedAffine_args *a;
    xcvm_activation f;
    size_t blocks, size; /* of the result: blocks of channels; floats of a block */
} blocked_affine_loop;

/* Start of block `block` of image `image` of the concatenated operands. */
static const float *find_block(const blocked_affine_loop *r, size_t image, size_t block)
{
    const xcvm_value *const *x = r->a->xs.at;
    for (; block >= (size_t)(*x)->dims[1]; x++)
        block -= (size_t)(*x)->dims[1];
    return XCVM_CDATA(float, *x) + (image * (size_t)(*x)->dims[1] + block) * r->size;
}

static void scale_and_shift(const float *x, float *y, size_t count, const float *scale, const float *shift, float low,
                            float high)
{
    xcvm_lanes factor[XCVM_BLOCK_VECTORS], summand[XCVM_BLOCK_VECTORS];
    for (int j = 0; j < XCVM_BLOCK_VECTORS; j++) {
        factor[j] = xcvm_lanes_load(scale + j * XCVM_LANES);
        summand[j] = xcvm_lanes_load(shift + j * XCVM_LANES);
    }
    const xcvm_lanes lowest = xcvm_lanes_all(low), highest = xcvm_lanes_all(high);
    for (size_t i = 0; i < count; i += XCVM_CHANNEL_BLOCK)
        for (int j = 0; j < XCVM_BLOCK_VECTORS; j++) {
            const xcvm_lanes v = xcvm_lanes_load(x + i + j * XCVM_LANES) * factor[j] + summand[j];
            const xcvm_lanes clamped = xcvm_lanes_min(xcvm_lanes_max(v, lowest), highest);
            xcvm_lanes_store(y + i + j * XCVM_LANES, xcvm_lanes_keep_nan(clamped, v));
        }
}

static void clamp(float *y, size_t count, float low, float high)
{
    for (size_t i = 0; i < count; i++)
        y[i] = xcvm_clamp_f32(y[i], low, high);
}

/* The range is over blocks of channels of images. */
static void affine_range(void *context, size_t begin, size_t end, int worker)
{
    const blocked_affine_loop *r = context;
    (void)worker;
    const bool direct = r->f.kind == XCVM_ACTIVATION_none;
    for (size_t i = begin; i < end; i++) {
        const size_t image = i / r->blocks, block = i % r->blocks;
        const float *x = find_block(r, image, block);
        const float *scale = XCVM_CDATA(float, r->a->scale) + block * XCVM_CHANNEL_BLOCK;
        const float *shift = XCVM_CDATA(float, r->a->shift) + block * XCVM_CHANNEL_BLOCK;
        float *y = XCVM_DATA(float, r->a->y) + i * r->size;
        if (direct) {
            scale_and_shift(x, y, r->size, scale, shift, r->f.low, r->f.high);
            continue;
        }
        for (size_t at = 0; at < r->size; at += CHUNK) {
            const size_t n = r->size - at < CHUNK ? r->size - at : CHUNK;
            scale_and_shift(x + at, y + at, n, scale, shift, -INFINITY, INFINITY);
            xcvm_activate_row(&r->f, y + at, n);
            clamp(y + at, n, r->f.low, r->f.high);
        }
    }
}

XCVM_KERNEL(BlockedAffine)
{
    blocked_affine_loop r = {.a = a, .f = xcvm_activation_of(a->activation, a->activation_params)};
    r.blocks = (size_t)a->y->dims[1];
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    r.size = xcvm_element_count(a->y) / ((size_t)a->y->dims[0] * r.blocks);
    return xcvm_kernel_parallel(k, (size_t)a->y->dims[0] * r.blocks, THREAD_FLOATS / r.size + 1, affine_range, &r);
}
