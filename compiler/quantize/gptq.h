/* GPTQ (Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2022):
 * weights are rounded one after the other, and those that are still to be rounded make up for the error so far, as far
 * as the inputs that they are multiplied by go together. What counts is the error of the sums, not that of each weight;
 * it follows from the second moments of the inputs.
 *
 * Sums are along rows of weights, `inputs` of them in each of `groups` groups (of a convolution; else one). Only inputs
 * of one block make up for each other, so that memory is linear in their number. */
#ifndef XCVM_COMPILER_QUANTIZE_GPTQ_H
#define XCVM_COMPILER_QUANTIZE_GPTQ_H

#include "compiler/ir/graph.h"

/* Sums of products of inputs, for each group and block a square of which the triangle from the diagonal on is kept. */
typedef struct xcc_moments {
    size_t groups, inputs;
    size_t block, blocks; /* inputs of a block, but for the last one; blocks of a group */
    uint64_t count;       /* rows that were added */
    float *sums;
    size_t bytes; /* of `sums` */
} xcc_moments;

/* Sets all but `sums`, with blocks as large as `most` bytes allow. */
void xcc_moments_plan(xcc_moments *t, size_t groups, size_t inputs, size_t most);
/* Adds `count` rows of inputs, those of all groups side by side. */
xcvm_status xcc_moments_add(xcc_module *m, xcc_moments *t, const float *rows, size_t count);

/* What weights may become: (level - zero_point) * scale, of levels from least to greatest. Output o and input i have
 * scale and zero point number o * step + i / run. */
typedef struct xcc_grid {
    const float *scales;
    const int32_t *zero_points;
    size_t step, run;
    int32_t least, greatest;
} xcc_grid;
int32_t xcc_grid_level(const xcc_grid *grid, size_t at, float x);

/* Where the weight of output o and input i is: o * output + i * input. Outputs of a group stand one behind the other.
 */
typedef struct xcc_weight_layout {
    size_t outputs; /* of all groups */
    size_t output, input;
} xcc_weight_layout;

/* Rounds weights to levels, of which the low 8 bits are stored where the weight is. Where moments say nothing, as of
 * inputs that were always zero, or overflow, each is rounded to the nearest. */
xcvm_status xcc_gptq(xcc_module *m, const xcc_moments *t, const xcc_grid *grid, const xcc_weight_layout *layout,
                     const float *x, uint8_t *levels);

#endif
