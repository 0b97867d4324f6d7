/* Constants that are operands as activations are, as integers. */
#include "compiler/quantize/model_writer.h"

#include <math.h>

xcvm_status xcc_quant_constant(xcc_model_writer *w, xcc_quant_tensor *t, xcc_tensor *shape)
{
    quantizer *q = w->q;
    float *x;
    int32_t least, greatest;
    if (t->quantized_name != NULL)
        return XCVM_OK;
    XCVM_TRY(xcc_quant_floats(q, t, &w->arena, shape, &x));
    const size_t size = (size_t)xcvm_dtype_bits(q->o.activations) / 8;
    uint8_t *integers = xcvm_arena_allocate(&w->arena, shape->count * size + 1);
    if (integers == NULL)
        return xcc_out_of_memory(&q->m);
    xcc_quant_limits(q->o.activations, &least, &greatest);
    for (size_t i = 0; i < shape->count; i++) {
        const int32_t v =
            (int32_t)fmin(fmax(rint((double)(x[i] / t->like->scale)) + t->like->zero_point, least), greatest);
        if (size == 1)
            integers[i] = (uint8_t)v;
        else
            ((uint16_t *)(void *)integers)[i] = (uint16_t)v;
    }
    t->quantized_name = xcc_put_name(w, t->name, "_quantized");
    xcc_put_constant(w, t->quantized_name, q->o.activations, shape->rank, shape->dims, integers, shape->count * size);
    return XCVM_OK;
}
