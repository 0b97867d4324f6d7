/* QuantizedDepthwiseConv: as many channels at a time as a vector has bytes. The bytes of four window positions are
 * interleaved, so that each channel's are together in one lane, as in the quads of products. The filters, which are
 * few, are reordered the same way in scratch. */
#include "ops/quantize/quantized_panels.h"
#include "ops/util/quads.h"
#include "ops/simd/sums.h"
#include "ops/quantize/simd/quantized_padding.h"

/* Window positions per step, and vectors of sums of a block of channels. */
enum { TAPS = 4, VECTORS = 4, BLOCK = VECTORS * XCVM_LANES, MANY_CHANNELS = 4 * BLOCK, GRAIN = 16 * 1024 };

/* Channel of a block in lane `lane` of vector `v`: interleaving instructions work within 16 bytes. */
static size_t channel_of(size_t v, size_t lane) { return lane / 4 * 16 + v * 4 + lane % 4; }

typedef struct depthwise_loop {
    const xcvm_kernel *k;
    const uint8_t *x;
    size_t image, line, pixel; /* bytes between images, rows of y, positions of y */
    size_t height, row;        /* rows of y; bytes of a row */
    size_t width, step;        /* positions, or groups of them; bytes of y between them */
    size_t blocks;
    size_t quads;          /* quads of window positions */
    const size_t *offsets; /* of TAPS * quads positions */
    const int8_t *w;       /* blocks x quads x VECTORS x XCVM_LANES x TAPS */
    const int32_t *bias;   /* blocks x VECTORS x XCVM_LANES, likewise scale */
    const float *scale;
    uint8_t *y;
    float low, high;
    int32_t zero;
} depthwise_loop;

/* Interleaves the bytes of four positions of a block of channels, one channel per lane. */
XCVM_INLINE void interleave(const uint8_t *const x[TAPS], xcvm_sums to[VECTORS])
{
#define INTERLEAVE(bits, type, load)                                                                                   \
    const type a = load(x[0]), b = load(x[1]), c = load(x[2]), d = load(x[3]);                                         \
    const type low = bits##_unpacklo_epi8(a, b), high = bits##_unpackhi_epi8(a, b);                                    \
    const type low2 = bits##_unpacklo_epi8(c, d), high2 = bits##_unpackhi_epi8(c, d);                                  \
    to[0] = (xcvm_sums)bits##_unpacklo_epi16(low, low2);                                                               \
    to[1] = (xcvm_sums)bits##_unpackhi_epi16(low, low2);                                                               \
    to[2] = (xcvm_sums)bits##_unpacklo_epi16(high, high2);                                                             \
    to[3] = (xcvm_sums)bits##_unpackhi_epi16(high, high2)
#if XCVM_LANES == 16 && defined(__AVX512BW__)
    INTERLEAVE(_mm512, __m512i, _mm512_loadu_si512);
#elif XCVM_LANES == 8 && defined(__AVX2__)
#define LOAD(from) _mm256_loadu_si256((const __m256i_u *)(const void *)(from))
    INTERLEAVE(_mm256, __m256i, LOAD);
#elif XCVM_LANES == 4 && defined(__SSE2__)
#define LOAD(from) _mm_loadu_si128((const __m128i_u *)(const void *)(from))
    INTERLEAVE(_mm, __m128i, LOAD);
#else
    for (size_t v = 0; v < VECTORS; v++)
        for (size_t lane = 0; lane < XCVM_LANES; lane++) {
            const size_t c = channel_of(v, lane);
            to[v][lane] = (int32_t)((uint32_t)x[0][c] | (uint32_t)x[1][c] << 8 | (uint32_t)x[2][c] << 16 |
                                    (uint32_t)x[3][c] << 24);
        }
#endif
}

