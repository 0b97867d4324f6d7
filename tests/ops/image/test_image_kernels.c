/* Tests of image kernels with sizes for all of their paths, for each instruction set, against plain sums. */
#include "ops/util/kernel.h"
#include "ops/table/table.h"
#include "tests/ops/run_kernel.h"
#include "tests/support.h"
#include "tests/suites.h"

#include <math.h>
#include <stdlib.h>

static xcvm_value *tensor(xcvm_dtype dtype, int rank, const int64_t *dims)
{
    xcvm_value *value;
    ck_assert_int_eq(xcvm_tensor_create(NULL, dtype, rank, dims, &value, NULL), XCVM_OK);
    return value;
}

static float noise(uint32_t *state) { return (float)(test_random(state) >> 8) / (float)(1 << 24); }

/* A linear sample in f64: corners outside are zeros, or the nearest pixels inside. */
static double sample(const float *image, int64_t height, int64_t width, double x, double y, bool border)
{
    double sum = 0;
    for (int corner = 0; corner < 4; corner++) {
        const double column = floor(x) + (corner & 1), row = floor(y) + (corner >> 1);
        const double weight = (1 - fabs(column - x)) * (1 - fabs(row - y));
        const bool inside = column >= 0 && column < (double)width && row >= 0 && row < (double)height;
        const double c = fmin(fmax(column, 0), (double)width - 1), r = fmin(fmax(row, 0), (double)height - 1);
        if (inside || border)
            sum += weight * (double)image[(int64_t)r * width + (int64_t)c];
    }
    return sum;
}

static void check_sample(xcvm_kernel_run run, int64_t channels, int64_t side, float reach, bool border, int threads)
{
    const int64_t height = side, width = side > 1 ? side + 3 : 1;
    xcvm_value *x = tensor(XCVM_F32, 4, (int64_t[]){2, channels, height, width});
    xcvm_value *grid = tensor(XCVM_F32, 4, (int64_t[]){2, 37, 61, 2});
    xcvm_value *y = tensor(XCVM_F32, 4, (int64_t[]){2, channels, 37, 61});
    float *image = x->data, *points = grid->data;
    uint32_t state = 7;
    for (size_t i = 0; i < xcvm_value_count(x); i++)
        image[i] = noise(&state) - 0.5F;
    for (size_t i = 0; i < xcvm_value_count(grid); i++)
        points[i] = (2 * noise(&state) - 1) * reach;
    /* Infinities that nothing inside reads are not read. */
    for (int64_t plane = 0; !border && side > 4 && plane < 2 * channels; plane++)
        image[plane * height * width] = INFINITY;
    const xcvm_GridSample_args args = {.x = x,
                                       .grid = grid,
                                       .y = y,
                                       .mode = XCVM_GRID_MODE_linear,
                                       .padding_mode = border ? XCVM_GRID_PADDING_border : XCVM_GRID_PADDING_zeros};
    run_kernel(run, &args, threads, "GridSample");
    for (int64_t plane = 0; plane < 2 * channels; plane++)
        for (int64_t i = 0; i < 37 * 61; i++) {
            const float *at = points + (plane / channels * 37 * 61 + i) * 2;
            double px = (((double)at[0] + 1) * (double)width - 1) / 2;
            double py = (((double)at[1] + 1) * (double)height - 1) / 2;
            if (border) {
                px = fmin(fmax(px, 0), (double)width - 1);
                py = fmin(fmax(py, 0), (double)height - 1);
            }
            const double expected = sample(image + plane * height * width, height, width, px, py, border);
            const double is = (double)((const float *)y->data)[plane * 37 * 61 + i];
            if (!(fabs(is - expected) < 1e-5) && !(isinf(expected) && is == expected) &&
                !(isnan(expected) && isnan(is)))
                ck_abort_msg("plane %d, point %d: %g, not %g", (int)plane, (int)i, is, expected);
        }
    xcvm_value_release(x);
    xcvm_value_release(grid);
    xcvm_value_release(y);
}

START_TEST(grid_sample)
{
    static const int64_t channels[] = {1, 5, 33}, sides[] = {1, 2, 13, 64};
    xcvm_kernel_run run;
    for (size_t isa = 0; (run = kernel_variant(XCVM_OP_GridSample, isa)) != NULL; isa++)
        for (size_t c = 0; c < 3; c++)
            for (size_t s = 0; s < 4; s++)
                for (int border = 0; border < 2; border++) {
                    check_sample(run, channels[c], sides[s], 0.9F, border, 1);
                    check_sample(run, channels[c], sides[s], 1.2F, border, 2);
                    check_sample(run, channels[c], sides[s], 3, border, 1);
                }
}
END_TEST

/* Images that grow by whole numbers, or not, in each direction; of every size of element, and in two threads, whose
 * ranges may begin within rows that are equal. */
START_TEST(nearest)
{
    static const struct {
        xcvm_dtype dtype;
        size_t size;
    } kinds[] = {{XCVM_U8, 1}, {XCVM_I16, 2}, {XCVM_F32, 4}, {XCVM_I64, 8}};
    static const int64_t widths[] = {1, 7, 16, 33, 70}, ups[][2] = {{2, 2}, {2, 3}, {3, 2}, {1, 2}, {2, 1}, {4, 5}};
    xcvm_kernel_run run = xcvm_kernel_for(XCVM_OP_Resize, xcvm_isa_at(0));
    for (size_t i = 0; i < 4 * 5 * 6; i++) {
        const size_t kind = i % 4;
        const int64_t width = widths[i / 4 % 5], *up = ups[i / 20], height = 9;
        xcvm_value *x = tensor(kinds[kind].dtype, 4, (int64_t[]){1, 3, height, width});
        xcvm_value *y = tensor(kinds[kind].dtype, 4, (int64_t[]){1, 3, height * up[0], width * up[1]});
        xcvm_value *scales = tensor(XCVM_F32, 1, (int64_t[]){4});
        unsigned char *from = x->data;
        for (size_t b = 0; b < x->bytes; b++)
            from[b] = (unsigned char)(b * 37 % 251);
        memcpy(scales->data, (float[]){1, 1, (float)up[0], (float)up[1]}, 4 * sizeof(float));
        const xcvm_Resize_args args = {.x = x,
                                       .y = y,
                                       .scales = scales,
                                       .mode = XCVM_RESIZE_MODE_nearest,
                                       .coordinate_transformation_mode = XCVM_COORDINATE_asymmetric,
                                       .nearest_mode = XCVM_NEAREST_floor};
        run_kernel(run, &args, 1 + (int)(i % 2), "Resize");
        const size_t size = kinds[kind].size;
        for (int64_t at = 0; at < (int64_t)xcvm_value_count(y); at++) {
            const int64_t column = at % (width * up[1]) / up[1], row = at / (width * up[1]) % (height * up[0]) / up[0];
            const int64_t plane = at / (width * up[1] * height * up[0]);
            const unsigned char *pixel = from + (size_t)((plane * height + row) * width + column) * size;
            if (memcmp((const char *)y->data + (size_t)at * size, pixel, size) != 0)
                ck_abort_msg("case %zu: element %d", i, (int)at);
        }
        xcvm_value_release(x);
        xcvm_value_release(y);
        xcvm_value_release(scales);
    }
}
END_TEST

Suite *suite_ops_image_kernels(void);
Suite *suite_ops_image_kernels(void)
{
    Suite *suite = suite_create("ops/image_kernels");
    TCase *tests = tcase_create("image_kernels");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, grid_sample);
    tcase_add_test(tests, nearest);
    suite_add_tcase(suite, tests);
    return suite;
}
