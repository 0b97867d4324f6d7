/* Statistics of times, and the peak of memory. */
#ifndef XCVM_TOOLS_RUN_MEASURE_H
#define XCVM_TOOLS_RUN_MEASURE_H

#include "cli/table.h"

/* For qsort. */
int compare_doubles(const void *a, const void *b);
/* The percentile of `count` > 0 sorted values, by linear interpolation. The fraction is from 0 to 1. */
double percentile(const double *sorted, size_t count, double fraction);
/* The peak of resident memory (VmHWM) in units of 2^20 bytes; 0 if unknown. */
double peak_rss_megabytes(void);
/* A row of a table with a name and milliseconds. */
void measure_row(struct table *table, const char *name, double seconds);

#endif
