/* With stride 1, a transposed convolution is a convolution by flipped filters. */
#include "ops/conv/simd/conv.h"
#include "ops/conv/simd/conv_transpose.h"

/* Finds the equivalent convolution. Returns false if there is none or it would cost more. */
static bool find_convolution(const xcvm_conv_shape *s, xcvm_conv_shape *conv)
{
    *conv = (xcvm_conv_shape){.batch = s->batch, .group = s->group, .channels = s->outputs, .outputs = s->channels};
    xcvm_window *w = &conv->window;
    *w = s->window;
    w->in_size = s->window.out_size;
    w->out_size = s->window.in_size;
    for (int i = 0; i < XCVM_WINDOW_AXES; i++) {
        const ptrdiff_t reach = (ptrdiff_t)((w->kernel[i] - 1) * w->dilation[i]);
        w->in[i] = s->window.out[i];
        w->out[i] = s->window.in[i];
        w->pad[i] = reach - s->window.pad[i];
        w->pad_end[i] = (ptrdiff_t)w->out[i] - (ptrdiff_t)w->in[i] + reach - w->pad[i];
        if (w->stride[i] != 1 || w->pad[i] < 0 || w->pad_end[i] < 0)
            return false;
    }
    /* Scatter-adding products costs more if fewer channels were summed before. */
    return xcvm_conv_choose(conv)->cost(conv) <= xcvm_conv_work(conv) * (1.0 + 16.0 / (double)(conv->channels + 1));
}

typedef struct turned_filters {
    const xcvm_kernel *k;
    const xcvm_conv_shape *shape; /* of the convolution */
    const float *from;
    float *to;
} turned_filters;

/* Flips the filters of outputs [begin, end) of all groups. */
static void turn_filters(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const turned_filters *t = context;
    const size_t channels = t->shape->channels, outputs = t->shape->outputs, size = t->shape->window.kernel_size;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t i = begin; i < end && xcvm_poll_after(&poller, channels * size) == XCVM_OK; i++) {
        const float *from = t->from + (i / outputs * channels * outputs + i % outputs) * size;
        float *to = t->to + i * channels * size;
        for (size_t c = 0; c < channels; c++, from += outputs * size, to += size)
            for (size_t k = 0; k < size; k++)
                to[k] = from[size - 1 - k];
    }
}

static bool fits(const xcvm_conv_shape *s)
{
    xcvm_conv_shape conv;
    return find_convolution(s, &conv);
}

static size_t filter_bytes(const xcvm_conv_shape *s)
{
    return xcvm_round_up(s->group * s->outputs * s->channels * s->window.kernel_size * sizeof(float), XCVM_ALIGNMENT);
}

static size_t scratch_of(const xcvm_conv_shape *s, int threads)
{
    xcvm_conv_shape conv;
    (void)find_convolution(s, &conv);
    return filter_bytes(&conv) + xcvm_conv_choose(&conv)->scratch(&conv, threads);
}

static xcvm_status run_convolution(const xcvm_kernel *k, const xcvm_transposed *t, void *scratch)
{
    xcvm_conv_shape conv;
    (void)find_convolution(&t->shape, &conv);
    const size_t filters = conv.group * conv.outputs, size = conv.channels * conv.window.kernel_size;
    turned_filters turn = {k, &conv, t->w, scratch};
    XCVM_TRY(xcvm_kernel_parallel(k, filters, 65536 / (size + 1) + 1, turn_filters, &turn));
    const xcvm_conv c = {.shape = conv, .x = t->x, .w = scratch, .b = t->b, .y = t->y};
    return xcvm_conv_choose(&conv)->run(k, &c, (char *)scratch + filter_bytes(&conv));
}

const xcvm_transposed_algorithm xcvm_transposed_convolution = {fits, true, false, scratch_of, run_convolution};
