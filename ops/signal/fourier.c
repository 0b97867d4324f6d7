/* Fourier transforms of any length: powers of two directly, others with Bluestein's algorithm. */
#include "ops/signal/fourier.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

static size_t power_of_two(size_t least)
{
    size_t n = 1;
    while (n < least)
        n *= 2;
    return n;
}

static bool is_power_of_two(size_t n) { return (n & (n - 1)) == 0; }

size_t xcvm_fourier_scratch(size_t n)
{
    if (n > SIZE_MAX / 512)
        return 0;
    const size_t m = is_power_of_two(n) ? n : power_of_two(2 * n);
    return is_power_of_two(n) ? 4 * m + 2 : 8 * m + 2 * n;
}

/* roots[i] = exp(sign 2 pi i / m). Each is computed separately, because products of roots lose precision. */
static xcvm_status make_roots(xcvm_poller *poller, size_t m, double sign, double *roots)
{
    const size_t quarter = m / 4;
    for (size_t i = 0; i < m; i++) {
        XCVM_TRY(xcvm_poll_after(poller, 4));
        if (quarter == 0 || i < quarter) {
            const double angle = sign * 2 * PI * (double)i / (double)m;
            roots[2 * i] = cos(angle);
            roots[2 * i + 1] = sin(angle);
        } else {
            /* Rotates by a quarter turn. */
            const double *before = roots + 2 * (i - quarter);
            roots[2 * i] = -sign * before[1];
            roots[2 * i + 1] = sign * before[0];
        }
    }
    return XCVM_OK;
}

/* One radix-4 step (Stockham) from x to y for the remaining `length` points, with `stride` interleaved transforms. */
static xcvm_status step4(xcvm_poller *poller, const double *roots, double sign, size_t length, size_t stride,
                         const double *x, double *y)
{
    const size_t quarter = length / 4, apart = 2 * stride * quarter;
    for (size_t p = 0; p < quarter; p++) {
        XCVM_TRY(xcvm_poll_after(poller, stride));
        const double *w1 = roots + 2 * p * stride, *w2 = roots + 4 * p * stride, *w3 = roots + 6 * p * stride;
        const double r1 = w1[0], i1 = w1[1], r2 = w2[0], i2 = w2[1], r3 = w3[0], i3 = w3[1];
        const double *a = x + 2 * stride * p, *b = a + apart, *c = b + apart, *d = c + apart;
        double *to0 = y + 8 * stride * p, *to1 = to0 + 2 * stride, *to2 = to1 + 2 * stride, *to3 = to2 + 2 * stride;
        for (size_t q = 0; q < 2 * stride; q += 2) {
            const double sum_r = a[q] + c[q], sum_i = a[q + 1] + c[q + 1];
            const double rest_r = a[q] - c[q], rest_i = a[q + 1] - c[q + 1];
            const double other_r = b[q] + d[q], other_i = b[q + 1] + d[q + 1];
            /* b - d rotated by a quarter turn. */
            const double turned_r = -sign * (b[q + 1] - d[q + 1]), turned_i = sign * (b[q] - d[q]);
            const double u1 = rest_r + turned_r, v1 = rest_i + turned_i, u2 = sum_r - other_r, v2 = sum_i - other_i;
            const double u3 = rest_r - turned_r, v3 = rest_i - turned_i;
            to0[q] = sum_r + other_r;
            to0[q + 1] = sum_i + other_i;
            to1[q] = u1 * r1 - v1 * i1;
            to1[q + 1] = u1 * i1 + v1 * r1;
            to2[q] = u2 * r2 - v2 * i2;
            to2[q + 1] = u2 * i2 + v2 * r2;
            to3[q] = u3 * r3 - v3 * i3;
            to3[q + 1] = u3 * i3 + v3 * r3;
        }
    }
    return XCVM_OK;
}

static void step2(size_t stride, const double *x, double *y)
{
    for (size_t q = 0; q < 2 * stride; q++) {
        const double a = x[q], b = x[q + 2 * stride];
        y[q] = a + b;
        y[q + 2 * stride] = a - b;
    }
}

