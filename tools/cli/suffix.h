/* Suffixes of file names, which say a format. */
#ifndef XCVM_TOOLS_CLI_SUFFIX_H
#define XCVM_TOOLS_CLI_SUFFIX_H

#include <stdbool.h>

/* Whether a path ends in `suffix`, such as ".onnx", in any case, and has something before it. */
bool suffix_is(const char *path, const char *suffix);

/* The suffix of `path` if it belongs to a known format, and to none of `own`, suffixes that are separated by spaces.
 * Otherwise NULL. */
const char *suffix_of_another(const char *path, const char *own);

#endif
