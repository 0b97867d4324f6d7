/* BatchNormalization, with statistics of its own batch or of the batches of all processes. */
#include "ops/simd/halves.h"
#include "ops/simd/math.h"

typedef struct batch_norm_loop {
    const xcvm_kernel *k;
    xcvm_dtype dtype;
    const void *x;
    void *y;
    size_t channels, size;            /* size: elements of one channel of one batch entry */
    const double *factors, *summands; /* y = x * factor + summand, one of each per channel */
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

/* The range is over channels of batch entries. */
static void affine_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const batch_norm_loop *t = context;
    for (size_t i = begin; i < end; i++)
        affine_elements(t, i * t->size, t->size, i % t->channels);
}

/* For f32 without spatial axes, where neighbors are of different channels. The range is over batch entries. */
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

/* Number of independent partial sums, the same for every instruction set. */
enum { SUMS = 32 };

/* Adds the numbers minus `center`, or their squares, to the partial sums in turn. */
static void add_to_sums(const float *x, size_t count, double center, const bool squares, double sums[SUMS])
{
    size_t i = 0;
    if (count >= SUMS) {
        double part[SUMS];
        for (size_t s = 0; s < SUMS; s++)
            part[s] = sums[s];
        for (; i + SUMS <= count; i += SUMS)
            for (size_t s = 0; s < SUMS; s++) {
                const double d = (double)x[i + s] - center;
                part[s] += squares ? d * d : d;
            }
        for (size_t s = 0; s < SUMS; s++)
            sums[s] = part[s];
    }
    for (size_t s = 0; i + s < count; s++) {
        const double d = (double)x[i + s] - center;
        sums[s] += squares ? d * d : d;
    }
}

static void add_elements(const batch_norm_loop *t, size_t first, size_t count, double center, bool squares,
                         double sums[SUMS])
{
    float block[XCVM_BLOCK];
    const float *x = block;
    if (t->dtype == XCVM_F64) {
        for (size_t i = 0; i < count; i++) {
            const double d = ((const double *)t->x)[first + i] - center;
            sums[i % SUMS] += squares ? d * d : d;
        }
        return;
    }
    if (t->dtype == XCVM_F32)
        x = (const float *)t->x + first;
    else
        xcvm_halves_load(t->dtype, t->x, first, count, block);
    if (squares)
        add_to_sums(x, count, center, true, sums);
    else
        add_to_sums(x, count, center, false, sums);
}

/* Mean and variance of channel c over `items` batch entries. */
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

/* running = old * momentum + batch * (1 - momentum), or old if `batch` is NULL. */
static void move_running(xcvm_value *running, const double *old, const double *batch, size_t count, double momentum)
{
    for (size_t c = 0; running != NULL && c < count; c++) {
        double value = batch != NULL ? old[c] * momentum + batch[c] * (1.0 - momentum) : old[c];
        xcvm_store_f64(running->dtype, running->data, c, 1, &value, false);
    }
}

/* Operands and results of both instructions. */
typedef struct batch_norm_call {
    const xcvm_value *x, *scale, *b, *mean, *var;
    xcvm_value *y, *running_mean, *running_var, *statistics;
    double epsilon, momentum;
    bool trains, shared; /* uses statistics of the batch, or of the batches of all processes */
} batch_norm_call;

/* One number per channel each. */
typedef struct channel_numbers {
    double *factors, *summands, *mean, *variance, *batch_mean, *batch_variance;
    double *shared; /* one more: the element count, then sums over the processes */
} channel_numbers;

/* Combines this process's mean and variance with those of all processes, whose parts may differ in size. Squares are
 * taken about the common mean, so that a large mean does not cost precision. */
static xcvm_status share_statistics(const xcvm_kernel *k, const channel_numbers *n, size_t channels, double count,
                                    xcvm_value *statistics)
{
    double *sums = n->shared + 1;
    n->shared[0] = count;
    for (size_t c = 0; c < channels; c++)
        sums[c] = count > 0.0 ? count * n->batch_mean[c] : 0.0;
    XCVM_TRY(xcvm_reducer_sum(&k->reducer, XCVM_F64, n->shared, channels + 1, k->error));
    const double all = n->shared[0];
    for (size_t c = 0; c < channels; c++) {
        const double mean = sums[c] / all, moved = n->batch_mean[c] - mean;
        sums[c] = count > 0.0 ? count * (n->batch_variance[c] + moved * moved) : 0.0;
        n->batch_mean[c] = mean;
    }
    XCVM_TRY(xcvm_reducer_sum(&k->reducer, XCVM_F64, sums, channels, k->error));
    for (size_t c = 0; c < channels; c++)
        n->batch_variance[c] = sums[c] / all;
    if (statistics != NULL) {
        double *to = statistics->data;
        to[0] = all;
        memcpy(to + 1, n->batch_mean, channels * sizeof *to);
        memcpy(to + 1 + channels, n->batch_variance, channels * sizeof *to);
    }
    return XCVM_OK;
}

