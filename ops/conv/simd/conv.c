/* Conv: choice of an algorithm, and element types other than f32. */
#include "ops/conv/simd/conv.h"
#include "ops/conv/conv_f64.h"
#include "ops/simd/halves.h"

const xcvm_conv_algorithm *xcvm_conv_choose(const xcvm_conv_shape *s)
{
    static const xcvm_conv_algorithm *const all[] = {
        &xcvm_conv_pointwise, &xcvm_conv_line, &xcvm_conv_depthwise, &xcvm_conv_dilated_depthwise,
        &xcvm_conv_winograd,  &xcvm_conv_rows, &xcvm_conv_im2col};
    const xcvm_conv_algorithm *best = NULL;
    if (s->channels == 0) /* the other algorithms require at least one term */
        return &xcvm_conv_im2col;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->fits(s) && (best == NULL || all[i]->cost(s) < best->cost(s)))
            best = all[i];
    return best;
}

XCVM_KERNEL(Conv)
{
    const xcvm_activation f = xcvm_activation_affine(a->activation, a->activation_params, a->affine);
    xcvm_conv c = {.shape = xcvm_conv_shape_of(a->x, a->w, a->y, a->strides, a->pads, a->dilations, a->group)};
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    if (a->y->dtype == XCVM_F64)
        return xcvm_conv_f64(k, &c.shape, a, &f);
    c.activation = a->activation != XCVM_ACTIVATION_none || f.affine ? &f : NULL;
    const xcvm_conv_algorithm *chosen = xcvm_conv_choose(&c.shape);
    const size_t copies = xcvm_halves_copy_bytes(a->x) + xcvm_halves_copy_bytes(a->w) + xcvm_halves_copy_bytes(a->b) +
                          xcvm_halves_copy_bytes(a->z) + xcvm_halves_copy_bytes(a->y);
    char *at = xcvm_kernel_scratch(k, copies + chosen->scratch(&c.shape, xcvm_threads_count(k->threads)));
    if (at == NULL)
        return XCVM_OUT_OF_MEMORY;
    void *scratch = at + copies;
    c.x = xcvm_halves_as_floats(k, a->x, &at);
    c.w = xcvm_halves_as_floats(k, a->w, &at);
    c.b = xcvm_halves_as_floats(k, a->b, &at);
    c.z = xcvm_halves_as_floats(k, a->z, &at);
    c.y = a->y->dtype == XCVM_F32 ? a->y->data : (void *)at;
    XCVM_TRY(chosen->run(k, &c, scratch));
    return a->y->dtype != XCVM_F32 ? xcvm_halves_store_all(k, c.y, a->y) : XCVM_OK;
}
