/* What this machine reaches at most, for the roofline. */
#ifndef XCVM_TOOLS_PROFILE_PEAKS_H
#define XCVM_TOOLS_PROFILE_PEAKS_H

#include <xcvm/xcvm.h>

struct peaks {
    double gflops;      /* f32 operations, 10^9 a second; 0: not measured */
    double gigabytes;   /* read and written, 10^9 a second; 0: not measured */
    char processor[96]; /* "" if the system does not tell */
};

/* Measures a product of two matrices and the negation of a large array, with the kernels and threads of a session.
 * Takes about 0.2 seconds. `isa` and `threads` are those of xcvm_load_options and xcvm_session_options. A figure that
 * cannot be measured, for example for want of memory, stays 0. */
void peaks_measure(const char *isa, int threads, struct peaks *peaks);

#endif