static channel_numbers divide_scratch(double *scratch, size_t channels)
{
    return (channel_numbers){.factors = scratch,
                             .summands = scratch + channels,
                             .mean = scratch + 2 * channels,
                             .variance = scratch + 3 * channels,
                             .batch_mean = scratch + 4 * channels,
                             .batch_variance = scratch + 5 * channels,
                             .shared = scratch + 6 * channels};
}

static xcvm_status load_numbers(xcvm_kernel *k, const batch_norm_call *a, size_t channels, channel_numbers *n)
{
    size_t bytes;
    XCVM_CHECK(k->error,
               xcvm_size_mul(channels, 7 * sizeof(double), &bytes) && xcvm_size_add(bytes, sizeof(double), &bytes),
               OUT_OF_RANGE, "x has %zu channels", channels);
    double *scratch = xcvm_kernel_scratch(k, bytes);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    *n = divide_scratch(scratch, channels);
    xcvm_load_f64(a->scale->dtype, a->scale->data, 0, channels, n->factors);
    xcvm_load_f64(a->b->dtype, a->b->data, 0, channels, n->summands);
    xcvm_load_f64(a->mean->dtype, a->mean->data, 0, channels, n->mean);
    xcvm_load_f64(a->var->dtype, a->var->data, 0, channels, n->variance);
    return XCVM_OK;
}

static xcvm_status normalize(xcvm_kernel *k, const batch_norm_call *a)
{
    const size_t channels = (size_t)a->x->dims[1], count = xcvm_element_count(a->x), items = (size_t)a->x->dims[0];
    channel_numbers n;
    XCVM_TRY(load_numbers(k, a, channels, &n));
    batch_norm_loop t = {.k = k,
                         .dtype = a->x->dtype,
                         .x = a->x->data,
                         .y = a->y->data,
                         .channels = channels,
                         .size = count != 0 ? count / channels / items : 0,
                         .factors = n.factors,
                         .summands = n.summands};
    if (a->trains) {
        training s = {&t, items, n.batch_mean, n.batch_variance};
        XCVM_TRY(xcvm_kernel_parallel(k, channels, 32768 / (items * t.size + 1) + 1, statistics_range, &s));
    }
    if (a->shared)
        XCVM_TRY(share_statistics(k, &n, channels, (double)(items * t.size), a->statistics));
    move_running(a->running_mean, n.mean, a->trains ? n.batch_mean : NULL, channels, a->momentum);
    move_running(a->running_var, n.variance, a->trains ? n.batch_variance : NULL, channels, a->momentum);
    for (size_t c = 0; c < channels; c++) {
        n.factors[c] /= sqrt((a->trains ? n.batch_variance[c] : n.variance[c]) + a->epsilon);
        n.summands[c] -= (a->trains ? n.batch_mean[c] : n.mean[c]) * n.factors[c];
    }
    if (count == 0)
        return XCVM_OK;
    if (t.size == 1 && t.dtype == XCVM_F32)
        return xcvm_kernel_parallel(k, items, 32768 / channels + 1, affine_rows, &t);
    return xcvm_kernel_parallel(k, items * channels, 32768 / t.size + 1, affine_range, &t);
}

/* The fields that both instructions have. */
#define CALL_OF(a)                                                                                                     \
    {                                                                                                                  \
        .x = (a)->x, .scale = (a)->scale, .b = (a)->b, .mean = (a)->mean, .var = (a)->var, .y = (a)->y,                \
        .running_mean = (a)->running_mean, .running_var = (a)->running_var, .epsilon = (a)->epsilon,                   \
        .momentum = (a)->momentum                                                                                      \
    }

XCVM_KERNEL(BatchNormalization)
{
    batch_norm_call call = CALL_OF(a);
    call.trains = a->training_mode != 0;
    return normalize(k, &call);
}

XCVM_KERNEL(SyncBatchNormalization)
{
    batch_norm_call call = CALL_OF(a);
    call.statistics = a->statistics;
    call.trains = call.shared = true;
    return normalize(k, &call);
}
