/* DFT, STFT and MelWeightMatrix. */
#include "ops/util/floats.h"
#include "ops/signal/fourier.h"
#include "ops/util/kernel.h"

#include <math.h>

/* ---- Complex f64 points of a transform ---- */

/* Loads elements first, first + stride, ... of x, of one or two `parts`, as `count` points. */
static void load_points(const xcvm_value *x, size_t first, size_t stride, size_t parts, size_t count, double *points)
{
#define LOAD(type)                                                                                                     \
    do {                                                                                                               \
        const type *from = (const type *)x->data + first;                                                              \
        for (size_t i = 0; i < count; i++, from += stride) {                                                           \
            points[2 * i] = (double)from[0];                                                                           \
            points[2 * i + 1] = parts == 2 ? (double)from[1] : 0.0;                                                    \
        }                                                                                                              \
    } while (0)
    if (x->dtype == XCVM_F32) {
        LOAD(float);
    } else if (x->dtype == XCVM_F64) {
        LOAD(double);
    } else {
        for (size_t i = 0; i < count; i++) {
            points[2 * i] = xcvm_element_as_double(x, first + i * stride);
            points[2 * i + 1] = parts == 2 ? xcvm_element_as_double(x, first + i * stride + 1) : 0.0;
        }
    }
#undef LOAD
}

/* Stores points times `factor`. */
static void store_points(const double *points, size_t count, double factor, xcvm_value *y, size_t first, size_t stride,
                         size_t parts)
{
#define STORE(type)                                                                                                    \
    do {                                                                                                               \
        type *to = (type *)y->data + first;                                                                            \
        for (size_t i = 0; i < count; i++, to += stride) {                                                             \
            to[0] = (type)(points[2 * i] * factor);                                                                    \
            if (parts == 2)                                                                                            \
                to[1] = (type)(points[2 * i + 1] * factor);                                                            \
        }                                                                                                              \
    } while (0)
    if (y->dtype == XCVM_F32) {
        STORE(float);
    } else if (y->dtype == XCVM_F64) {
        STORE(double);
    } else {
        for (size_t i = 0; i < count; i++)
            for (size_t c = 0; c < parts; c++)
                xcvm_write_double(y, first + i * stride + c, points[2 * i + c] * factor);
    }
#undef STORE
}

/* Reads a scalar operand that determines the shape. *value is unchanged if its element is unknown. */
static xcvm_status read_scalar(xcvm_error *error, const xcvm_value *v, const char *what, int64_t *value, bool *known)
{
    XCVM_TRY(xcvm_scalar_check(error, v, what, known));
    if (*known)
        *value = xcvm_element_as_int(v, 0);
    return XCVM_OK;
}

static xcvm_status check_parts(const xcvm_inference *t, const xcvm_value *x, const char *what)
{
    XCVM_CHECK(t->error, x->rank < 0 || x->rank >= 2, SHAPE_MISMATCH, "%s has the wrong rank (%d; expected at least 2)",
               what, x->rank);
    if (x->rank >= 2) {
        const int64_t parts = x->dims[x->rank - 1];
        XCVM_CHECK(t->error, parts < 0 || parts == 1 || parts == 2, SHAPE_MISMATCH,
                   "the last dimension of %s is wrong (%lld; expected 1, real, or 2, complex)", what, (long long)parts);
    }
    return XCVM_OK;
}

static xcvm_status dft_axis(xcvm_error *error, const xcvm_DFT_args *a, int *axis, bool *known)
{
    int64_t given = -2;
    *known = true;
    if (a->axis != NULL)
        XCVM_TRY(read_scalar(error, a->axis, "axis", &given, known));
    if (*known) {
        XCVM_TRY(xcvm_resolve_axis(error, given, a->x->rank, axis));
        XCVM_CHECK(error, *axis != a->x->rank - 1, OUT_OF_RANGE, "axis %lld is that of real and imaginary parts",
                   (long long)given);
    }
    return XCVM_OK;
}

/* True for the transform from the first half of a spectrum to a real signal. */
static bool from_half(const xcvm_DFT_args *a) { return a->inverse && a->onesided; }

