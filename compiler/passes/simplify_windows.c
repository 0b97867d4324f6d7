/* Simplification of windows: crops window positions that only meet padding, and makes automatic padding explicit once
 * sizes are known. */
#include "compiler/passes/rewrite.h"
#include "ops/conv/window.h"

#include <math.h>
#include <string.h>

/* Positions [first, first + size) of a filter that are kept on each axis. */
typedef struct cut {
    int axes;
    int64_t first[XCVM_WINDOW_AXES], size[XCVM_WINDOW_AXES];
    int64_t pads[2 * XCVM_WINDOW_AXES], dilations[XCVM_WINDOW_AXES];
} cut;

/* Returns true if position k is inside the image for some of `out` outputs. */
static bool meets(const xcvm_Conv_args *a, int axis, int64_t in, int64_t out, int64_t k)
{
    const int64_t stride = a->strides.at[axis], shift = k * a->dilations.at[axis] - a->pads.at[axis];
    /* The first output with an index inside the image. */
    const int64_t o = shift < 0 ? (stride - 1 - shift) / stride : 0;
    return o < out && o * stride + shift < in;
}

/* Crops one axis at its ends, as long as pads stay non-negative. Returns true if it changes. */
static bool cut_axis(const xcvm_Conv_args *a, int axis, cut *c)
{
    const int64_t in = a->x->dims[2 + axis], out = a->y->dims[2 + axis], size = a->w->dims[2 + axis];
    const int64_t dilation = a->dilations.at[axis];
    int64_t *begin = &c->pads[axis], *end = &c->pads[c->axes + axis];
    *begin = a->pads.at[axis];
    *end = a->pads.at[c->axes + axis];
    c->first[axis] = 0;
    c->size[axis] = size;
    while (in >= 0 && out >= 0 && c->size[axis] > 1 && *begin >= dilation && !meets(a, axis, in, out, c->first[axis])) {
        *begin -= dilation;
        c->first[axis]++;
        c->size[axis]--;
    }
    while (in >= 0 && out >= 0 && c->size[axis] > 1 && *end >= dilation &&
           !meets(a, axis, in, out, c->first[axis] + c->size[axis] - 1)) {
        *end -= dilation;
        c->size[axis]--;
    }
    c->dilations[axis] = c->size[axis] > 1 ? dilation : 1;
    return c->size[axis] < size;
}

/* Iterates over the elements of filter `w`. Copies those kept to `to`, unless NULL. Returns true if the others are
 * finite. */
static bool split_filter(const xcvm_value *w, const cut *c, char *to)
{
    /* Missing axes are leading axes of size 1. */
    int64_t size[XCVM_WINDOW_AXES] = {1, 1, 1}, first[XCVM_WINDOW_AXES] = {0}, last[XCVM_WINDOW_AXES] = {1, 1, 1};
    const int before = XCVM_WINDOW_AXES - c->axes;
    for (int i = 0; i < c->axes; i++) {
        size[before + i] = w->dims[2 + i];
        first[before + i] = c->first[i];
        last[before + i] = c->first[i] + c->size[i];
    }
    const size_t bytes = xcvm_dtype_size((xcvm_dtype)w->dtype);
    bool finite = true;
    size_t at = 0;
    for (int64_t plane = 0; plane < w->dims[0] * w->dims[1]; plane++)
        for (int64_t i = 0; i < size[0]; i++)
            for (int64_t j = 0; j < size[1]; j++)
                for (int64_t k = 0; k < size[2]; k++, at++) {
                    const bool kept =
                        i >= first[0] && i < last[0] && j >= first[1] && j < last[1] && k >= first[2] && k < last[2];
                    if (!kept && to == NULL)
                        finite = finite && isfinite(xcvm_element_as_double(w, at));
                    if (kept && to != NULL) {
                        memcpy(to, XCVM_CDATA(char, w) + at * bytes, bytes);
                        to += bytes;
                    }
                }
    return finite;
}

