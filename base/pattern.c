/* Patterns of names. */
#include "base/pattern.h"

#include <stddef.h>

/* After a mismatch, the last star matches one more character and the rest is tried again. So the time is at most the
 * product of the lengths. */
bool xcvm_pattern_fits(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL;
    while (*name != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            from = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}