XCVM_SHAPE_RULE_OF(DFT)
{
    XCVM_TRY(check_parts(t, a->x, "x"));
    const int rank = a->x->rank;
    if (rank < 0) {
        xcvm_value_set_tensor(a->y, (xcvm_dtype)a->x->dtype, -1, NULL);
        return XCVM_OK;
    }
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, a->x->dims, sizeof dims);
    dims[rank - 1] = from_half(a) ? 1 : 2;
    int axis = 0;
    int64_t given = XCVM_ANY_DIM;
    bool axis_known, length_known = false;
    XCVM_TRY(dft_axis(t->error, a, &axis, &axis_known));
    if (a->dft_length != NULL)
        XCVM_TRY(read_scalar(t->error, a->dft_length, "dft_length", &given, &length_known));
    XCVM_CHECK(t->error, !length_known || given > 0, OUT_OF_RANGE, "dft_length is %lld", (long long)given);
    if (!axis_known) {
        for (int d = 0; d < rank - 1; d++)
            dims[d] = XCVM_ANY_DIM;
    } else {
        int64_t length = a->dft_length != NULL ? given : dims[axis];
        if (from_half(a) && a->dft_length == NULL && length >= 0)
            length = 2 * (length - 1);
        XCVM_CHECK(t->error, !from_half(a) || length != 0, OUT_OF_RANGE,
                   "half a spectrum of one point needs dft_length");
        dims[axis] = length < 0 ? XCVM_ANY_DIM : a->onesided && !a->inverse ? length / 2 + 1 : length;
    }
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->x->dtype, rank, dims);
    return XCVM_OK;
}

/* Fills in the second half with the conjugates of the first half. */
static void mirror(double *points, size_t length)
{
    points[1] = 0;
    if (length % 2 == 0)
        points[length + 1] = 0;
    for (size_t n = 1; n < length - n; n++) {
        points[2 * (length - n)] = points[2 * n];
        points[2 * (length - n) + 1] = -points[2 * n + 1];
    }
}

XCVM_KERNEL(DFT)
{
    int axis = 0;
    bool known;
    XCVM_TRY(dft_axis(k->error, a, &axis, &known));
    const size_t in = (size_t)a->x->dims[axis], parts = (size_t)a->x->dims[a->x->rank - 1];
    const size_t out = (size_t)a->y->dims[axis];
    size_t length = in, outer = 1, inner = 1;
    if (a->dft_length != NULL) {
        int64_t given;
        XCVM_TRY(xcvm_read_int(k->error, a->dft_length, "dft_length", &given));
        length = (size_t)given;
    } else if (from_half(a))
        length = out;
    for (int d = 0; d < axis; d++)
        outer *= (size_t)a->x->dims[d];
    for (int d = axis + 1; d < a->x->rank - 1; d++)
        inner *= (size_t)a->x->dims[d];
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    const size_t scratch = xcvm_fourier_scratch(length);
    XCVM_CHECK(k->error, scratch != 0, OUT_OF_MEMORY, "a transform of %zu points is too large", length);
    double *points = xcvm_kernel_scratch(k, (2 * length + scratch) * sizeof *points);
    if (points == NULL)
        return XCVM_OUT_OF_MEMORY;
    const double factor = a->inverse ? 1 / (double)length : 1;
    const size_t out_parts = from_half(a) ? 1 : 2;
    xcvm_fourier f;
    xcvm_poller poller = xcvm_poller_of(k);
    XCVM_TRY(xcvm_fourier_prepare(&poller, length, a->inverse != 0, points + 2 * length, &f));
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            const size_t given = in < length ? in : length;
            XCVM_TRY(xcvm_poll_after(&poller, length + out));
            load_points(a->x, (o * in * inner + i) * parts, inner * parts, parts, given, points);
            memset(points + 2 * given, 0, 2 * (length - given) * sizeof *points);
            if (from_half(a))
                mirror(points, length);
            XCVM_TRY(xcvm_fourier_run(&poller, &f, points));
            store_points(points, out, factor, a->y, (o * out * inner + i) * out_parts, inner * out_parts, out_parts);
        }
    return XCVM_OK;
}