/* Stores a block of results, from 0 to 255, as bytes in channel order. */
XCVM_INLINE void store_block(const xcvm_sums v[VECTORS], size_t count, uint8_t *to)
{
    uint8_t bytes[BLOCK];
    uint8_t *at = count >= BLOCK ? to : bytes;
#if XCVM_LANES == 16 && defined(__AVX512BW__)
    const __m512i low = _mm512_packs_epi32((__m512i)v[0], (__m512i)v[1]);
    _mm512_storeu_si512(at, _mm512_packus_epi16(low, _mm512_packs_epi32((__m512i)v[2], (__m512i)v[3])));
#elif XCVM_LANES == 8 && defined(__AVX2__)
    const __m256i low = _mm256_packs_epi32((__m256i)v[0], (__m256i)v[1]);
    _mm256_storeu_si256((__m256i_u *)(void *)at,
                        _mm256_packus_epi16(low, _mm256_packs_epi32((__m256i)v[2], (__m256i)v[3])));
#elif XCVM_LANES == 4 && defined(__SSE2__)
    const __m128i low = _mm_packs_epi32((__m128i)v[0], (__m128i)v[1]);
    _mm_storeu_si128((__m128i_u *)(void *)at, _mm_packus_epi16(low, _mm_packs_epi32((__m128i)v[2], (__m128i)v[3])));
#else
    for (size_t i = 0; i < VECTORS; i++)
        for (size_t lane = 0; lane < XCVM_LANES; lane++)
            at[channel_of(i, lane)] = (uint8_t)v[i][lane];
#endif
    if (count < BLOCK)
        memcpy(to, bytes, count);
}

/* Computes positions, or groups of them, [begin, end) of one row of y. */
#define WAY(name, attribute, ADD)                                                                                      \
    attribute static void name(const depthwise_loop *loop, const uint8_t *x, size_t begin, size_t end, uint8_t *y)     \
    {                                                                                                                  \
        /* A local copy, which byte stores cannot alias. */                                                            \
        const depthwise_loop own = *loop, *t = &own;                                                                   \
        for (size_t b = 0; b < t->blocks; b++) {                                                                       \
            const size_t first = b * BLOCK;                                                                            \
            const int8_t *filters = t->w + first * t->quads * TAPS;                                                    \
            xcvm_sums bias[VECTORS];                                                                                   \
            xcvm_lanes scale[VECTORS];                                                                                 \
            for (size_t v = 0; v < VECTORS; v++) {                                                                     \
                bias[v] = xcvm_sums_load(t->bias + first + v * XCVM_LANES);                                            \
                scale[v] = xcvm_lanes_load(t->scale + first + v * XCVM_LANES);                                         \
            }                                                                                                          \
            for (size_t column = begin; column < end; column++) {                                                      \
                if (column * t->step + first >= t->row)                                                                \
                    break;                                                                                             \
                const uint8_t *from = x + column * t->pixel + first;                                                   \
                const int8_t *w = filters;                                                                             \
                xcvm_sums sum[VECTORS] = {bias[0], bias[1], bias[2], bias[3]}, quad[VECTORS];                          \
                for (size_t q = 0; q < t->quads; q++, w += BLOCK * TAPS) {                                             \
                    const size_t *at = t->offsets + q * TAPS;                                                          \
                    const uint8_t *const taps[] = {from + at[0], from + at[1], from + at[2], from + at[3]};            \
                    interleave(taps, quad);                                                                            \
                    _Pragma("GCC unroll 4") for (size_t v = 0; v < VECTORS; v++) sum[v] =                              \
                        ADD(sum[v], quad[v], xcvm_sums_load(w + v * XCVM_LANES * TAPS));                               \
                }                                                                                                      \
                _Pragma("GCC unroll 4") for (size_t v = 0; v < VECTORS; v++) sum[v] =                                  \
                    xcvm_sums_round(xcvm_sums_to_floats(sum[v]) * scale[v], t->low, t->high) + t->zero;                \
                store_block(sum, (column + 1 < t->width ? t->step : t->row - column * t->step) - first,                \
                            y + column * t->step + first);                                                             \
            }                                                                                                          \
        }                                                                                                              \
    }

