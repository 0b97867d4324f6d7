/* What computing on blocked channels is estimated to gain. The speeds were measured on one core with AVX-512; only
 * how they compare to each other decides anything. */
#include "compiler/block.h"
#include "ops/blocked.h"

/* Multiply-adds in a nanosecond: of convolutions as Conv computes them, and in blocks. */
#define PLAIN_POINTWISE 60.0
#define PLAIN_WINDOW 50.0
#define PLAIN_NARROW 20.0 /* few input channels */
#define PLAIN_DEPTHWISE 12.0
#define PLAIN_WINOGRAD 120.0
#define BLOCKED_DIRECT 90.0
#define BLOCKED_NARROW 60.0
#define BLOCKED_DEPTHWISE 40.0
#define BLOCKED_WINOGRAD 200.0
/* Bytes that a change of layout, or an element-wise instruction, goes through in a nanosecond. */
#define BYTES_PER_NS 30.0
/* One instruction more. */
#define INSTRUCTION_NS 500.0

static double elements_of(const xcc_blocker *s, const xcc_value *v, bool padded)
{
    int64_t channels = v->type.dims[1];
    double batch = v->type.dims[0] > 0 ? (double)v->type.dims[0] : 1;
    double depth = (double)(padded ? xcvm_blocks_of(channels) * XCVM_CHANNEL_BLOCK : channels);
    const double *size = s->values[v->id].size;
    return batch * depth * size[0] * size[1];
}

double xcc_block_conversion_ns(const xcc_blocker *s, const xcc_value *v)
{
    /* A view, where there is one element for each channel. */
    if (xcc_block_is_point(v) && v->type.dims[1] % XCVM_CHANNEL_BLOCK == 0)
        return INSTRUCTION_NS / 4;
    return INSTRUCTION_NS + 2 * sizeof(float) * elements_of(s, v, true) / BYTES_PER_NS;
}

static void estimate_conv(xcc_blocker *s, xcc_block_candidate *c)
{
    const xcvm_Conv_args *a = XCC_ARGS(Conv, c->node);
    const xcc_value *y = xcc_value_of(a->y);
    const int64_t *w = a->w->dims;
    double filter = (double)w[1] * (double)w[2] * (double)w[3];
    double plain = elements_of(s, y, false) * filter, blocked = elements_of(s, y, true) * filter;
    bool square = w[2] == 3 && w[3] == 3 && a->group == 1 && !c->plain_input;
    for (int i = 0; i < 2; i++)
        square = square && a->strides.at[i] == 1 && a->dilations.at[i] == 1;
    c->tile = 0;
    if (square && c->algorithm != XCC_BLOCK_DEPTHWISE)
        c->tile = xcvm_blocked_winograd_tile(w[0], w[1], (int64_t)s->values[y->id].size[0],
                                             (int64_t)s->values[y->id].size[1]);
    if (c->tile != 0)
        c->algorithm = XCC_BLOCK_WINOGRAD;
    if (c->algorithm == XCC_BLOCK_DEPTHWISE)
        c->gain_ns = plain / PLAIN_DEPTHWISE - blocked / BLOCKED_DEPTHWISE;
    else if (c->plain_input)
        c->gain_ns = plain / PLAIN_NARROW - blocked / BLOCKED_NARROW;
    else if (c->algorithm == XCC_BLOCK_WINOGRAD)
        c->gain_ns = plain / PLAIN_WINOGRAD - blocked / BLOCKED_WINOGRAD;
    else
        c->gain_ns = plain / (w[2] * w[3] == 1 ? PLAIN_POINTWISE : PLAIN_WINDOW) - blocked / BLOCKED_DIRECT;
}

void xcc_block_estimate(xcc_blocker *s, xcc_block_candidate *c)
{
    const xcc_value *y = xcc_node_output(c->node, 0);
    switch (c->kind) {
    case XCC_BLOCK_CONV:
        estimate_conv(s, c);
        break;
    case XCC_BLOCK_REDUCE:
        y = xcc_node_input(c->node, 0);
        /* fall through */
    default:
        /* Elements beyond the last channel are computed, too. */
        c->gain_ns = 2 * sizeof(float) * (elements_of(s, y, false) - elements_of(s, y, true)) / BYTES_PER_NS;
        break;
    }
}
