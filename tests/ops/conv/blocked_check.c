/* Compares convolutions of blocked channels with their definition. */
#include "tests/ops/conv/blocked_check.h"
#include "ops/table/table.h"

#include "ops/elementwise/activation.h"
#include "ops/conv/blocked.h"
#include "ops/util/convert.h"
#include "tests/ops/run_kernel.h"
#include "tests/support.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Behind the activation, where there is any. */
static const double scale_and_shift[] = {1.5, -0.25};

static xcvm_floats affine_of(const blocked_shape *s) { return (xcvm_floats){scale_and_shift, s->affine ? 2 : 0}; }

static uint32_t random_state = 1;

void blocked_random_seed(uint32_t state) { random_state = state; }

uint32_t blocked_random_below(uint32_t n) { return test_random_below(&random_state, n); }

int64_t blocked_random_from(int64_t low, int64_t high)
{
    return low + blocked_random_below((uint32_t)(high - low + 1));
}

static float *floats(size_t count, float (*value)(void))
{
    float *x = malloc((count + 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < count; i++)
        x[i] = value != NULL ? value() : NAN;
    return x;
}

static float random_float(void) { return (float)blocked_random_from(-1000, 1000) * 1e-3f; }

static xcvm_value tensor(int rank, const int64_t *dims, float *data)
{
    xcvm_value v = {0};
    xcvm_value_set_tensor(&v, XCVM_F32, rank, dims);
    v.data = data;
    return v;
}

/* [first, second, D, H, W] of the axes that there are, then `last` if it is not 0. */
static xcvm_value space(int64_t first, int64_t second, const int64_t size[BLOCKED_AXES], int axes, int64_t last,
                        float *data)
{
    int64_t dims[XCVM_MAX_RANK] = {first, second};
    int rank = 2;
    if (axes > 2)
        dims[rank++] = size[BLOCKED_DEPTH];
    if (axes > 1)
        dims[rank++] = size[0];
    dims[rank++] = size[1];
    if (last != 0)
        dims[rank++] = last;
    return tensor(rank, dims, data);
}

int64_t blocked_volume(const int64_t size[BLOCKED_AXES], int axes)
{
    return (axes > 1 ? size[0] : 1) * size[1] * (axes > 2 ? size[BLOCKED_DEPTH] : 1);
}

/* `planes` [batch, channels, space] in blocks, NaN beyond the channels. */
static float *block(float *planes, int64_t batch, int64_t channels, const int64_t size[BLOCKED_AXES], int axes)
{
    const int64_t blocks = xcvm_blocks_of(channels), area = blocked_volume(size, axes);
    float *blocked = floats((size_t)(batch * blocks * area * XCVM_CHANNEL_BLOCK), NULL);
    xcvm_value x = space(batch, channels, size, axes, 0, planes);
    xcvm_value y = space(batch, blocks, size, axes, XCVM_CHANNEL_BLOCK, blocked);
    run_kernel(xcvm_kernel_of(XCVM_OP_BlockChannels), &(xcvm_BlockChannels_args){.y = &y, .x = &x}, 2, "BlockedConv");
    for (int64_t n = 0; n < batch; n++)
        for (int64_t c = channels; c < blocks * XCVM_CHANNEL_BLOCK; c++)
            for (int64_t p = 0; p < area; p++) {
                float *at = &blocked[((n * blocks + c / XCVM_CHANNEL_BLOCK) * area + p) * XCVM_CHANNEL_BLOCK +
                                     c % XCVM_CHANNEL_BLOCK];
                if (*at != 0.0f)
                    ck_abort_msg("a channel beyond the last is %g", (double)*at);
                *at = NAN;
            }
    return blocked;
}

/* The position of x that window position `tap` of output `o` meets along an axis, less than 0: none. */
static int64_t met(const blocked_shape *s, int axis, int64_t o, int64_t tap)
{
    const int64_t at = o * s->stride[axis] + tap * s->dilation[axis] - s->pad[axis];
    return at < s->in[axis] ? at : -1;
}

/* The product of two rows. Definitions take their time for it, which no sanitizer need make longer. */
__attribute__((noinline, no_sanitize("address", "thread", "undefined"))) static double
dot(const double *a, const double *b, size_t count)
{
    double sum[4] = {0};
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        sum[0] += a[i] * b[i];
        sum[1] += a[i + 1] * b[i + 1];
        sum[2] += a[i + 2] * b[i + 2];
        sum[3] += a[i + 3] * b[i + 3];
    }
    for (; i < count; i++)
        sum[0] += a[i] * b[i];
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* Index of channel k of pixel p of image n, with `blocks` blocks of `area` pixels. */
static size_t blocked_place(int64_t n, int64_t k, int64_t p, int64_t blocks, int64_t area)
{
    return (size_t)(((n * blocks + k / XCVM_CHANNEL_BLOCK) * area + p) * XCVM_CHANNEL_BLOCK + k % XCVM_CHANNEL_BLOCK);
}

/* The elements in the window of `group` at position p of image n, [channels, taps]; zeros in the padding. */
static void gather(const blocked_shape *s, const float *x, int64_t n, int64_t group, int64_t p, double *window)
{
    const int64_t in = blocked_volume(s->in, s->axes), taps = blocked_volume(s->kernel, s->axes);
    const int64_t area = s->out[0] * s->out[1], plane = s->kernel[0] * s->kernel[1];
    const float *from = x + (n * s->group + group) * s->channels * in;
    for (int64_t t = 0; t < taps; t++) {
        const int64_t d = s->axes > 2 ? met(s, BLOCKED_DEPTH, p / area, t / plane) : 0;
        const int64_t h = met(s, 0, p % area / s->out[1], t % plane / s->kernel[1]);
        const int64_t v = met(s, 1, p % s->out[1], t % s->kernel[1]);
        const bool inside = d >= 0 && h >= 0 && v >= 0;
        for (int64_t c = 0; c < s->channels; c++)
            window[c * taps + t] = inside ? (double)from[c * in + (d * s->in[0] + h) * s->in[1] + v] : 0.0;
    }
}

/* The definition: y in blocks, of planes. */
static double *define(const blocked_shape *s, const float *x, const float *w, const float *b, const float *z)
{
    const int64_t outputs = s->outputs * s->group, blocks = xcvm_blocks_of(outputs),
                  area = blocked_volume(s->out, s->axes);
    const size_t length = (size_t)(s->channels * blocked_volume(s->kernel, s->axes));
    const size_t filters = (size_t)outputs * length;
    double *y = calloc((size_t)(s->batch * blocks * area * XCVM_CHANNEL_BLOCK), sizeof *y);
    double *window = malloc(length * sizeof *window), *filter = malloc(filters * sizeof *filter);
    ck_assert(y != NULL && window != NULL && filter != NULL);
    for (size_t i = 0; i < filters; i++)
        filter[i] = (double)w[i];
    const xcvm_activation f = xcvm_activation_affine(s->activation, (xcvm_floats){NULL, 0}, affine_of(s));
    for (int64_t n = 0; n < s->batch; n++)
        for (int64_t p = 0; p < area; p++)
            for (int64_t k = 0; k < outputs; k++) {
                if (k % s->outputs == 0)
                    gather(s, x, n, k / s->outputs, p, window);
                double sum = dot(window, filter + (size_t)k * length, length) + (b != NULL ? (double)b[k] : 0.0);
                if (z != NULL)
                    sum += (double)z[(n * outputs + k) * area + p];
                y[blocked_place(n, k, p, blocks, area)] = xcvm_activate_f64(&f, sum);
            }
    free(window);
    free(filter);
    return y;
}

static void describe_shape(const blocked_shape *s, char *text, size_t size)
{
    static const char *const names[] = {"direct",           "depthwise", "winograd",    "winograd untransformed",
                                        "winograd strided", "grouped",   "direct pairs"};
    int length = snprintf(text, size, "%s%s tile %d batch %d group %d channels %d outputs %d", names[s->algorithm],
                          s->plain ? " plain" : "", (int)s->tile, (int)s->batch, (int)s->group, (int)s->channels,
                          (int)s->outputs);
    for (int i = s->axes > 1 ? 0 : 1; i < (s->axes > 2 ? BLOCKED_AXES : 2); i++)
        length +=
            snprintf(text + length, size - (size_t)length,
                     ", axis of %d -> %d window %d stride %d dilation %d pads %d %d", (int)s->in[i], (int)s->out[i],
                     (int)s->kernel[i], (int)s->stride[i], (int)s->dilation[i], (int)s->pad[i], (int)s->pad_end[i]);
}

/* Values as attributes have them, depth first if there is one; returns their number. */
static size_t as_attribute(const blocked_shape *s, const int64_t values[BLOCKED_AXES], int64_t *to)
{
    size_t count = 0;
    if (s->axes > 2)
        to[count++] = values[BLOCKED_DEPTH];
    if (s->axes > 1)
        to[count++] = values[0];
    to[count++] = values[1];
    return count;
}

static float *pack(const blocked_shape *s, float *w, xcvm_value *packed)
{
    const int64_t total = s->outputs * s->group, blocks = xcvm_blocks_of(total);
    const int64_t taps = blocked_volume(s->kernel, s->axes), points = (s->tile + 2) * (s->tile + 2);
    const xcvm_value given = space(total, s->channels, s->kernel, s->axes, 0, w);
    float *data;
    if (xcvm_blocked_is_packed_direct(s->algorithm)) {
        data = floats((size_t)(blocks * XCVM_CHANNEL_BLOCK * s->channels * taps), NULL);
        xcvm_blocked_pack_direct(w, given.rank, given.dims, data);
        *packed = space(blocks, s->channels, s->kernel, s->axes, XCVM_CHANNEL_BLOCK, data);
    } else if (s->algorithm == XCVM_BLOCKED_direct_pairs) {
        float *direct = floats((size_t)(blocks * XCVM_CHANNEL_BLOCK * s->channels * taps), NULL);
        xcvm_blocked_pack_direct(w, given.rank, given.dims, direct);
        *packed = space(blocks, s->channels, s->kernel, s->axes, XCVM_CHANNEL_BLOCK, direct);
        int64_t dims[XCVM_MAX_RANK];
        memcpy(dims, packed->dims, sizeof dims);
        dims[1] /= 2;
        dims[packed->rank] = 2;
        data = floats((size_t)(blocks * XCVM_CHANNEL_BLOCK * s->channels * taps), NULL);
        xcvm_blocked_pack_pairs(direct, packed->rank, packed->dims, (uint16_t *)(void *)data);
        xcvm_value_set_tensor(packed, XCVM_BF16, packed->rank + 1, dims);
        packed->data = data;
        free(direct);
    } else if (s->algorithm == XCVM_BLOCKED_grouped) {
        data = floats((size_t)(blocks * XCVM_CHANNEL_BLOCK * s->channels * taps), NULL);
        xcvm_blocked_pack_grouped(w, given.rank, given.dims, data);
        *packed = space(blocks, s->channels, s->kernel, s->axes, XCVM_CHANNEL_BLOCK, data);
    } else if (s->algorithm == XCVM_BLOCKED_depthwise) {
        data = floats((size_t)(blocks * XCVM_CHANNEL_BLOCK * taps), NULL);
        xcvm_blocked_pack_depthwise(w, given.rank, given.dims, data);
        int64_t dims[XCVM_MAX_RANK] = {blocks};
        const size_t axes = as_attribute(s, s->kernel, dims + 1);
        dims[1 + axes] = XCVM_CHANNEL_BLOCK;
        *packed = tensor((int)axes + 2, dims, data);
    } else if (s->algorithm == XCVM_BLOCKED_winograd_strided) {
        data = floats((size_t)(36 * blocks * 4 * s->channels * XCVM_CHANNEL_BLOCK), NULL);
        xcvm_blocked_pack_strided(w, given.dims, data);
        *packed = tensor(4, (const int64_t[]){36, blocks, 4 * s->channels, XCVM_CHANNEL_BLOCK}, data);
    } else {
        data = floats((size_t)(points * blocks * XCVM_CHANNEL_BLOCK * s->channels * taps / 9), NULL);
        xcvm_blocked_pack_winograd(w, given.rank, given.dims, s->tile, data);
        *packed =
            s->axes > 2
                ? tensor(5,
                         (const int64_t[]){points, blocks, s->kernel[BLOCKED_DEPTH], s->channels, XCVM_CHANNEL_BLOCK},
                         data)
                : tensor(4, (const int64_t[]){points, blocks, s->channels, XCVM_CHANNEL_BLOCK}, data);
    }
    return data;
}

/* The convolution with filters in half precision, compared with the same numbers in f32, with one thread and three.
 * y.data receives the results, and `other` has the same size. */
static void check_narrow(xcvm_kernel_run run, xcvm_BlockedConv_args a, xcvm_dtype dtype, float *other, double allowed,
                         const char *text)
{
    const size_t filters = xcvm_element_count(a.w), count = xcvm_element_count(a.y);
    char *narrow = malloc(filters * xcvm_dtype_size(dtype) + 1);
    float *wide = floats(filters, NULL), *results = a.y->data;
    ck_assert_ptr_nonnull(narrow);
    xcvm_store_f32(dtype, narrow, 0, filters, a.w->data);
    xcvm_load_f32(dtype, narrow, 0, filters, wide);
    xcvm_value w = *a.w, y = *a.y;
    a.w = &w;
    a.y = &y;
    w.data = wide;
    run_kernel(run, &a, 1, "BlockedConv");
    xcvm_value_set_tensor(&w, dtype, w.rank, w.dims);
    w.data = narrow;
    y.data = other;
    run_kernel(run, &a, 1, "BlockedConv");
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)results[i] - (double)other[i]) <= allowed) && memcmp(results + i, other + i, 4) != 0)
            ck_abort_msg("%s: element %zu is %.9g with %s, %.9g with the same as f32", text, i, (double)other[i],
                         xcvm_dtype_name(dtype), (double)results[i]);
    y.data = results;
    run_kernel(run, &a, 3, "BlockedConv");
    ck_assert_msg(memcmp(results, other, count * sizeof *other) == 0, "%s: other bits by three threads", text);
    free(narrow);
    free(wide);
}

