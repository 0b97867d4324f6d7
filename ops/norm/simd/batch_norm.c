/* BatchNormalization. */
#include "ops/simd/halves.h"
#include "ops/simd/math.h"

typedef struct batch_norm_loop {
    const xcvm_kernel *k;
    xcvm_dtype dtype;
    const void *x;
    void *y;
    size_t channels, size;            /* size: elements of one channel of one item */
    const double *factors, *summands; /* y = x * factor + summand, one each for a channel */
} batch_norm_loop;

static void affine_f32(const float *x, float *y, size_t count, float factor, float summand)
{
    XCVM_INDEPENDENT
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] * factor + summand;
}

static void affine_elements(const batch_norm_loop *t, size_t first, size_t count, size_t channel)
{
    float block[XCVM_BLOCK];
    float factor = (float)t->factors[channel], summand = (float)t->summands[channel];
    if (t->dtype == XCVM_F32) {
        affine_f32((const float *)t->x + first, (float *)t->y + first, count, factor, summand);
    } else if (t->dtype == XCVM_F64) {
        const double *x = (const double *)t->x + first;
        double *y = (double *)t->y + first;
        for (size_t i = 0; i < count; i++)
            y[i] = x[i] * t->factors[channel] + t->summands[channel];
    } else {
        for (size_t at = 0; at < count; at += XCVM_BLOCK) {
            size_t n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
            xcvm_halves_load(t->dtype, t->x, first + at, n, block);
            affine_f32(block, block, n, factor, summand);
            xcvm_halves_store(t->dtype, t->y, first + at, n, block);
        }
    }
}

/* The range is over channels of items. */
static void affine_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const batch_norm_loop *t = context;
    for (size_t i = begin; i < end; i++)
        affine_elements(t, i * t->size, t->size, i % t->channels);
}

/* For f32 without spatial axes, where neighbours are of different channels. The range is over items. */
static void affine_rows(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const batch_norm_loop *t = context;
    for (size_t i = begin; i < end; i++) {
        const float *x = (const float *)t->x + i * t->channels;
        float *y = (float *)t->y + i * t->channels;
        XCVM_INDEPENDENT
        for (size_t c = 0; c < t->channels; c++)
            y[c] = x[c] * (float)t->factors[c] + (float)t->summands[c];
    }
}

/* Sums side by side: as many additions go on at once. Their number is the same for every instruction set. */
enum { SUMS = 32 };

/* Adds the numbers less `centre`, or the squares of that, to the sums in turn. */
static void add_to_sums(const float *x, size_t count, double centre, const bool squares, double sums[SUMS])
{
    size_t i = 0;
    if (count >= SUMS) {
        double part[SUMS];
        for (size_t s = 0; s < SUMS; s++)
            part[s] = sums[s];
        for (; i + SUMS <= count; i += SUMS)
            for (size_t s = 0; s < SUMS; s++) {
                const double d = (double)x[i + s] - centre;
                part[s] += squares ? d * d : d;
            }
        for (size_t s = 0; s < SUMS; s++)
            sums[s] = part[s];
    }
    for (size_t s = 0; i + s < count; s++) {
        const double d = (double)x[i + s] - centre;
        sums[s] += squares ? d * d : d;
    }
}

static void add_elements(const batch_norm_loop *t, size_t first, size_t count, double centre, bool squares,
                         double sums[SUMS])
{
    float block[XCVM_BLOCK];
    const float *x = block;
    if (t->dtype == XCVM_F64) {
        for (size_t i = 0; i < count; i++) {
            const double d = ((const double *)t->x)[first + i] - centre;
            sums[i % SUMS] += squares ? d * d : d;
        }
        return;
    }
    if (t->dtype == XCVM_F32)
        x = (const float *)t->x + first;
    else
        xcvm_halves_load(t->dtype, t->x, first, count, block);
    if (squares)
        add_to_sums(x, count, centre, true, sums);
    else
        add_to_sums(x, count, centre, false, sums);
}

