/* Blocked channels, NCHW16c: the layout in which convolutions of f32 are computed fastest, as a vector of channels is
 * loaded, computed and stored without moving elements about.
 *
 * A blocked tensor of x [N, C, H, W] is a tensor [N, ceil(C / 16), H, W, 16] of f32: element (n, c, h, w) is at
 * [n, c / 16, h, w, c % 16]. With a third spatial axis, depth, it is [N, ceil(C / 16), D, H, W, 16], with one alone
 * [N, ceil(C / 16), W, 16], and the filters below have as many. The block is 16
 * channels on every processor, so that programs stay portable. Elements beyond C may hold anything, NaN too: they are
 * never mixed into others.
 *
 * Filters are packed when a program is compiled. Their elements beyond the last output channel are zero, and those of
 * the bias, f32[ceil(K / 16) * 16]:
 *
 * direct: f32[K16, Cg, kh, kw, 16], or f32[K16, Cg, kd, kh, kw, 16], K16 = ceil(K / 16) blocks of output channels, Cg
 * input channels of a group. The shape says the sizes, not the order: a block of output channels holds, for each block
 * of up to 16 input channels, the window's positions slice by slice and row by row, of each the block's input channels,
 * of each 16 output channels. With more than one group, outputs and channels of a group are multiples of 16.
 *
 * direct_pairs: bf16[K16, ceil(Cg / 2), kh, kw, 16, 2]. As direct, two channels in place of one (ops/matmul/pairs.h),
 * of an x that is blocked and rounded alike; windows are not dilated.
 *
 * depthwise: f32[C16, kh, kw, 16], or f32[C16, kd, kh, kw, 16]. A filter for each channel.
 *
 * grouped: f32[K16, Cg, kh, kw, 16], of groups of Cg = 2, 4 or 8 channels and as many outputs. For each block of both
 * the window's positions, of each the group's input channels, of each 16 output channels.
 *
 * winograd: f32[(tile + 2)^2, K16, C, 16], or f32[(tile + 2)^2, K16, kd, C, 16], tile 2 or 4. The filters, or each
 * slice of theirs, transformed for F(tile x tile, 3 x 3), for windows of 3 x 3 or kd x 3 x 3, stride 1 and one group.
 *
 * winograd_untransformed: as direct, for windows of 3 x 3, stride 1 and one group. They are transformed for F(4 x 4, 3
 * x 3) as they are used, a portion at a time: a quarter of the memory, for filters that meet few tiles.
 *
 * winograd_strided: f32[36, K16, 4 C, 16], for a plain x of C channels, windows of 7 x 7 and stride 2. Each window's
 * taps at even and at odd rows and columns are windows of 4 x 4, with zeros where there is no tap, transformed for F(3
 * x 3, 4 x 4).
 *
 * BlockedConvTranspose has f32[K16, C, kh, kw, 16]. As direct, but a block of output channels holds one phase after the
 * other, (i, j) for i < stride of rows, j < stride of columns, each with the window's positions that are i and j beyond
 * multiples of the strides. */
#ifndef XCVM_OPS_CONV_BLOCKED_H
#define XCVM_OPS_CONV_BLOCKED_H

#include "ops/op.h"

enum {
    XCVM_CHANNEL_BLOCK = 16,
    /* BlockedConv takes x as it is, not blocked, with up to so many channels. */
    XCVM_BLOCKED_PLAIN_CHANNELS = 16,
    /* The limits of winograd_strided. */
    XCVM_BLOCKED_STRIDED_WINDOW = 7,
    XCVM_BLOCKED_STRIDED_CHANNELS = XCVM_CHANNEL_BLOCK / 4
};

static inline bool xcvm_blocked_is_winograd(int algorithm)
{
    return algorithm == XCVM_BLOCKED_winograd || algorithm == XCVM_BLOCKED_winograd_untransformed;
}
/* Whether a convolution is computed by its definition. */
static inline bool xcvm_blocked_is_direct(int algorithm)
{
    return algorithm == XCVM_BLOCKED_direct || algorithm == XCVM_BLOCKED_direct_pairs;
}
/* Whether filters are packed as for direct. */
static inline bool xcvm_blocked_is_packed_direct(int algorithm)
{
    return algorithm == XCVM_BLOCKED_direct || algorithm == XCVM_BLOCKED_winograd_untransformed;
}
/* Whether the packed filters have an axis of input channels behind that of the outputs. */
static inline bool xcvm_blocked_has_channels(int algorithm)
{
    return xcvm_blocked_is_packed_direct(algorithm) || algorithm == XCVM_BLOCKED_grouped ||
           algorithm == XCVM_BLOCKED_direct_pairs;
}
/* Whether a block of output channels is computed from that block of x alone. */
static inline bool xcvm_blocked_is_by_block(int algorithm)
{
    return algorithm == XCVM_BLOCKED_depthwise || algorithm == XCVM_BLOCKED_grouped;
}
/* Whether filters may be of f16, bf16 or f24. */
static inline bool xcvm_blocked_takes_narrow(int algorithm)
{
    return !xcvm_blocked_is_by_block(algorithm) && algorithm != XCVM_BLOCKED_winograd_strided &&
           algorithm != XCVM_BLOCKED_direct_pairs;
}
/* Whether a direct convolution can be computed from pairs: `channels` are those of a group. */
static inline bool xcvm_blocked_takes_pairs(int64_t channels, xcvm_ints dilations, bool plain)
{
    bool whole = !plain && channels % 2 == 0;
    for (size_t i = 0; i < dilations.count; i++)
        whole = whole && dilations.at[i] == 1;
    return whole;
}
/* Of `grouped`: how many channels of a group are possible. */
static inline bool xcvm_blocked_is_small_group(int64_t channels)
{
    return channels == 2 || channels == 4 || channels == 8;
}
static inline int64_t xcvm_blocks_of(int64_t channels)
{
    return channels / XCVM_CHANNEL_BLOCK + (channels % XCVM_CHANNEL_BLOCK != 0);
}

/* Packing: w is a filter as Conv takes it, of shape dims [K, Cg, kw], [K, Cg, kh, kw] or [K, Cg, kd, kh, kw]; `packed`
 * has room for the shape above. */
void xcvm_blocked_pack_direct(const float *w, int rank, const int64_t *dims, float *packed);
void xcvm_blocked_pack_depthwise(const float *w, int rank, const int64_t *dims, float *packed);
void xcvm_blocked_pack_grouped(const float *w, int rank, const int64_t *dims, float *packed);
void xcvm_blocked_pack_winograd(const float *w, int rank, const int64_t *dims, int64_t tile, float *packed);
void xcvm_blocked_pack_strided(const float *w, const int64_t dims[4], float *packed);
/* Filters packed for direct, of shape dims [K16, Cg, ...window, 16], as those for direct_pairs. */
void xcvm_blocked_pack_pairs(const float *direct, int rank, const int64_t *dims, uint16_t *packed);
/* Here w is as ConvTranspose takes it, [C, K, kh, kw]. */
void xcvm_blocked_pack_transposed(const float *w, const int64_t dims[4], const int64_t strides[2], float *packed);
void xcvm_blocked_pack_bias(const float *b, int64_t outputs, float *packed);

#endif
