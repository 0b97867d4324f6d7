/* The clock by which the command measures. */
#ifndef XCVM_TOOLS_CLI_CLOCK_H
#define XCVM_TOOLS_CLI_CLOCK_H

#include <stdint.h>

/* Nanoseconds, and seconds, of the monotonic clock. */
uint64_t now_ns(void);
double now_seconds(void);

#endif
