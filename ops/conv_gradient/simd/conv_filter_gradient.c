/* ConvFilterGradient: choice of an algorithm, and element types other than f32. */
#include "ops/conv/conv_f64.h"
#include "ops/conv_gradient/simd/filter_gradient.h"
#include "ops/simd/halves.h"

/* Returns the first supported algorithm. */
static const xcvm_filter_gradient_algorithm *choose(const xcvm_conv_shape *s)
{
    static const xcvm_filter_gradient_algorithm *const all[] = {
        &xcvm_filter_gradient_pairs, &xcvm_filter_gradient_winograd, &xcvm_filter_gradient_rows,
        &xcvm_filter_gradient_products};
    size_t i = 0;
    while (!all[i]->fits(s))
        i++;
    return all[i];
}

XCVM_KERNEL(ConvFilterGradient)
{
    /* g is the gradient of the convolution's result and y that of its filters, with the same shapes. */
    xcvm_filter_gradient f = {.shape =
                                  xcvm_conv_shape_of(a->x, a->y, a->g, a->strides, a->pads, a->dilations, a->group)};
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    if (a->y->dtype == XCVM_F64)
        return xcvm_conv_filter_gradient_f64(k, &f.shape, a);
    if (xcvm_element_count(a->g) == 0 || xcvm_element_count(a->x) == 0) {
        memset(a->y->data, 0, a->y->bytes);
        return XCVM_OK;
    }
    const xcvm_filter_gradient_algorithm *chosen = choose(&f.shape);
    const size_t copies = xcvm_halves_copy_bytes(a->x) + xcvm_halves_copy_bytes(a->g) + xcvm_halves_copy_bytes(a->y);
    char *at = xcvm_kernel_scratch(k, copies + chosen->scratch(&f.shape, xcvm_threads_count(k->threads)));
    if (at == NULL)
        return XCVM_OUT_OF_MEMORY;
    void *scratch = at + copies;
    f.x = xcvm_halves_as_floats(k, a->x, &at);
    f.g = xcvm_halves_as_floats(k, a->g, &at);
    f.y = a->y->dtype == XCVM_F32 ? a->y->data : (void *)at;
    XCVM_TRY(chosen->run(k, &f, scratch));
    return a->y->dtype != XCVM_F32 ? xcvm_halves_store_all(k, f.y, a->y) : XCVM_OK;
}
