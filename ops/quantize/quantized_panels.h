/* Memory layout of s8 filters and matrices of QuantizedConv and QuantizedGemm, the same for every CPU.
 *
 * The bytes of x of one result form `segments` runs of `length` neighbors. For a matrix this is the row. For a
 * convolution of channels-last images these are the rows of the window if its columns are contiguous (one group, no
 * dilation along the width), else its positions. Each run is padded to whole quads, four bytes that an instruction like
 * vpdpbusd multiplies and adds at once. Padding is zero in the weights and arbitrary in x.
 *
 * Sixteen outputs of one group are a panel, s8[groups * panels, segments * quads, 16, 4]: the quads of sixteen outputs
 * are a cache line. Outputs that pad a group's last panel are zero. */
#ifndef XCVM_OPS_QUANTIZE_QUANTIZED_PANELS_H
#define XCVM_OPS_QUANTIZE_QUANTIZED_PANELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { XCVM_QUANTIZED_OUTPUTS = 16, XCVM_QUAD = 4, XCVM_QUANTIZED_LINE = XCVM_QUANTIZED_OUTPUTS * XCVM_QUAD };

typedef struct xcvm_quantized_runs {
    size_t segments, length, quads; /* quads of a segment */
    bool by_rows;                   /* a segment is a row of the window, else a position */
} xcvm_quantized_runs;

static inline size_t xcvm_quantized_panels(size_t outputs)
{
    return outputs / XCVM_QUANTIZED_OUTPUTS + (outputs % XCVM_QUANTIZED_OUTPUTS != 0);
}

/* For a window of `height` x `width` over `channels` of each group. Without channels there are no segments, whatever
 * the window size. */
static inline xcvm_quantized_runs xcvm_quantized_runs_of(size_t height, size_t width, size_t dilation, size_t channels,
                                                         size_t groups)
{
    const bool by_rows = groups == 1 && (dilation == 1 || width == 1);
    const size_t length = by_rows ? width * channels : channels;
    const size_t segments = by_rows ? height : height * width;
    return (xcvm_quantized_runs){length != 0 ? segments : 0, length, length / XCVM_QUAD + (length % XCVM_QUAD != 0),
                                 by_rows};
}

/* Packs groups * outputs filters: w(output, channel, row, column) is at w[output * steps[0] + channel * steps[1] + row
 * * steps[2] + column * steps[3]]. */
void xcvm_quantized_pack(const int8_t *w, const size_t steps[4], size_t groups, size_t outputs, size_t channels,
                         size_t height, size_t width, const xcvm_quantized_runs *runs, int8_t *panels);

#endif