/* The factors: the numbers, or their rounded values. */
static float *multiplied(const blocked_shape *s, const float *numbers, size_t count)
{
    float *to = floats(count, NULL);
    memcpy(to, numbers, count * sizeof *to);
    for (size_t i = 0; s->algorithm == XCVM_BLOCKED_direct_pairs && i < count; i++) {
        uint16_t half;
        xcvm_store_f32(XCVM_BF16, &half, 0, 1, numbers + i);
        xcvm_load_f32(XCVM_BF16, &half, 0, 1, to + i);
    }
    return to;
}

/* A convolution, its operands as they are given and as they are in blocks, and what its results have to be. */
typedef struct convolution {
    const blocked_shape *s;
    char text[400];
    int64_t outputs, blocks, area;
    size_t result; /* elements of it, in blocks */
    double allowed;
    float *planes, *filter, *bias, *residual;
    float *blocked, *blocked_residual, *packed, *packed_bias;
    xcvm_value x, w, b;
    int64_t strides[BLOCKED_AXES], pads[2 * BLOCKED_AXES], dilations[BLOCKED_AXES];
    size_t axes;
    double *definition;
    float *least; /* result of the first build */
} convolution;

static void define_results(convolution *c)
{
    const blocked_shape *s = c->s;
    const size_t numbers = (size_t)(s->batch * s->group * s->channels * blocked_volume(s->in, s->axes));
    const size_t filters = (size_t)(c->outputs * s->channels * blocked_volume(s->kernel, s->axes));
    float *exact_planes = multiplied(s, c->planes, numbers), *exact_filter = multiplied(s, c->filter, filters);
    c->definition = define(s, exact_planes, exact_filter, c->bias, c->residual);
    free(exact_planes);
    free(exact_filter);
}