/* Transforms m points in place, with the buffer `work`. */
static xcvm_status transform(xcvm_poller *poller, const double *roots, double sign, size_t m, double *points,
                             double *work)
{
    double *from = points, *to = work;
    size_t length = m;
    for (size_t stride = 1; length > 1; stride *= 4, length /= 4) {
        if (length == 2) {
            XCVM_TRY(xcvm_poll_after(poller, stride));
            step2(stride, from, to);
            length = 4;
        } else {
            XCVM_TRY(step4(poller, roots, sign, length, stride, from, to));
        }
        double *swap = from;
        from = to;
        to = swap;
    }
    if (from != points)
        memcpy(points, from, 2 * m * sizeof *points);
    return XCVM_OK;
}

xcvm_status xcvm_fourier_prepare(xcvm_poller *poller, size_t n, bool inverse, double *scratch, xcvm_fourier *f)
{
    const double sign = inverse ? 1 : -1;
    *f = (xcvm_fourier){.n = n, .m = n, .inverse = inverse};
    if (!is_power_of_two(n))
        f->m = power_of_two(2 * n);
    const size_t m = f->m;
    double *roots = scratch;
    f->roots = roots;
    f->work = roots + 2 * m;
    if (is_power_of_two(n))
        return make_roots(poller, m, sign, roots);

    /* The inverse transform of the convolution uses conjugates, and so the same roots. */
    XCVM_TRY(make_roots(poller, m, -1, roots));
    double *chirp = f->work + 2 * m, *spectrum = chirp + 2 * n;
    f->padded = spectrum + 2 * m;
    f->chirp = chirp;
    f->spectrum = spectrum;
    memset(spectrum, 0, 2 * m * sizeof *spectrum);
    for (size_t i = 0; i < n; i++) {
        XCVM_TRY(xcvm_poll_after(poller, 4));
        /* i squared modulo 2n keeps the angle small and exact. */
        const double angle = sign * PI * (double)((uint64_t)i * i % (2 * n)) / (double)n;
        chirp[2 * i] = cos(angle);
        chirp[2 * i + 1] = sin(angle);
        const size_t mirrored = i > 0 ? m - i : 0;
        spectrum[2 * i] = spectrum[2 * mirrored] = chirp[2 * i];
        spectrum[2 * i + 1] = spectrum[2 * mirrored + 1] = -chirp[2 * i + 1];
    }
    return transform(poller, roots, -1, m, spectrum, f->work);
}

static xcvm_status bluestein(xcvm_poller *poller, const xcvm_fourier *f, double *x)
{
    const size_t n = f->n, m = f->m;
    const double *chirp = f->chirp, *b = f->spectrum;
    double *a = f->padded;
    for (size_t i = 0; i < n; i++) {
        const double re = chirp[2 * i], im = chirp[2 * i + 1];
        a[2 * i] = x[2 * i] * re - x[2 * i + 1] * im;
        a[2 * i + 1] = x[2 * i] * im + x[2 * i + 1] * re;
    }
    memset(a + 2 * n, 0, 2 * (m - n) * sizeof *a);
    XCVM_TRY(transform(poller, f->roots, -1, m, a, f->work));
    XCVM_TRY(xcvm_poll_after(poller, m));
    /* The inverse transform is the conjugate of the transform of the conjugates. */
    for (size_t i = 0; i < m; i++) {
        const double re = a[2 * i] * b[2 * i] - a[2 * i + 1] * b[2 * i + 1];
        a[2 * i + 1] = -(a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i]);
        a[2 * i] = re;
    }
    XCVM_TRY(transform(poller, f->roots, -1, m, a, f->work));
    const double scale = 1 / (double)m; /* a power of two */
    for (size_t i = 0; i < n; i++) {
        const double re = a[2 * i] * scale, im = -a[2 * i + 1] * scale;
        x[2 * i] = re * chirp[2 * i] - im * chirp[2 * i + 1];
        x[2 * i + 1] = re * chirp[2 * i + 1] + im * chirp[2 * i];
    }
    return xcvm_poll_after(poller, m);
}

xcvm_status xcvm_fourier_run(xcvm_poller *poller, const xcvm_fourier *f, double *points)
{
    return f->chirp != NULL ? bluestein(poller, f, points)
                            : transform(poller, f->roots, f->inverse ? 1 : -1, f->n, points, f->work);
}
