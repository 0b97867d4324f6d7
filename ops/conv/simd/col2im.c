/* Col2Im: each element of a block adds its values at all places, a row at a time, to the image. */
#include "ops/conv/col2im_blocks.h"
#include "ops/util/floats.h"

enum {
    RUN = 64, /* places of a row that are processed for all elements of a block row while their pixels are cached */
    GRAIN = 1 << 16 /* minimum additions per thread */
};

/* A spatial axis: element e of the block at place p is at pixel p * stride + e * dilation - pad. */
typedef struct axis {
    int64_t size, block, places, stride, dilation, pad;
} axis;

/* Places [first, last) of the last axis. */
typedef struct range {
    int64_t first, last;
} range;

typedef struct folding {
    const xcvm_kernel *k;
    const xcvm_value *x;
    xcvm_value *y;
    axis axes[XCVM_MAX_RANK]; /* outer axes, then the last one */
    int outer;
    size_t outer_elements, outer_places; /* products over the outer axes */
    size_t elements, count, plane;       /* elements of a block; places; pixels */
    float *sums;                         /* `plane` floats per worker, for types that are accumulated as f32 */
    range inside[RUN];                   /* of the first elements of the last axis */
} folding;

/* Adds `group` rows of `count` elements, `row` apart, to every step-th pixel from `to`; row g starts at the g-th pixel.
 * Groups of `step` rows cover contiguous pixels. */
#define DEFINE_ADD(name, type)                                                                                         \
    static inline __attribute__((always_inline)) void add_##name##_rows(                                               \
        type *restrict to, const size_t step, const type *restrict from, size_t row, const size_t group, size_t count) \
    {                                                                                                                  \
        for (size_t i = 0; i < count; i++)                                                                             \
            _Pragma("GCC unroll 16") for (size_t g = 0; g < group; g++) to[i * step + g] += from[g * row + i];         \
    }                                                                                                                  \
    static void add_##name(type *to, size_t step, const type *from, size_t row, size_t group, size_t count)            \
    {                                                                                                                  \
        if (group == 1 && step == 1)                                                                                   \
            add_##name##_rows(to, 1, from, row, 1, count);                                                             \
        else if (group == 1)                                                                                           \
            add_##name##_rows(to, step, from, row, 1, count);                                                          \
        else if (group == 2)                                                                                           \
            add_##name##_rows(to, 2, from, row, 2, count);                                                             \
        else if (group == 4)                                                                                           \
            add_##name##_rows(to, 4, from, row, 4, count);                                                             \
        else if (group == 16)                                                                                          \
            add_##name##_rows(to, 16, from, row, 16, count);                                                           \
        else                                                                                                           \
            add_##name##_rows(to, step, from, row, group, count);                                                      \
    }
DEFINE_ADD(f32, float)
DEFINE_ADD(f64, double)

/* The same for elements [from, from + count) of x and the following rows. */
static void add(const folding *f, void *image, size_t to, size_t step, size_t from, size_t group, size_t count)
{
    if (f->x->dtype == XCVM_F64) {
        add_f64((double *)image + to, step, XCVM_CDATA(double, f->x) + from, f->count, group, count);
    } else if (f->x->dtype == XCVM_F32) {
        add_f32((float *)image + to, step, XCVM_CDATA(float, f->x) + from, f->count, group, count);
    } else {
        for (size_t g = 0; g < group; g++) {
            float block[RUN];
            xcvm_read_floats(f->x, from + g * f->count, count, block);
            add_f32((float *)image + to + g, step, block, 0, 1, count);
        }
    }
}

/* The places at which element e of an axis is inside the image. */
static range inside(const axis *x, int64_t e)
{
    const int64_t shift = x->pad - e * x->dilation, beyond = x->size + shift;
    const int64_t low = shift > 0 ? (shift + x->stride - 1) / x->stride : 0;
    const int64_t high = beyond > 0 ? (beyond + x->stride - 1) / x->stride : 0;
    return (range){low, high < x->places ? high : x->places};
}

/* The places of the last axis among those given. */
static range among(const folding *f, int64_t e, range given)
{
    const range r = e < RUN ? f->inside[e] : inside(&f->axes[f->outer], e);
    return (range){r.first > given.first ? r.first : given.first, r.last < given.last ? r.last : given.last};
}

/* The pixel row of an outer element and place; false if it is outside the image. */
static bool outer_row(const folding *f, size_t element, size_t place, size_t *row)
{
    size_t at = 0, stride = 1;
    for (int d = f->outer - 1; d >= 0; d--) {
        const axis *x = &f->axes[d];
        const int64_t i = (int64_t)(place % (size_t)x->places) * x->stride - x->pad +
                          (int64_t)(element % (size_t)x->block) * x->dilation;
        if (i < 0 || i >= x->size)
            return false;
        at += (size_t)i * stride;
        stride *= (size_t)x->size;
        place /= (size_t)x->places;
        element /= (size_t)x->block;
    }
    *row = at;
    return true;
}

/* Adds `group` elements from e at some places. */
static void add_places(const folding *f, void *image, size_t row, size_t from, int64_t e, int64_t group, range places)
{
    const axis *x = &f->axes[f->outer];
    if (places.first < places.last)
        add(f, image, (size_t)((int64_t)row * x->size + places.first * x->stride + e * x->dilation - x->pad),
            (size_t)x->stride, from + (size_t)e * f->count + (size_t)places.first, (size_t)group,
            (size_t)(places.last - places.first));
}

