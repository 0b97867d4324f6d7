/* Tiles of products of bf16 pairs. */
#include "ops/conv/simd/blocked_product.h"
#include "ops/conv/simd/blocked_sums.h"
#include "ops/matmul/simd/pair_lanes.h"

enum { BLOCK = XCVM_CHANNEL_BLOCK, VECTORS = XCVM_BLOCK_VECTORS, SUMS = XCVM_PRODUCT_SUMS };

#define TILES_FUNCTION(name) in_steps_##name
#define TILES_ATTRIBUTE
#define TILES_PIXEL XCVM_BLOCK_PAIRS
#define TILES_LANES xcvm_lanes_bits
#define TILES_LOAD xcvm_pairs_load
#define TILES_ALL xcvm_pairs_all
#define TILES_ADD xcvm_pairs_add
#include "ops/conv/simd/blocked_tiles.h"

#if XCVM_HAS_PAIRS
#define TILES_FUNCTION(name) at_once_##name
#define TILES_ATTRIBUTE XCVM_PAIRS_ATTRIBUTE
#define TILES_PIXEL XCVM_BLOCK_PAIRS
#define TILES_LANES xcvm_lanes_bits
#define TILES_LOAD xcvm_pairs_load
#define TILES_ALL xcvm_pairs_all
#define TILES_ADD XCVM_PAIRS_AT_ONCE
#include "ops/conv/simd/blocked_tiles.h"
#endif

xcvm_blocked_tile_function xcvm_blocked_pairs(bool side_by_side)
{
#if XCVM_HAS_PAIRS
    if (xcvm_has_pairs())
        return side_by_side ? at_once_side_by_side : at_once_apart;
#endif
    return side_by_side ? in_steps_side_by_side : in_steps_apart;
}
