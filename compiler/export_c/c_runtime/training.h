/* Parts of a training step besides the network: losses, batch statistics, optimizers. */
#ifndef XC_TRAINING_H
#define XC_TRAINING_H

#include "compiler/export_c/c_runtime/numbers.h"
#include "ops/norm/batch_norm_bound.h"
#include "ops/optimizer/simd/step_numbers.h"
#include "ops/random/random.h"

/* ---- Losses ---- */

/* y = -x at target, times its weight, for `batch` entries of `inner` places each; reduction 0: none, 1: their sum, 2:
 * their mean. Targets are int64_t, or int32_t. Returns 1 where one is no class. */
static int xc_class_loss_value(const value_t *x, const void *targets, int wide, const value_t *weight, value_t *y,
                               size_t batch, size_t classes, size_t inner, int64_t ignore, int reduction)
{
    double sums[4] = {0, 0, 0, 0}, weights = 0, sum;
    for (size_t i = 0; i < batch * inner; i++) {
        const int64_t target = wide ? ((const int64_t *)targets)[i] : ((const int32_t *)targets)[i];
        double loss = 0;
        if (target != ignore) {
            if (target < 0 || (uint64_t)target >= classes)
                return 1;
            const double factor = weight != NULL ? (double)weight[target] : 1;
            loss = -(double)x[(i / inner * classes + (size_t)target) * inner + i % inner] * factor;
            weights += factor;
        }
        sums[i % 4] += loss;
        if (reduction == 0)
            y[i] = (value_t)loss;
    }
    sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    if (reduction != 0)
        *y = (value_t)(reduction == 2 ? sum / weights : sum);
    return 0;
}

/* ---- Random numbers ---- */

static uint64_t xc_random_next(uint64_t *state) { return xcvm_random_scramble(*state += XCVM_RANDOM_STEP); }
static double xc_random_uniform(uint64_t *state) { return xcvm_random_unit(xc_random_next(state)); }
/* The Box-Muller transform; only one of its two results is used. */
static double xc_random_normal(uint64_t *state)
{
    const double u = xc_random_uniform(state), v = xc_random_uniform(state);
    return sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v);
}

/* y = x / (1 - ratio) if the random number is at least ratio, else 0. The mask has the same condition. */
static void xc_drop_value(uint64_t *state, const value_t *x, value_t *y, uint8_t *mask, size_t count, double ratio)
{
    for (size_t i = 0; i < count; i++) {
        const int stays = xc_random_uniform(state) >= ratio;
        y[i] = stays ? (value_t)((double)x[i] / (1 - ratio)) : 0;
        if (mask != NULL)
            mask[i] = (uint8_t)stays;
    }
}

/* ---- Normalization ---- */

/* By the batch's own mean and variance, which move the running ones; these may be NULL. */
static void xc_batch_norm_training_value(const value_t *x, value_t *y, const value_t *scale, const value_t *b,
                                         const value_t *mean, const value_t *variance, value_t *running_mean,
                                         value_t *running_variance, size_t batch, size_t channels, size_t plane,
                                         double epsilon, double momentum)
{
    const double count = (double)batch * (double)plane;
    for (size_t c = 0; c < channels; c++) {
        double results[2] = {0, 0};
        for (int pass = 0; pass < 2; pass++) {
            double part[16] = {0}, sum = 0;
            for (size_t n = 0; n < batch; n++) {
                const value_t *const from = x + (n * channels + c) * plane;
                size_t i = 0;
                for (; i + 16 <= plane; i += 16)
                    for (size_t k = 0; k < 16; k++) {
                        const double d = (double)from[i + k] - results[0];
                        part[k] += pass == 1 ? d * d : d;
                    }
                for (; i < plane; i++) {
                    const double d = (double)from[i] - results[0];
                    sum += pass == 1 ? d * d : d;
                }
            }
            for (size_t k = 0; k < 16; k++)
                sum += part[k];
            results[pass] = sum / count;
        }
        const double old_mean = (double)mean[c], old_variance = (double)variance[c];
        const double factor = (double)scale[c] / sqrt(results[1] + epsilon);
        const value_t by = (value_t)factor, shift = (value_t)((double)b[c] - results[0] * factor);
        for (size_t n = 0; n < batch; n++) {
            const value_t *const from = x + (n * channels + c) * plane;
            value_t *const to = y + (n * channels + c) * plane;
            XCVM_INDEPENDENT
            for (size_t i = 0; i < plane; i++)
                to[i] = from[i] * by + shift;
        }
        if (running_mean != NULL)
            running_mean[c] = (value_t)(old_mean * momentum + results[0] * (1.0 - momentum));
        if (running_variance != NULL)
            running_variance[c] = (value_t)(old_variance * momentum + results[1] * (1.0 - momentum));
    }
}

/* Sums are computed about the first element, so that a mean far from 0 does not reduce the precision of the
 * variance. */
