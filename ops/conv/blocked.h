/* Blocked channels, NCHW16c: the fastest layout for f32 convolutions, because a vector of channels is loaded, computed
 * and stored without shuffles.
 *
 * A tensor x [N, C, H, W] in blocked form is f32 [N, ceil(C / 16), H, W, 16]: element (n, c, h, w) is at [n, c / 16, h,
 * w, c % 16]. With a depth axis it is [N, ceil(C / 16), D, H, W, 16], with only one spatial axis [N, ceil(C / 16), W,
 * 16]; filters have the same spatial axes. The block is 16 channels on every processor, so that programs stay portable.
 * Elements beyond C may have any value, including NaN; they never affect others.
 *
 * Filters are packed at compile time. Elements beyond the last output channel are zero, as in the bias, f32[ceil(K /
 * 16) * 16]:
 *
 * direct: f32[K16, Cg, kh, kw, 16], or f32[K16, Cg, kd, kh, kw, 16]. K16 = ceil(K / 16) is the number of blocks of
 * output channels, Cg the input channels of a group. The shape gives the sizes, not the order. A block of output
 * channels contains, for each block of up to 16 input channels, the window positions in row-major order; for each of
 * these the block's input channels; for each of these 16 output channels. With several groups, the outputs and channels
 * of a group are multiples of 16.
 *
 * direct_pairs: bf16[K16, ceil(Cg / 2), kh, kw, 16, 2]. Like direct, with pairs of channels (ops/matmul/pairs.h). x is
 * blocked and rounded the same way. Windows are not dilated.
 *
 * depthwise: f32[C16, kh, kw, 16], or f32[C16, kd, kh, kw, 16]. One filter per channel.
 *
 * grouped: f32[K16, Cg, kh, kw, 16], for groups of Cg = 2, 4 or 8 channels and as many outputs. Each block contains the
 * window positions; for each of these the group's input channels; for each of these 16 output channels.
 *
 * winograd: f32[(tile + 2)^2, K16, C, 16], or f32[(tile + 2)^2, K16, kd, C, 16], tile 2 or 4. The filters, or each
 * depth slice of them, transformed for F(tile x tile, 3 x 3). For windows of 3 x 3 or kd x 3 x 3, stride 1 and one
 * group.
 *
 * winograd_untransformed: like direct, for windows of 3 x 3, stride 1 and one group. The kernel transforms them for F(4
 * x 4, 3 x 3) in portions. This takes a quarter of the memory, for filters that are applied to few tiles.
 *
 * winograd_strided: f32[36, K16, 4 C, 16], for a plain x of C channels, windows of 7 x 7 and stride 2. The taps at even
 * and odd rows and columns form four windows of 4 x 4, padded with zeros. They are transformed for F(3 x 3, 4 x 4).
 *
 * BlockedConvTranspose has f32[K16, C, kh, kw, 16]. Like direct, but a block of output channels contains the phases (i,
 * j), i < row stride, j < column stride, one after another. A phase contains the window positions whose offsets from
 * multiples of the strides are i and j. */
#ifndef XCVM_OPS_CONV_BLOCKED_H
#define XCVM_OPS_CONV_BLOCKED_H

#include "ops/op.h"

enum {
    XCVM_CHANNEL_BLOCK = 16,
    /* Maximum channels of a plain (not blocked) x of BlockedConv. */
    XCVM_BLOCKED_PLAIN_CHANNELS = 16,
    /* Limits of winograd_strided. */
    XCVM_BLOCKED_STRIDED_WINDOW = 7,
    XCVM_BLOCKED_STRIDED_CHANNELS = XCVM_CHANNEL_BLOCK / 4
};

static inline bool xcvm_blocked_is_winograd(int algorithm)
{
    return algorithm == XCVM_BLOCKED_winograd || algorithm == XCVM_BLOCKED_winograd_untransformed;
}
/* True if the algorithm computes the convolution by its definition. */
static inline bool xcvm_blocked_is_direct(int algorithm)
{
    return algorithm == XCVM_BLOCKED_direct || algorithm == XCVM_BLOCKED_direct_pairs;
}
/* True if filters are packed as for direct. */
static inline bool xcvm_blocked_is_packed_direct(int algorithm)
{
    return algorithm == XCVM_BLOCKED_direct || algorithm == XCVM_BLOCKED_winograd_untransformed;
}
/* True if packed filters have an input channel axis after the output axis. */
static inline bool xcvm_blocked_has_channels(int algorithm)
{
    return xcvm_blocked_is_packed_direct(algorithm) || algorithm == XCVM_BLOCKED_grouped ||
           algorithm == XCVM_BLOCKED_direct_pairs;
}
/* True if a block of output channels depends only on the same block of x. */
static inline bool xcvm_blocked_is_by_block(int algorithm)
{
    return algorithm == XCVM_BLOCKED_depthwise || algorithm == XCVM_BLOCKED_grouped;
}
/* True if filters may be f16, bf16 or f24. */
static inline bool xcvm_blocked_takes_narrow(int algorithm)
{
    return !xcvm_blocked_is_by_block(algorithm) && algorithm != XCVM_BLOCKED_winograd_strided &&
           algorithm != XCVM_BLOCKED_direct_pairs;
}
/* True if direct_pairs can compute a convolution with `channels` channels per group. */
static inline bool xcvm_blocked_takes_pairs(int64_t channels, xcvm_ints dilations, bool plain)
{
    bool whole = !plain && channels % 2 == 0;
    for (size_t i = 0; i < dilations.count; i++)
        whole = whole && dilations.at[i] == 1;
    return whole;
}
/* True if `grouped` supports this number of channels per group. */
static inline bool xcvm_blocked_is_small_group(int64_t channels)
{
    return channels == 2 || channels == 4 || channels == 8;
}
static inline int64_t xcvm_blocks_of(int64_t channels)
{
    return channels / XCVM_CHANNEL_BLOCK + (channels % XCVM_CHANNEL_BLOCK != 0);
}

/* Pack w, a filter of Conv with shape [K, Cg, kw], [K, Cg, kh, kw] or [K, Cg, kd, kh, kw] in `dims`. `packed` has room
 * for the shape above. */
void xcvm_blocked_pack_direct(const float *w, int rank, const int64_t *dims, float *packed);
void xcvm_blocked_pack_depthwise(const float *w, int rank, const int64_t *dims, float *packed);
void xcvm_blocked_pack_grouped(const float *w, int rank, const int64_t *dims, float *packed);
void xcvm_blocked_pack_winograd(const float *w, int rank, const int64_t *dims, int64_t tile, float *packed);
void xcvm_blocked_pack_strided(const float *w, const int64_t dims[4], float *packed);
/* Converts filters packed for direct, of shape [K16, Cg, ...window, 16], to direct_pairs. */
void xcvm_blocked_pack_pairs(const float *direct, int rank, const int64_t *dims, uint16_t *packed);
/* Here w is a filter of ConvTranspose, [C, K, kh, kw]. */
void xcvm_blocked_pack_transposed(const float *w, const int64_t dims[4], const int64_t strides[2], float *packed);
void xcvm_blocked_pack_bias(const float *b, int64_t outputs, float *packed);

#endif
