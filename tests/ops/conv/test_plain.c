/* Tests of Conv, ConvTranspose and ConvFilterGradient of f32 against f64, with shapes for all algorithms, each
 * instruction set, and with the same bits for any number of threads. */
#include "tests/ops/run_kernel.h"
#include "ops/table/table.h"
#include "tests/support.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { AT_A_TIME = 12, SHAPES = 120 };

/* The convolution that all three are made from: axes are height and width. */
typedef struct shape {
    int64_t batch, group, channels, outputs, in[2], kernel[2], stride[2], dilation[2], pads[4], out[2];
} shape;

static uint32_t random_state = 1;

static int64_t random_from(int64_t low, int64_t high)
{
    return low + (int64_t)test_random_below(&random_state, (uint32_t)(high - low + 1));
}

static int64_t positions_along(const shape *s, int axis)
{
    const int64_t reach = (s->kernel[axis] - 1) * s->dilation[axis];
    return (s->in[axis] + s->pads[axis] + s->pads[axis + 2] - reach - 1) / s->stride[axis] + 1;
}

/* Windows along a line of one channel, without padding. */
static shape random_line(void)
{
    shape s = {.batch = random_from(1, 3),
               .group = random_from(1, 2),
               .channels = 1,
               .outputs = random_from(1, 40),
               .in = {1, random_from(40, 400)},
               .kernel = {1, random_from(1, 40)},
               .stride = {random_from(1, 2), random_from(1, 9)},
               .dilation = {1, 1}};
    for (int i = 0; i < 2; i++)
        s.out[i] = positions_along(&s, i);
    return s;
}

static shape random_shape(void)
{
    if (random_from(0, 4) == 0)
        return random_line();
    shape s = {.batch = random_from(1, 9), .group = random_from(0, 3) == 0 ? 2 : 1};
    s.channels = random_from(0, 2) > 0 ? random_from(8, 40) : random_from(1, 8);
    s.outputs = random_from(0, 2) > 0 ? random_from(8, 100) : random_from(1, 8);
    const bool winograd = random_from(0, 2) == 0, pointwise = random_from(0, 4) == 0;
    for (int i = 0; i < 2; i++) {
        s.kernel[i] = winograd ? 3 : pointwise ? 1 : random_from(1, 6);
        s.stride[i] = winograd ? 1 : random_from(1, 3);
        s.dilation[i] = winograd ? 1 : random_from(1, 2);
        const int64_t reach = (s.kernel[i] - 1) * s.dilation[i];
        s.pads[i] = random_from(0, reach);
        s.pads[i + 2] = random_from(0, reach);
        s.in[i] = random_from(1, 24) + reach;
        s.out[i] = positions_along(&s, i);
    }
    return s;
}

/* A tensor in f32, with the same numbers in f64 and their sizes. */
typedef struct numbers {
    xcvm_value f32, f64, sizes;
    size_t count;
} numbers;

static void make(numbers *n, const int64_t dims[4])
{
    xcvm_value_set_tensor(&n->f32, XCVM_F32, 4, dims);
    xcvm_value_set_tensor(&n->f64, XCVM_F64, 4, dims);
    xcvm_value_set_tensor(&n->sizes, XCVM_F64, 4, dims);
    n->count = xcvm_element_count(&n->f32);
    n->f32.data = malloc((n->count + 1) * sizeof(float));
    n->f64.data = malloc((n->count + 1) * sizeof(double));
    n->sizes.data = malloc((n->count + 1) * sizeof(double));
    ck_assert(n->f32.data != NULL && n->f64.data != NULL && n->sizes.data != NULL);
    for (size_t i = 0; i < n->count; i++) {
        const float x = (float)random_from(-1000, 1000) * 1e-3f;
        XCVM_DATA(float, &n->f32)[i] = x;
        XCVM_DATA(double, &n->f64)[i] = (double)x;
        XCVM_DATA(double, &n->sizes)[i] = fabs((double)x);
    }
}

static void drop(numbers *n)
{
    free(n->f32.data);
    free(n->f64.data);
    free(n->sizes.data);
}

