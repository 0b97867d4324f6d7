/* RandomNormal, RandomUniform, Bernoulli and Dropout. */
#include "ops/util/convert.h"
#include "ops/random/random.h"

#include "ops/random/simd/random_block.h"

XCVM_KERNEL(RandomNormal)
{
    uint64_t state = xcvm_random_start(a->seed, k->random);
    xcvm_poller poller = xcvm_poller_of(k);
    double block[XCVM_BLOCK];
    for (size_t at = 0, n, count = xcvm_element_count(a->y); at < count; at += n) {
        n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
        XCVM_TRY(xcvm_poll_after(&poller, n));
        xcvm_random_normals(&state, n, block);
        for (size_t i = 0; i < n; i++)
            block[i] = a->mean + a->scale * block[i];
        xcvm_store_f64(a->y->dtype, a->y->data, at, n, block, true);
    }
    return XCVM_OK;
}

XCVM_KERNEL(RandomUniform)
{
    uint64_t state = xcvm_random_start(a->seed, k->random);
    xcvm_poller poller = xcvm_poller_of(k);
    double block[XCVM_BLOCK];
    for (size_t at = 0, n, count = xcvm_element_count(a->y); at < count; at += n) {
        n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
        XCVM_TRY(xcvm_poll_after(&poller, n));
        xcvm_random_uniforms(&state, n, block);
        for (size_t i = 0; i < n; i++)
            block[i] = a->low + (a->high - a->low) * block[i];
        xcvm_store_f64(a->y->dtype, a->y->data, at, n, block, true);
    }
    return XCVM_OK;
}

XCVM_KERNEL(Bernoulli)
{
    uint64_t state = xcvm_random_start(a->seed, k->random);
    xcvm_poller poller = xcvm_poller_of(k);
    double drawn[XCVM_BLOCK], p[XCVM_BLOCK];
    for (size_t at = 0, n, count = xcvm_element_count(a->y); at < count; at += n) {
        n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
        XCVM_TRY(xcvm_poll_after(&poller, n));
        xcvm_random_uniforms(&state, n, drawn);
        xcvm_load_f64((xcvm_dtype)a->x->dtype, a->x->data, at, n, p);
        int all = 1;
        for (size_t i = 0; i < n; i++) {
            all &= (p[i] >= 0) & (p[i] <= 1);
            drawn[i] = drawn[i] < p[i] ? 1 : 0;
        }
        for (size_t i = 0; i < n && !all; i++)
            XCVM_CHECK(k->error, p[i] >= 0 && p[i] <= 1, OUT_OF_RANGE, "element %zu of x is %g, no probability", at + i,
                       p[i]);
        xcvm_store_f64((xcvm_dtype)a->y->dtype, a->y->data, at, n, drawn, true);
    }
    return XCVM_OK;
}

XCVM_KERNEL(Dropout)
{
    const size_t count = xcvm_element_count(a->x);
    int64_t training = 0;
    double ratio = 0.5;
    if (a->training_mode != NULL)
        XCVM_TRY(xcvm_read_int(k->error, a->training_mode, "training_mode", &training));
    if (a->ratio != NULL)
        XCVM_TRY(xcvm_read_double(k->error, a->ratio, "ratio", &ratio));
    XCVM_CHECK(k->error, ratio >= 0 && ratio < 1, OUT_OF_RANGE, "ratio is %g, it must be in [0, 1)", ratio);
    if (training == 0 || ratio == 0) {
        if (a->y->data != a->x->data)
            XCVM_TRY(xcvm_kernel_copy(k, a->y->data, a->x->data, a->x->bytes));
        return a->mask != NULL ? xcvm_kernel_fill(k, a->mask->data, 1, count) : XCVM_OK;
    }
    uint64_t state = xcvm_random_start(a->seed, k->random);
    xcvm_poller poller = xcvm_poller_of(k);
    double drawn[XCVM_BLOCK], block[XCVM_BLOCK];
    uint8_t *mask = a->mask != NULL ? XCVM_DATA(uint8_t, a->mask) : NULL;
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
        XCVM_TRY(xcvm_poll_after(&poller, n));
        xcvm_random_uniforms(&state, n, drawn);
        xcvm_load_f64((xcvm_dtype)a->x->dtype, a->x->data, at, n, block);
        for (size_t i = 0; i < n; i++)
            block[i] = drawn[i] >= ratio ? block[i] / (1 - ratio) : 0;
        for (size_t i = 0; mask != NULL && i < n; i++)
            mask[at + i] = drawn[i] >= ratio;
        xcvm_store_f64((xcvm_dtype)a->y->dtype, a->y->data, at, n, block, true);
    }
    return XCVM_OK;
}
