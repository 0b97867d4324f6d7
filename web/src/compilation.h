/* Options of a compilation, set by name. */
#ifndef XCVM_WEB_SRC_COMPILATION_H
#define XCVM_WEB_SRC_COMPILATION_H

#include "xcvm/compiler.h"

enum { WEB_MOST_NAMES = 64 };

/* The options of a compilation. Strings are copies. */
typedef struct web_compilation {
    xcc_options options;
    xcc_dim dims[WEB_MOST_NAMES];
    const char *patterns[WEB_MOST_NAMES], *wrt[WEB_MOST_NAMES], *default_inputs[WEB_MOST_NAMES];
    char *owned[8 * WEB_MOST_NAMES];
    size_t owned_count;
} web_compilation;

/* Returns NULL if there is no memory. */
web_compilation *web_compilation_new(xcc_diagnostics diagnostics);
/* Sets an option by name. Returns 0 if the name is unknown, the value is out of range or there is no memory. */
int web_compilation_set(web_compilation *c, const char *name, const char *text, double number);
void web_compilation_destroy(web_compilation *c);

#endif
