/* ConvInteger and QLinearConv, as products of the filters with a matrix that has one column per output position. */
#include "ops/quantize/simd/integer_gemm.h"
#include "ops/conv/window.h"

#include <math.h>

typedef struct integer_conv_loop {
    xcvm_conv_shape shape;
    const xcvm_value *x, *w, *x_zero_point, *w_zero_point;
    xcvm_value *y;
    const xcvm_QLinearConv_args *quantized; /* NULL: sums are the result */
    int16_t *w_zeros;                       /* of all outputs */
} integer_conv_loop;

static void set_item(const void *context, size_t index, xcvm_integer_gemm *g)
{
    const integer_conv_loop *t = context;
    const xcvm_conv_shape *s = &t->shape;
    const size_t output = index % s->group * s->outputs;
    g->a = (const char *)t->w->data + output * s->channels * s->window.kernel_size;
    g->b = (const char *)t->x->data + index * s->channels * s->window.in_size;
    g->a_zero = t->w_zeros + output;
}

/* Copies `count` bytes with distance `stride`. */
static void read_bytes(const uint8_t *from, size_t count, size_t stride, uint8_t *to)
{
    if (stride == 1)
        memcpy(to, from, count);
    else
        for (size_t i = 0; i < count; i++)
            to[i] = from[i * stride];
}

/* Returns the bytes of output positions [n0, n1) for one window position. Padding is x's zero point, so that it
 * contributes nothing. */
static const uint8_t *read_row(const xcvm_integer_gemm *g, size_t p, size_t n0, size_t n1, uint8_t *buffer)
{
    const integer_conv_loop *t = g->context;
    const xcvm_window *w = &t->shape.window;
    const size_t channel = p / w->kernel_size, tap = p % w->kernel_size;
    const size_t k[] = {tap / w->kernel[2] / w->kernel[1], tap / w->kernel[2] % w->kernel[1], tap % w->kernel[2]};
    const uint8_t *x = (const uint8_t *)g->b + channel * w->in_size;
    size_t first[XCVM_WINDOW_AXES], last[XCVM_WINDOW_AXES];
    for (int i = 0; i < XCVM_WINDOW_AXES; i++)
        xcvm_window_inside(w, i, k[i], &first[i], &last[i]);
    memset(buffer, g->b_zero_of_all & 0xff, n1 - n0);
    size_t row = n0 / w->out[2], h = row % w->out[1], d = row / w->out[1];
    for (size_t start = row * w->out[2]; start < n1; start += w->out[2]) {
        const size_t inside = start + first[2], begin = inside > n0 ? inside : n0, end = xcvm_min(start + last[2], n1);
        if (d >= first[0] && d < last[0] && h >= first[1] && h < last[1] && begin < end) {
            const ptrdiff_t id = (ptrdiff_t)(d * w->stride[0] + k[0] * w->dilation[0]) - w->pad[0];
            const ptrdiff_t ih = (ptrdiff_t)(h * w->stride[1] + k[1] * w->dilation[1]) - w->pad[1];
            const ptrdiff_t iw = (ptrdiff_t)((begin - start) * w->stride[2] + k[2] * w->dilation[2]) - w->pad[2];
            read_bytes(x + ((size_t)id * w->in[1] + (size_t)ih) * w->in[2] + (size_t)iw, end - begin, w->stride[2],
                       buffer + (begin - n0));
        }
        h = h + 1 < w->out[1] ? h + 1 : 0;
        d += h == 0;
    }
    return buffer;
}

static float scale_at(const xcvm_value *scale, size_t i)
{
    return XCVM_CDATA(float, scale)[xcvm_element_count(scale) == 1 ? 0 : i];
}

static void store_quantized(const xcvm_integer_gemm *g, size_t i, size_t n0, size_t n1, const int32_t *sums)
{
    const integer_conv_loop *t = g->context;
    const xcvm_QLinearConv_args *q = t->quantized;
    const size_t output = g->item % t->shape.group * g->m + i;
    const float x_scale = scale_at(q->x_scale, 0), w_scale = scale_at(q->w_scale, output),
                y_scale = scale_at(q->y_scale, 0), unit = x_scale * w_scale;
    /* In f32, like ONNX Runtime, unless f32 cannot represent the product. */
    const float scale = isnormal(unit) ? unit / y_scale : (float)((double)x_scale * (double)w_scale / (double)y_scale);
    const uint32_t bias = q->b != NULL ? (uint32_t)XCVM_CDATA(int32_t, q->b)[output] : 0;
    int32_t biased[XCVM_GEMM_PANEL];
    for (size_t j = 0; j < n1 - n0; j++)
        biased[j] = (int32_t)((uint32_t)sums[j] + bias); /* wraps, like the sums */
    xcvm_quantize_sums(biased, n1 - n0, scale, NULL, xcvm_zero_point(q->y_zero_point, 0), t->y->dtype == XCVM_I8,
                       XCVM_DATA(char, t->y) + (g->item * g->m + i) * g->n + n0);
}

static xcvm_status convolve(xcvm_kernel *k, integer_conv_loop *t)
{
    const xcvm_conv_shape *s = &t->shape;
    const size_t outputs = s->group * s->outputs;
    if (xcvm_element_count(t->y) == 0)
        return XCVM_OK;
    xcvm_integer_batch batch = {.count = s->batch * s->group, .at = set_item};
    batch.shape = (xcvm_integer_gemm){.m = s->outputs,
                                      .n = s->window.out_size,
                                      .k = s->channels * s->window.kernel_size,
                                      .a_signed = t->w->dtype == XCVM_I8,
                                      .b_signed = t->x->dtype == XCVM_I8,
                                      .b_zero_of_all = xcvm_zero_point(t->x_zero_point, 0),
                                      .row = read_row,
                                      .c = t->quantized == NULL ? t->y->data : NULL,
                                      .finish = store_quantized,
                                      .context = t};
    const size_t zeros = xcvm_round_up(outputs * sizeof(int16_t), XCVM_ALIGNMENT);
    char *scratch = xcvm_kernel_scratch(k, zeros + xcvm_integer_gemm_scratch(&batch, xcvm_threads_count(k->threads)));
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    t->w_zeros = (int16_t *)(void *)scratch;
    for (size_t i = 0; i < outputs; i++)
        t->w_zeros[i] = xcvm_zero_point(t->w_zero_point, i);
    return xcvm_integer_gemm_run(k, &batch, scratch + zeros);
}

XCVM_KERNEL(ConvInteger)
{
    integer_conv_loop t = {.shape = xcvm_conv_shape_of(a->x, a->w, a->y, a->strides, a->pads, a->dilations, a->group),
                           .x = a->x,
                           .w = a->w,
                           .x_zero_point = a->x_zero_point,
                           .w_zero_point = a->w_zero_point,
                           .y = a->y};
    return convolve(k, &t);
}

XCVM_KERNEL(QLinearConv)
{
    integer_conv_loop t = {.shape = xcvm_conv_shape_of(a->x, a->w, a->y, a->strides, a->pads, a->dilations, a->group),
                           .x = a->x,
                           .w = a->w,
                           .x_zero_point = a->x_zero_point,
                           .w_zero_point = a->w_zero_point,
                           .y = a->y,
                           .quantized = a};
    return convolve(k, &t);
}