/* Length of a frame: frame_length, else that of the window; -1 if unknown. */
static xcvm_status frame_size(xcvm_error *error, const xcvm_STFT_args *a, int64_t *length)
{
    XCVM_CHECK(error, a->frame_length != NULL || a->window != NULL, INVALID_ARGUMENT,
               "window or frame_length must be given");
    *length = XCVM_ANY_DIM;
    if (a->frame_length != NULL) {
        bool known;
        XCVM_TRY(read_scalar(error, a->frame_length, "frame_length", length, &known));
        if (!known)
            return XCVM_OK;
    } else if (a->window->rank == 1) {
        *length = a->window->dims[0];
        if (*length < 0)
            return XCVM_OK;
    }
    XCVM_CHECK(error, *length > 0 || (a->window != NULL && a->window->rank < 0), OUT_OF_RANGE,
               "a frame has %lld samples", (long long)*length);
    if (a->window != NULL && a->window->rank >= 0)
        XCVM_CHECK(error, a->window->rank == 1 && (a->window->dims[0] < 0 || a->window->dims[0] == *length),
                   SHAPE_MISMATCH, "window must be one row of %lld, as a frame is", (long long)*length);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(STFT)
{
    XCVM_TRY(check_parts(t, a->signal, "signal"));
    XCVM_CHECK(t->error, a->signal->rank < 0 || a->signal->rank == 3, SHAPE_MISMATCH,
               "signal has the wrong rank (%d; expected 3)", a->signal->rank);
    int64_t length, step = 0, dims[] = {XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_ANY_DIM, 2};
    bool step_known;
    XCVM_TRY(frame_size(t->error, a, &length));
    XCVM_TRY(read_scalar(t->error, a->frame_step, "frame_step", &step, &step_known));
    XCVM_CHECK(t->error, !step_known || step > 0, OUT_OF_RANGE, "frame_step is %lld", (long long)step);
    if (a->signal->rank == 3)
        dims[0] = a->signal->dims[0];
    if (length > 0)
        dims[2] = a->onesided ? length / 2 + 1 : length;
    if (length > 0 && a->signal->rank == 3 && a->signal->dims[1] >= 0 && step_known) {
        XCVM_CHECK(t->error, a->signal->dims[1] >= length, SHAPE_MISMATCH, "signal has %lld samples, a frame %lld",
                   (long long)a->signal->dims[1], (long long)length);
        dims[1] = (a->signal->dims[1] - length) / step + 1;
    }
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->signal->dtype, 4, dims);
    return XCVM_OK;
}

