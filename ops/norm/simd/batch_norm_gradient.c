/* BatchNormalizationGradient, one channel at a time, so that it is in the cache during the second pass. If processes
 * share statistics, the first pass is over all channels, and one message has all sums. */
#include "ops/norm/batch_norm_bound.h"
#include "ops/simd/halves.h"
#include "ops/simd/lanes.h"
#include "ops/simd/math.h"

#include <math.h>

/* Number of independent partial sums, the same for every instruction set. */
enum { SUMS = 16 };
typedef double wide __attribute__((vector_size(SUMS * sizeof(double))));

/* Sums of x minus a center, of its square, of g, and of the product of both. */
typedef struct channel_sums {
    wide x, squares, g, products;
} channel_sums;

typedef struct gradient_loop {
    const xcvm_kernel *k;
    xcvm_dtype dtype;
    const void *g, *x;
    void *dx;
    size_t items, channels, size; /* size: elements of one channel of one batch entry */
    double epsilon;
    const double *scale;
    const double *statistics; /* of all processes: element count, means, variances; NULL: of this batch only */
    double *dscale, *db;
    double *shared; /* sums of g, then of g * (x - mean), over all processes */
} gradient_loop;

/* dx = g * factor + ((x - center) * slope + shift) */
typedef struct channel_line {
    double center, factor, slope, shift;
    bool wide; /* f32 cannot represent the differences or the slope */
} channel_line;

typedef union block {
    float f32[XCVM_BLOCK];
    double f64[XCVM_BLOCK];
} block;

