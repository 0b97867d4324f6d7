/* ConvTranspose: choice of an algorithm, and element types other than f32. */
#include "ops/conv/simd/conv_transpose.h"
#include "ops/conv/conv_f64.h"
#include "ops/simd/halves.h"

static bool all_finite(const xcvm_value *w)
{
    enum { CHUNK = 256 };
    float room[CHUNK], sum = 0.0f;
    const size_t count = xcvm_element_count(w);
    for (size_t at = 0; at < count; at += CHUNK) {
        const size_t some = xcvm_min(count - at, CHUNK);
        const float *x = room;
        if (w->dtype == XCVM_F32)
            x = (const float *)w->data + at;
        else
            xcvm_halves_load((xcvm_dtype)w->dtype, w->data, at, some, room);
        for (size_t i = 0; i < some; i++)
            sum += x[i] * 0.0f;
    }
    return sum == 0.0f;
}

/* Returns the first supported algorithm. */
static const xcvm_transposed_algorithm *choose(const xcvm_conv_shape *s, const xcvm_value *w)
{
    static const xcvm_transposed_algorithm *const all[] = {&xcvm_transposed_convolution, &xcvm_transposed_depthwise,
                                                           &xcvm_transposed_products};
    size_t i = 0;
    while (!all[i]->fits(s) || (all[i]->f32 && w->dtype != XCVM_F32))
        i++;
    return all[i]->finite && !all_finite(w) ? &xcvm_transposed_products : all[i];
}

XCVM_KERNEL(ConvTranspose)
{
    int64_t resolved[2 * XCVM_MAX_RANK];
    xcvm_transposed t = {.shape = xcvm_conv_shape_of(a->y, a->w, a->x, a->strides, xcvm_transposed_pads(a, resolved),
                                                     a->dilations, a->group)};
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    if (a->y->dtype == XCVM_F64)
        return xcvm_conv_transpose_f64(k, &t.shape, a);
    const xcvm_transposed_algorithm *chosen = choose(&t.shape, a->w);
    const size_t copies = xcvm_halves_copy_bytes(a->x) + xcvm_halves_copy_bytes(a->w) + xcvm_halves_copy_bytes(a->b) +
                          xcvm_halves_copy_bytes(a->y);
    char *at = xcvm_kernel_scratch(k, copies + chosen->scratch(&t.shape, xcvm_threads_count(k->threads)));
    if (at == NULL)
        return XCVM_OUT_OF_MEMORY;
    void *scratch = at + copies;
    t.x = xcvm_halves_as_floats(k, a->x, &at);
    t.w = xcvm_halves_as_floats(k, a->w, &at);
    t.b = xcvm_halves_as_floats(k, a->b, &at);
    t.y = a->y->dtype == XCVM_F32 ? a->y->data : (void *)at;
    XCVM_TRY(chosen->run(k, &t, scratch));
    return a->y->dtype != XCVM_F32 ? xcvm_halves_store_all(k, t.y, a->y) : XCVM_OK;
}
