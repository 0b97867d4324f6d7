/* Constants of block-quantized weights. */
#include "compiler/ir/block_weights.h"

#include <string.h>

xcvm_status xcc_block_weights_create(xcc_graph *g, const xcvm_qblocks *layout, xcvm_dtype scale, xcvm_dtype offset,
                                     xcc_block_weights *w)
{
    const int64_t panels = (int64_t)xcvm_qblocks_panels(layout);
    const int64_t codes[] = {panels, (int64_t)xcvm_qblocks_lines(layout), XCVM_QBLOCKS_LINE};
    const int64_t numbers[] = {panels, (int64_t)xcvm_qblocks_count(layout), XCVM_PACKED_COLUMNS};
    *w = (xcc_block_weights){.layout = *layout, .codes = xcc_constant_blank(g, XCVM_U8, 3, codes)};
    if (w->codes != NULL)
        w->scales = xcc_constant_blank(g, scale, 3, numbers);
    if (w->scales != NULL && offset != XCVM_NO_DTYPE)
        w->offsets = xcc_constant_blank(g, offset, 3, numbers);
    if (w->scales == NULL || (offset != XCVM_NO_DTYPE && w->offsets == NULL))
        return g->module->error->status;
    const int middle = 1 << (layout->bits - 1);
    xcvm_qblocks_clear(layout, XCVM_DATA(uint8_t, &w->codes->type));
    memset(w->scales->type.data, 0, w->scales->type.bytes);
    const size_t count = offset != XCVM_NO_DTYPE ? xcvm_element_count(&w->offsets->type) : 0;
    for (size_t i = 0; i < count; i++)
        if (offset == XCVM_U8)
            XCVM_DATA(uint8_t, &w->offsets->type)[i] = (uint8_t)middle;
        else
            XCVM_DATA(float, &w->offsets->type)[i] = (float)middle;
    return XCVM_OK;
}

xcc_value *xcc_block_weights_product(xcc_builder *b, const xcc_block_weights *w, const xcvm_value *a,
                                     const xcvm_PackedGemm_args *rest)
{
    const xcvm_qblocks *l = &w->layout;
    return xcc_apply(b, BlockQuantizedGemm, y, .a = (xcvm_value *)(uintptr_t)a, .w = XCC_IN(w->codes),
                     .scales = XCC_IN(w->scales), .offsets = XCC_IN(w->offsets), .c = rest->c, .z = rest->z,
                     .columns = (int64_t)l->n, .depth = (int64_t)l->k, .bits = l->bits, .block_size = (int64_t)l->block,
                     .activations = b->graph->module->options->weights.integer_activations ? XCVM_BLOCK_ACTIVATIONS_int8
                                                                                           : XCVM_BLOCK_ACTIVATIONS_f32,
                     .activation = rest->activation, .activation_params = rest->activation_params);
}