static void open_convolution(convolution *c, const blocked_shape *s)
{
    const int64_t taps = blocked_volume(s->kernel, s->axes), outputs = s->outputs * s->group,
                  channels = s->group * s->channels;
    *c = (convolution){
        .s = s, .outputs = outputs, .blocks = xcvm_blocks_of(outputs), .area = blocked_volume(s->out, s->axes)};
    c->result = (size_t)(s->batch * c->blocks * c->area * XCVM_CHANNEL_BLOCK);
    /* Winograd's larger tiles round more. */
    c->allowed = (s->tile > 2 ? 4e-6 : 3e-6) * (sqrt((double)(s->channels * taps)) + 1.0);
    describe_shape(s, c->text, sizeof c->text);
    c->planes = floats((size_t)(s->batch * channels * blocked_volume(s->in, s->axes)), random_float);
    c->filter = floats((size_t)(outputs * s->channels * taps), random_float);
    c->packed = pack(s, c->filter, &c->w);
    c->x = space(s->batch, s->channels, s->in, s->axes, 0, c->planes);
    if (!s->plain) {
        c->blocked = block(c->planes, s->batch, channels, s->in, s->axes);
        c->x = space(s->batch, xcvm_blocks_of(channels), s->in, s->axes, XCVM_CHANNEL_BLOCK, c->blocked);
    }
    if (s->bias) {
        c->bias = floats((size_t)outputs, random_float);
        c->packed_bias = floats((size_t)(c->blocks * XCVM_CHANNEL_BLOCK), NULL);
        xcvm_blocked_pack_bias(c->bias, outputs, c->packed_bias);
        c->b = tensor(1, (const int64_t[]){c->blocks * XCVM_CHANNEL_BLOCK}, c->packed_bias);
    }
    if (s->residual) {
        c->residual = floats((size_t)(s->batch * outputs * c->area), random_float);
        c->blocked_residual = block(c->residual, s->batch, outputs, s->out, s->axes);
    }
    c->axes = as_attribute(s, s->stride, c->strides);
    as_attribute(s, s->dilation, c->dilations);
    as_attribute(s, s->pad_end, c->pads + as_attribute(s, s->pad, c->pads));
    define_results(c);
    c->least = floats(c->result, NULL);
}