#define DEFINE_ROUNDS(name, type)                                                                                      \
    typedef type name##_run __attribute__((vector_size(SUMS * sizeof(type)), aligned(sizeof(type)), may_alias));       \
    XCVM_INLINE void add_run_##name(const type *x, const type *g, double center, channel_sums *s)                      \
    {                                                                                                                  \
        const wide v = __builtin_convertvector(*(const name##_run *)x, wide) - center;                                 \
        const wide u = __builtin_convertvector(*(const name##_run *)g, wide);                                          \
        s->x += v;                                                                                                     \
        s->squares += v * v;                                                                                           \
        s->g += u;                                                                                                     \
        s->products += u * v;                                                                                          \
    }                                                                                                                  \
    static void add_##name(const type *x, const type *g, size_t count, double center, channel_sums *all)               \
    {                                                                                                                  \
        channel_sums s = *all;                                                                                         \
        type last_x[SUMS], last_g[SUMS] = {0};                                                                         \
        size_t i = 0;                                                                                                  \
        for (; i + SUMS <= count; i += SUMS)                                                                           \
            add_run_##name(x + i, g + i, center, &s);                                                                  \
        if (i < count) {                                                                                               \
            for (size_t j = 0; j < SUMS; j++)                                                                          \
                last_x[j] = i + j < count ? x[i + j] : (type)center;                                                   \
            for (size_t j = 0; i + j < count; j++)                                                                     \
                last_g[j] = g[i + j];                                                                                  \
            add_run_##name(last_x, last_g, center, &s);                                                                \
        }                                                                                                              \
        *all = s;                                                                                                      \
    }                                                                                                                  \
    static void draw_##name(const type *x, const type *g, size_t count, const channel_line *line, type *dx)            \
    {                                                                                                                  \
        const type center = (type)line->center, factor = (type)line->factor, slope = (type)line->slope;                \
        const type shift = (type)line->shift;                                                                          \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < count; i++)                                                                             \
            dx[i] = g[i] * factor + ((x[i] - center) * slope + shift);                                                 \
    }
DEFINE_ROUNDS(f32, float)
DEFINE_ROUNDS(f64, double)

/* draw_f32 in f64. */
static void draw_wide(const float *x, const float *g, size_t count, const channel_line *line, float *dx)
{
    for (size_t i = 0; i < count; i++)
        dx[i] = (float)((double)g[i] * line->factor + (((double)x[i] - line->center) * line->slope + line->shift));
}

/* Position among the elements of a channel over all batch entries. Those of one entry are contiguous. */
typedef struct cursor {
    size_t at, run; /* index, and number of contiguous elements */
} cursor;

static cursor cursor_at(const gradient_loop *t, size_t channel, size_t from)
{
    const size_t item = from / t->size, offset = from % t->size;
    return (cursor){(item * t->channels + channel) * t->size + offset, t->size - offset};
}

static cursor next_item(const gradient_loop *t, cursor c)
{
    return (cursor){c.at + c.run + (t->channels - 1) * t->size, t->size};
}

/* Returns true if `count` elements of a computation type are contiguous. */
static bool is_run(const gradient_loop *t, cursor c, size_t count)
{
    return c.run >= count && (t->dtype == XCVM_F32 || t->dtype == XCVM_F64);
}

/* Returns these elements from `c` as f32 or f64, in place or copied to `room`. */
static const void *read_elements(const gradient_loop *t, const void *data, cursor c, size_t count, block *room)
{
    if (is_run(t, c, count))
        return (const char *)data + c.at * xcvm_dtype_size(t->dtype);
    for (size_t done = 0, run; done < count; done += run, c = next_item(t, c)) {
        run = c.run < count - done ? c.run : count - done;
        if (t->dtype == XCVM_F64)
            memcpy(room->f64 + done, (const double *)data + c.at, run * sizeof(double));
        else if (t->dtype == XCVM_F32 && run == 1)
            room->f32[done] = ((const float *)data)[c.at];
        else if (t->dtype == XCVM_F32)
            memcpy(room->f32 + done, (const float *)data + c.at, run * sizeof(float));
        else
            xcvm_halves_load(t->dtype, data, c.at, run, room->f32 + done);
    }
    return room;
}

static void write_elements(const gradient_loop *t, const block *from, cursor c, size_t count)
{
    for (size_t done = 0, run; done < count; done += run, c = next_item(t, c)) {
        run = c.run < count - done ? c.run : count - done;
        if (t->dtype == XCVM_F64)
            memcpy((double *)t->dx + c.at, from->f64 + done, run * sizeof(double));
        else if (t->dtype == XCVM_F32 && run == 1)
            ((float *)t->dx)[c.at] = from->f32[done];
        else if (t->dtype == XCVM_F32)
            memcpy((float *)t->dx + c.at, from->f32 + done, run * sizeof(float));
        else
            xcvm_halves_store(t->dtype, t->dx, c.at, run, from->f32 + done);
    }
}

static double total_of(const wide *sums)
{
    double total = 0.0;
    for (size_t i = 0; i < SUMS; i++)
        total += (*sums)[i];
    return total;
}

/* With c = x - mean, s = 1 / sqrt(variance + epsilon) and sums over the n elements of a channel: dx = scale * s * (g -
 * sum(g) / n - c * s^2 * sum(g * c) / n). All sums are about the first element, so that a large mean does not cost
 * precision. */
static channel_line sum_up(const gradient_loop *t, size_t channel, const channel_sums *sums, double center)
{
    const double n = (double)(t->items * t->size), of_g = total_of(&sums->g), moved = total_of(&sums->x) / n;
    const double squares = total_of(&sums->squares), variance = squares / n - moved * moved;
    const double s = 1.0 / sqrt((variance < 0.0 ? 0.0 : variance) + t->epsilon);
    const double of_both = s * (total_of(&sums->products) - moved * of_g);
    const double factor = s * t->scale[channel], share = -factor / n, slope = share * s * of_both;
    t->dscale[channel] = of_both;
    t->db[channel] = of_g;
    return (channel_line){center, factor, slope, share * of_g - moved * slope, xcvm_batch_norm_is_wide(squares, slope)};
}

/* Computes the sums about `center`. Without statistics of all processes, sets `center` to the channel's first element.
 */
static xcvm_status add_channel(const gradient_loop *t, size_t channel, xcvm_poller *poller, double *center,
                               channel_sums *sums)
{
    const size_t all = t->items * t->size;
    const bool is_f64 = t->dtype == XCVM_F64;
    block room[2];
    memset(sums, 0, sizeof *sums);
    for (size_t from = 0, count; from < all; from += count) {
        count = all - from < XCVM_BLOCK ? all - from : XCVM_BLOCK;
        XCVM_TRY(xcvm_poll_after(poller, count));
        const cursor c = cursor_at(t, channel, from);
        const void *x = read_elements(t, t->x, c, count, &room[0]), *g = read_elements(t, t->g, c, count, &room[1]);
        if (from == 0 && t->statistics == NULL)
            *center = is_f64 ? *(const double *)x : (double)*(const float *)x;
        if (is_f64)
            add_f64(x, g, count, *center, sums);
        else
            add_f32(x, g, count, *center, sums);
    }
    return XCVM_OK;
}

static xcvm_status draw_channel(const gradient_loop *t, size_t channel, xcvm_poller *poller, const channel_line *line)
{
    const size_t all = t->items * t->size;
    block room[2];
    for (size_t from = 0, count; from < all; from += count) {
        count = all - from < XCVM_BLOCK ? all - from : XCVM_BLOCK;
        XCVM_TRY(xcvm_poll_after(poller, count));
        const cursor c = cursor_at(t, channel, from);
        const void *x = read_elements(t, t->x, c, count, &room[0]), *g = read_elements(t, t->g, c, count, &room[1]);
        const bool in_place = is_run(t, c, count);
        void *dx = in_place ? (char *)t->dx + c.at * xcvm_dtype_size(t->dtype) : (void *)&room[0];
        if (t->dtype == XCVM_F64)
            draw_f64(x, g, count, line, dx);
        else if (line->wide)
            draw_wide(x, g, count, line, dx);
        else
            draw_f32(x, g, count, line, dx);
        if (!in_place)
            write_elements(t, &room[0], c, count);
    }
    return XCVM_OK;
}

static void differentiate_channels(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const gradient_loop *t = context;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t c = begin; c < end; c++) {
        double center = 0.0;
        channel_sums sums;
        if (add_channel(t, c, &poller, &center, &sums) != XCVM_OK)
            return;
        const channel_line line = sum_up(t, c, &sums, center);
        if (draw_channel(t, c, &poller, &line) != XCVM_OK)
            return;
    }
}

/* ---- With statistics of all processes ---- */

/* Computes the sums of g and of g * (x - mean) for the sums over all processes. */
static void add_channels(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const gradient_loop *t = context;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t c = begin; c < end; c++) {
        double center = t->statistics[1 + c];
        channel_sums sums;
        if (add_channel(t, c, &poller, &center, &sums) != XCVM_OK)
            return;
        const double s = 1.0 / sqrt(t->statistics[1 + t->channels + c] + t->epsilon);
        t->db[c] = t->shared[c] = total_of(&sums.g);
        t->shared[t->channels + c] = total_of(&sums.products);
        t->dscale[c] = s * t->shared[t->channels + c];
    }
}

static void draw_channels(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const gradient_loop *t = context;
    const double n = t->statistics[0];
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t c = begin; c < end; c++) {
        const double mean = t->statistics[1 + c], variance = t->statistics[1 + t->channels + c];
        const double s = 1.0 / sqrt(variance + t->epsilon), factor = s * t->scale[c], share = -factor / n;
        const double slope = share * s * s * t->shared[t->channels + c];
        /* The center is the f32 number nearest to the mean. */
        const double center = t->dtype == XCVM_F64 ? mean : (double)(float)mean;
        const channel_line line = {center, factor, slope, share * t->shared[c] + slope * (center - mean),
                                   xcvm_batch_norm_is_wide(n * variance, slope)};
        if (draw_channel(t, c, &poller, &line) != XCVM_OK)
            return;
    }
}

