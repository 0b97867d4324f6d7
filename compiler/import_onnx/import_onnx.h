/* Import of ONNX models. */
#ifndef XCVM_COMPILER_IMPORT_ONNX_IMPORT_ONNX_H
#define XCVM_COMPILER_IMPORT_ONNX_IMPORT_ONNX_H

#include "compiler/ir/graph.h"

/* Parses an ONNX ModelProto and lowers it, node by node, to a module of instructions (import.c; one file of lowerings
 * per family). External data is opened below the directory `dir`; NULL refuses it. Collects all unsupported nodes
 * before it fails. The message has one per line, as far as there is space; `report` (may be NULL) receives all. */
xcvm_status xcc_import(xcc_module *m, const void *model, size_t count, const char *dir, xcvm_sink report);

/* Returns the operator of that name in a domain, "" for ONNX's own; NULL if there is none. */
const xcc_operator_info *xcc_operator_info_find(const char *domain, const char *name);

#endif
