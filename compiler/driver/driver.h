/* Compiling a graph that was built, not imported. */
#ifndef XCVM_COMPILER_DRIVER_DRIVER_H
#define XCVM_COMPILER_DRIVER_DRIVER_H

#include "compiler/ir/graph.h"

/* Runs passes, plan and emission over the module, whose graph is no more what it was afterwards. As xcc_compile
 * otherwise; `options` may be NULL, and name no loss. */
xcvm_status xcc_compile_graph(xcc_module *m, const xcc_options *options, xcvm_sink sink, xcc_report *report,
                              xcvm_error *error);

#endif
