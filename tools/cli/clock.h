/* The clock for measurements. */
#ifndef XCVM_TOOLS_CLI_CLOCK_H
#define XCVM_TOOLS_CLI_CLOCK_H

#include <stdint.h>

/* Time of the monotonic clock in nanoseconds and in seconds. */
uint64_t now_ns(void);
double now_seconds(void);

#endif
