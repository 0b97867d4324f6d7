/* Convolutions of f32: common definitions of their algorithms. */
#ifndef XCVM_OPS_CONV_SIMD_CONV_H
#define XCVM_OPS_CONV_SIMD_CONV_H

#include "ops/elementwise/activation.h"
#include "ops/util/kernel.h"
#include "ops/simd/lanes.h"
#include "ops/conv/window.h"

typedef struct xcvm_conv {
    xcvm_conv_shape shape;
    const float *x, *w;
    const float *b, *z; /* may be NULL; z may be y */
    float *y;
    const xcvm_activation *activation; /* NULL: none */
} xcvm_conv;

/* A convolution algorithm. Sizes and cost depend only on the shape. */
typedef struct xcvm_conv_algorithm {
    bool (*fits)(const xcvm_conv_shape *s);
    /* Estimated time, in multiply-adds at the speed of a large matrix product. */
    double (*cost)(const xcvm_conv_shape *s);
    size_t (*scratch)(const xcvm_conv_shape *s, int threads);
    xcvm_status (*run)(const xcvm_kernel *k, const xcvm_conv *c, void *scratch);
} xcvm_conv_algorithm;

#define xcvm_conv_pointwise XCVM_PER_ISA(xcvm_conv_pointwise)
extern const xcvm_conv_algorithm xcvm_conv_pointwise;
#define xcvm_conv_line XCVM_PER_ISA(xcvm_conv_line)
extern const xcvm_conv_algorithm xcvm_conv_line;
#define xcvm_conv_im2col XCVM_PER_ISA(xcvm_conv_im2col)
extern const xcvm_conv_algorithm xcvm_conv_im2col;
#define xcvm_conv_rows XCVM_PER_ISA(xcvm_conv_rows)
extern const xcvm_conv_algorithm xcvm_conv_rows;
#define xcvm_conv_depthwise XCVM_PER_ISA(xcvm_conv_depthwise)
extern const xcvm_conv_algorithm xcvm_conv_depthwise;
#define xcvm_conv_dilated_depthwise XCVM_PER_ISA(xcvm_conv_dilated_depthwise)
extern const xcvm_conv_algorithm xcvm_conv_dilated_depthwise;
#define xcvm_conv_winograd XCVM_PER_ISA(xcvm_conv_winograd)
extern const xcvm_conv_algorithm xcvm_conv_winograd;

/* Returns the supported algorithm of lowest cost. */
#define xcvm_conv_choose XCVM_PER_ISA(xcvm_conv_choose)
const xcvm_conv_algorithm *xcvm_conv_choose(const xcvm_conv_shape *s);

/* A window position of one channel: the image plane, and the output positions of a row for which it is inside. */
typedef struct xcvm_conv_tap {
    const float *plane;
    size_t kd, kh, shift; /* shift: window position times dilation on the last axis */
    size_t first, last;
} xcvm_conv_tap;
/* Returns position `index` of the windows over channels whose planes begin at `image`. */
#define xcvm_conv_tap_of XCVM_PER_ISA(xcvm_conv_tap_of)
xcvm_conv_tap xcvm_conv_tap_of(const xcvm_window *w, const float *image, size_t index);
/* Copies the elements that it reads for output positions [from, to); zeros in the padding. */
#define xcvm_conv_gather XCVM_PER_ISA(xcvm_conv_gather)
void xcvm_conv_gather(const xcvm_window *w, const xcvm_conv_tap *t, size_t from, size_t to, float *line);

/* Multiply-adds by the definition. */
static inline double xcvm_conv_work(const xcvm_conv_shape *s)
{
    return (double)s->batch * (double)s->group * (double)s->outputs * (double)s->window.out_size * (double)s->channels *
           (double)s->window.kernel_size;
}

/* Copies n floats; optimized for the short runs of images. */
static inline void xcvm_copy_floats(float *to, const float *from, size_t n)
{
    if (n >= XCVM_LANES) {
        /* Two vectors per iteration, because compilers replace a loop with one store by memcpy. */
        size_t i = 0;
        for (; i + 2 * XCVM_LANES <= n; i += 2 * XCVM_LANES) {
            const xcvm_lanes a = xcvm_lanes_load(from + i), b = xcvm_lanes_load(from + i + XCVM_LANES);
            xcvm_lanes_store(to + i, a);
            xcvm_lanes_store(to + i + XCVM_LANES, b);
        }
        if (i + XCVM_LANES <= n)
            xcvm_lanes_store(to + i, xcvm_lanes_load(from + i));
        xcvm_lanes_store(to + n - XCVM_LANES, xcvm_lanes_load(from + n - XCVM_LANES));
        return;
    }
    typedef float half __attribute__((vector_size(32), aligned(4), may_alias));
    typedef float quarter __attribute__((vector_size(16), aligned(4), may_alias));
    if (n >= 8) {
        const half low = *(const half *)from, high = *(const half *)(from + n - 8);
        *(half *)to = low;
        *(half *)(to + n - 8) = high;
    } else if (n >= 4) {
        const quarter low = *(const quarter *)from, high = *(const quarter *)(from + n - 4);
        *(quarter *)to = low;
        *(quarter *)(to + n - 4) = high;
    } else {
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
    }
}

/* Copies n floats with distance `stride`. */
static inline void xcvm_copy_strided(float *to, const float *from, size_t stride, size_t n)
{
    if (stride == 1) {
        xcvm_copy_floats(to, from, n);
        return;
    }
    size_t i = 0;
    if (stride == 2) {
        /* The last vector's second half would read one float past the end, so the scalar loop copies it. */
        for (; i + XCVM_LANES < n; i += XCVM_LANES)
            xcvm_lanes_store(
                to + i, xcvm_lanes_even(xcvm_lanes_load(from + 2 * i), xcvm_lanes_load(from + 2 * i + XCVM_LANES)));
        if (i > 0 && n - i <= XCVM_LANES) {
            const float *last = from + 2 * (n - XCVM_LANES) - 1;
            xcvm_lanes_store(to + n - XCVM_LANES,
                             xcvm_lanes_odd(xcvm_lanes_load(last), xcvm_lanes_load(last + XCVM_LANES)));
            return;
        }
    }
    for (; i < n; i++)
        to[i] = from[i * stride];
}

#endif
