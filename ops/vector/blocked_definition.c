/* Convolutions of blocked channels number by number, for windows that are too large or too far apart for any other way.
 */
#include "ops/vector/activation.h"
#include "ops/vector/blocked_conv.h"
#include "ops/vector/halves.h"

enum { BLOCK = XCVM_CHANNEL_BLOCK };

typedef struct work {
    const xcvm_kernel *k;
    const xcvm_blocked_conv *c;
    uint32_t status; /* atomic */
} work;

/* One channel of x of output block `output` at a position of its plane. */
static float pixel(const xcvm_blocked_conv *c, size_t image, size_t output, size_t channel, size_t at)
{
    const size_t group = image * c->group + output / (c->outputs / c->group), plane = c->in[0] * c->in[1];
    if (c->plain)
        return c->x[(group * c->channels + channel) * plane + at];
    const size_t blocks = (c->channels + BLOCK - 1) / BLOCK;
    return c->x[((group * blocks + channel / BLOCK) * plane + at) * BLOCK + channel % BLOCK];
}

/* Input positions that output o and window position k meet along an axis; false: in the padding. */
static bool meets(const xcvm_blocked_conv *c, int axis, size_t o, size_t k, size_t *at)
{
    const size_t padded = o * c->stride[axis] + k * c->dilation[axis];
    *at = padded - c->pad[axis];
    return padded >= c->pad[axis] && *at < c->in[axis];
}

static void add_tap(const xcvm_blocked_conv *c, size_t image, size_t output, size_t tap, size_t at, float *sum)
{
    const size_t taps = c->kernel[0] * c->kernel[1];
    if (c->channels == 0) {
        const float *x = c->x + ((image * c->outputs + output) * c->in[0] * c->in[1] + at) * BLOCK;
        for (size_t i = 0; i < BLOCK; i++)
            sum[i] += x[i] * ((const float *)c->w)[(output * taps + tap) * BLOCK + i];
        return;
    }
    for (size_t channel = 0; channel < c->channels; channel++) {
        const size_t first = channel / BLOCK * BLOCK, left = c->channels - first, count = left < BLOCK ? left : BLOCK;
        float w[BLOCK];
        xcvm_halves_load(c->w_dtype, c->w,
                         ((output * c->channels + first) * taps + tap * count + channel - first) * BLOCK, BLOCK, w);
        const float x = pixel(c, image, output, channel, at);
        for (size_t i = 0; i < BLOCK; i++)
            sum[i] += x * w[i];
    }
}

static void run_pixels(void *context, size_t begin, size_t end, int worker)
{
    work *r = context;
    const xcvm_blocked_conv *c = r->c;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t column = i % c->out[1], row = i / c->out[1] % c->out[0], plane = i / c->out[1] / c->out[0];
        const size_t output = plane % c->outputs, image = plane / c->outputs;
        const xcvm_status status = xcvm_kernel_poll(r->k);
        if (status != XCVM_OK) {
            __atomic_store_n(&r->status, (uint32_t)status, __ATOMIC_RELAXED);
            return;
        }
        float sum[BLOCK];
        for (size_t l = 0; l < BLOCK; l++)
            sum[l] = c->b != NULL ? c->b[output * BLOCK + l] : 0.0f;
        for (size_t tap = 0; tap < c->kernel[0] * c->kernel[1]; tap++) {
            size_t h, v;
            if (meets(c, 0, row, tap / c->kernel[1], &h) && meets(c, 1, column, tap % c->kernel[1], &v))
                add_tap(c, image, output, tap, h * c->in[1] + v, sum);
        }
        for (size_t l = 0; l < BLOCK; l++)
            sum[l] = xcvm_clamp_f32(sum[l] + (c->z != NULL ? c->z[i * BLOCK + l] : 0.0f), c->activation.low,
                                    c->activation.high);
        xcvm_activate_row(&c->activation, sum, BLOCK);
        memcpy(c->y + i * BLOCK, sum, sizeof sum);
    }
}

xcvm_status xcvm_blocked_definition(const xcvm_kernel *k, const xcvm_blocked_conv *c)
{
    work r = {.k = k, .c = c};
    xcvm_parallel(k->threads, c->batch * c->outputs * c->out[0] * c->out[1], 1, run_pixels, &r);
    return (xcvm_status)r.status;
}
