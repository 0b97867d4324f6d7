/* Import of ONNX models. */
#ifndef XCVM_COMPILER_IMPORT_ONNX_IMPORT_ONNX_H
#define XCVM_COMPILER_IMPORT_ONNX_IMPORT_ONNX_H

#include "compiler/ir/graph.h"

/* Parses an ONNX ModelProto and lowers it, node by node, to a module of instructions (import.c; one file of lowerings
 * for each family). `dir` is the folder beneath which external data is opened; NULL refuses it. Unsupported nodes are
 * all collected before it fails, one per line in the message as far as it reaches; `report` (may be NULL) gets all of
 * them.
 */
xcvm_status xcc_import(xcc_module *m, const void *model, size_t count, const char *dir, xcvm_sink report);

/* The operator that a domain, "" for ONNX's own, has under that name; NULL if there is none. */
const xcc_operator_info *xcc_operator_info_find(const char *domain, const char *name);

#endif