/* y = the instruction's result of a and b, by one kernel. */
static void run_conv(xcvm_opcode opcode, xcvm_kernel_run kernel, const shape *s, const xcvm_value *a,
                     const xcvm_value *b, xcvm_value *y, int threads)
{
    const xcvm_ints strides = {s->stride, 2}, pads = {s->pads, 4}, dilations = {s->dilation, 2};
    if (opcode == XCVM_OP_Conv) {
        const xcvm_Conv_args args = {
            .y = y, .x = a, .w = b, .strides = strides, .pads = pads, .dilations = dilations, .group = s->group};
        run_kernel(kernel, &args, threads, "Conv");
    } else if (opcode == XCVM_OP_ConvTranspose) {
        const xcvm_ConvTranspose_args args = {
            .y = y, .x = a, .w = b, .strides = strides, .pads = pads, .dilations = dilations, .group = s->group};
        run_kernel(kernel, &args, threads, "ConvTranspose");
    } else {
        const xcvm_ConvFilterGradient_args args = {.y = y,
                                                   .x = a,
                                                   .g = b,
                                                   .kernel_shape = {s->kernel, 2},
                                                   .strides = strides,
                                                   .pads = pads,
                                                   .dilations = dilations,
                                                   .group = s->group};
        run_kernel(kernel, &args, threads, "ConvFilterGradient");
    }
}

/* Errors are measured by the sums of the products' sizes. */
static void check(xcvm_opcode opcode, const char *name, const shape *s, const numbers *a, const numbers *b, numbers *y)
{
    run_conv(opcode, xcvm_kernel_of(opcode), s, &a->f64, &b->f64, &y->f64, 2);
    run_conv(opcode, xcvm_kernel_of(opcode), s, &a->sizes, &b->sizes, &y->sizes, 2);
    xcvm_value other = y->f32;
    other.data = malloc((y->count + 1) * sizeof(float));
    ck_assert_ptr_nonnull(other.data);
    xcvm_kernel_run kernel;
    for (size_t isa = 0; (kernel = kernel_variant(opcode, isa)) != NULL; isa++) {
        run_conv(opcode, kernel, s, &a->f32, &b->f32, &y->f32, 1);
        run_conv(opcode, kernel, s, &a->f32, &b->f32, &other, 3);
        for (size_t i = 0; i < y->count; i++) {
            const double expected = XCVM_CDATA(double, &y->f64)[i], size = XCVM_CDATA(double, &y->sizes)[i];
            const double got = (double)XCVM_CDATA(float, &y->f32)[i];
            if (!(fabs(got - expected) <= 2e-6 * size + 1e-5))
                ck_abort_msg("%s, build %zu: element %zu is %.9g and should be %.9g: batch %d group %d channels %d "
                             "outputs %d, %d x %d windows %d x %d strides %d %d dilations %d %d pads %d %d %d %d",
                             name, isa, i, got, expected, (int)s->batch, (int)s->group, (int)s->channels,
                             (int)s->outputs, (int)s->in[0], (int)s->in[1], (int)s->kernel[0], (int)s->kernel[1],
                             (int)s->stride[0], (int)s->stride[1], (int)s->dilation[0], (int)s->dilation[1],
                             (int)s->pads[0], (int)s->pads[1], (int)s->pads[2], (int)s->pads[3]);
        }
        ck_assert_msg(memcmp(y->f32.data, other.data, y->count * sizeof(float)) == 0,
                      "%s, build %zu: other bits by three threads", name, isa);
    }
    free(other.data);
}

START_TEST(random_shapes)
{
    random_state = (uint32_t)_i + 1;
    for (int i = 0; i < AT_A_TIME; i++) {
        const shape s = random_shape();
        const int64_t in[] = {s.batch, s.group * s.channels, s.in[0], s.in[1]};
        const int64_t out[] = {s.batch, s.group * s.outputs, s.out[0], s.out[1]};
        const int64_t filters[] = {s.group * s.outputs, s.channels, s.kernel[0], s.kernel[1]};
        numbers x, g, w, y, back, gradient;
        make(&x, in);
        make(&g, out);
        make(&w, filters);
        make(&y, out);
        make(&back, in);
        make(&gradient, filters);
        check(XCVM_OP_Conv, "Conv", &s, &x, &w, &y);
        check(XCVM_OP_ConvTranspose, "ConvTranspose", &s, &g, &w, &back);
        check(XCVM_OP_ConvFilterGradient, "ConvFilterGradient", &s, &x, &g, &gradient);
        numbers *const all[] = {&x, &g, &w, &y, &back, &gradient};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++)
            drop(all[j]);
    }
}
END_TEST

Suite *suite_ops_plain(void);
Suite *suite_ops_plain(void)
{
    Suite *s = suite_create("ops_plain");
    TCase *c = tcase_create("plain");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, random_shapes, 0, (int)test_fewer(SHAPES / AT_A_TIME));
    suite_add_tcase(s, c);
    return s;
}
