/* Shape checks of block-quantized operands. */
#ifndef XCVM_OPS_MATMUL_QUANTIZED_BLOCKS_SHAPE_H
#define XCVM_OPS_MATMUL_QUANTIZED_BLOCKS_SHAPE_H

#include "ops/matmul/quantized_blocks.h"
#include "ops/util/shape.h"

typedef struct xcvm_qblocks_operands {
    const char *name;                           /* name of the codes */
    const xcvm_value *codes, *scales, *offsets; /* offsets: NULL if absent */
    int64_t depth, columns, bits, block_size;   /* the first two are 1 to INT32_MAX */
} xcvm_qblocks_operands;

/* Checks known shapes of operands that form a block-quantized matrix of depth rows and columns
 * (ops/matmul/quantized_blocks.h). */
xcvm_status xcvm_qblocks_check(const xcvm_inference *t, const xcvm_qblocks_operands *o);

#endif