static void close_convolution(convolution *c)
{
    free(c->planes);
    free(c->filter);
    free(c->bias);
    free(c->residual);
    free(c->blocked);
    free(c->blocked_residual);
    free(c->packed);
    free(c->packed_bias);
    free(c->definition);
    free(c->least);
}

/* The shape that is inferred is that of the result. */
static void check_inferred(const convolution *c, xcvm_BlockedConv_args a)
{
    const xcvm_value *y = a.y, *in[] = {a.x, a.w, a.b, a.z};
    xcvm_error error = {.status = XCVM_OK};
    xcvm_value inferred = {.dtype = XCVM_F32}, *out[] = {&inferred};
    a.y = &inferred;
    const xcvm_inference t = {xcvm_schema_of(XCVM_OP_BlockedConv), &a, in, 4, out, 1, &error};
    ck_assert_msg(xcvm_infer(&t) == XCVM_OK, "%s: %s", c->text, error.message);
    ck_assert(inferred.rank == y->rank && memcmp(inferred.dims, y->dims, sizeof y->dims) == 0);
}

/* Fails for an element that is not the same bits in both. */
static void check_same_bits(const convolution *c, size_t build, const float *got, const float *other, const char *whose)
{
    for (int64_t n = 0; n < c->s->batch; n++)
        for (int64_t k = 0; k < c->outputs; k++)
            for (int64_t p = 0; p < c->area; p++) {
                const size_t at = blocked_place(n, k, p, c->blocks, c->area);
                if (memcmp(&got[at], &other[at], sizeof *got) != 0)
                    ck_abort_msg("%s, build %zu: output %d at %d is %.9g, %s %.9g", c->text, build, (int)k, (int)p,
                                 (double)got[at], whose, (double)other[at]);
            }
}

