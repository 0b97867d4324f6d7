/* Convolutions of blocked channels against their definition in f64, for shapes of all kinds: with whatever lies beyond
 * the channels, in place, and with the same bits for any number of threads. */
#include "ops/elementwise/activation.h"
#include "ops/conv/blocked.h"
#include "ops/convert.h"
#include "tests/ops/run_kernel.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH = 2, AXES = 3 };

/* Axes are height, width and depth, pads before and behind each; a shape has the width alone, that and the height, or
 * all three, and one position along those that it does not have. */
typedef struct shape {
    int algorithm;
    int64_t tile; /* winograd */
    int64_t batch, group, channels, outputs, in[AXES], kernel[AXES], stride[AXES], dilation[AXES];
    int64_t pad[AXES], pad_end[AXES], out[AXES];
    int axes;
    bool plain, bias, residual, affine;
    int activation;
    double rounding; /* that all results' errors stay below, relative to the results' size; 0: not checked */
} shape;

/* Behind the activation, where there is any. */
static const double scale_and_shift[] = {1.5, -0.25};

static xcvm_floats affine_of(const shape *s) { return (xcvm_floats){scale_and_shift, s->affine ? 2 : 0}; }

static uint32_t random_state = 1;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static int64_t random_from(int64_t low, int64_t high) { return low + random_below((uint32_t)(high - low + 1)); }

