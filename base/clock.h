/* The monotonic clock, for deadlines, traces and measurements. */
#ifndef XCVM_BASE_CLOCK_H
#define XCVM_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of the monotonic clock. */
uint64_t xcvm_clock_ns(void);

#endif
