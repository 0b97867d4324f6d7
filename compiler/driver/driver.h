/* Compiling a graph that was built, not imported. */
#ifndef XCVM_COMPILER_DRIVER_DRIVER_H
#define XCVM_COMPILER_DRIVER_DRIVER_H

#include "compiler/ir/graph.h"

/* Runs passes, memory plan and emission on the module, whose graph is not usable afterwards. Otherwise like
 * xcc_compile. `options` may be NULL and must not name a loss. */
xcvm_status xcc_compile_graph(xcc_module *m, const xcc_options *options, xcvm_sink sink, xcc_report *report,
                              xcvm_error *error);

#endif
