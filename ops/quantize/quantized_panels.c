/* Packing of s8 filters into panels of quads. */
#include "ops/quantize/quantized_panels.h"

#include <string.h>

void xcvm_quantized_pack(const int8_t *w, const size_t steps[4], size_t groups, size_t outputs, size_t channels,
                         size_t height, size_t width, const xcvm_quantized_runs *runs, int8_t *panels)
{
    const size_t panel = runs->segments * runs->quads * XCVM_QUANTIZED_LINE, count = xcvm_quantized_panels(outputs);
    memset(panels, 0, groups * count * panel);
    for (size_t g = 0; g < groups; g++)
        for (size_t o = 0; o < outputs; o++) {
            int8_t *lane =
                panels + (g * count + o / XCVM_QUANTIZED_OUTPUTS) * panel + o % XCVM_QUANTIZED_OUTPUTS * XCVM_QUAD;
            for (size_t row = 0; row < height; row++)
                for (size_t column = 0; column < width; column++)
                    for (size_t c = 0; c < channels; c++) {
                        const size_t segment = runs->by_rows ? row : row * width + column;
                        const size_t at = runs->by_rows ? column * channels + c : c;
                        lane[(segment * runs->quads + at / XCVM_QUAD) * XCVM_QUANTIZED_LINE + at % XCVM_QUAD] =
                            w[(g * outputs + o) * steps[0] + c * steps[1] + row * steps[2] + column * steps[3]];
                    }
        }
}
