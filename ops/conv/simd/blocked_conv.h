/* Convolutions of blocked channels (ops/conv/blocked.h): common definitions of their algorithms. */
#ifndef XCVM_OPS_CONV_SIMD_BLOCKED_CONV_H
#define XCVM_OPS_CONV_SIMD_BLOCKED_CONV_H

#include "ops/elementwise/activation.h"
#include "ops/conv/blocked.h"
#include "ops/util/kernel.h"
#include "ops/simd/lanes.h"

enum {
    XCVM_BLOCK_VECTORS = XCVM_CHANNEL_BLOCK / XCVM_LANES /* vectors of a block */
};

/* Inlining and unrolling of functions for many constant sizes. Under a sanitizer, compiling them takes a quarter of an
 * hour, so one function with plain loops is used. */
#ifdef XCVM_SANITIZED
#define XCVM_TILE_FUNCTION static __attribute__((noinline))
enum { XCVM_UNROLL_4 = 1, XCVM_UNROLL_8 = 1, XCVM_UNROLL_16 = 1, XCVM_UNROLL_24 = 1 };
#else
#define XCVM_TILE_FUNCTION XCVM_INLINE
enum { XCVM_UNROLL_4 = 4, XCVM_UNROLL_8 = 8, XCVM_UNROLL_16 = 16, XCVM_UNROLL_24 = 24 };
#endif
/* Unrolling of loops over channels. For WebAssembly, clang would load the operands of all copies first, for which the
 * engine has no registers. */
#if defined(__wasm__)
enum { XCVM_UNROLL_CHANNELS = 1 };
#else
enum { XCVM_UNROLL_CHANNELS = XCVM_UNROLL_4 };
#endif

/* Spatial axes: an image is a plane, or a stack of slices, each a plane. */
enum { XCVM_BLOCKED_HEIGHT, XCVM_BLOCKED_WIDTH, XCVM_BLOCKED_DEPTH, XCVM_BLOCKED_AXES };

typedef struct xcvm_blocked_conv {
    size_t batch, group;
    size_t channels; /* channels of a group; 0: depthwise; in words for pairs */
    size_t outputs;  /* blocks of all groups */
    size_t in[XCVM_BLOCKED_AXES], out[XCVM_BLOCKED_AXES], kernel[XCVM_BLOCKED_AXES];
    size_t stride[XCVM_BLOCKED_AXES], dilation[XCVM_BLOCKED_AXES];
    size_t pad[XCVM_BLOCKED_AXES], pad_end[XCVM_BLOCKED_AXES];
    size_t tile;     /* for winograd */
    bool on_the_fly; /* winograd: w is untransformed */
    size_t pool;     /* winograd: y has the maximum of each pool x pool results; out is the size before pooling */
    bool plain;      /* x is not blocked */
    bool pairs;      /* direct: x (not plain) and w are words of two bf16 channels; a pixel of x has half a block */
    const float *x;
    const void *w;
    xcvm_dtype w_dtype; /* f16, bf16 or f24, but not for depthwise; else f32 */
    const float *b, *z; /* may be NULL; z may be y */
    float *y;
    xcvm_activation activation;
} xcvm_blocked_conv;

/* One function per algorithm of ops/conv/blocked.h, on the session's threads, and the definition for the remaining
 * shapes. They fail only with OUT_OF_MEMORY or as xcvm_kernel_poll does. */
#define xcvm_blocked_direct XCVM_PER_ISA(xcvm_blocked_direct)
xcvm_status xcvm_blocked_direct(xcvm_kernel *k, const xcvm_blocked_conv *c);
/* The same, computing only window positions inside x. */
#define xcvm_blocked_dilated XCVM_PER_ISA(xcvm_blocked_dilated)
xcvm_status xcvm_blocked_dilated(xcvm_kernel *k, const xcvm_blocked_conv *c);
/* `channels` are those of a group, a divisor of the block size; 0: depthwise. */
#define xcvm_blocked_depthwise XCVM_PER_ISA(xcvm_blocked_depthwise)
xcvm_status xcvm_blocked_depthwise(xcvm_kernel *k, const xcvm_blocked_conv *c);
#define xcvm_blocked_winograd XCVM_PER_ISA(xcvm_blocked_winograd)
xcvm_status xcvm_blocked_winograd(xcvm_kernel *k, const xcvm_blocked_conv *c);
/* `channels` counts the channels of all four phases. */
#define xcvm_blocked_strided XCVM_PER_ISA(xcvm_blocked_strided)
xcvm_status xcvm_blocked_strided(xcvm_kernel *k, const xcvm_blocked_conv *c);

#endif