/* Terms are added to each pixel in the order of elements. Runs of places are processed from the last one, because it
 * meets a pixel with lower elements. */
static xcvm_status add_row(const folding *f, void *image, size_t row, size_t from, xcvm_poller *poller)
{
    const axis *x = &f->axes[f->outer];
    const int64_t most = x->dilation == 1 && x->stride <= RUN ? x->stride : 1;
    for (int64_t begin = (x->places - 1) / RUN * RUN; begin >= 0; begin -= RUN) {
        const range run = {begin, x->places - begin < RUN ? x->places : begin + RUN};
        for (int64_t e = 0, group; e < x->block; e += group) {
            range all = run;
            group = x->block - e < most ? 1 : most;
            XCVM_TRY(xcvm_poll_after(poller, (size_t)(group * (run.last - run.first))));
            for (int64_t g = 0; g < group; g++)
                all = among(f, e + g, all);
            all.first = all.first < run.last ? all.first : run.last;
            all.last = all.last > all.first ? all.last : all.first;
            /* At the borders, only some elements of a group are inside. */
            for (int64_t g = 0; g < group && all.last - all.first < run.last - run.first; g++) {
                add_places(f, image, row, from, e + g, 1, among(f, e + g, (range){run.first, all.first}));
                add_places(f, image, row, from, e + g, 1, among(f, e + g, (range){all.last, run.last}));
            }
            add_places(f, image, row, from, e, group, all);
        }
    }
    return XCVM_OK;
}

static xcvm_status add_image(const folding *f, size_t index, void *image, xcvm_poller *poller)
{
    const axis *last = &f->axes[f->outer];
    for (size_t e = 0; e < f->outer_elements; e++)
        for (size_t p = 0; p < f->outer_places; p++) {
            size_t row;
            XCVM_TRY(xcvm_poll_after(poller, 1));
            if (outer_row(f, e, p, &row))
                XCVM_TRY(add_row(f, image, row,
                                 (index * f->elements + e * (size_t)last->block) * f->count + p * (size_t)last->places,
                                 poller));
        }
    return XCVM_OK;
}

static void add_images(void *context, size_t begin, size_t end, int worker)
{
    const folding *f = context;
    const bool direct = f->sums == NULL;
    const size_t size = xcvm_dtype_size((xcvm_dtype)f->y->dtype);
    xcvm_poller poller = xcvm_poller_of(f->k);
    for (size_t i = begin; i < end; i++) {
        void *image = direct ? (char *)f->y->data + i * f->plane * size : (void *)(f->sums + (size_t)worker * f->plane);
        if (xcvm_kernel_fill(f->k, image, 0, f->plane * (direct ? size : sizeof *f->sums)) != XCVM_OK ||
            add_image(f, i, image, &poller) != XCVM_OK)
            return;
        if (!direct && xcvm_kernel_write_floats(f->k, image, f->plane, f->y, i * f->plane) != XCVM_OK)
            return;
    }
}

XCVM_KERNEL(Col2Im)
{
    const int spatial = a->y->rank - 2;
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    const xcvm_Col2Im_args full = xcvm_col2im_with_entries(a, (size_t)spatial);
    a = &full;
    folding f = {.k = k, .x = a->x, .y = a->y, .outer = spatial > 0 ? spatial - 1 : 0, .plane = 1};
    f.axes[0] = (axis){1, 1, 1, 1, 1, 0};
    f.outer_elements = f.outer_places = 1;
    for (int d = 0; d < spatial; d++) {
        axis *x = &f.axes[d];
        *x = (axis){.size = a->y->dims[2 + d],
                    .block = xcvm_element_as_int(a->block_shape, (size_t)d),
                    .stride = a->strides.at[d],
                    .dilation = a->dilations.at[d],
                    .pad = a->pads.at[d]};
        x->places = (x->size + x->pad + a->pads.at[d + spatial] - (x->block - 1) * x->dilation - 1) / x->stride + 1;
        f.plane *= (size_t)x->size;
        if (d < f.outer) {
            f.outer_elements *= (size_t)x->block;
            f.outer_places *= (size_t)x->places;
        }
    }
    for (int64_t e = 0; e < RUN; e++)
        f.inside[e] = inside(&f.axes[f.outer], e);
    f.elements = f.outer_elements * (size_t)f.axes[f.outer].block;
    f.count = (size_t)a->x->dims[2];
    if (a->x->dtype != XCVM_F32 && a->x->dtype != XCVM_F64) {
        size_t bytes;
        XCVM_CHECK(k->error,
                   xcvm_size_mul(f.plane, sizeof *f.sums, &bytes) &&
                       xcvm_size_mul(bytes, (size_t)xcvm_threads_count(k->threads), &bytes),
                   OUT_OF_MEMORY, "the images are too large");
        f.sums = xcvm_kernel_scratch(k, bytes);
        if (f.sums == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    const size_t work = f.elements * f.count + f.plane;
    return xcvm_kernel_parallel(k, (size_t)(a->y->dims[0] * a->y->dims[1]), GRAIN / (work + 1) + 1, add_images, &f);
}
