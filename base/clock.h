/* The monotonic clock, for deadlines, traces and measurements. */
#ifndef XCVM_BASE_CLOCK_H
#define XCVM_BASE_CLOCK_H

#include <stdint.h>

/* Returns the time in nanoseconds. */
uint64_t xcvm_clock_ns(void);

/* Returns the deadline `timeout_ns` from now; 0 (none) for 0. */
static inline uint64_t xcvm_clock_deadline(uint64_t timeout_ns)
{
    uint64_t deadline_ns;
    if (timeout_ns == 0)
        return 0;
    return __builtin_add_overflow(xcvm_clock_ns(), timeout_ns, &deadline_ns) ? UINT64_MAX : deadline_ns;
}

#endif
