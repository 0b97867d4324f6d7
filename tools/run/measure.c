/* Statistics of measured times, and the peak of resident memory. */
#include "run/measure.h"

#include <string.h>

int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double percentile(const double *sorted, size_t count, double fraction)
{
    double place = fraction * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

double peak_rss_megabytes(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long long kilobytes = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmHWM: %llu", &kilobytes) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return (double)kilobytes / 1024;
}

void measure_row(struct table *table, const char *name, double seconds)
{
    table_cell(table, "  %s", name);
    table_cell(table, ">%.4f ms", seconds * 1e3);
    table_end_row(table);
}
