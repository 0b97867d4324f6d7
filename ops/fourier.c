#include "ops/fourier.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

static size_t power_of_two(size_t least)
{
    size_t n = 1;
    while (n < least)
        n *= 2;
    return n;
}

size_t xcvm_fourier_scratch(size_t n)
{
    if (n > SIZE_MAX / 256)
        return 0;
    return (n & (n - 1)) == 0 ? 1 : 6 * power_of_two(2 * n);
}

static xcvm_status radix2(xcvm_poller *poller, double *x, size_t n, double sign)
{
    for (size_t i = 1, j = 0; i < n; i++) {
        size_t bit = n / 2;
        XCVM_TRY(xcvm_poll_after(poller, 1));
        for (; j & bit; bit /= 2)
            j ^= bit;
        j |= bit;
        if (i < j)
            for (size_t c = 0; c < 2; c++) {
                const double swap = x[2 * i + c];
                x[2 * i + c] = x[2 * j + c];
                x[2 * j + c] = swap;
            }
    }
    for (size_t half = 1; half < n; half *= 2)
        for (size_t k = 0; k < half; k++) {
            /* Each root by itself: a product of roots would lose digits. */
            const double angle = sign * PI * (double)k / (double)half, wr = cos(angle), wi = sin(angle);
            XCVM_TRY(xcvm_poll_after(poller, 4 + n / half));
            for (size_t i = k; i < n; i += 2 * half) {
                double *a = x + 2 * i, *b = a + 2 * half;
                const double re = b[0] * wr - b[1] * wi, im = b[0] * wi + b[1] * wr;
                b[0] = a[0] - re;
                b[1] = a[1] - im;
                a[0] += re;
                a[1] += im;
            }
        }
    return XCVM_OK;
}

static xcvm_status bluestein(xcvm_poller *poller, double *x, size_t n, double sign, double *scratch)
{
    const size_t m = power_of_two(2 * n);
    double *a = scratch, *b = a + 2 * m, *chirp = b + 2 * m;
    for (size_t i = 0; i < n; i++) {
        XCVM_TRY(xcvm_poll_after(poller, 4));
        /* i squared modulo 2n keeps the angle small and exact. */
        const double angle = sign * PI * (double)((uint64_t)i * i % (2 * n)) / (double)n;
        chirp[2 * i] = cos(angle);
        chirp[2 * i + 1] = sin(angle);
    }
    memset(a, 0, 4 * m * sizeof *a);
    for (size_t i = 0; i < n; i++) {
        const double re = chirp[2 * i], im = chirp[2 * i + 1];
        a[2 * i] = x[2 * i] * re - x[2 * i + 1] * im;
        a[2 * i + 1] = x[2 * i] * im + x[2 * i + 1] * re;
        b[2 * i] = re;
        b[2 * i + 1] = -im;
        if (i > 0) {
            b[2 * (m - i)] = re;
            b[2 * (m - i) + 1] = -im;
        }
    }
    XCVM_TRY(radix2(poller, a, m, -1));
    XCVM_TRY(radix2(poller, b, m, -1));
    for (size_t i = 0; i < m; i++) {
        const double re = a[2 * i] * b[2 * i] - a[2 * i + 1] * b[2 * i + 1];
        a[2 * i + 1] = a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i];
        a[2 * i] = re;
    }
    XCVM_TRY(radix2(poller, a, m, 1));
    for (size_t i = 0; i < n; i++) {
        const double re = a[2 * i] / (double)m, im = a[2 * i + 1] / (double)m;
        x[2 * i] = re * chirp[2 * i] - im * chirp[2 * i + 1];
        x[2 * i + 1] = re * chirp[2 * i + 1] + im * chirp[2 * i];
    }
    return xcvm_poll_after(poller, m);
}

xcvm_status xcvm_fourier(xcvm_poller *poller, double *points, size_t n, bool inverse, double *scratch)
{
    const double sign = inverse ? 1 : -1;
    if (n == 0)
        return XCVM_OK;
    if ((n & (n - 1)) == 0)
        return radix2(poller, points, n, sign);
    return bluestein(poller, points, n, sign, scratch);
}
