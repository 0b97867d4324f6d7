/* The clock by which the command measures. */
#include "cli/clock.h"

#include <time.h>

double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}