XCVM_KERNEL(STFT)
{
    int64_t frame, frame_step;
    XCVM_TRY(frame_size(k->error, a, &frame));
    XCVM_TRY(xcvm_read_int(k->error, a->frame_step, "frame_step", &frame_step));
    const size_t length = (size_t)frame, step = (size_t)frame_step;
    const size_t samples = (size_t)a->signal->dims[1], parts = (size_t)a->signal->dims[2];
    const size_t frames = (size_t)a->y->dims[1], bins = (size_t)a->y->dims[2];
    const size_t scratch = xcvm_fourier_scratch(length);
    XCVM_CHECK(k->error, scratch != 0, OUT_OF_MEMORY, "a transform of %zu points is too large", length);
    double *points = xcvm_kernel_scratch(k, (3 * length + scratch) * sizeof *points);
    if (points == NULL)
        return XCVM_OUT_OF_MEMORY;
    double *window = points + 2 * length;
    xcvm_fourier f;
    xcvm_poller poller = xcvm_poller_of(k);
    XCVM_TRY(xcvm_fourier_prepare(&poller, length, false, window + length, &f));
    for (size_t n = 0; n < length; n++)
        window[n] = a->window != NULL ? xcvm_element_as_double(a->window, n) : 1;
    for (size_t b = 0; b < (size_t)a->y->dims[0]; b++)
        for (size_t i = 0; i < frames; i++) {
            XCVM_TRY(xcvm_poll_after(&poller, 2 * length));
            load_points(a->signal, (b * samples + i * step) * parts, parts, parts, length, points);
            for (size_t n = 0; n < length; n++) {
                points[2 * n] *= window[n];
                points[2 * n + 1] *= window[n];
            }
            XCVM_TRY(xcvm_fourier_run(&poller, &f, points));
            store_points(points, bins, 1.0, a->y, (b * frames + i) * bins * 2, 2, 2);
        }
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(MelWeightMatrix)
{
    int64_t bands = 0, length = 0, dims[] = {XCVM_ANY_DIM, XCVM_ANY_DIM};
    bool bands_known, length_known;
    XCVM_TRY(read_scalar(t->error, a->num_mel_bins, "num_mel_bins", &bands, &bands_known));
    XCVM_TRY(read_scalar(t->error, a->dft_length, "dft_length", &length, &length_known));
    if (length_known) {
        XCVM_CHECK(t->error, length > 0 && length <= INT32_MAX, OUT_OF_RANGE, "dft_length is %lld", (long long)length);
        dims[0] = length / 2 + 1;
    }
    if (bands_known) {
        XCVM_CHECK(t->error, bands > 0 && bands <= INT32_MAX, OUT_OF_RANGE, "num_mel_bins is %lld", (long long)bands);
        dims[1] = bands;
    }
    xcvm_value_set_tensor(a->y, a->dtype, 2, dims);
    return XCVM_OK;
}

/* Spectrum bin of edge `i` of the triangles. */
static int64_t mel_edge(double low, double high, int64_t bands, int64_t i, int64_t length, double rate)
{
    const double step = (high - low) / (double)(bands + 2),
                 hertz = 700 * (pow(10, ((double)i * step + low) / 2595) - 1);
    return (int64_t)floor((double)(length + 1) * hertz / rate);
}

/* Writes `count` weights, `stride` elements apart from element `at`: multiples of 1 / count, evenly spaced from `first`
 * to `last`. */
static void write_slope(xcvm_value *y, size_t at, size_t stride, size_t count, size_t first, size_t last)
{
    enum { BLOCK = 64 };
    double weights[BLOCK];
    const double step = last > first ? 1 : -1;
    for (size_t done = 0, n; done < count; done += n) {
        n = xcvm_min(count - done, BLOCK);
        const double from = (double)first + step * (double)done, whole = (double)count;
        for (size_t i = 0; i < n; i++)
            weights[i] = (from + step * (double)(int32_t)i) / whole;
        for (size_t i = 0; i < n; i++, at += stride)
            if (y->dtype == XCVM_F32)
                XCVM_DATA(float, y)[at] = (float)weights[i];
            else
                xcvm_write_double(y, at, weights[i]);
    }
}

XCVM_KERNEL(MelWeightMatrix)
{
    int64_t bands, length;
    double rate, from, to;
    XCVM_TRY(xcvm_read_int(k->error, a->num_mel_bins, "num_mel_bins", &bands));
    XCVM_TRY(xcvm_read_int(k->error, a->dft_length, "dft_length", &length));
    XCVM_TRY(xcvm_read_double(k->error, a->sample_rate, "sample_rate", &rate));
    XCVM_TRY(xcvm_read_double(k->error, a->lower_edge_hertz, "lower_edge_hertz", &from));
    XCVM_TRY(xcvm_read_double(k->error, a->upper_edge_hertz, "upper_edge_hertz", &to));
    XCVM_CHECK(k->error, rate > 0 && from >= 0 && to >= from && to <= 1e9, OUT_OF_RANGE,
               "sample_rate must be positive, the edges not negative and in order");
    const double low = 2595 * log10(1 + from / 700), high = 2595 * log10(1 + to / 700);
    const int64_t bins = a->y->dims[0];
    XCVM_TRY(xcvm_kernel_fill(k, a->y->data, 0, a->y->bytes));
    xcvm_poller poller = xcvm_poller_of(k);
    int64_t edges[3] = {0};
    for (int64_t i = -2; i < bands; i++) {
        /* A band shares two edges with the preceding one. */
        edges[0] = edges[1];
        edges[1] = edges[2];
        edges[2] = mel_edge(low, high, bands, i + 2, length, rate);
        XCVM_CHECK(k->error, edges[2] >= 0 && edges[2] < bins, OUT_OF_RANGE,
                   "upper_edge_hertz is beyond the spectrum of sample_rate");
        if (i < 0)
            continue;
        XCVM_TRY(xcvm_poll_after(&poller, 16 + (size_t)(edges[2] - edges[0])));
        const size_t rise = (size_t)(edges[1] - edges[0]), fall = (size_t)(edges[2] - edges[1]);
        write_slope(a->y, (size_t)(edges[0] * bands + i), (size_t)bands, rise, 0, rise);
        write_slope(a->y, (size_t)(edges[1] * bands + i), (size_t)bands, fall, fall, 0);
        if (fall == 0)
            xcvm_write_double(a->y, (size_t)(edges[1] * bands + i), 1);
    }
    return XCVM_OK;
}
