/* Patterns of names, as of parameters that an option selects. */
#ifndef XCVM_BASE_PATTERN_H
#define XCVM_BASE_PATTERN_H

#include <stdbool.h>

/* True if `name` fits the pattern, in which '*' stands for any characters and '?' for one. */
bool xcvm_pattern_fits(const char *pattern, const char *name);

#endif
