/* Conv: the choice of an algorithm, and element types other than f32. */
#include "ops/conv/simd/conv.h"
#include "ops/conv/conv_f64.h"
#include "ops/simd/halves.h"

const xcvm_conv_algorithm *xcvm_conv_choose(const xcvm_conv_shape *s)
{
    static const xcvm_conv_algorithm *const all[] = {
        &xcvm_conv_pointwise, &xcvm_conv_depthwise, &xcvm_conv_dilated_depthwise,
        &xcvm_conv_winograd,  &xcvm_conv_rows,      &xcvm_conv_im2col};
    const xcvm_conv_algorithm *best = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->fits(s) && (best == NULL || all[i]->cost(s) < best->cost(s)))
            best = all[i];
    return best;
}

static size_t padded_bytes(const xcvm_value *v)
{
    return v != NULL ? xcvm_round_up(xcvm_element_count(v) * sizeof(float), XCVM_ALIGNMENT) : 0;
}

static const float *load(const xcvm_kernel *k, const xcvm_value *v, char **at)
{
    if (v == NULL)
        return NULL;
    float *floats = (float *)(void *)*at;
    (void)xcvm_halves_load_all(k, v, floats);
    *at += padded_bytes(v);
    return floats;
}

/* f16 and bf16 are computed in f32. */
static xcvm_status run_narrow(xcvm_kernel *k, const xcvm_Conv_args *a, xcvm_conv *c, const xcvm_conv_algorithm *chosen)
{
    const size_t copies =
        padded_bytes(a->x) + padded_bytes(a->w) + padded_bytes(a->b) + padded_bytes(a->z) + padded_bytes(a->y);
    char *at = xcvm_kernel_scratch(k, copies + chosen->scratch(&c->shape, xcvm_threads_count(k->threads)));
    if (at == NULL)
        return XCVM_OUT_OF_MEMORY;
    void *scratch = at + copies;
    c->x = load(k, a->x, &at);
    c->w = load(k, a->w, &at);
    c->b = load(k, a->b, &at);
    c->z = load(k, a->z, &at);
    c->y = (float *)(void *)at;
    XCVM_TRY(chosen->run(k, c, scratch));
    return xcvm_halves_store_all(k, c->y, a->y);
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
    if (a->y->dtype != XCVM_F32)
        return run_narrow(k, a, &c, chosen);
    c.x = a->x->data;
    c.w = a->w->data;
    c.b = a->b != NULL ? a->b->data : NULL;
    c.z = a->z != NULL ? a->z->data : NULL;
    c.y = a->y->data;
    void *scratch = xcvm_kernel_scratch(k, chosen->scratch(&c.shape, xcvm_threads_count(k->threads)));
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    return chosen->run(k, &c, scratch);
}
