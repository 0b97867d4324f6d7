/* BlockedConcat: concatenates blocked channels. A block of the result may take channels from several operands. */
#include "ops/conv/blocked_axes.h"
#include "ops/util/kernel.h"
#include "ops/util/shape.h"

#include <string.h>

enum {
    BLOCK = XCVM_CHANNEL_BLOCK,
    CHUNK = 256, /* pixels of a block that are assembled while they are in the first-level cache */
    THREAD_PIXELS = 4096
};

/* Merges the dimensions of operand i into `dims`, except for the blocks of channels. */
static xcvm_status join_part(const xcvm_inference *t, size_t i, const xcvm_value *x, int64_t channels, int *rank,
                             int64_t *dims)
{
    if (x->rank < 0)
        return XCVM_OK;
    XCVM_CHECK(t->error, xcvm_blocked_takes_rank(XCVM_OP_BlockedConcat, x->rank) && (*rank < 0 || x->rank == *rank),
               SHAPE_MISMATCH, "element %zu of xs has the wrong rank (%d; expected %s)", i, x->rank,
               *rank < 0 ? "4 to 6" : "that of the others");
    XCVM_CHECK(t->error, x->dims[1] < 0 || x->dims[1] == xcvm_blocks_of(channels), SHAPE_MISMATCH,
               "element %zu of xs has %lld blocks of channels, %lld channels take %lld", i, (long long)x->dims[1],
               (long long)channels, (long long)xcvm_blocks_of(channels));
    const int64_t last = x->dims[x->rank - 1];
    XCVM_CHECK(t->error, last < 0 || last == BLOCK, SHAPE_MISMATCH,
               "the last dimension of element %zu of xs is %lld, blocks have %d channels", i, (long long)last, BLOCK);
    for (int d = 0; d < x->rank - 1; d++) {
        if (d == 1)
            continue;
        if (*rank < 0)
            dims[d] = x->dims[d];
        else
            XCVM_CHECK(t->error, xcvm_dims_agree(&dims[d], x->dims[d]), SHAPE_MISMATCH,
                       "dimension %d of element %zu of xs is %lld, of another %lld", d, i, (long long)x->dims[d],
                       (long long)dims[d]);
    }
    *rank = x->rank;
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(BlockedConcat)
{
    int64_t dims[XCVM_MAX_RANK] = {0}, channels = 0;
    int rank = -1;
    XCVM_CHECK(t->error, a->xs.count != 0, INVALID_ARGUMENT, "there is no x");
    XCVM_CHECK(t->error, a->channels.count == a->xs.count, INVALID_ARGUMENT,
               "channels has %zu numbers for %zu operands", a->channels.count, a->xs.count);
    for (size_t i = 0; i < a->xs.count; i++) {
        XCVM_TRY(join_part(t, i, a->xs.at[i], a->channels.at[i], &rank, dims));
        XCVM_CHECK(t->error, !__builtin_add_overflow(channels, a->channels.at[i], &channels), OUT_OF_RANGE,
                   "the sum of the channels overflows");
    }
    if (rank > 0) {
        dims[1] = xcvm_blocks_of(channels);
        dims[rank - 1] = BLOCK;
    }
    xcvm_value_set_tensor(a->y, XCVM_F32, rank, dims);
    return XCVM_OK;
}

typedef struct blocked_concat_loop {
    const xcvm_BlockedConcat_args *a;
    size_t blocks, pixels, chunks; /* of the result: blocks of channels; pixels of a block; chunks of those */
} blocked_concat_loop;

/* Copies the same `count` channels of several pixels. */
static void copy_lanes(const float *from, float *to, size_t count, size_t pixels)
{
#define COPY(n)                                                                                                        \
    for (size_t p = 0; p < pixels; p++)                                                                                \
        memcpy(to + p * BLOCK, from + p * BLOCK, (n) * sizeof *to);                                                    \
    break
    switch (count) {
    case BLOCK:
        memcpy(to, from, pixels * BLOCK * sizeof *to);
        break;
    case BLOCK / 2:
        COPY(BLOCK / 2);
    case BLOCK / 4:
        COPY(BLOCK / 4);
    case 3 * BLOCK / 4:
        COPY(3 * BLOCK / 4);
    default:
        for (size_t p = 0; p < pixels; p++)
            for (size_t i = 0; i < count; i++)
                to[p * BLOCK + i] = from[p * BLOCK + i];
        break;
    }
#undef COPY
}

/* Assembles `count` pixels of one block of the result, its channels [first, first + BLOCK). */
static void fill_block(const blocked_concat_loop *r, size_t image, size_t block, size_t at, size_t count)
{
    const xcvm_BlockedConcat_args *a = r->a;
    float *y = XCVM_DATA(float, a->y) + ((image * r->blocks + block) * r->pixels + at) * BLOCK;
    size_t begin = 0, lane = 0; /* begin: first channel of an operand */
    for (size_t i = 0; i < a->xs.count && lane < BLOCK; i++) {
        const size_t channels = (size_t)a->channels.at[i], end = begin + channels;
        const float *x =
            XCVM_CDATA(float, a->xs.at[i]) + image * (size_t)xcvm_blocks_of(a->channels.at[i]) * r->pixels * BLOCK;
        while (lane < BLOCK && block * BLOCK + lane < end) {
            const size_t channel = block * BLOCK + lane - begin, from = channel % BLOCK;
            size_t run = BLOCK - (from > lane ? from : lane);
            run = run < channels - channel ? run : channels - channel;
            copy_lanes(x + (channel / BLOCK * r->pixels + at) * BLOCK + from, y + lane, run, count);
            lane += run;
        }
        begin = end;
    }
    for (size_t p = 0; p < count && lane < BLOCK; p++)
        memset(y + p * BLOCK + lane, 0, (BLOCK - lane) * sizeof *y);
}

static void fill_range(void *context, size_t begin, size_t end, int worker)
{
    const blocked_concat_loop *r = context;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t at = i % r->chunks * CHUNK, left = r->pixels - at, block = i / r->chunks;
        fill_block(r, block / r->blocks, block % r->blocks, at, left < CHUNK ? left : CHUNK);
    }
}

XCVM_KERNEL(BlockedConcat)
{
    blocked_concat_loop r = {.a = a, .blocks = (size_t)a->y->dims[1]};
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    r.pixels = xcvm_element_count(a->y) / ((size_t)a->y->dims[0] * r.blocks * BLOCK);
    r.chunks = (r.pixels + CHUNK - 1) / CHUNK;
    return xcvm_kernel_parallel(k, (size_t)a->y->dims[0] * r.blocks * r.chunks, THREAD_PIXELS / CHUNK, fill_range, &r);
}