static void check_definition(const convolution *c, size_t build, const float *got)
{
    double errors = 0, squares = 0;
    for (int64_t n = 0; n < c->s->batch; n++)
        for (int64_t k = 0; k < c->outputs; k++)
            for (int64_t p = 0; p < c->area; p++) {
                const size_t at = blocked_place(n, k, p, c->blocks, c->area);
                const double wanted = c->definition[at], error = wanted - (double)got[at];
                errors += error * error;
                squares += wanted * wanted;
                if (!(fabs(error) <= c->allowed))
                    ck_abort_msg("%s, build %zu: output %d at %d is %.9g, by the definition %.9g", c->text, build,
                                 (int)k, (int)p, (double)got[at], wanted);
            }
    if (c->s->rounding > 0 && !(sqrt(errors / squares) < c->s->rounding))
        ck_abort_msg("%s, build %zu: errors are %.3g of the results", c->text, build, sqrt(errors / squares));
}

/* One build of the kernel, by one thread into `first`, and by three into `second`. */
static void check_build(convolution *c, size_t build, xcvm_kernel_run run, float *first, float *second)
{
    const blocked_shape *s = c->s;
    xcvm_value y = space(s->batch, c->blocks, s->out, s->axes, XCVM_CHANNEL_BLOCK, first), z = y;
    z.data = c->blocked_residual;
    const xcvm_BlockedConv_args a = {.y = &y,
                                     .x = &c->x,
                                     .w = &c->w,
                                     .b = s->bias ? &c->b : NULL,
                                     .z = s->residual ? &z : NULL,
                                     .strides = {c->strides, c->axes},
                                     .pads = {c->pads, 2 * c->axes},
                                     .dilations = {c->dilations, c->axes},
                                     .group = s->algorithm == XCVM_BLOCKED_depthwise ? c->outputs : s->group,
                                     .activation = s->activation,
                                     .algorithm = s->algorithm,
                                     .affine = affine_of(s)};
    check_inferred(c, a);
    run_kernel(run, &a, 1, "BlockedConv");
    /* The result overwrites the residual, with more threads. */
    y.data = second;
    if (s->residual) {
        memcpy(second, c->blocked_residual, c->result * sizeof *second);
        z.data = second;
    }
    run_kernel(run, &a, 3, "BlockedConv");
    check_same_bits(c, build, first, second, "by three threads");
    check_definition(c, build, first);
    /* Sums of pairs are the same bits for any instructions; results of functions may differ. */
    if (build == 0)
        memcpy(c->least, first, c->result * sizeof *first);
    if (s->algorithm == XCVM_BLOCKED_direct_pairs && s->activation <= XCVM_ACTIVATION_Relu && !s->affine)
        check_same_bits(c, build, first, c->least, "by the first build");
    if (!xcvm_blocked_takes_narrow(s->algorithm))
        return;
    y.data = first;
    z.data = c->blocked_residual;
    check_narrow(run, a, build % 2 == 0 ? XCVM_F16 : XCVM_BF16, second, c->allowed, c->text);
    check_narrow(run, a, build % 2 == 0 ? XCVM_BF16 : XCVM_F16, second, c->allowed, c->text);
    check_narrow(run, a, XCVM_F24, second, c->allowed, c->text);
}

