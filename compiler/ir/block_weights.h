/* Constants of block-quantized weights, for BlockQuantizedGemm. */
#ifndef XCVM_COMPILER_IR_BLOCK_WEIGHTS_H
#define XCVM_COMPILER_IR_BLOCK_WEIGHTS_H

#include "compiler/ir/builder.h"
#include "ops/matmul/quantized_blocks.h"

typedef struct xcc_block_weights {
    xcvm_qblocks layout;
    xcc_value *codes, *scales, *offsets; /* offsets NULL: the middle code */
} xcc_block_weights;

/* Creates constants to be filled in: middle codes, zero scales of a type in XCVM_TYPES_SCALE, and middle offsets of
 * type u8 or f32 (XCVM_NO_DTYPE: none). */
xcvm_status xcc_block_weights_create(xcc_graph *g, const xcvm_qblocks *layout, xcvm_dtype scale, xcvm_dtype offset,
                                     xcc_block_weights *w);
static inline void xcc_block_weights_set(xcc_block_weights *w, size_t p, size_t j, unsigned code)
{
    xcvm_qblocks_set(&w->layout, p, j, code, XCVM_DATA(uint8_t, &w->codes->type));
}
/* Builds the product with them. `rest` has the addends and the activation (zeros: none). Returns NULL on failure. */
xcc_value *xcc_block_weights_product(xcc_builder *b, const xcc_block_weights *w, const xcvm_value *a,
                                     const xcvm_PackedGemm_args *rest);

#endif