#define ADD_WIDENED(sum, x, w)                                                                                         \
    xcvm_sums_add_pairs(xcvm_sums_add_pairs(sum, (x)&0x00ff00ff, xcvm_sums_even(w)), (x) >> 8 & 0x00ff00ff,            \
                        xcvm_sums_odd(w))
WAY(by_pairs, , ADD_WIDENED)
typedef void (*row_function)(const depthwise_loop *t, const uint8_t *x, size_t begin, size_t end, uint8_t *y);
#if XCVM_LANES == 16 && defined(__AVX512BW__)
#define ADD_QUADS(sum, x, w) ((xcvm_sums)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(x), (__m512i)(w)))
WAY(by_quads, __attribute__((target("avx512vnni"))), ADD_QUADS)
static row_function row(void) { return xcvm_quads_of_64() ? by_quads : by_pairs; }
#else
static row_function row(void) { return by_pairs; }
#endif

typedef struct depthwise_rows {
    depthwise_loop loop;
    row_function row;
} depthwise_rows;

static void run_rows(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const depthwise_rows *r = context;
    const depthwise_loop *t = &r->loop;
    xcvm_poller poller = xcvm_poller_of(t->k);
    /* Windows may be as large as images. */
    const size_t steps = t->blocks * (t->quads + 1), piece = XCVM_POLL_STEPS / steps + 1;
    for (size_t i = begin; i < end; i++)
        for (size_t column = 0, last; column < t->width; column = last) {
            last = t->width - column > piece ? column + piece : t->width;
            r->row(t, t->x + i / t->height * t->image + i % t->height * t->line, column, last, t->y + i * t->row);
            if (xcvm_poll_after(&poller, (last - column) * steps) != XCVM_OK)
                return;
        }
}

/* Reorders filters, biases and scales to lane order, repeated for `repeats` positions. Padding of the last block and
 * the last quad is zero. */
static xcvm_status arrange(const xcvm_QuantizedDepthwiseConv_args *a, size_t taps, size_t channels, size_t repeats,
                           const depthwise_loop *t, int8_t *w, int32_t *bias, float *scale)
{
    const size_t all = channels * repeats;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t b = 0; b < t->blocks; b++, w += t->quads * TAPS * BLOCK) {
        const size_t first = b * BLOCK, count = xcvm_min(BLOCK, all - first);
        for (size_t v = 0; v < VECTORS; v++)
            for (size_t lane = 0; lane < XCVM_LANES; lane++) {
                const size_t c = channel_of(v, lane), at = first + v * XCVM_LANES + lane;
                bias[at] = c < count ? XCVM_CDATA(int32_t, a->b)[(first + c) % channels] : 0;
                scale[at] = c < count ? XCVM_CDATA(float, a->scale)[(first + c) % channels] : 0.0f;
            }
        for (size_t q = 0; q < t->quads; q++) {
            uint8_t lines[TAPS][BLOCK] = {0};
            for (size_t i = 0; i < TAPS && q * TAPS + i < taps; i++)
                for (size_t done = 0, run; done < count; done += run) {
                    const size_t c = (first + done) % channels;
                    run = xcvm_min(channels - c, count - done);
                    memcpy(lines[i] + done, XCVM_CDATA(uint8_t, a->w) + (q * TAPS + i) * channels + c, run);
                }
            const uint8_t *const rows[] = {lines[0], lines[1], lines[2], lines[3]};
            xcvm_sums quad[VECTORS];
            interleave(rows, quad);
            memcpy(w + q * TAPS * BLOCK, quad, sizeof quad);
            XCVM_TRY(xcvm_poll_after(&poller, BLOCK));
        }
    }
    return XCVM_OK;
}

/* Number of positions that fill whole blocks; 1 if there are so many channels that little of the last block is empty.
 */
static size_t positions_of_blocks(size_t channels)
{
    size_t repeats = 1;
    while (channels < MANY_CHANNELS && channels * repeats % BLOCK != 0)
        repeats++;
    return repeats;
}