static xcvm_status differentiate_shared(xcvm_kernel *k, gradient_loop *t, size_t grain)
{
    const bool any = t->items * t->size > 0;
    memset(t->shared, 0, 2 * t->channels * sizeof(double));
    if (any)
        XCVM_TRY(xcvm_kernel_parallel(k, t->channels, grain, add_channels, t));
    XCVM_TRY(xcvm_reducer_sum(&k->reducer, XCVM_F64, t->shared, 2 * t->channels, k->error));
    return any ? xcvm_kernel_parallel(k, t->channels, grain, draw_channels, t) : XCVM_OK;
}

/* ---- The instructions ---- */

/* Operands and results of both instructions; `statistics` is NULL for those of this batch. */
typedef struct gradient_call {
    const xcvm_value *g, *x, *scale, *statistics;
    xcvm_value *dx, *dscale, *db;
    double epsilon;
} gradient_call;

static xcvm_status differentiate(xcvm_kernel *k, const gradient_call *a)
{
    const size_t channels = (size_t)a->x->dims[1], count = xcvm_element_count(a->x);
    size_t bytes;
    XCVM_CHECK(k->error, xcvm_size_mul(channels, 5 * sizeof(double), &bytes), OUT_OF_RANGE, "x has %zu channels",
               channels);
    double *scratch = xcvm_kernel_scratch(k, bytes);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    gradient_loop t = {.k = k,
                       .dtype = (xcvm_dtype)a->x->dtype,
                       .g = a->g->data,
                       .x = a->x->data,
                       .dx = a->dx->data,
                       .items = (size_t)a->x->dims[0],
                       .channels = channels,
                       .size = count > 0 ? count / channels / (size_t)a->x->dims[0] : 0,
                       .epsilon = a->epsilon,
                       .scale = scratch,
                       .statistics = a->statistics != NULL ? a->statistics->data : NULL,
                       .dscale = scratch + channels,
                       .db = scratch + 2 * channels,
                       .shared = scratch + 3 * channels};
    const size_t grain = count > 0 ? 32768 / (count / channels) + 1 : 1;
    xcvm_load_f64(a->scale->dtype, a->scale->data, 0, channels, scratch);
    memset(t.dscale, 0, 2 * channels * sizeof(double));
    if (t.statistics != NULL)
        XCVM_TRY(differentiate_shared(k, &t, grain));
    else if (count > 0)
        XCVM_TRY(xcvm_kernel_parallel(k, channels, grain, differentiate_channels, &t));
    if (a->dscale != NULL)
        xcvm_store_f64(a->dscale->dtype, a->dscale->data, 0, channels, t.dscale, true);
    if (a->db != NULL)
        xcvm_store_f64(a->db->dtype, a->db->data, 0, channels, t.db, true);
    return XCVM_OK;
}

XCVM_KERNEL(BatchNormalizationGradient)
{
    return differentiate(k, &(gradient_call){.g = a->g,
                                             .x = a->x,
                                             .scale = a->scale,
                                             .dx = a->dx,
                                             .dscale = a->dscale,
                                             .db = a->db,
                                             .epsilon = a->epsilon});
}

XCVM_KERNEL(SyncBatchNormalizationGradient)
{
    return differentiate(k, &(gradient_call){.g = a->g,
                                             .x = a->x,
                                             .scale = a->scale,
                                             .statistics = a->statistics,
                                             .dx = a->dx,
                                             .dscale = a->dscale,
                                             .db = a->db,
                                             .epsilon = a->epsilon});
}
