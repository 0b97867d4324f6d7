/* DepthToSpace and SpaceToDepth: splits a row of pixels into one row per position in a block, or merges such rows. */
#include "ops/util/kernel.h"
#include "ops/simd/math.h"

enum { MOST_PIXELS = 1 << 16 /* pixels of a row between polls */ };

typedef struct wide {
    uint64_t low, high;
} wide;

typedef struct blocks {
    const xcvm_kernel *k;
    char *deep, *flat;
    size_t size;                       /* of an element */
    size_t channels, height, width, b; /* of the deep side's pixels; channels of the flat side */
    bool depth_first;                  /* channel order (by, bx, c), else (c, by, bx) */
    bool to_space;
} blocks;

/* Element bx of block x of the flat row is element x of deep row bx. Rows are `step` apart. */
#define DEFINE_ROW(bits, type)                                                                                         \
    static inline                                                                                                      \
        __attribute__((always_inline)) void blocks_##bits(type *restrict deep, const size_t step, type *restrict flat, \
                                                          const size_t width, const size_t b, const bool to_space)     \
    {                                                                                                                  \
        XCVM_INDEPENDENT for (size_t x = 0; x < width; x++)                                                            \
        {                                                                                                              \
            _Pragma("GCC unroll 8") for (size_t bx = 0; bx < b; bx++)                                                  \
            {                                                                                                          \
                if (to_space)                                                                                          \
                    flat[x * b + bx] = deep[bx * step + x];                                                            \
                else                                                                                                   \
                    deep[bx * step + x] = flat[x * b + bx];                                                            \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static inline __attribute__((always_inline)) void row_##bits(type *deep, size_t step, type *flat, size_t width,    \
                                                                 size_t b, const bool to_space)                        \
    {                                                                                                                  \
        if (b == 2)                                                                                                    \
            blocks_##bits(deep, step, flat, width, 2, to_space);                                                       \
        else if (b == 3)                                                                                               \
            blocks_##bits(deep, step, flat, width, 3, to_space);                                                       \
        else if (b == 4)                                                                                               \
            blocks_##bits(deep, step, flat, width, 4, to_space);                                                       \
        else                                                                                                           \
            blocks_##bits(deep, step, flat, width, b, to_space);                                                       \
    }
DEFINE_ROW(8, uint8_t)
DEFINE_ROW(16, uint16_t)
DEFINE_ROW(32, uint32_t)
DEFINE_ROW(64, uint64_t)
DEFINE_ROW(128, wide)

static void move_row(const blocks *m, size_t deep, size_t step, size_t flat, size_t width)
{
    void *d = m->deep + deep * m->size, *f = m->flat + flat * m->size;
#define MOVE(bits)                                                                                                     \
    do {                                                                                                               \
        if (m->to_space)                                                                                               \
            row_##bits(d, step, f, width, m->b, true);                                                                 \
        else                                                                                                           \
            row_##bits(d, step, f, width, m->b, false);                                                                \
    } while (0)
    switch (m->size) {
    case 1:
        MOVE(8);
        break;
    case 2:
        MOVE(16);
        break;
    case 4:
        MOVE(32);
        break;
    case 8:
        MOVE(64);
        break;
    default:
        MOVE(128);
        break;
    }
#undef MOVE
}

/* The range is over rows of the flat side: (n, c, y, by). */
static void move_rows(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const blocks *m = context;
    const size_t plane = m->height * m->width, step = (m->depth_first ? m->channels : 1) * plane;
    xcvm_poller poller = xcvm_poller_of(m->k);
    for (size_t row = begin; row < end; row++) {
        const size_t by = row % m->b, y = row / m->b % m->height, c = row / m->b / m->height % m->channels;
        const size_t n = row / m->b / m->height / m->channels;
        const size_t channel = m->depth_first ? by * m->b * m->channels + c : (c * m->b + by) * m->b;
        const size_t deep = (n * m->channels * m->b * m->b + channel) * plane + y * m->width;
        for (size_t x = 0; x < m->width; x += MOST_PIXELS) {
            const size_t width = xcvm_min(m->width - x, MOST_PIXELS);
            if (xcvm_poll_after(&poller, width * m->b) != XCVM_OK)
                return;
            move_row(m, deep + x, step, (row * m->width + x) * m->b, width);
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
                .deep = deep->data,
                .flat = flat->data,
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
