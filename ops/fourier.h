#ifndef XCVM_OPS_FOURIER_H
#define XCVM_OPS_FOURIER_H

#include "ops/kernel.h"

/* Doubles of scratch that a transform of n points needs; 0 if n is too large. */
size_t xcvm_fourier_scratch(size_t n);
/* The discrete Fourier transform of n complex points in place (real and imaginary parts side by side), without scaling:
 * radix 2 (Cooley and Tukey 1965) where n is a power of two, else Bluestein's chirp convolution (1970) on top of it.
 * Fails as xcvm_kernel_poll does. */
xcvm_status xcvm_fourier(xcvm_poller *poller, double *points, size_t n, bool inverse, double *scratch);

#endif