/* Computes the offset of each window position from the first. Positions that pad the last quad, whose filters are zero,
 * have offset 0. */
static void place_taps(const xcvm_QuantizedDepthwiseConv_args *a, size_t taps, size_t line, size_t count, size_t *at)
{
    const size_t columns = (size_t)a->w->dims[1], channels = (size_t)a->x->dims[3];
    for (size_t i = 0; i < count; i++) {
        const size_t tap = i < taps ? i : 0;
        at[i] =
            tap / columns * (size_t)a->dilations.at[0] * line + tap % columns * (size_t)a->dilations.at[1] * channels;
    }
}

XCVM_KERNEL(QuantizedDepthwiseConv)
{
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    const size_t channels = (size_t)a->x->dims[3];
    const size_t images = (size_t)a->x->dims[0], taps = (size_t)a->w->dims[0] * (size_t)a->w->dims[1];
    const size_t pads[] = {(size_t)a->pads.at[0], (size_t)a->pads.at[1], (size_t)a->pads.at[2], (size_t)a->pads.at[3]};
    xcvm_quantized_padding padding = xcvm_quantized_padding_of(a->x, pads, (uint8_t)a->x_zero_point);
    /* Whole blocks are read, the last one beyond the channels. */
    const bool copies = pads[0] + pads[1] + pads[2] + pads[3] != 0 || channels % BLOCK != 0;

    const size_t out = (size_t)a->y->dims[2];
    const size_t repeats = a->strides.at[1] == 1 ? xcvm_min(positions_of_blocks(channels), out) : 1;
    depthwise_rows r = {.row = row()};
    depthwise_loop *t = &r.loop;
    *t = (depthwise_loop){.k = k,
                          .x = a->x->data,
                          .image = padding.padded_height * padding.padded_line,
                          .line = (size_t)a->strides.at[0] * padding.padded_line,
                          .pixel = (size_t)a->strides.at[1] * channels * repeats,
                          .height = (size_t)a->y->dims[1],
                          .row = out * channels,
                          .width = (out + repeats - 1) / repeats,
                          .step = channels * repeats,
                          .blocks = (channels * repeats + BLOCK - 1) / BLOCK,
                          .quads = (taps + TAPS - 1) / TAPS,
                          .y = a->y->data,
                          .zero = (int32_t)a->y_zero_point,
                          .low = (float)(a->low - a->y_zero_point),
                          .high = (float)(a->high - a->y_zero_point)};
    const size_t lanes = t->blocks * BLOCK;
    const size_t offsets = xcvm_round_up(t->quads * TAPS * sizeof(size_t), XCVM_ALIGNMENT);
    const size_t filters = offsets + 2 * lanes * sizeof(float), images_at = filters + lanes * t->quads * TAPS;
    size_t bytes = 0;
    if (copies)
        XCVM_TRY(xcvm_quantized_padded_bytes(k->error, &padding, images, BLOCK, &bytes));
    char *scratch = xcvm_kernel_scratch(k, images_at + bytes);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    size_t *at = (size_t *)(void *)scratch;
    int32_t *bias = (int32_t *)(void *)(scratch + offsets);
    float *scale = (float *)(void *)(bias + lanes);
    XCVM_TRY(arrange(a, taps, channels, repeats, t, (int8_t *)scratch + filters, bias, scale));
    t->offsets = at;
    t->bias = bias;
    t->scale = scale;
    t->w = (const int8_t *)scratch + filters;
    place_taps(a, taps, padding.padded_line, t->quads * TAPS, at);
    if (copies) {
        padding.to = (uint8_t *)scratch + images_at;
        t->x = padding.to;
        XCVM_TRY(xcvm_quantized_pad(k, &padding, images, BLOCK));
    }
    const size_t work = t->width * t->blocks * (t->quads + 1) * 8;
    return xcvm_kernel_parallel(k, images * t->height, GRAIN / (work + 1) + 1, run_rows, &r);
}