static float *floats(size_t count, float (*value)(void))
{
    float *x = malloc((count + 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < count; i++)
        x[i] = value != NULL ? value() : NAN;
    return x;
}

static float random_float(void) { return (float)random_from(-1000, 1000) * 1e-3f; }

static xcvm_value tensor(int rank, const int64_t *dims, float *data)
{
    xcvm_value v = {0};
    xcvm_value_set_tensor(&v, XCVM_F32, rank, dims);
    v.data = data;
    return v;
}

/* [first, second, D, H, W] of the axes that there are, then `last` if it is not 0. */
static xcvm_value space(int64_t first, int64_t second, const int64_t size[AXES], int axes, int64_t last, float *data)
{
    int64_t dims[XCVM_MAX_RANK] = {first, second};
    int rank = 2;
    if (axes > 2)
        dims[rank++] = size[DEPTH];
    if (axes > 1)
        dims[rank++] = size[0];
    dims[rank++] = size[1];
    if (last != 0)
        dims[rank++] = last;
    return tensor(rank, dims, data);
}

static int64_t volume_of(const int64_t size[AXES], int axes)
{
    return (axes > 1 ? size[0] : 1) * size[1] * (axes > 2 ? size[DEPTH] : 1);
}

/* `planes` [batch, channels, space] in blocks, NaN beyond the channels. */
static float *block(float *planes, int64_t batch, int64_t channels, const int64_t size[AXES], int axes)
{
    const int64_t blocks = xcvm_blocks_of(channels), area = volume_of(size, axes);
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
static int64_t met(const shape *s, int axis, int64_t o, int64_t tap)
{
    const int64_t at = o * s->stride[axis] + tap * s->dilation[axis] - s->pad[axis];
    return at < s->in[axis] ? at : -1;
}

/* Output k of image n at position p of all. */
static double at_f64(const shape *s, const float *x, const float *w, const float *b, const float *z, int64_t n,
                     int64_t k, int64_t p)
{
    const int64_t total = s->channels * s->group, outputs = s->outputs * s->group, in = volume_of(s->in, s->axes);
    const int64_t taps = volume_of(s->kernel, s->axes), area = s->out[0] * s->out[1];
    double sum = b != NULL ? (double)b[k] : 0.0;
    for (int64_t t = 0; t < taps; t++) {
        const int64_t plane = s->kernel[0] * s->kernel[1];
        const int64_t d = s->axes > 2 ? met(s, DEPTH, p / area, t / plane) : 0;
        const int64_t h = met(s, 0, p % area / s->out[1], t % plane / s->kernel[1]);
        const int64_t v = met(s, 1, p % s->out[1], t % s->kernel[1]);
        for (int64_t c = 0; c < s->channels && d >= 0 && h >= 0 && v >= 0; c++) {
            const int64_t channel = k / s->outputs * s->channels + c;
            sum += (double)x[(n * total + channel) * in + (d * s->in[0] + h) * s->in[1] + v] *
                   (double)w[(k * s->channels + c) * taps + t];
        }
    }
    if (z != NULL)
        sum += (double)z[(n * outputs + k) * volume_of(s->out, s->axes) + p];
    const xcvm_activation f = xcvm_activation_affine(s->activation, (xcvm_floats){NULL, 0}, affine_of(s));
    return xcvm_activate_f64(&f, sum);
}

static void describe(const shape *s, char *text, size_t size)
{
    static const char *const names[] = {"direct",           "depthwise", "winograd",    "winograd untransformed",
                                        "winograd strided", "grouped",   "direct pairs"};
    int length = snprintf(text, size, "%s%s tile %d batch %d group %d channels %d outputs %d", names[s->algorithm],
                          s->plain ? " plain" : "", (int)s->tile, (int)s->batch, (int)s->group, (int)s->channels,
                          (int)s->outputs);
    for (int i = s->axes > 1 ? 0 : 1; i < (s->axes > 2 ? AXES : 2); i++)
        length +=
            snprintf(text + length, size - (size_t)length,
                     ", axis of %d -> %d window %d stride %d dilation %d pads %d %d", (int)s->in[i], (int)s->out[i],
                     (int)s->kernel[i], (int)s->stride[i], (int)s->dilation[i], (int)s->pad[i], (int)s->pad_end[i]);
}

/* As attributes have them, depth first if there is one; returns how many. */
static size_t as_attribute(const shape *s, const int64_t values[AXES], int64_t *to)
{
    size_t count = 0;
    if (s->axes > 2)
        to[count++] = values[DEPTH];
    if (s->axes > 1)
        to[count++] = values[0];
    to[count++] = values[1];
    return count;
}

static float *pack(const shape *s, float *w, xcvm_value *packed)
{
    const int64_t total = s->outputs * s->group, blocks = xcvm_blocks_of(total);
    const int64_t taps = volume_of(s->kernel, s->axes), points = (s->tile + 2) * (s->tile + 2);
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
                ? tensor(5, (const int64_t[]){points, blocks, s->kernel[DEPTH], s->channels, XCVM_CHANNEL_BLOCK}, data)
                : tensor(4, (const int64_t[]){points, blocks, s->channels, XCVM_CHANNEL_BLOCK}, data);
    }
    return data;
}

/* The convolution with filters that are halves, beside the same numbers as f32, and by one thread and three; y.data
 * gets the results, and `other` is room for as many. */
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

/* Where channel k of pixel p of image n lies among `blocks` blocks of `area` pixels. */
static size_t blocked_place(int64_t n, int64_t k, int64_t p, int64_t blocks, int64_t area)
{
    return (size_t)(((n * blocks + k / XCVM_CHANNEL_BLOCK) * area + p) * XCVM_CHANNEL_BLOCK + k % XCVM_CHANNEL_BLOCK);
}

/* What is multiplied: the numbers, or what they are rounded to. */
static float *multiplied(const shape *s, const float *numbers, size_t count)
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

static void check_conv(shape *s)
{
    const int64_t outputs = s->outputs * s->group, blocks = xcvm_blocks_of(outputs), area = volume_of(s->out, s->axes);
    const int64_t taps = volume_of(s->kernel, s->axes);
    const size_t result = (size_t)(s->batch * blocks * area * XCVM_CHANNEL_BLOCK);
    const size_t numbers = (size_t)(s->batch * s->group * s->channels * volume_of(s->in, s->axes));
    const size_t filters = (size_t)(outputs * s->channels * taps);
    float *planes = floats(numbers, random_float), *filter = floats(filters, random_float);
    float *exact_planes = multiplied(s, planes, numbers), *exact_filter = multiplied(s, filter, filters);
    float *bias = s->bias ? floats((size_t)outputs, random_float) : NULL;
    float *residual = s->residual ? floats((size_t)(s->batch * outputs * area), random_float) : NULL;
    float *blocked = s->plain ? NULL : block(planes, s->batch, s->group * s->channels, s->in, s->axes);
    float *blocked_residual = s->residual ? block(residual, s->batch, outputs, s->out, s->axes) : NULL;
    float *packed_bias = s->bias ? floats((size_t)(blocks * XCVM_CHANNEL_BLOCK), NULL) : NULL;
    if (s->bias)
        xcvm_blocked_pack_bias(bias, outputs, packed_bias);
    xcvm_value w, b = {0}, z = {0};
    float *packed = pack(s, filter, &w);
    xcvm_value x = space(s->batch, s->channels, s->in, s->axes, 0, planes);
    if (!s->plain)
        x = space(s->batch, xcvm_blocks_of(s->group * s->channels), s->in, s->axes, XCVM_CHANNEL_BLOCK, blocked);
    int64_t strides[AXES], pads[2 * AXES], dilations[AXES];
    const size_t axes = as_attribute(s, s->stride, strides);
    as_attribute(s, s->dilation, dilations);
    as_attribute(s, s->pad_end, pads + as_attribute(s, s->pad, pads));
    if (s->bias)
        b = tensor(1, (const int64_t[]){blocks * XCVM_CHANNEL_BLOCK}, packed_bias);
    char text[400];
    describe(s, text, sizeof text);

    xcvm_kernel_run run;
    float *first = floats(result, NULL), *second = floats(result, NULL);
    double *definition = calloc(result, sizeof *definition);
    ck_assert_ptr_nonnull(definition);
    for (int64_t n = 0; n < s->batch; n++)
        for (int64_t k = 0; k < outputs; k++)
            for (int64_t p = 0; p < area; p++)
                definition[blocked_place(n, k, p, blocks, area)] =
                    at_f64(s, exact_planes, exact_filter, bias, residual, n, k, p);
    float *least = floats(result, NULL); /* what the first build makes */
    for (size_t r = 0; (run = kernel_variant(XCVM_OP_BlockedConv, r)) != NULL; r++) {
        xcvm_value y = space(s->batch, blocks, s->out, s->axes, XCVM_CHANNEL_BLOCK, first);
        if (s->residual) {
            z = y;
            z.data = blocked_residual;
        }
        xcvm_BlockedConv_args a = {.y = &y,
                                   .x = &x,
                                   .w = &w,
                                   .b = s->bias ? &b : NULL,
                                   .z = s->residual ? &z : NULL,
                                   .strides = {strides, axes},
                                   .pads = {pads, 2 * axes},
                                   .dilations = {dilations, axes},
                                   .group = s->algorithm == XCVM_BLOCKED_depthwise ? outputs : s->group,
                                   .activation = s->activation,
                                   .algorithm = s->algorithm,
                                   .affine = affine_of(s)};
        xcvm_error error = {.status = XCVM_OK};
        xcvm_value inferred = {.dtype = XCVM_F32};
        xcvm_BlockedConv_args asked = a;
        asked.y = &inferred;
        const xcvm_value *in[] = {a.x, a.w, a.b, a.z};
        xcvm_value *out[] = {&inferred};
        const xcvm_inference t = {xcvm_schema_of(XCVM_OP_BlockedConv), &asked, in, 4, out, 1, &error};
        ck_assert_msg(xcvm_infer(&t) == XCVM_OK, "%s: %s", text, error.message);
        ck_assert(inferred.rank == y.rank && memcmp(inferred.dims, y.dims, sizeof y.dims) == 0);
        run_kernel(run, &a, 1, "BlockedConv");
        /* The residual's memory taken over, and more threads. */
        y.data = second;
        if (s->residual) {
            memcpy(second, blocked_residual, result * sizeof *second);
            z.data = second;
        }
        run_kernel(run, &a, 3, "BlockedConv");
        /* Winograd's larger tiles round more. */
        const double allowed = (s->tile > 2 ? 4e-6 : 3e-6) * (sqrt((double)(s->channels * taps)) + 1.0);
        double errors = 0, squares = 0;
        for (int64_t n = 0; n < s->batch; n++)
            for (int64_t k = 0; k < outputs; k++)
                for (int64_t p = 0; p < area; p++) {
                    const size_t at = blocked_place(n, k, p, blocks, area);
                    if (memcmp(&first[at], &second[at], sizeof *first) != 0)
                        ck_abort_msg("%s, build %zu: output %d at %d is %.9g, by three threads %.9g", text, r, (int)k,
                                     (int)p, (double)first[at], (double)second[at]);
                    const double wanted = definition[at];
                    errors += (wanted - (double)first[at]) * (wanted - (double)first[at]);
                    squares += wanted * wanted;
                    if (!(fabs(wanted - (double)first[at]) <= allowed))
                        ck_abort_msg("%s, build %zu: output %d at %d is %.9g, by the definition %.9g", text, r, (int)k,
                                     (int)p, (double)first[at], wanted);
                }
        if (s->rounding > 0 && !(sqrt(errors / squares) < s->rounding))
            ck_abort_msg("%s, build %zu: errors are %.3g of the results", text, r, sqrt(errors / squares));
        /* Sums of pairs are the same bits by any instructions; what functions make of them need not be. */
        if (r == 0)
            memcpy(least, first, result * sizeof *least);
        if (s->algorithm == XCVM_BLOCKED_direct_pairs && s->activation <= XCVM_ACTIVATION_Relu && !s->affine)
            for (int64_t n = 0; n < s->batch; n++)
                for (int64_t k = 0; k < outputs; k++)
                    for (int64_t p = 0; p < area; p++) {
                        const size_t at = blocked_place(n, k, p, blocks, area);
                        if (memcmp(least + at, first + at, sizeof *first) != 0)
                            ck_abort_msg("%s, build %zu: output %d at %d is %.9g, by the first build %.9g", text, r,
                                         (int)k, (int)p, (double)first[at], (double)least[at]);
                    }
        if (!xcvm_blocked_takes_narrow(s->algorithm))
            continue;
        y.data = first;
        z.data = blocked_residual;
        check_narrow(run, a, r % 2 == 0 ? XCVM_F16 : XCVM_BF16, second, allowed, text);
        check_narrow(run, a, r % 2 == 0 ? XCVM_BF16 : XCVM_F16, second, allowed, text);
        check_narrow(run, a, XCVM_F24, second, allowed, text);
    }
    free(least);
    free(exact_planes);
    free(exact_filter);
    free(planes);
    free(filter);
    free(bias);
    free(residual);
    free(blocked);
    free(blocked_residual);
    free(packed_bias);
    free(packed);
    free(first);
    free(second);
    free(definition);
}

/* Positions that lie apart, up to farther than any map is wide, with whatever padding that takes. */
static void spread(shape *s, int axis)
{
    static const int64_t dilations[] = {1, 2, 5, 12, 36};
    s->dilation[axis] = random_below(3) == 0 ? random_from(2, 30) : dilations[random_below(5)];
    const int64_t reach = (s->kernel[axis] - 1) * s->dilation[axis];
    s->pad[axis] = random_below(3) == 0 ? random_from(0, reach + 3) : reach / 2;
    s->pad_end[axis] = random_below(3) == 0 ? random_from(0, reach + 3) : reach / 2;
}

static shape random_shape(int algorithm, bool dilated, int all)
{
    const int axes = all > 2 ? AXES : 2;
    for (;;) {
        shape s = {.algorithm = algorithm,
                   .axes = all,
                   .batch = random_from(1, 2),
                   .group = 1,
                   .channels = random_from(1, 50),
                   .outputs = random_from(1, 100),
                   .bias = random_below(2) != 0,
                   .residual = random_below(3) == 0,
                   .activation = (int)random_below(XCVM_ACTIVATION_COUNT),
                   .affine = random_below(4) == 0};
        for (int i = 0; i < axes; i++) {
            s.in[i] = random_from(1, random_below(2) != 0 ? 20 : 8);
            s.kernel[i] = random_below(3) == 0 ? random_from(1, 7) : random_below(2) != 0 ? 3 : 1;
            s.stride[i] = random_below(2) != 0 ? random_from(1, 3) : 1;
            s.dilation[i] = random_below(4) == 0 ? random_from(1, 3) : 1;
            s.pad[i] = random_below(3) == 0 ? random_from(0, 4) : s.kernel[i] / 2;
            s.pad_end[i] = random_below(3) == 0 ? random_from(0, 4) : s.kernel[i] / 2;
            if (dilated)
                spread(&s, i);
        }
        if (algorithm == XCVM_BLOCKED_depthwise) {
            s.group = s.outputs;
            s.outputs = s.channels = 1;
        } else if (xcvm_blocked_is_winograd(algorithm)) {
            const bool on_the_fly = algorithm == XCVM_BLOCKED_winograd_untransformed;
            s.tile = on_the_fly || random_below(2) != 0 ? 4 : 2;
            if (on_the_fly && random_below(4) == 0)
                s.channels = random_from(60, 300);
            for (int i = 0; i < axes; i++) {
                s.kernel[i] = i == DEPTH ? s.kernel[i] : 3;
                s.stride[i] = 1;
            }
        } else if (algorithm == XCVM_BLOCKED_winograd_strided) {
            s.tile = 3;
            s.plain = true;
            s.channels = random_from(1, XCVM_BLOCKED_STRIDED_CHANNELS);
            for (int i = 0; i < axes; i++) {
                s.in[i] = random_below(3) == 0 ? random_from(20, 90) : s.in[i];
                s.kernel[i] = XCVM_BLOCKED_STRIDED_WINDOW;
                s.stride[i] = 2;
                s.dilation[i] = 1;
                s.pad[i] = random_below(2) != 0 ? random_from(0, 9) : 3;
                s.pad_end[i] = random_below(2) != 0 ? random_from(0, 9) : 3;
            }
        } else if (random_below(4) == 0) {
            s.plain = true;
            s.channels = random_from(1, XCVM_BLOCKED_PLAIN_CHANNELS);
        } else if (random_below(4) == 0) {
            s.group = random_from(2, 3);
            s.channels = random_from(1, 2) * XCVM_CHANNEL_BLOCK;
            s.outputs = random_from(1, 6) * XCVM_CHANNEL_BLOCK;
        } else if (random_below(8) == 0) {
            s.channels = random_from(100, 400);
        }
        if (algorithm == XCVM_BLOCKED_direct_pairs) {
            s.plain = false;
            s.channels += s.channels % 2;
            for (int i = 0; i < axes; i++)
                s.dilation[i] = 1;
        }
        if (algorithm == XCVM_BLOCKED_grouped) {
            s.plain = false;
            s.group = random_from(2, 20);
            s.outputs = s.channels = 2 << random_below(3);
        }
        if (all < 2) {
            s.in[0] = s.kernel[0] = s.stride[0] = s.dilation[0] = 1;
            s.pad[0] = s.pad_end[0] = 0;
            s.in[1] = random_below(2) != 0 ? random_from(50, 300) : s.in[1];
        }
        bool fits = true;
        for (int i = 0; i < axes; i++) {
            const int64_t reach = (s.kernel[i] - 1) * s.dilation[i] + 1;
            const int64_t padded = s.in[i] + s.pad[i] + s.pad_end[i];
            fits = fits && reach <= padded;
            s.out[i] = (padded - reach) / s.stride[i] + 1;
        }
        const int64_t each = s.channels * s.outputs * s.group;
        if (fits && each * volume_of(s.kernel, all) * volume_of(s.out, all) < 20000000)
            return s;
    }
}

/* Each test is a process of its own, which takes longer to begin than a convolution takes: so many at a time. */
enum { AT_A_TIME = 30, KNOWN_DEEP = 15 };

START_TEST(random_convolutions)
{
    for (int i = _i * AT_A_TIME; i < (_i + 1) * AT_A_TIME; i++) {
        random_state = (uint32_t)i + 1;
        shape s = random_shape(i % 6, false, 2);
        check_conv(&s);
    }
}
END_TEST

START_TEST(dilated_convolutions)
{
    static const int algorithms[] = {XCVM_BLOCKED_direct, XCVM_BLOCKED_depthwise, XCVM_BLOCKED_winograd,
                                     XCVM_BLOCKED_winograd_untransformed, XCVM_BLOCKED_grouped};
    for (int i = _i * AT_A_TIME; i < (_i + 1) * AT_A_TIME; i++) {
        random_state = (uint32_t)i + 1;
        shape s = random_shape(algorithms[i % 5], true, 2);
        check_conv(&s);
    }
}
END_TEST

START_TEST(deep_convolutions)
{
    for (int i = _i * AT_A_TIME; i < (_i + 1) * AT_A_TIME; i++) {
        random_state = (uint32_t)i + 1;
        shape s = random_shape(i % 4 < 3 ? i % 4 : XCVM_BLOCKED_grouped, i % 5 == 0, 3);
        check_conv(&s);
    }
}
END_TEST

/* Pairs of bf16, over one axis to three. */
START_TEST(pairs)
{
    for (int i = _i * AT_A_TIME; i < (_i + 1) * AT_A_TIME; i++) {
        random_state = (uint32_t)i + 1;
        shape s = random_shape(XCVM_BLOCKED_direct_pairs, false, 1 + i % 3);
        check_conv(&s);
    }
}
END_TEST

/* Signals: one axis. */
START_TEST(line_convolutions)
{
    static const int algorithms[] = {XCVM_BLOCKED_direct, XCVM_BLOCKED_depthwise, XCVM_BLOCKED_grouped};
    for (int i = _i * AT_A_TIME; i < (_i + 1) * AT_A_TIME; i++) {
        random_state = (uint32_t)i + 1;
        shape s = random_shape(algorithms[i % 3], i % 2 == 0, 1);
        check_conv(&s);
    }
}
END_TEST

/* Layers of networks for videos: windows of all three axes, of planes and of the depth alone; larger than a band. */
START_TEST(known_deep_convolutions)
{
    static const struct {
        int64_t channels, outputs, in[AXES], kernel[AXES], stride[AXES]; /* channels of a group */
        int algorithm;
        int64_t tile;
    } cases[] = {
        {64, 48, {28, 28, 6}, {3, 3, 3}, {1, 1, 1}, XCVM_BLOCKED_direct, 0},
        {64, 48, {28, 28, 6}, {3, 3, 3}, {1, 1, 1}, XCVM_BLOCKED_winograd, 4},
        {40, 70, {14, 13, 5}, {3, 3, 3}, {1, 1, 1}, XCVM_BLOCKED_winograd, 2},
        {64, 96, {28, 28, 4}, {3, 3, 1}, {1, 1, 1}, XCVM_BLOCKED_winograd, 4},
        {64, 96, {28, 28, 4}, {3, 3, 1}, {1, 1, 1}, XCVM_BLOCKED_direct, 0},
        {64, 64, {40, 40, 9}, {1, 1, 3}, {1, 1, 1}, XCVM_BLOCKED_direct, 0},
        {32, 64, {60, 60, 11}, {1, 1, 7}, {1, 1, 2}, XCVM_BLOCKED_direct, 0},
        {96, 32, {20, 20, 3}, {1, 1, 1}, {1, 1, 1}, XCVM_BLOCKED_direct, 0},
        /* So many slices that a band is one tile, of which there are four, for three threads. */
        {128, 16, {16, 4, 50}, {3, 3, 1}, {1, 1, 1}, XCVM_BLOCKED_winograd, 4},
        {64, 32, {14, 14, 6}, {1, 1, 1}, {2, 2, 2}, XCVM_BLOCKED_direct, 0},
        {64, 128, {28, 28, 8}, {3, 3, 3}, {2, 2, 2}, XCVM_BLOCKED_direct, 0},
        {3, 48, {56, 50, 5}, {7, 7, 3}, {2, 2, 1}, XCVM_BLOCKED_direct, 0},
        {256, 128, {7, 7, 2}, {3, 3, 3}, {1, 1, 1}, XCVM_BLOCKED_direct, 0},
        {1, 54, {28, 28, 8}, {3, 3, 3}, {1, 1, 1}, XCVM_BLOCKED_depthwise, 0},
        {1, 96, {29, 28, 5}, {3, 3, 3}, {2, 2, 1}, XCVM_BLOCKED_depthwise, 0},
    };
    const size_t i = (size_t)_i;
    ck_assert_uint_eq(sizeof cases / sizeof *cases, KNOWN_DEEP);
    shape s = {.algorithm = cases[i].algorithm,
               .axes = 3,
               .tile = cases[i].tile,
               .batch = 1,
               .group = cases[i].channels == 1 ? cases[i].outputs : 1,
               .channels = cases[i].channels,
               .outputs = cases[i].channels == 1 ? 1 : cases[i].outputs,
               .plain = cases[i].channels == 3,
               .bias = true,
               .activation = XCVM_ACTIVATION_Relu};
    for (int axis = 0; axis < AXES; axis++) {
        s.in[axis] = cases[i].in[axis];
        s.kernel[axis] = cases[i].kernel[axis];
        s.stride[axis] = cases[i].stride[axis];
        s.dilation[axis] = 1;
        s.pad[axis] = s.pad_end[axis] = s.kernel[axis] / 2;
        s.out[axis] = (s.in[axis] + 2 * s.pad[axis] - s.kernel[axis]) / s.stride[axis] + 1;
    }
    check_conv(&s);
}
END_TEST

/* Maps of one pixel, and those of networks. */
START_TEST(known_convolutions)
{
    static const struct {
        int64_t channels, size, outputs, kernel, stride, group;
        int algorithm;
        int64_t tile;
    } cases[] = {
        {100, 1, 40, 1, 1, 1, XCVM_BLOCKED_direct, 0},          {480, 1, 200, 1, 1, 1, XCVM_BLOCKED_direct, 0},
        {64, 14, 192, 1, 1, 1, XCVM_BLOCKED_direct, 0},         {24, 28, 72, 1, 1, 1, XCVM_BLOCKED_direct, 0},
        {160, 7, 96, 1, 1, 1, XCVM_BLOCKED_direct, 0},          {64, 14, 128, 1, 2, 1, XCVM_BLOCKED_direct, 0},
        {32, 14, 64, 3, 2, 1, XCVM_BLOCKED_direct, 0},          {64, 7, 64, 3, 1, 1, XCVM_BLOCKED_direct, 0},
        {1, 30, 1, 3, 1, 24, XCVM_BLOCKED_depthwise, 0},        {1, 29, 1, 5, 2, 40, XCVM_BLOCKED_depthwise, 0},
        {48, 28, 64, 3, 1, 1, XCVM_BLOCKED_winograd, 4},        {48, 14, 80, 3, 1, 1, XCVM_BLOCKED_winograd, 2},
        {130, 7, 70, 3, 1, 1, XCVM_BLOCKED_winograd, 4},        {3, 40, 64, 7, 2, 1, XCVM_BLOCKED_direct, 0},
        {3, 56, 64, 7, 2, 1, XCVM_BLOCKED_winograd_strided, 3}, {4, 28, 4, 3, 1, 32, XCVM_BLOCKED_grouped, 0},
        {8, 28, 8, 3, 2, 32, XCVM_BLOCKED_grouped, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t kernel = cases[i].kernel, pad = kernel / 2, stride = cases[i].stride;
        const int64_t out = (cases[i].size + 2 * pad - kernel) / stride + 1;
        shape s = {.algorithm = cases[i].algorithm,
                   .axes = 2,
                   .tile = cases[i].tile,
                   .batch = 1,
                   .group = cases[i].group,
                   .channels = cases[i].channels,
                   .outputs = cases[i].outputs,
                   .in = {cases[i].size, cases[i].size},
                   .kernel = {kernel, kernel},
                   .stride = {stride, stride},
                   .dilation = {1, 1},
                   .pad = {pad, pad},
                   .pad_end = {pad, pad},
                   .out = {out, out},
                   .plain = cases[i].channels == 3,
                   .bias = true,
                   .activation = XCVM_ACTIVATION_Relu};
        check_conv(&s);
    }
}
END_TEST

/* Sums so long that one running sum would be rounded two to three times as much. */
START_TEST(long_sums)
{
    static const struct {
        int algorithm;
        int64_t tile, channels, kernel, dilation;
        double rounding;
    } cases[] = {
        {XCVM_BLOCKED_direct, 0, 2048, 1, 1, 3e-7},  {XCVM_BLOCKED_direct, 0, 256, 3, 1, 3e-7},
        {XCVM_BLOCKED_direct, 0, 256, 3, 2, 3e-7},   {XCVM_BLOCKED_winograd, 2, 512, 3, 1, 4e-7},
        {XCVM_BLOCKED_winograd, 4, 512, 3, 1, 1e-6}, {XCVM_BLOCKED_winograd_untransformed, 4, 512, 3, 1, 1e-6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t kernel = cases[i].kernel, dilation = cases[i].dilation, pad = kernel / 2 * dilation;
        shape s = {.algorithm = cases[i].algorithm,
                   .axes = 2,
                   .tile = cases[i].tile,
                   .batch = 1,
                   .group = 1,
                   .channels = cases[i].channels,
                   .outputs = 16,
                   .in = {8, 8},
                   .kernel = {kernel, kernel},
                   .stride = {1, 1},
                   .dilation = {dilation, dilation},
                   .pad = {pad, pad},
                   .pad_end = {pad, pad},
                   .out = {8, 8},
                   .rounding = cases[i].rounding};
        check_conv(&s);
    }
}
END_TEST

/* Windows whose positions lie farther apart than what it would be sensible to copy. */
START_TEST(far_apart)
{
    for (int algorithm = XCVM_BLOCKED_direct; algorithm <= XCVM_BLOCKED_depthwise; algorithm++) {
        const int64_t far = 1 << 30;
        shape s = {.algorithm = algorithm,
                   .axes = 2,
                   .batch = 2,
                   .group = algorithm == XCVM_BLOCKED_depthwise ? 20 : 2,
                   .channels = algorithm == XCVM_BLOCKED_depthwise ? 1 : 32,
                   .outputs = algorithm == XCVM_BLOCKED_depthwise ? 1 : 32,
                   .in = {5, 4},
                   .kernel = {3, 2},
                   .stride = {2, far},
                   .dilation = {far, 3},
                   .pad = {far, far - 1},
                   .pad_end = {far, 8},
                   .out = {3, 2},
                   .bias = true,
                   .residual = true,
                   .activation = XCVM_ACTIVATION_HardSwish};
        check_conv(&s);
        s.axes = 3;
        s.in[DEPTH] = 3;
        s.kernel[DEPTH] = 2;
        s.stride[DEPTH] = 1;
        s.dilation[DEPTH] = s.pad[DEPTH] = far;
        s.out[DEPTH] = 3;
        check_conv(&s);
    }
}
END_TEST

START_TEST(way_back)
{
    for (int64_t channels = 1; channels < 40; channels += 5) {
        const int64_t size[AXES] = {random_from(1, 9), random_from(1, 9)}, area = size[0] * size[1];
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
}
END_TEST

Suite *suite_ops_blocked(void);
Suite *suite_ops_blocked(void)
{
    Suite *s = suite_create("ops_blocked");
    TCase *c = tcase_create("blocked");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, random_convolutions, 0, 300 / AT_A_TIME);
    tcase_add_loop_test(c, dilated_convolutions, 0, 600 / AT_A_TIME);
    tcase_add_loop_test(c, deep_convolutions, 0, 450 / AT_A_TIME);
    tcase_add_loop_test(c, known_deep_convolutions, 0, KNOWN_DEEP);
    tcase_add_loop_test(c, line_convolutions, 0, 300 / AT_A_TIME);
    tcase_add_loop_test(c, pairs, 0, 150 / AT_A_TIME);
    tcase_add_test(c, known_convolutions);
    tcase_add_test(c, long_sums);
    tcase_add_test(c, far_apart);
    tcase_add_test(c, way_back);
    suite_add_tcase(s, c);
    return s;
}
