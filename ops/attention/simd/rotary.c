/* RotaryEmbedding: rotates pairs of elements by angles with given cosines and sines. */
#include "ops/util/convert.h"
#include "ops/simd/halves.h"
#include "ops/simd/math.h"

/* Minimum multiplications per thread. */
enum { THREAD_WORK = 100 * 1000 };

typedef struct rotation {
    const xcvm_RotaryEmbedding_args *a;
    size_t batch, heads, rows, width, pairs;
    size_t head_stride, row_stride; /* strides of x in elements */
    size_t angles;                  /* length of a row of cos and sin */
    const int64_t *positions;       /* NULL: row i uses angles i */
} rotation;

/* y1 = x1 cos - x2 sin, y2 = x1 sin + x2 cos; also for interleaved pairs. y may be x. */
static void turn_f32(const float *x1, const float *x2, const float *cosine, const float *sine, size_t count, float *y1,
                     float *y2)
{
    XCVM_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        const float a = x1[i], b = x2[i];
        y1[i] = a * cosine[i] - b * sine[i];
        y2[i] = a * sine[i] + b * cosine[i];
    }
}

static void turn_pairs_f32(const float *x, const float *cosine, const float *sine, size_t count, float *y)
{
    XCVM_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        const float a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = a * cosine[i] - b * sine[i];
        y[2 * i + 1] = a * sine[i] + b * cosine[i];
    }
}

/* Rotates one f32 row from element `at` of x, with angles from element `angle`. */
static void turn_row_f32(const rotation *r, size_t at, size_t angle)
{
    const float *x = XCVM_CDATA(float, r->a->x) + at;
    float *y = XCVM_DATA(float, r->a->y) + at;
    const float *cosine = XCVM_CDATA(float, r->a->cos) + angle, *sine = XCVM_CDATA(float, r->a->sin) + angle;
    if (r->a->interleaved)
        turn_pairs_f32(x, cosine, sine, r->pairs, y);
    else
        turn_f32(x, x + r->pairs, cosine, sine, r->pairs, y, y + r->pairs);
    if (x != y)
        memcpy(y + 2 * r->pairs, x + 2 * r->pairs, (r->width - 2 * r->pairs) * sizeof *y);
}

/* The same for f16 and bf16, converted to f32 in blocks. */
static void turn_row_half(const rotation *r, size_t at, size_t angle)
{
    const xcvm_RotaryEmbedding_args *a = r->a;
    const xcvm_dtype dtype = (xcvm_dtype)a->x->dtype;
    const void *x = a->x->data;
    void *y = a->y->data;
    float x1[XCVM_BLOCK], x2[XCVM_BLOCK], cosine[XCVM_BLOCK], sine[XCVM_BLOCK], pairs[2 * XCVM_BLOCK];
    for (size_t i = 0; i < r->pairs; i += XCVM_BLOCK) {
        const size_t n = r->pairs - i < XCVM_BLOCK ? r->pairs - i : XCVM_BLOCK;
        xcvm_halves_load(dtype, a->cos->data, angle + i, n, cosine);
        xcvm_halves_load(dtype, a->sin->data, angle + i, n, sine);
        if (a->interleaved) {
            xcvm_halves_load(dtype, x, at + 2 * i, 2 * n, pairs);
            turn_pairs_f32(pairs, cosine, sine, n, pairs);
            xcvm_halves_store(dtype, y, at + 2 * i, 2 * n, pairs);
        } else {
            xcvm_halves_load(dtype, x, at + i, n, x1);
            xcvm_halves_load(dtype, x, at + r->pairs + i, n, x2);
            turn_f32(x1, x2, cosine, sine, n, x1, x2);
            xcvm_halves_store(dtype, y, at + i, n, x1);
            xcvm_halves_store(dtype, y, at + r->pairs + i, n, x2);
        }
    }
    if (x != y)
        memcpy((char *)y + 2 * (at + 2 * r->pairs), (const char *)x + 2 * (at + 2 * r->pairs),
               2 * (r->width - 2 * r->pairs));
}

static void turn_row_f64(const rotation *r, size_t at, size_t angle)
{
    const double *x = XCVM_CDATA(double, r->a->x) + at;
    double *y = XCVM_DATA(double, r->a->y) + at;
    const size_t step = r->a->interleaved ? 2 : 1, apart = r->a->interleaved ? 1 : r->pairs;
    for (size_t i = 0; i < r->pairs; i++) {
        const double cosine = XCVM_CDATA(double, r->a->cos)[angle + i], sine = XCVM_CDATA(double, r->a->sin)[angle + i];
        const double a = x[i * step], b = x[i * step + apart];
        y[i * step] = a * cosine - b * sine;
        y[i * step + apart] = a * sine + b * cosine;
    }
    for (size_t i = 2 * r->pairs; i < r->width; i++)
        y[i] = x[i];
}

static void turn_rows(void *context, size_t begin, size_t end, int worker)
{
    const rotation *r = context;
    (void)worker;
    for (size_t unit = begin; unit < end; unit++) {
        const size_t row = unit / r->heads, head = unit % r->heads;
        const size_t at =
            row / r->rows * r->heads * r->rows * r->width + head * r->head_stride + row % r->rows * r->row_stride;
        const size_t angle = (r->positions != NULL ? (size_t)r->positions[row] : row) * r->angles;
        if (r->a->x->dtype == XCVM_F32)
            turn_row_f32(r, at, angle);
        else if (r->a->x->dtype == XCVM_F64)
            turn_row_f64(r, at, angle);
        else
            turn_row_half(r, at, angle);
    }
}

XCVM_KERNEL(RotaryEmbedding)
{
    const xcvm_value *x = a->x;
    rotation r = {.a = a, .batch = (size_t)x->dims[0], .angles = (size_t)a->cos->dims[a->cos->rank - 1]};
    if (xcvm_element_count(x) == 0)
        return XCVM_OK;
    if (x->rank == 4) {
        r.heads = (size_t)x->dims[1];
        r.rows = (size_t)x->dims[2];
        r.width = (size_t)x->dims[3];
        r.head_stride = r.rows * r.width;
        r.row_stride = r.width;
    } else {
        r.heads = (size_t)a->num_heads;
        r.rows = (size_t)x->dims[1];
        r.width = (size_t)x->dims[2] / r.heads;
        r.head_stride = r.width;
        r.row_stride = (size_t)x->dims[2];
    }
    r.pairs = (a->rotary_embedding_dim > 0 ? (size_t)a->rotary_embedding_dim : r.width) / 2;
    const size_t rows = r.batch * r.rows;
    if (a->position_ids != NULL) {
        r.positions = a->position_ids->data;
        for (size_t i = 0; i < rows; i++)
            XCVM_CHECK(k->error, r.positions[i] >= 0 && r.positions[i] < a->cos->dims[0], OUT_OF_RANGE,
                       "position_ids[%zu] is %lld, but cos has %lld rows", i, (long long)r.positions[i],
                       (long long)a->cos->dims[0]);
    }
    return xcvm_kernel_parallel(k, rows * r.heads, 1 + THREAD_WORK / r.width, turn_rows, &r);
}
