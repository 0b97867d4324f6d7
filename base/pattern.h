/* Patterns of names, as of parameters that an option selects. */
#ifndef XCVM_BASE_PATTERN_H
#define XCVM_BASE_PATTERN_H

#include <stdbool.h>

/* Returns true if `name` matches the pattern: '*' matches any characters, and '?' matches one. */
bool xcvm_pattern_fits(const char *pattern, const char *name);

#endif