static void xc_batch_norm_gradient_value(const value_t *g, const value_t *x, const value_t *scale, value_t *dx,
                                         value_t *dscale, value_t *db, size_t batch, size_t channels, size_t plane,
                                         double epsilon)
{
    const double count = (double)batch * (double)plane;
    for (size_t c = 0; c < channels; c++) {
        double sums[4] = {0}, part[4][16] = {{0}};
        const double center = count > 0 ? (double)x[c * plane] : 0;
        for (size_t n = 0; n < batch; n++) {
            const value_t *const from = x + (n * channels + c) * plane, *const by = g + (n * channels + c) * plane;
            for (size_t i = 0; i < plane; i++) {
                const double d = (double)from[i] - center, v = (double)by[i];
                part[0][i % 16] += d;
                part[1][i % 16] += d * d;
                part[2][i % 16] += v;
                part[3][i % 16] += v * d;
            }
        }
        for (size_t k = 0; k < 64; k++)
            sums[k / 16] += part[k / 16][k % 16];
        const double moved = count > 0 ? sums[0] / count : 0;
        const double variance = count > 0 ? sums[1] / count - moved * moved : 0;
        const double s = 1.0 / sqrt((variance < 0 ? 0 : variance) + epsilon);
        const double both = count > 0 ? s * (sums[3] - moved * sums[2]) : 0, factor = s * (double)scale[c];
        const double share = count > 0 ? -factor / count : 0;
        const double by_x = share * s * both;
        const value_t first = (value_t)center, times = (value_t)factor;
        const double offset = share * sums[2] - moved * by_x;
        const value_t slope = (value_t)by_x, shift = (value_t)offset;
        const int wide = xcvm_batch_norm_is_wide(sums[1], by_x);
        if (dscale != NULL)
            dscale[c] = (value_t)both;
        if (db != NULL)
            db[c] = (value_t)sums[2];
        for (size_t n = 0; n < batch; n++) {
            const value_t *const from = x + (n * channels + c) * plane, *const by = g + (n * channels + c) * plane;
            value_t *const to = dx + (n * channels + c) * plane;
            if (wide) {
                for (size_t i = 0; i < plane; i++)
                    to[i] = (value_t)((double)by[i] * factor + (((double)from[i] - center) * by_x + offset));
                continue;
            }
            XCVM_INDEPENDENT
            for (size_t i = 0; i < plane; i++)
                to[i] = by[i] * times + ((from[i] - first) * slope + shift);
        }
    }
}

/* ---- Optimizers ---- */

/* The sum of squares of x plus summands, which may be NULL. */
static double xc_squares_value(const value_t *x, const value_t *summands, size_t count)
{
    double part[32] = {0}, sum = 0;
    for (size_t i = 0; i < count; i += 32) {
        const size_t n = count - i < 32 ? count - i : 32;
        for (size_t k = 0; k < n; k++) {
            const value_t v = summands != NULL ? x[i + k] + summands[i + k] : x[i + k];
            part[k] += (double)v * (double)v;
        }
    }
    for (size_t k = 0; k < 32; k++)
        sum += part[k];
    return sum;
}

/* Factor of the rate of a tensor of this norm. */
static double xc_trust(double norm, double gradient_norm, double trust, const xcvm_step_numbers *t)
{
    const double divisor = fabs(t->scale) * gradient_norm + t->decay * norm + t->epsilon;
    return norm > 0.0 && divisor > 0.0 ? trust * norm / divisor : 1.0;
}

/* One tensor, block by block. Without `apply`, gradients are only added up; a step that is not `valid` forgets them. */
static void xc_update_value(const xcvm_step_block *all, const xcvm_step_numbers *t, int apply, int valid,
                            void (*take)(value_t *p, const value_t *g, value_t *const m[], size_t n,
                                         const xcvm_step_numbers *u))
{
    value_t *const sums = (value_t *)all->sums, own[XCVM_STEP_BLOCK];
    if ((!apply || !valid) && sums == NULL)
        return;
    for (size_t at = 0; at < all->count; at += XCVM_STEP_BLOCK) {
        xcvm_step_block b = *all;
        b.parameters = (value_t *)all->parameters + at;
        b.first = at;
        if (all->columns == 0)
            b.gradients = (const value_t *)all->gradients + at;
        b.sums = sums != NULL ? sums + at : NULL;
        b.average = all->average != NULL ? (value_t *)all->average + at : NULL;
        for (size_t i = 0; i < XCVM_STEP_MOMENTS; i++)
            b.moments[i] = all->moments[i] != NULL ? (value_t *)all->moments[i] + at : NULL;
        b.count = all->count - at < XCVM_STEP_BLOCK ? all->count - at : XCVM_STEP_BLOCK;
        if (!apply)
            xcvm_add_value(sums + at, xcvm_gradients_value(&b, own), sums + at, b.count);
        else if (!valid)
            memset(sums + at, 0, b.count * sizeof *sums);
        else
            xcvm_block_value(&b, t, take);
    }
}

#endif
