/* Multinomial, and shape rules of RandomNormal, RandomUniform, Bernoulli and Dropout. */
#include "ops/util/convert.h"
#include "ops/util/kernel.h"
#include "ops/random/random.h"
#include "ops/simd/math_f64.h"

#include <math.h>

XCVM_SHAPE_RULE(random)
{
    int64_t dims[XCVM_MAX_RANK];
    size_t count;
    bool known;
    const xcvm_value *shape = t->in[0];
    xcvm_dtype dtype = XCVM_F32;
    for (size_t i = 0; i < t->schema->field_count; i++)
        if (t->schema->fields[i].kind == XCVM_FIELD_DTYPE)
            dtype = *(const xcvm_dtype *)(const void *)((const char *)t->args + t->schema->fields[i].offset);
    XCVM_CHECK(t->error, xcvm_dtype_is_float(dtype), TYPE_MISMATCH,
               "dtype is not supported (%s; expected f16, bf16, f32 or f64)", xcvm_dtype_name(dtype));
    XCVM_TRY(xcvm_read_shape(t->error, shape, dims, &count, &known));
    if (!known) {
        const int rank = shape->rank == 1 && shape->dims[0] >= 0 ? (int)shape->dims[0] : -1;
        for (int d = 0; d < XCVM_MAX_RANK; d++)
            dims[d] = XCVM_ANY_DIM;
        xcvm_value_set_tensor(t->out[0], dtype, rank, dims);
        return XCVM_OK;
    }
    for (size_t i = 0; i < count; i++)
        XCVM_CHECK(t->error, dims[i] >= 0, OUT_OF_RANGE, "shape[%zu] is %lld", i, (long long)dims[i]);
    xcvm_value_set_tensor(t->out[0], dtype, (int)count, dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(Bernoulli)
{
    (void)t;
    xcvm_value_set_tensor(a->y, a->dtype != XCVM_NO_DTYPE ? a->dtype : (xcvm_dtype)a->x->dtype, a->x->rank, a->x->dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(Multinomial)
{
    XCVM_CHECK(t->error, a->x->rank < 0 || a->x->rank == 2, SHAPE_MISMATCH, "x has the wrong rank (%d; expected 2)",
               a->x->rank);
    XCVM_CHECK(t->error, xcvm_dtype_in(a->dtype, XCVM_TYPES_INDEX), TYPE_MISMATCH,
               "dtype is not supported (%s; expected i32 or i64)", xcvm_dtype_name(a->dtype));
    const int64_t dims[] = {a->x->rank < 0 ? XCVM_ANY_DIM : a->x->dims[0], a->sample_size};
    xcvm_value_set_tensor(a->y, a->dtype, 2, dims);
    return XCVM_OK;
}

/* First class whose cumulative sum exceeds `drawn`, or the last one. */
static size_t class_of(const double *sums, size_t classes, double drawn)
{
    size_t first = 0, last = classes - 1;
    while (first < last) {
        const size_t middle = first + (last - first) / 2;
        if (drawn >= sums[middle])
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

XCVM_KERNEL(Multinomial)
{
    uint64_t state = xcvm_random_start(a->seed, k->random);
    const size_t rows = (size_t)a->x->dims[0], classes = (size_t)a->x->dims[1], samples = (size_t)a->sample_size;
    XCVM_CHECK(k->error, classes > 0 || rows == 0, SHAPE_MISMATCH, "x has no classes");
    size_t bytes;
    XCVM_CHECK(k->error, xcvm_size_mul(classes, sizeof(double), &bytes), OUT_OF_RANGE, "x has too many classes");
    double *sums = xcvm_kernel_scratch(k, bytes);
    if (sums == NULL && classes > 0)
        return XCVM_OUT_OF_MEMORY;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t row = 0; row < rows; row++) {
        double greatest = -INFINITY, sum = 0;
        for (size_t at = 0, n; at < classes; at += n) {
            n = classes - at < XCVM_BLOCK ? classes - at : XCVM_BLOCK;
            XCVM_TRY(xcvm_poll_after(&poller, n));
            xcvm_load_f64((xcvm_dtype)a->x->dtype, a->x->data, row * classes + at, n, sums + at);
            for (size_t c = at; c < at + n; c++)
                greatest = fmax(greatest, sums[c]);
        }
        for (size_t at = 0, n; at < classes; at += n) {
            n = classes - at < XCVM_BLOCK ? classes - at : XCVM_BLOCK;
            XCVM_TRY(xcvm_poll_after(&poller, 4 * n));
            for (size_t c = at; c < at + n; c++)
                sums[c] = xcvm_exp_f64(sums[c] - greatest);
            /* Cumulative sums. */
            for (size_t c = at; c < at + n; c++)
                sums[c] = sum += sums[c];
        }
        for (size_t s = 0; s < samples; s++) {
            XCVM_TRY(xcvm_poll_after(&poller, 4));
            const double drawn = xcvm_random_uniform(&state) * sum;
            const size_t c = class_of(sums, classes, drawn);
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
