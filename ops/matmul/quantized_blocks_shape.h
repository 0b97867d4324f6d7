/* Operands in blocks: what shape rules check. */
#ifndef XCVM_OPS_MATMUL_QUANTIZED_BLOCKS_SHAPE_H
#define XCVM_OPS_MATMUL_QUANTIZED_BLOCKS_SHAPE_H

#include "ops/matmul/quantized_blocks.h"
#include "ops/util/shape.h"

typedef struct xcvm_qblocks_operands {
    const char *name;                           /* of the codes */
    const xcvm_value *codes, *scales, *offsets; /* offsets: NULL if absent */
    int64_t depth, columns, bits, block_size;   /* the first two from 1 to INT32_MAX */
} xcvm_qblocks_operands;

/* Checks that the operands are a matrix of that many rows and columns in blocks (ops/matmul/quantized_blocks.h), as far
 * as their shapes are known. */
xcvm_status xcvm_qblocks_check(const xcvm_inference *t, const xcvm_qblocks_operands *o);

#endif
