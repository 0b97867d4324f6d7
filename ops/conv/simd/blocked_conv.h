/* Convolutions of blocked channels (ops/conv/blocked.h): what their algorithms have in common. */
#ifndef XCVM_OPS_CONV_SIMD_BLOCKED_CONV_H
#define XCVM_OPS_CONV_SIMD_BLOCKED_CONV_H

#include "ops/elementwise/activation.h"
#include "ops/conv/blocked.h"
#include "ops/util/kernel.h"
#include "ops/simd/lanes.h"

enum {
    XCVM_BLOCK_VECTORS = XCVM_CHANNEL_BLOCK / XCVM_LANES /* that make up a block */
};

/* What is inlined for each of many sizes, and the times that its loops are unrolled. With a check in every statement
 * that takes a compiler a quarter of an hour: then one function of plain loops does for all. */
#ifdef XCVM_SANITIZED
#define XCVM_TILE_FUNCTION static __attribute__((noinline))
enum { XCVM_UNROLL_4 = 1, XCVM_UNROLL_8 = 1, XCVM_UNROLL_16 = 1, XCVM_UNROLL_24 = 1 };
#else
#define XCVM_TILE_FUNCTION XCVM_INLINE
enum { XCVM_UNROLL_4 = 4, XCVM_UNROLL_8 = 8, XCVM_UNROLL_16 = 16, XCVM_UNROLL_24 = 24 };
#endif

/* Axes of space: an image is a plane, or a depth of slices, each a plane. */
enum { XCVM_BLOCKED_HEIGHT, XCVM_BLOCKED_WIDTH, XCVM_BLOCKED_DEPTH, XCVM_BLOCKED_AXES };

typedef struct xcvm_blocked_conv {
    size_t batch, group;
    size_t channels; /* of a group; 0: each by itself; of pairs, words of two */
    size_t outputs;  /* blocks, of all groups */
    size_t in[XCVM_BLOCKED_AXES], out[XCVM_BLOCKED_AXES], kernel[XCVM_BLOCKED_AXES];
    size_t stride[XCVM_BLOCKED_AXES], dilation[XCVM_BLOCKED_AXES];
    size_t pad[XCVM_BLOCKED_AXES], pad_end[XCVM_BLOCKED_AXES];
    size_t tile;     /* winograd */
    bool on_the_fly; /* winograd: w is */
    size_t pool; /* winograd: y has the greatest of each pool x pool results, out says how many there are before that */
    bool plain;  /* x is not blocked */
    bool pairs; /* direct: x, not plain, and w are words of two channels each, of bf16; x has half a block to a pixel */
    const float *x;
    const void *w;
    xcvm_dtype w_dtype; /* f16, bf16 or f24, but not for depthwise; else f32 */
    const float *b, *z; /* or NULL; z may be y */
    float *y;
    xcvm_activation activation;
} xcvm_blocked_conv;

/* One for each algorithm of ops/conv/blocked.h, over the session's threads, and the definition for what they leave;
 * they fail only for lack of memory or as xcvm_kernel_poll does. */
#define xcvm_blocked_direct XCVM_PER_ISA(xcvm_blocked_direct)
xcvm_status xcvm_blocked_direct(xcvm_kernel *k, const xcvm_blocked_conv *c);
/* The same, of window positions inside x alone. */
#define xcvm_blocked_dilated XCVM_PER_ISA(xcvm_blocked_dilated)
xcvm_status xcvm_blocked_dilated(xcvm_kernel *k, const xcvm_blocked_conv *c);
/* `channels` are those of a group, a divisor of a block's; 0: each channel by itself. */
#define xcvm_blocked_depthwise XCVM_PER_ISA(xcvm_blocked_depthwise)
xcvm_status xcvm_blocked_depthwise(xcvm_kernel *k, const xcvm_blocked_conv *c);
#define xcvm_blocked_winograd XCVM_PER_ISA(xcvm_blocked_winograd)
xcvm_status xcvm_blocked_winograd(xcvm_kernel *k, const xcvm_blocked_conv *c);
/* `channels` counts those of the four phases. */
#define xcvm_blocked_strided XCVM_PER_ISA(xcvm_blocked_strided)
xcvm_status xcvm_blocked_strided(xcvm_kernel *k, const xcvm_blocked_conv *c);

#endif
