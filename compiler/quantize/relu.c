/* Relu and Clip that saturation of integers replaces. */
#include "compiler/quantize/relu.h"

#include <math.h>

bool xcc_relu_is_implied(const quantizer *q, const xcc_quant_node *n)
{
    if (n->epilogue_of == XCC_NO_NODE || (!xcc_quant_is(n, "Relu") && !xcc_quant_is(n, "Clip")))
        return false;
    const xcc_quant_node *first = n;
    while (first->epilogue_of != XCC_NO_NODE)
        first = &q->nodes[first->epilogue_of];
    const xcc_quant_tensor *t = xcc_quant_output(q, n, 0);
    if (!first->quantized || first->level != XCC_LEVEL_INTEGER || t == NULL || !t->quantized || t->like != t ||
        t->is_output || t->captured)
        return false;
    int32_t least, greatest;
    xcc_quant_limits(q->o.activations, &least, &greatest);
    const double scale = (double)t->scale, low = (least - t->zero_point) * scale,
                 high = (greatest - t->zero_point) * scale;
    /* A bound may differ by the rounding of the scale. */
    return low >= n->least && high <= n->greatest + 1e-6 * fabs(n->greatest);
}
