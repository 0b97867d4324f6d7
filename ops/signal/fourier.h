/* Discrete Fourier transforms of complex f64, of any length. */
#ifndef XCVM_OPS_SIGNAL_FOURIER_H
#define XCVM_OPS_SIGNAL_FOURIER_H

#include "ops/util/kernel.h"

/* What transforms of n complex points in one direction have in common: roots of unity and, where n is no power of two,
 * the chirp and its spectrum. */
typedef struct xcvm_fourier {
    size_t n, m;         /* m: points of the transform by powers of two */
    const double *roots; /* m of them, real and imaginary parts side by side as everywhere */
    const double *chirp, *spectrum;
    double *work, *padded; /* m points each */
    bool inverse;
} xcvm_fourier;

/* Doubles of scratch that transforms of n points need, without the points; 0 if n is too large. */
size_t xcvm_fourier_scratch(size_t n);
/* Makes the tables in `scratch`, which belongs to the transforms then. Fails as xcvm_kernel_poll does. */
xcvm_status xcvm_fourier_prepare(xcvm_poller *poller, size_t n, bool inverse, double *scratch, xcvm_fourier *f);
/* The discrete Fourier transform of n points in place, without scaling: in steps of radix 4 that leave the results in
 * order (Stockham; Cochran et al. 1967) where n is a power of two, else Bluestein's chirp convolution (1970) by these.
 * Fails as xcvm_kernel_poll does. */
xcvm_status xcvm_fourier_run(xcvm_poller *poller, const xcvm_fourier *f, double *points);

#endif