void blocked_check(const blocked_shape *s)
{
    convolution c;
    xcvm_kernel_run run;
    open_convolution(&c, s);
    float *first = floats(c.result, NULL), *second = floats(c.result, NULL);
    for (size_t build = 0; (run = kernel_variant(XCVM_OP_BlockedConv, build)) != NULL; build++)
        check_build(&c, build, run, first, second);
    free(first);
    free(second);
    close_convolution(&c);
}

void blocked_check_way_back(int64_t channels)
{
    const int64_t size[BLOCKED_AXES] = {blocked_random_from(1, 9), blocked_random_from(1, 9)}, area = size[0] * size[1];
    float *planes = floats((size_t)(2 * channels * area), random_float);
    float *blocked = block(planes, 2, channels, size, 2), *back = floats((size_t)(2 * channels * area), NULL);
    const int64_t blocks = xcvm_blocks_of(channels);
    xcvm_value x = tensor(5, (const int64_t[]){2, blocks, size[0], size[1], XCVM_CHANNEL_BLOCK}, blocked);
    xcvm_value y = tensor(4, (const int64_t[]){2, channels, size[0], size[1]}, back);
    const xcvm_UnblockChannels_args a = {.y = &y, .x = &x, .channels = channels};
    run_kernel(xcvm_kernel_of(XCVM_OP_UnblockChannels), &a, 2, "BlockedConv");
    ck_assert(memcmp(planes, back, (size_t)(2 * channels * area) * sizeof *back) == 0);
    free(planes);
    free(blocked);
    free(back);
}
