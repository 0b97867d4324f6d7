/* BlockedConvTranspose against its definition in f64, for shapes of all kinds: with NaN beyond the channels, by every
 * instruction set's kernel, with the same bits for any number of threads. */
/* Takes long. */
#include "ops/elementwise/activation.h"
#include "ops/conv/blocked.h"
#include "ops/table/table.h"
#include "ops/util/convert.h"
#include "tests/ops/run_kernel.h"
#include "tests/support.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = XCVM_CHANNEL_BLOCK, SHAPES = 150 };

typedef struct shape {
    int64_t batch, channels, outputs, in[2], kernel[2], stride[2], pad[4], more[2], out[2];
    bool bias;
    int activation;
} shape;

static uint32_t random_state = 1;

static int64_t random_from(int64_t low, int64_t high)
{
    return low + (int64_t)test_random_below(&random_state, (uint32_t)(high - low + 1));
}

static float *floats(int64_t count, bool random)
{
    float *x = malloc((size_t)(count + 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (int64_t i = 0; i < count; i++)
        x[i] = random ? (float)random_from(-1000, 1000) * 1e-3f : NAN;
    return x;
}

static xcvm_value tensor(xcvm_dtype dtype, int rank, const int64_t *dims, void *data)
{
    xcvm_value v = {0};
    xcvm_value_set_tensor(&v, dtype, rank, dims);
    v.data = data;
    return v;
}

/* Index of channel c of pixel p of image n, for `channels` channels and `area` pixels. */
static int64_t blocked_index(int64_t n, int64_t c, int64_t p, int64_t channels, int64_t area)
{
    return ((n * xcvm_blocks_of(channels) + c / BLOCK) * area + p) * BLOCK + c % BLOCK;
}

/* Scatters x [batch, channels, in] over y [batch, outputs, out]. */
static double *define(const shape *s, const float *x, const float *w, const float *b)
{
    const int64_t area = s->out[0] * s->out[1], in_area = s->in[0] * s->in[1], count = s->batch * s->outputs * area;
    double *y = calloc((size_t)count + 1, sizeof *y);
    ck_assert_ptr_nonnull(y);
    for (int64_t i = 0; i < count; i++)
        y[i] = b != NULL ? (double)b[i / area % s->outputs] : 0.0;
    const int64_t taps = s->kernel[0] * s->kernel[1];
    int64_t *to = malloc((size_t)taps * sizeof *to); /* the pixel of y that each tap comes to; -1: none */
    ck_assert_ptr_nonnull(to);
    for (int64_t i = 0; i < s->batch * in_area; i++) {
        const int64_t n = i / in_area, p = i % in_area;
        for (int64_t tap = 0; tap < taps; tap++) {
            const int64_t row = p / s->in[1] * s->stride[0] + tap / s->kernel[1] - s->pad[0];
            const int64_t column = p % s->in[1] * s->stride[1] + tap % s->kernel[1] - s->pad[1];
            const bool inside = row >= 0 && row < s->out[0] && column >= 0 && column < s->out[1];
            to[tap] = inside ? row * s->out[1] + column : -1;
        }
        for (int64_t c = 0; c < s->channels; c++) {
            const double number = (double)x[(n * s->channels + c) * in_area + p];
            for (int64_t k = 0; k < s->outputs; k++)
                for (int64_t tap = 0; tap < taps; tap++)
                    if (to[tap] >= 0)
                        y[(n * s->outputs + k) * area + to[tap]] +=
                            number * (double)w[(c * s->outputs + k) * taps + tap];
        }
    }
    free(to);
    const xcvm_activation f = xcvm_activation_of(s->activation, (xcvm_floats){NULL, 0});
    for (int64_t i = 0; i < count; i++)
        y[i] = xcvm_activate_f64(&f, y[i]);
    return y;
}

static void check_results(const shape *s, const char *text, const float *got, const double *wanted, double allowed)
{
    const int64_t area = s->out[0] * s->out[1];
    for (int64_t n = 0; n < s->batch; n++)
        for (int64_t k = 0; k < s->outputs; k++)
            for (int64_t p = 0; p < area; p++) {
                const double a = (double)got[blocked_index(n, k, p, s->outputs, area)];
                const double b = wanted[(n * s->outputs + k) * area + p];
                if (!(fabs(a - b) <= allowed))
                    ck_abort_msg("%s: output %d at %d is %.9g, by the definition %.9g", text, (int)k, (int)p, a, b);
            }
}

/* The kernels of all instruction sets, with filters of one type. */
static void check_type(xcvm_dtype type, const shape *s, xcvm_BlockedConvTranspose_args a, const float *filter,
                       const float *x, const float *bias, const char *text)
{
    const int64_t blocks = xcvm_blocks_of(s->outputs), count = blocks * BLOCK * s->out[0] * s->out[1] * s->batch;
    const int64_t dims[4] = {s->channels, s->outputs, s->kernel[0], s->kernel[1]};
    const int64_t filters = dims[0] * dims[1] * dims[2] * dims[3];
    const int64_t packed_dims[] = {blocks, dims[0], dims[2], dims[3], BLOCK};
    const int64_t packed = blocks * BLOCK * dims[0] * dims[2] * dims[3];
    const double allowed = 3e-6 * (sqrt((double)(s->channels * s->kernel[0] * s->kernel[1])) + 1.0);
    float *rounded = floats(filters, false), *panels = floats(packed, false);
    char *narrow = malloc((size_t)packed * xcvm_dtype_size(type));
    ck_assert_ptr_nonnull(narrow);
    memcpy(rounded, filter, (size_t)filters * sizeof *rounded);
    if (type != XCVM_F32) {
        xcvm_store_f32(type, narrow, 0, (size_t)filters, rounded);
        xcvm_load_f32(type, narrow, 0, (size_t)filters, rounded);
    }
    xcvm_blocked_pack_transposed(rounded, dims, s->stride, panels);
    if (type != XCVM_F32)
        xcvm_store_f32(type, narrow, 0, (size_t)packed, panels);
    const xcvm_value w = tensor(type, 5, packed_dims, type != XCVM_F32 ? (void *)narrow : panels);
    double *wanted = define(s, x, rounded, bias);
    xcvm_value y = *a.y;
    a.w = &w;
    a.y = &y;
    xcvm_kernel_run run;
    for (size_t r = 0; (run = kernel_variant(XCVM_OP_BlockedConvTranspose, r)) != NULL; r++) {
        float *first = floats(count, false), *second = floats(count, false);
        y.data = first;
        run_kernel(run, &a, 1, "BlockedConvTranspose");
        check_results(s, text, first, wanted, allowed);
        y.data = second;
        run_kernel(run, &a, 3, "BlockedConvTranspose");
        ck_assert_msg(memcmp(first, second, (size_t)count * sizeof *first) == 0, "%s: other bits by three threads",
                      text);
        free(first);
        free(second);
    }
    free(wanted);
    free(narrow);
    free(panels);
    free(rounded);
}

static void check_shape(const shape *s)
{
    const int64_t area = s->in[0] * s->in[1], images = s->batch * s->channels, blocks = xcvm_blocks_of(s->outputs);
    float *planes = floats(images * area, true);
    float *filter = floats(s->channels * s->outputs * s->kernel[0] * s->kernel[1], true);
    float *bias = floats(s->outputs, true), *padded = floats(blocks * BLOCK, false);
    float *blocked = floats(s->batch * xcvm_blocks_of(s->channels) * BLOCK * area, false);
    for (int64_t i = 0; i < images * area; i++)
        blocked[blocked_index(i / area / s->channels, i / area % s->channels, i % area, s->channels, area)] = planes[i];
    xcvm_blocked_pack_bias(bias, s->outputs, padded);
    char text[160];
    snprintf(text, sizeof text, "batch %d %dx%dx%d -> %dx%dx%d window %dx%d stride %d %d pads %d %d %d %d",
             (int)s->batch, (int)s->channels, (int)s->in[0], (int)s->in[1], (int)s->outputs, (int)s->out[0],
             (int)s->out[1], (int)s->kernel[0], (int)s->kernel[1], (int)s->stride[0], (int)s->stride[1], (int)s->pad[0],
             (int)s->pad[1], (int)s->pad[2], (int)s->pad[3]);
    const xcvm_value b = tensor(XCVM_F32, 1, (const int64_t[]){blocks * BLOCK}, padded);
    const xcvm_value x = tensor(
        XCVM_F32, 5, (const int64_t[]){s->batch, xcvm_blocks_of(s->channels), s->in[0], s->in[1], BLOCK}, blocked);
    const int64_t y_dims[] = {s->batch, blocks, s->out[0], s->out[1], BLOCK};
    const xcvm_value w =
        tensor(XCVM_F32, 5, (const int64_t[]){blocks, s->channels, s->kernel[0], s->kernel[1], BLOCK}, NULL);
    xcvm_value y = {.dtype = XCVM_F32};
    const xcvm_BlockedConvTranspose_args a = {.y = &y,
                                              .x = &x,
                                              .w = &w,
                                              .b = s->bias ? &b : NULL,
                                              .strides = {s->stride, 2},
                                              .pads = {s->pad, 4},
                                              .output_padding = {s->more, 2},
                                              .activation = s->activation};
    xcvm_error error = {.status = XCVM_OK};
    const xcvm_value *in[] = {a.x, a.w, a.b};
    xcvm_value *out[] = {&y};
    const xcvm_inference t = {xcvm_schema_of(XCVM_OP_BlockedConvTranspose), &a, in, 3, out, 1, &error};
    ck_assert_msg(xcvm_infer(&t) == XCVM_OK, "%s: %s", text, error.message);
    ck_assert(y.rank == 5 && memcmp(y.dims, y_dims, sizeof y_dims) == 0);
    const xcvm_dtype types[] = {XCVM_F32, XCVM_F16, XCVM_BF16, XCVM_F24};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        check_type(types[i], s, a, filter, planes, s->bias ? bias : NULL, text);
    free(planes);
    free(filter);
    free(bias);
    free(padded);
    free(blocked);
}

static bool random_shape(shape *s)
{
    *s = (shape){.batch = random_from(1, 2),
                 .channels = random_from(0, 2) == 0 ? random_from(60, 160) : random_from(1, 40),
                 .outputs = random_from(1, 90),
                 .bias = random_from(0, 1) != 0,
                 .activation = (int)random_from(0, XCVM_ACTIVATION_COUNT - 1)};
    bool possible = true;
    for (int i = 0; i < 2; i++) {
        s->in[i] = random_from(1, random_from(0, 1) != 0 ? 12 : 4);
        s->kernel[i] = random_from(1, 5);
        s->stride[i] = random_from(1, 4);
        s->pad[i] = random_from(0, 2) == 0 ? random_from(0, 6) : 0;
        s->pad[2 + i] = random_from(0, 2) == 0 ? random_from(0, 6) : s->pad[i];
        s->more[i] = random_from(0, 3) == 0 ? random_from(0, 6) : 0;
        s->out[i] = (s->in[i] - 1) * s->stride[i] + s->kernel[i] + s->more[i] - s->pad[i] - s->pad[2 + i];
        possible = possible && s->out[i] > 0;
    }
    return possible;
}

START_TEST(by_definition)
{
    shape s;
    for (size_t left = test_fewer(SHAPES); left > 0;)
        if (random_shape(&s)) {
            check_shape(&s);
            left--;
        }
}
END_TEST

/* Bands of rows, several groups of outputs, and an image that is read in place. */
START_TEST(large)
{
    static const shape shapes[] = {
        {1, 128, 64, {32, 32}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {0, 0}, {64, 64}, true, XCVM_ACTIVATION_none},
        {1, 130, 70, {30, 34}, {4, 4}, {2, 2}, {1, 1, 1, 1}, {0, 0}, {60, 68}, true, XCVM_ACTIVATION_Relu}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(&shapes[i]);
}
END_TEST

Suite *suite_ops_blocked_transposed(void);
Suite *suite_ops_blocked_transposed(void)
{
    Suite *s = suite_create("ops_blocked_transposed");
    TCase *tc = tcase_create("convolutions");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, by_definition);
    tcase_add_test(tc, large);
    suite_add_tcase(s, tc);
    return s;
}
