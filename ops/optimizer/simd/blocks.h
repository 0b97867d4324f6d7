/* Blocks of elements of many tensors, so that many small tensors are distributed as evenly as few large ones. Block
 * boundaries depend only on an element's position in its tensor. */
#ifndef XCVM_OPS_OPTIMIZER_SIMD_BLOCKS_H
#define XCVM_OPS_OPTIMIZER_SIMD_BLOCKS_H

#include "ops/util/shape.h"

/* Processes `count` elements of tensor i from element `first`, which are block number `block` of all. */
typedef void (*block_function)(void *context, size_t i, size_t first, size_t count, size_t block);

static inline size_t block_count(const xcvm_value *v, size_t length)
{
    return (xcvm_element_count(v) + length - 1) / length;
}

static inline size_t block_count_of_all(const xcvm_inputs *tensors, size_t length)
{
    size_t blocks = 0;
    for (size_t i = 0; i < tensors->count; i++)
        blocks += block_count(tensors->at[i], length);
    return blocks;
}

/* Iterates over blocks begin ... end of all tensors, each of `length` elements except the last of a tensor. */
static inline void for_blocks(const xcvm_inputs *tensors, size_t length, size_t begin, size_t end,
                              block_function function, void *context)
{
    size_t i = 0, before = 0; /* the tensor, and the number of blocks before it */
    while (begin < end) {
        const size_t count = xcvm_element_count(tensors->at[i]), blocks = block_count(tensors->at[i], length);
        if (begin < before + blocks) {
            const size_t first = (begin - before) * length;
            function(context, i, first, count - first < length ? count - first : length, begin++);
        } else {
            before += blocks;
            i++;
        }
    }
}

#endif
