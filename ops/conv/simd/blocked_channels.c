/* BlockChannels and UnblockChannels: conversion between one plane per channel and blocks of 16 channels. */
#include "ops/conv/blocked.h"
#include "ops/util/kernel.h"
#include "ops/simd/lanes.h"

enum {
    BLOCK = XCVM_CHANNEL_BLOCK,
    /* Minimum positions per thread. */
    THREAD_POSITIONS = 4096
};

typedef struct blocked_channels_loop {
    const float *x;
    float *y;
    size_t channels, blocks, positions; /* channels and blocks of a batch entry; positions of a plane */
} blocked_channels_loop;

/* Plane of channel c of image n, or NULL beyond the channels. */
static const float *plane_of(const blocked_channels_loop *r, const float *planes, size_t image, size_t channel)
{
    return channel < r->channels ? planes + (image * r->channels + channel) * r->positions : NULL;
}

static void block_range(void *context, size_t begin, size_t end, int worker)
{
    const blocked_channels_loop *r = context;
    (void)worker;
    while (begin < end) {
        const size_t block = begin / r->positions, at = begin % r->positions;
        const size_t image = block / r->blocks, first = block % r->blocks * BLOCK;
        const size_t span = r->positions - at < end - begin ? r->positions - at : end - begin;
        float *to = r->y + begin * BLOCK;
        size_t p = 0;
        for (; p + XCVM_LANES <= span; p += XCVM_LANES)
            for (size_t c = 0; c < BLOCK; c += XCVM_LANES) {
                xcvm_lanes square[XCVM_LANES];
#pragma GCC unroll 16
                for (size_t i = 0; i < XCVM_LANES; i++) {
                    const float *from = plane_of(r, r->x, image, first + c + i);
                    square[i] = from != NULL ? xcvm_lanes_load(from + at + p) : (xcvm_lanes){0};
                }
                xcvm_lanes_transpose(square);
#pragma GCC unroll 16
                for (size_t i = 0; i < XCVM_LANES; i++)
                    xcvm_lanes_store(to + (p + i) * BLOCK + c, square[i]);
            }
        for (size_t c = 0; c < BLOCK; c++) {
            const float *from = plane_of(r, r->x, image, first + c);
            for (size_t i = p; i < span; i++)
                to[i * BLOCK + c] = from != NULL ? from[at + i] : 0.0f;
        }
        begin += span;
    }
}

static void unblock_range(void *context, size_t begin, size_t end, int worker)
{
    const blocked_channels_loop *r = context;
    (void)worker;
    while (begin < end) {
        const size_t block = begin / r->positions, at = begin % r->positions;
        const size_t image = block / r->blocks, first = block % r->blocks * BLOCK;
        const size_t span = r->positions - at < end - begin ? r->positions - at : end - begin;
        const size_t channels = r->channels - first < BLOCK ? r->channels - first : BLOCK;
        const float *from = r->x + begin * BLOCK;
        float *to = r->y + (image * r->channels + first) * r->positions + at;
        size_t p = 0;
        for (; p + XCVM_LANES <= span; p += XCVM_LANES)
            for (size_t c = 0; c < channels; c += XCVM_LANES) {
                xcvm_lanes square[XCVM_LANES];
#pragma GCC unroll 16
                for (size_t i = 0; i < XCVM_LANES; i++)
                    square[i] = xcvm_lanes_load(from + (p + i) * BLOCK + c);
                xcvm_lanes_transpose(square);
                for (size_t i = 0; i < XCVM_LANES && c + i < channels; i++)
                    xcvm_lanes_store(to + (c + i) * r->positions + p, square[i]);
            }
        for (size_t c = 0; c < channels; c++)
            for (size_t i = p; i < span; i++)
                to[c * r->positions + i] = from[i * BLOCK + c];
        begin += span;
    }
}

static xcvm_status change_layout(const xcvm_kernel *k, const xcvm_value *plain, blocked_channels_loop *r,
                                 xcvm_range_body body)
{
    r->channels = (size_t)plain->dims[1];
    r->blocks = (size_t)xcvm_blocks_of(plain->dims[1]);
    r->positions = 1;
    for (int i = 2; i < plain->rank; i++)
        r->positions *= (size_t)plain->dims[i];
    return xcvm_kernel_parallel(k, (size_t)plain->dims[0] * r->blocks * r->positions, THREAD_POSITIONS, body, r);
}

XCVM_KERNEL(BlockChannels)
{
    blocked_channels_loop r = {.x = a->x->data, .y = a->y->data};
    return change_layout(k, a->x, &r, block_range);
}

XCVM_KERNEL(UnblockChannels)
{
    blocked_channels_loop r = {.x = a->x->data, .y = a->y->data};
    return change_layout(k, a->y, &r, unblock_range);
}