/* Mean and variance of channel c over `items` items. */
static void channel_statistics(const batch_norm_loop *t, size_t items, size_t c, double *mean, double *variance)
{
    double results[2] = {0.0, 0.0};
    const double count = (double)items * (double)t->size;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (int pass = 0; pass < 2; pass++) {
        double sums[SUMS] = {0.0};
        for (size_t i = 0; i < items; i++) {
            const size_t first = (i * t->channels + c) * t->size;
            for (size_t at = 0; at < t->size; at += XCVM_BLOCK) {
                const size_t n = t->size - at < XCVM_BLOCK ? t->size - at : XCVM_BLOCK;
                if (xcvm_poll_after(&poller, n) != XCVM_OK)
                    return;
                add_elements(t, first + at, n, results[0], pass == 1, sums);
            }
        }
        for (size_t s = 0; s < SUMS; s++)
            results[pass] += sums[s];
        results[pass] /= count;
    }
    *mean = results[0];
    *variance = results[1];
}

typedef struct training {
    const batch_norm_loop *t;
    size_t items;
    double *mean, *variance;
} training;

static void statistics_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const training *s = context;
    for (size_t c = begin; c < end; c++)
        channel_statistics(s->t, s->items, c, &s->mean[c], &s->variance[c]);
}

/* running = old * momentum + batch * (1 - momentum), or old again where `batch` is NULL. */
static void move_running(xcvm_value *running, const double *old, const double *batch, size_t count, double momentum)
{
    for (size_t c = 0; running != NULL && c < count; c++) {
        double value = batch != NULL ? old[c] * momentum + batch[c] * (1.0 - momentum) : old[c];
        xcvm_store_f64(running->dtype, running->data, c, 1, &value, false);
    }
}

XCVM_KERNEL(BatchNormalization)
{
    size_t channels = (size_t)a->x->dims[1], count = xcvm_element_count(a->x), bytes;
    XCVM_CHECK(k->error, xcvm_size_mul(channels, 6 * sizeof(double), &bytes), OUT_OF_RANGE, "x has %zu channels",
               channels);
    double *scratch = xcvm_kernel_scratch(k, bytes);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    double *factors = scratch, *summands = scratch + channels, *mean = scratch + 2 * channels;
    double *variance = scratch + 3 * channels, *batch_mean = scratch + 4 * channels;
    double *batch_variance = scratch + 5 * channels;
    xcvm_load_f64(a->scale->dtype, a->scale->data, 0, channels, factors);
    xcvm_load_f64(a->b->dtype, a->b->data, 0, channels, summands);
    xcvm_load_f64(a->mean->dtype, a->mean->data, 0, channels, mean);
    xcvm_load_f64(a->var->dtype, a->var->data, 0, channels, variance);
    size_t items = (size_t)a->x->dims[0];
    batch_norm_loop t = {.k = k,
                         .dtype = a->x->dtype,
                         .x = a->x->data,
                         .y = a->y->data,
                         .channels = channels,
                         .size = count != 0 ? count / channels / items : 0,
                         .factors = factors,
                         .summands = summands};
    bool trains = a->training_mode != 0;
    if (trains) {
        training s = {&t, items, batch_mean, batch_variance};
        XCVM_TRY(xcvm_kernel_parallel(k, channels, 32768 / (items * t.size + 1) + 1, statistics_range, &s));
    }
    move_running(a->running_mean, mean, trains ? batch_mean : NULL, channels, a->momentum);
    move_running(a->running_var, variance, trains ? batch_variance : NULL, channels, a->momentum);
    for (size_t c = 0; c < channels; c++) {
        factors[c] /= sqrt((trains ? batch_variance[c] : variance[c]) + a->epsilon);
        summands[c] -= (trains ? batch_mean[c] : mean[c]) * factors[c];
    }
    if (count == 0)
        return XCVM_OK;
    if (t.size == 1 && t.dtype == XCVM_F32)
        return xcvm_kernel_parallel(k, items, 32768 / channels + 1, affine_rows, &t);
    return xcvm_kernel_parallel(k, items * channels, 32768 / t.size + 1, affine_range, &t);
}
