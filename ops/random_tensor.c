/* RandomNormal, RandomUniform, Bernoulli, Multinomial and Dropout. */
#include "ops/convert.h"
#include "ops/floats.h"
#include "ops/kernel.h"
#include "ops/random.h"

#include <math.h>

XCVM_SHAPE_RULE(random)
{
    int64_t dims[XCVM_MAX_RANK];
    size_t count;
    bool known;
    const xcvm_value *shape = t->in[0];
    xcvm_dtype dtype = XCVM_F32;
    for (size_t i = 0; i < t->row->field_count; i++)
        if (t->row->fields[i].kind == XCVM_FIELD_DTYPE)
            dtype = *(const xcvm_dtype *)(const void *)((const char *)t->args + t->row->fields[i].offset);
    XCVM_REQUIRE(t, xcvm_dtype_is_float(dtype), TYPE_MISMATCH, "dtype is %s; f16, bf16, f32 or f64 is needed",
                 xcvm_dtype_name(dtype));
    XCVM_TRY(xcvm_read_shape(t->error, shape, dims, &count, &known));
    if (!known) {
        const int rank = shape->rank == 1 && shape->dims[0] >= 0 ? (int)shape->dims[0] : -1;
        for (int d = 0; d < XCVM_MAX_RANK; d++)
            dims[d] = XCVM_ANY_DIM;
        xcvm_value_set_tensor(t->out[0], dtype, rank, dims);
        return XCVM_OK;
    }
    for (size_t i = 0; i < count; i++)
        XCVM_REQUIRE(t, dims[i] >= 0, OUT_OF_RANGE, "shape[%zu] is %lld", i, (long long)dims[i]);
    xcvm_value_set_tensor(t->out[0], dtype, (int)count, dims);
    return XCVM_OK;
}

XCVM_KERNEL(RandomNormal)
{
    uint64_t state = xcvm_random_start(a->seed, k->random);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0, count = xcvm_element_count(a->y); i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        xcvm_write_double(a->y, i, a->mean + a->scale * xcvm_random_normal(&state));
    }
    return XCVM_OK;
}

XCVM_KERNEL(RandomUniform)
{
    uint64_t state = xcvm_random_start(a->seed, k->random);
    const double low = a->low, range = a->high - a->low;
    double block[XCVM_BLOCK];
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t done = 0, count = xcvm_element_count(a->y); done < count; done += XCVM_BLOCK) {
        const size_t n = count - done < XCVM_BLOCK ? count - done : XCVM_BLOCK;
        for (size_t i = 0; i < n; i++)
            block[i] = low + range * xcvm_random_uniform(&state);
        xcvm_store_f64((xcvm_dtype)a->y->dtype, a->y->data, done, n, block, true);
        XCVM_TRY(xcvm_poll_after(&poller, n));
    }
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(Bernoulli)
{
    (void)t;
    xcvm_value_set_tensor(a->y, a->dtype != XCVM_NO_DTYPE ? a->dtype : (xcvm_dtype)a->x->dtype, a->x->rank, a->x->dims);
    return XCVM_OK;
}

XCVM_KERNEL(Bernoulli)
{
    uint64_t state = xcvm_random_start(a->seed, k->random);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0, count = xcvm_element_count(a->y); i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        const double p = xcvm_element_as_double(a->x, i);
        XCVM_CHECK(k->error, p >= 0 && p <= 1, OUT_OF_RANGE, "element %zu of x is %g, no probability", i, p);
        xcvm_write_double(a->y, i, xcvm_random_uniform(&state) < p ? 1 : 0);
    }
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(Multinomial)
{
    XCVM_REQUIRE(t, a->x->rank < 0 || a->x->rank == 2, SHAPE_MISMATCH, "x has rank %d, 2 is needed", a->x->rank);
    XCVM_REQUIRE(t, xcvm_dtype_in(a->dtype, XCVM_TYPES_INDEX), TYPE_MISMATCH, "dtype is %s; i32 or i64 is needed",
                 xcvm_dtype_name(a->dtype));
    const int64_t dims[] = {a->x->rank < 0 ? XCVM_ANY_DIM : a->x->dims[0], a->sample_size};
    xcvm_value_set_tensor(a->y, a->dtype, 2, dims);
    return XCVM_OK;
}

XCVM_KERNEL(Multinomial)
{
    uint64_t state = xcvm_random_start(a->seed, k->random);
    const size_t rows = (size_t)a->x->dims[0], classes = (size_t)a->x->dims[1], samples = (size_t)a->sample_size;
    XCVM_CHECK(k->error, classes > 0 || rows == 0, SHAPE_MISMATCH, "x has no classes");
    if (rows == 0)
        return XCVM_OK;
    /* The sums of the classes' weights up to each of them. */
    double *sums = xcvm_kernel_scratch(k, classes * sizeof *sums);
    if (sums == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t row = 0; row < rows; row++) {
        double greatest = -INFINITY, sum = 0;
        for (size_t c = 0; c < classes; c++) {
            XCVM_TRY(xcvm_poll_after(&poller, 1));
            greatest = fmax(greatest, xcvm_element_as_double(a->x, row * classes + c));
        }
        for (size_t c = 0; c < classes; c++) {
            XCVM_TRY(xcvm_poll_after(&poller, 1));
            sums[c] = sum += exp(xcvm_element_as_double(a->x, row * classes + c) - greatest);
        }
        for (size_t s = 0; s < samples; s++) {
            const double drawn = xcvm_random_uniform(&state) * sum;
            XCVM_TRY(xcvm_poll_after(&poller, 1));
            /* The first class, or the last of all, up to which there is more than was drawn. */
            size_t c = 0;
            for (size_t above = classes - 1; c < above;) {
                const size_t middle = c + (above - c) / 2;
                if (sums[middle] > drawn)
                    above = middle;
                else
                    c = middle + 1;
            }
            if (a->dtype == XCVM_I32)
                XCVM_DATA(int32_t, a->y)[row * samples + s] = (int32_t)c;
            else
                XCVM_DATA(int64_t, a->y)[row * samples + s] = (int64_t)c;
        }
    }
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(Dropout)
{
    bool known;
    if (a->ratio != NULL)
        XCVM_TRY(xcvm_scalar_check(t->error, a->ratio, "ratio", &known));
    if (a->training_mode != NULL)
        XCVM_TRY(xcvm_scalar_check(t->error, a->training_mode, "training_mode", &known));
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->x->dtype, a->x->rank, a->x->dims);
    if (a->mask != NULL)
        xcvm_value_set_tensor(a->mask, XCVM_BOOL, a->x->rank, a->x->dims);
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
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        const bool kept = xcvm_random_uniform(&state) >= ratio;
        xcvm_write_double(a->y, i, kept ? xcvm_element_as_double(a->x, i) / (1 - ratio) : 0);
        if (a->mask != NULL)
            XCVM_DATA(uint8_t, a->mask)[i] = kept;
    }
    return XCVM_OK;
}
