/* DepthToSpace and SpaceToDepth: blocks of channels to pixels and back. */
#include "ops/kernel.h"

/* The greatest whose square fits an int. */
enum { LARGEST_BLOCK = 46340 };

/* Checks what both have in common; if nothing is known of x, y's type follows, and *done becomes true. */
static xcvm_status begin(const xcvm_typing *t, const xcvm_value *x, int64_t blocksize, xcvm_value *y, bool *done)
{
    XCVM_REQUIRE(t, x->rank < 0 || x->rank == 4, SHAPE_MISMATCH, "x has rank %d, 4 is needed", x->rank);
    XCVM_REQUIRE(t, blocksize <= LARGEST_BLOCK, OUT_OF_RANGE, "blocksize is %lld", (long long)blocksize);
    *done = x->rank < 0;
    if (*done) {
        const int64_t any[] = {XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_ANY_DIM};
        xcvm_value_set_tensor(y, (xcvm_dtype)x->dtype, 4, any);
    }
    return XCVM_OK;
}

static int64_t multiplied(int64_t dim, int64_t by)
{
    int64_t product;
    return dim < 0 || __builtin_mul_overflow(dim, by, &product) ? (by == 1 ? dim : XCVM_ANY_DIM) : product;
}

XCVM_SHAPE_RULE_OF(DepthToSpace)
{
    const int64_t b = a->blocksize;
    bool done;
    XCVM_TRY(begin(t, a->x, b, a->y, &done));
    if (done)
        return XCVM_OK;
    const int64_t *x = a->x->dims;
    XCVM_REQUIRE(t, x[1] < 0 || x[1] % (b * b) == 0, SHAPE_MISMATCH, "x has %lld channels, no multiple of %lld",
                 (long long)x[1], (long long)(b * b));
    const int64_t y[] = {x[0], x[1] < 0 ? XCVM_ANY_DIM : x[1] / (b * b), multiplied(x[2], b), multiplied(x[3], b)};
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->x->dtype, 4, y);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(SpaceToDepth)
{
    const int64_t b = a->blocksize;
    bool done;
    XCVM_TRY(begin(t, a->x, b, a->y, &done));
    if (done)
        return XCVM_OK;
    const int64_t *x = a->x->dims;
    for (int d = 2; d < 4; d++)
        XCVM_REQUIRE(t, x[d] < 0 || x[d] % b == 0, SHAPE_MISMATCH, "dimension %d of x is %lld, no multiple of %lld", d,
                     (long long)x[d], (long long)b);
    const int64_t y[] = {x[0], multiplied(x[1], b * b), x[2] < 0 ? XCVM_ANY_DIM : x[2] / b,
                         x[3] < 0 ? XCVM_ANY_DIM : x[3] / b};
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->x->dtype, 4, y);
    return XCVM_OK;
}

/* A six-dimensional view of the image with `b` x `b` blocks: strides of the deep side for (n, c, y, by, x, bx). */
typedef struct blocks {
    const xcvm_kernel *k;
    const char *from;
    char *to;
    size_t size;                       /* of an element */
    size_t channels, height, width, b; /* of the deep side's pixels, and channels of the flat side */
    bool depth_first;                  /* channel = (by, bx, c), else (c, by, bx) */
    bool to_space;
} blocks;

static void move_rows(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const blocks *m = context;
    xcvm_poller poller = xcvm_poller_of(m->k);
    for (size_t row = begin; row < end; row++) {
        /* A row of the flat side: (n, c, y, by). */
        const size_t by = row % m->b, y = row / m->b % m->height, c = row / m->b / m->height % m->channels;
        const size_t n = row / m->b / m->height / m->channels;
        const size_t flat = row * m->width * m->b;
        for (size_t bx = 0; bx < m->b; bx++) {
            if (xcvm_poll_after(&poller, m->width) != XCVM_OK)
                return;
            const size_t channel = m->depth_first ? (by * m->b + bx) * m->channels + c : (c * m->b + by) * m->b + bx;
            const size_t deep = ((n * m->channels * m->b * m->b + channel) * m->height + y) * m->width;
            if (m->size == 4 && m->to_space)
                for (size_t x = 0; x < m->width; x++)
                    ((uint32_t *)(void *)m->to)[flat + x * m->b + bx] =
                        ((const uint32_t *)(const void *)m->from)[deep + x];
            else
                for (size_t x = 0; x < m->width; x++) {
                    const size_t f = (flat + x * m->b + bx) * m->size, d = (deep + x) * m->size;
                    memcpy(m->to + (m->to_space ? f : d), m->from + (m->to_space ? d : f), m->size);
                }
        }
    }
}

static xcvm_status move_blocks(const xcvm_kernel *k, const xcvm_value *x, xcvm_value *y, int64_t b, bool depth_first,
                               bool to_space)
{
    if (xcvm_element_count(x) == 0)
        return XCVM_OK;
    const xcvm_value *deep = to_space ? x : y, *flat = to_space ? y : x;
    blocks m = {.k = k,
                .from = x->data,
                .to = y->data,
                .size = xcvm_dtype_size((xcvm_dtype)x->dtype),
                .channels = (size_t)flat->dims[1],
                .height = (size_t)deep->dims[2],
                .width = (size_t)deep->dims[3],
                .b = (size_t)b,
                .depth_first = depth_first,
                .to_space = to_space};
    const size_t rows = (size_t)flat->dims[0] * m.channels * m.height * m.b;
    return xcvm_kernel_parallel(k, rows, 1 + 16384 / (m.width * m.b), move_rows, &m);
}

XCVM_KERNEL(DepthToSpace) { return move_blocks(k, a->x, a->y, a->blocksize, a->mode == XCVM_DEPTH_MODE_DCR, true); }

XCVM_KERNEL(SpaceToDepth) { return move_blocks(k, a->x, a->y, a->blocksize, true, false); }
