/* Convolution and deconvolution layers. */
#include "tape/layers/layers.h"

#include <string.h>

static xcvm_int_list int_list(const int64_t *at, size_t count) { return (xcvm_int_list){at, count}; }

static xcvm_var call_convolution(xcvm_layer *l, xcvm_var x)
{
    const layer_settings *s = &l->settings;
    return xcvm_Conv(l->tape, x, layer_find_tensor(l, "W"), layer_find_tensor(l, "b"),
                     .strides = int_list(s->strides, s->axes), .pads = int_list(s->pads, 2 * s->axes),
                     .dilations = int_list(s->dilations, s->axes), .group = s->groups);
}

static xcvm_var call_deconvolution(xcvm_layer *l, xcvm_var x)
{
    const layer_settings *s = &l->settings;
    return xcvm_ConvTranspose(l->tape, x, layer_find_tensor(l, "W"), layer_find_tensor(l, "b"),
                              .strides = int_list(s->strides, s->axes), .pads = int_list(s->pads, 2 * s->axes),
                              .dilations = int_list(s->dilations, s->axes), .group = s->groups);
}

static const layer_kind convolution = {"convolution", call_convolution, 0},
                        deconvolution = {"deconvolution", call_deconvolution, 0};

/* Reads one number per axis, one for all, or the default `otherwise`. */
static bool read_axes(xcvm_tape *t, const char *what, const xcvm_int_list *given, size_t axes, int64_t otherwise,
                      int64_t *to)
{
    if (given->count > 1 && given->count != axes) {
        tape_fail(t, XCVM_INVALID_ARGUMENT, "%zu %s for a filter of %zu axes", given->count, what, axes);
        return false;
    }
    for (size_t i = 0; i < axes; i++) {
        to[i] = given->count == 0 ? otherwise : given->at[given->count == 1 ? 0 : i];
        if (to[i] < otherwise) {
            tape_fail(t, XCVM_OUT_OF_RANGE, "one of the %s is %lld, below %lld", what, (long long)to[i],
                      (long long)otherwise);
            return false;
        }
    }
    return true;
}

static bool read_settings(xcvm_tape *t, const xcvm_layer_options *o, const xcvm_int_list *kernel, layer_settings *s)
{
    const size_t axes = kernel->count;
    if (axes < 1 || axes > XCVM_MAX_RANK - 2) {
        tape_fail(t, XCVM_INVALID_ARGUMENT, "a filter of %zu axes; there are 1 to %d", axes, XCVM_MAX_RANK - 2);
        return false;
    }
    s->axes = axes;
    s->groups = o->groups != 0 ? o->groups : 1;
    for (size_t i = 0; i < axes; i++)
        if (!layer_check_size(t, "a size of the filter", kernel->at[i]))
            return false;
    if (!layer_check_size(t, "groups", s->groups) || !read_axes(t, "strides", &o->strides, axes, 1, s->strides) ||
        !read_axes(t, "pads", &o->pads, axes, 0, s->pads) ||
        !read_axes(t, "dilations", &o->dilations, axes, 1, s->dilations))
        return false;
    memcpy(s->pads + axes, s->pads, axes * sizeof *s->pads);
    return true;
}

static xcvm_layer *create_convolution(xcvm_tape *tape, const layer_kind *kind, int64_t in, int64_t out,
                                      xcvm_int_list kernel, const xcvm_layer_options *options)
{
    xcvm_layer_options o;
    layer_settings s = {0};
    if (!layer_read_options(tape, &o, options) || !layer_check_size(tape, "in", in) ||
        !layer_check_size(tape, "out", out) || !read_settings(tape, &o, &kernel, &s))
        return NULL;
    if (in % s.groups != 0 || out % s.groups != 0) {
        tape_fail(tape, XCVM_INVALID_ARGUMENT, "%lld and %lld channels cannot be cut into %lld groups", (long long)in,
                  (long long)out, (long long)s.groups);
        return NULL;
    }
    int64_t dims[XCVM_MAX_RANK] = {out, in / s.groups};
    if (kind == &deconvolution) {
        dims[0] = in;
        dims[1] = out / s.groups;
    }
    memcpy(dims + 2, kernel.at, kernel.count * sizeof *dims);
    xcvm_layer *l = layer_make(tape, kind);
    if (l != NULL)
        l->settings = s;
    layer_add_tensor(l, "W", o.dtype, (int)kernel.count + 2, dims, &o.weight,
                     (xcvm_initializer){.kind = XCVM_INIT_LECUN_NORMAL}, true);
    if (!o.no_bias)
        layer_add_tensor(l, "b", o.dtype, 1, &out, &o.bias, (xcvm_initializer){.kind = XCVM_INIT_ZERO}, true);
    return layer_made(l);
}

xcvm_layer *xcvm_layer_create_convolution(xcvm_tape *tape, int64_t in, int64_t out, xcvm_int_list kernel,
                                          const xcvm_layer_options *options)
{
    return TAPE_ENTER(tape, xcvm_layer_create_convolution)
               ? create_convolution(tape, &convolution, in, out, kernel, options)
               : NULL;
}

xcvm_layer *xcvm_layer_create_deconvolution(xcvm_tape *tape, int64_t in, int64_t out, xcvm_int_list kernel,
                                            const xcvm_layer_options *options)
{
    return TAPE_ENTER(tape, xcvm_layer_create_deconvolution)
               ? create_convolution(tape, &deconvolution, in, out, kernel, options)
               : NULL;
}
