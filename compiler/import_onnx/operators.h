/* The operators that there are lowerings for. */
#ifndef XCVM_COMPILER_IMPORT_ONNX_OPERATORS_H
#define XCVM_COMPILER_IMPORT_ONNX_OPERATORS_H

#include "compiler/import_onnx/lower/lowering.h"

/* An xcc_operator_finder for all of them. */
const xcc_operator_row *xcc_operator_find(const char *domain, const char *name);

#endif
