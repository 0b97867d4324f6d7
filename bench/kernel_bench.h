/* Timing of single kernels, compared with the peak of the processor. */
#ifndef XCVM_BENCH_KERNEL_BENCH_H
#define XCVM_BENCH_KERNEL_BENCH_H

#include "ops/util/kernel.h"

/* A tensor of f32 with made-up elements; the same for every run. Exits if there is no memory. */
typedef struct bench_tensor {
    xcvm_value value;
    size_t bytes;
} bench_tensor;
void bench_tensor_make(bench_tensor *t, int rank, const int64_t *dims);
void bench_tensor_free(bench_tensor *t);

/* The instruction set of the kernels that are timed: $XCVM_BENCH_ISA, else the best one of this processor. */
const char *bench_isa(void);

/* Best time of a kernel in seconds, over at least `seconds`, with that many threads. Exits with a message if it fails.
 */
double bench_kernel(xcvm_opcode opcode, const void *args, int threads, double seconds);

/* Floating-point operations a second that one core reaches on multiply-adds of that instruction set that need no
 * memory, by measurement. */
double bench_peak(void);

/* Bytes a second that one core reads from memory at best, measured for `seconds`. Exits if there is no memory. */
double bench_read_rate(double seconds);

#endif
