/* GPTQ (Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2022).
 * Weights are rounded one after another. The remaining weights compensate for the error so far, as far as their inputs
 * correlate. This minimizes the error of the sums, which follows from the second moments of the inputs, not the error
 * of each weight.
 *
 * Sums are along rows of weights, with `inputs` elements in each of `groups` groups (of a convolution; else one). Only
 * inputs of one block compensate for each other, so memory is linear in their number. */
#ifndef XCVM_COMPILER_QUANTIZE_GPTQ_H
#define XCVM_COMPILER_QUANTIZE_GPTQ_H

#include "compiler/ir/graph.h"

/* Second moments of inputs. Each group and block has a square matrix, of which the upper triangle is stored. */
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

/* Possible values of weights: (level - zero_point) * scale, for levels in a range. Output o and input i have scale and
 * zero point number o * step + i / run. */
typedef struct xcc_grid {
    const float *scales;
    const int32_t *zero_points;
    size_t step, run;
    int32_t least, greatest;
} xcc_grid;
int32_t xcc_grid_level(const xcc_grid *grid, size_t at, float x);

/* Offset of the weight of output o and input i: o * output + i * input. Outputs of a group follow one another. */
typedef struct xcc_weight_layout {
    size_t outputs; /* of all groups */
    size_t output, input;
} xcc_weight_layout;

/* Rounds weights to levels, whose low 8 bits are stored at the weight's offset. If moments are zero or overflow,
 * weights are rounded to the nearest level. */
xcvm_status xcc_gptq(xcc_module *m, const xcc_moments *t, const xcc_grid *grid, const xcc_weight_layout *layout,
                     const float *x, uint8_t *levels);

#endif
