/* Fourier transforms, in f64 like the VM's. */
#ifndef XC_SIGNAL_H
#define XC_SIGNAL_H

#include "compiler/export_c/c_runtime/numbers.h"
#include "compiler/export_c/c_runtime/workspace.h"

/* Transforms n complex points of x, `step` points apart, to y. The table has the roots of unity of the whole transform,
 * of which every `every`-th is used. Even and odd points are transformed separately while n is even. */
static void xc_fourier(const double *x, size_t step, double *y, size_t n, const double *roots, size_t every)
{
    if (n % 2 == 0) {
        const size_t half = n / 2;
        xc_fourier(x, 2 * step, y, half, roots, 2 * every);
        xc_fourier(x + 2 * step, 2 * step, y + n, half, roots, 2 * every);
        for (size_t k = 0; k < half; k++) {
            const double c = roots[2 * k * every], s = roots[2 * k * every + 1];
            double *const u = y + 2 * k, *const v = u + n;
            const double re = v[0] * c - v[1] * s, im = v[0] * s + v[1] * c;
            v[0] = u[0] - re;
            v[1] = u[1] - im;
            u[0] += re;
            u[1] += im;
        }
        return;
    }
    for (size_t k = 0; k < n; k++) {
        double re = 0, im = 0;
        for (size_t i = 0; i < n; i++) {
            const double *const root = roots + 2 * (k * i % n) * every, *const at = x + 2 * i * step;
            re += at[0] * root[0] - at[1] * root[1];
            im += at[0] * root[1] + at[1] * root[0];
        }
        y[2 * k] = re;
        y[2 * k + 1] = im;
    }
}

/* The input has `count` points of the `length`, with one or two parts, `step` elements apart. The others are zero or,
 * for half a spectrum, the conjugates. The output has `bins` points. */
typedef struct xc_transform {
    size_t length, count, parts, step, bins, out_parts, out_step;
    int from_half;
    double factor;
    const double *roots;
} xc_transform;

/* `window`, unless NULL, is multiplied by. */
static void xc_transform_value(const xc_transform *t, const value_t *x, const value_t *window, value_t *y,
                               double *workspace)
{
    double *const to = workspace + xc_transform_workspace_of(t->length).result;
    for (size_t i = 0; i < t->length; i++) {
        const int given = i < t->count;
        const double by = window != NULL ? (double)window[i] : 1;
        workspace[2 * i] = given ? (double)x[i * t->step] * by : 0;
        workspace[2 * i + 1] = given && t->parts == 2 ? (double)x[i * t->step + 1] * by : 0;
    }
    if (t->from_half) {
        workspace[1] = 0;
        if (t->length % 2 == 0)
            workspace[t->length + 1] = 0;
        for (size_t n = 1; n < t->length - n; n++) {
            workspace[2 * (t->length - n)] = workspace[2 * n];
            workspace[2 * (t->length - n) + 1] = -workspace[2 * n + 1];
        }
    }
    xc_fourier(workspace, 1, to, t->length, t->roots, 1);
    for (size_t i = 0; i < t->bins; i++)
        for (size_t c = 0; c < t->out_parts; c++)
            y[i * t->out_step + c] = (value_t)(to[2 * i + c] * t->factor);
}

#endif
