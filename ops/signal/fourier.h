/* Discrete Fourier transforms of complex f64, of any length. */
#ifndef XCVM_OPS_SIGNAL_FOURIER_H
#define XCVM_OPS_SIGNAL_FOURIER_H

#include "ops/util/kernel.h"

/* Tables shared by transforms of n complex points in one direction: roots of unity and, if n is not a power of two, the
 * chirp and its spectrum. */
typedef struct xcvm_fourier {
    size_t n, m;         /* m: points of the power-of-two transform */
    const double *roots; /* m roots; complex numbers are interleaved real and imaginary parts */
    const double *chirp, *spectrum;
    double *work, *padded; /* m points each */
    bool inverse;
} xcvm_fourier;

/* Returns the doubles of scratch that transforms of n points need besides the points; 0 if n is too large. */
size_t xcvm_fourier_scratch(size_t n);
/* Makes the tables in `scratch`, which must stay unchanged until the last transform. Fails as xcvm_kernel_poll does. */
xcvm_status xcvm_fourier_prepare(xcvm_poller *poller, size_t n, bool inverse, double *scratch, xcvm_fourier *f);
/* Computes the unscaled discrete Fourier transform of n points in place. If n is a power of two, uses self-sorting
 * radix-4 steps (Stockham; Cochran et al. 1967), else Bluestein's chirp convolution (1970) with these. Fails as
 * xcvm_kernel_poll does. */
xcvm_status xcvm_fourier_run(xcvm_poller *poller, const xcvm_fourier *f, double *points);

#endif