/* Padding is 0, and 0 times a finite number adds nothing. */
static bool conv(xcc_rewrite *r, xcc_node *n)
{
    xcvm_Conv_args a = *XCC_ARGS(Conv, n);
    cut c = {.axes = a.x->rank - 2};
    bool any = false;
    if (!xcc_is_constant(xcc_value_of(a.w)) || a.x->rank < 3 || a.y->rank != a.x->rank || c.axes > XCVM_WINDOW_AXES)
        return false;
    for (int i = 0; i < c.axes; i++)
        any = cut_axis(&a, i, &c) || any;
    if (!any || !xcc_may_copy(r->m, a.w->bytes) || !split_filter(a.w, &c, NULL))
        return false;
    int64_t dims[XCVM_MAX_RANK] = {a.w->dims[0], a.w->dims[1]};
    memcpy(dims + 2, c.size, (size_t)c.axes * sizeof *dims);
    xcc_value *w = xcc_constant_blank(n->graph, (xcvm_dtype)a.w->dtype, a.w->rank, dims);
    if (w == NULL)
        return xcc_rewrite_replace(r, xcc_node_output(n, 0), NULL);
    split_filter(a.w, &c, w->type.data);
    a.w = &w->type;
    a.pads.at = c.pads;
    a.dilations.at = c.dilations;
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(r, xcc_node_output(n, 0),
                               xcc_apply_at(&b, XCVM_OP_Conv, &a, offsetof(xcvm_Conv_args, y)));
}

/* ---- Automatic padding ---- */

static bool are_known(const xcvm_value *v)
{
    bool known = v->rank >= 3;
    for (int i = 2; i < v->rank; i++)
        known = known && v->dims[i] >= 0;
    return known;
}

/* Replaces auto_pad or output_shape in an instruction's arguments by explicit pads, if they are representable. */
static bool say_pads(xcc_rewrite *r, xcc_node *n, void *args, size_t result, xcvm_ints pads)
{
    for (size_t i = 0; i < pads.count; i++)
        if (pads.at[i] < INT32_MIN || pads.at[i] > INT32_MAX)
            return false;
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(r, xcc_node_output(n, 0), xcc_apply_at(&b, n->schema->opcode, args, result));
}

#define POOL(Name, function)                                                                                           \
    static bool function(xcc_rewrite *r, xcc_node *n)                                                                  \
    {                                                                                                                  \
        int64_t room[2 * XCVM_MAX_RANK];                                                                               \
        xcvm_##Name##_args a = *XCC_ARGS(Name, n);                                                                     \
        const xcvm_window_attributes w = {a.kernel_shape, a.strides, a.pads, a.dilations};                             \
        const size_t results = xcc_node_output_count(n);                                                               \
        if (a.auto_pad == XCVM_AUTO_PAD_NOTSET || !are_known(a.x) || (results > 1 && xcc_node_output(n, 1) != NULL))   \
            return false;                                                                                              \
        a.pads = xcvm_window_pads(a.auto_pad, a.x, &w, room);                                                          \
        a.auto_pad = XCVM_AUTO_PAD_NOTSET;                                                                             \
        return say_pads(r, n, &a, offsetof(xcvm_##Name##_args, y), a.pads);                                            \
    }
POOL(MaxPool, max_pool)
POOL(AveragePool, average_pool)
POOL(LpPool, lp_pool)

static bool conv_transpose(xcc_rewrite *r, xcc_node *n)
{
    int64_t room[2 * XCVM_MAX_RANK];
    xcvm_ConvTranspose_args a = *XCC_ARGS(ConvTranspose, n);
    if (a.pads.count > 0 || !are_known(a.x) || !are_known(a.w))
        return false;
    a.pads = xcvm_transposed_pads(&a, room);
    a.auto_pad = XCVM_AUTO_PAD_NOTSET;
    a.output_shape.count = 0;
    return say_pads(r, n, &a, offsetof(xcvm_ConvTranspose_args, y), a.pads);
}

const xcc_rule xcc_rules_windows[] = {
    {XCVM_OP_Conv, conv, "window positions that read only padding"},
    {XCVM_OP_MaxPool, max_pool, "auto_pad with known sizes"},
    {XCVM_OP_AveragePool, average_pool, "auto_pad with known sizes"},
    {XCVM_OP_LpPool, lp_pool, "auto_pad with known sizes"},
    {XCVM_OP_ConvTranspose, conv_transpose, "auto_pad and output_shape with known sizes"},
};
const size_t xcc_rules_windows_count = sizeof xcc_rules_windows / sizeof *xcc_rules_windows;
