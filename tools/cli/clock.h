/* The clock by which the command measures. */
#ifndef XCVM_TOOLS_CLI_CLOCK_H
#define XCVM_TOOLS_CLI_CLOCK_H

/* Seconds of the monotonic clock. */
double now_seconds(void);

#endif
