/* Lowering ONNX's operators: one node at a time, each by the function that the table of operators has for it. */
#ifndef XCVM_COMPILER_IMPORT_ONNX_LOWER_LOWER_H
#define XCVM_COMPILER_IMPORT_ONNX_LOWER_LOWER_H

#include "compiler/ir/compose.h"
#include "compiler/import_onnx/lower/attributes.h"
#include "compiler/import_onnx/lower/lowering.h"
#include "ops/table/table.h"

/* An integer list that was an attribute before opset `since` becomes operand i; absent, it stays absent. */
xcvm_status xcc_attribute_to_input(xcc_lowering *n, const char *name, size_t i, int64_t since);

/* ---- One-to-one ---- */

/* Fills the row's arguments from the node: attributes by name, defaults, operands and results by position. */
xcvm_status xcc_one_to_one_fill(xcc_lowering *n, const xcvm_schema *schema, void *args);
/* Emits them. */
xcvm_status xcc_one_to_one_emit(xcc_lowering *n, const xcvm_schema *schema, const void *args);
/* Both, for the instruction with this number. */
xcvm_status xcc_lower_as(xcc_lowering *n, xcvm_opcode opcode);
/* The same for the instruction of the operator's own name. */
xcvm_status xcc_lower_one_to_one(xcc_lowering *n);
/* XCC_ONE_TO_ONE_ARGS(n, Conv, args); declares the filled arguments, which may be changed before
 * XCC_EMIT_ONE_TO_ONE emits them. */
#define XCC_ONE_TO_ONE_ARGS(n, Name, args)                                                                             \
    xcvm_##Name##_args args;                                                                                           \
    XCVM_TRY(xcc_one_to_one_fill((n), xcvm_schema_of(XCVM_OP_##Name), &args))
#define XCC_EMIT_ONE_TO_ONE(n, Name, args) xcc_one_to_one_emit((n), xcvm_schema_of(XCVM_OP_##Name), &args)

/* ---- What lowerings need to know ---- */

/* Reads a tensor attribute; *given is false if it is absent. */
xcvm_status xcc_build_tensor(xcc_lowering *n, const char *name, xcc_tensor *t, bool *given);
/* axis as a number from 0 to rank - 1; fails if it is out of range. */
xcvm_status xcc_need_axis(xcc_lowering *n, int64_t axis, int rank, int64_t *resolved);
/* Fails with UNSUPPORTED unless the rank is known. */
xcvm_status xcc_need_rank(const xcc_lowering *n, const xcc_value *value, const char *what);

/* ---- Bodies (control.c) ---- */

/* Lowers a graph attribute into `body`: `arguments` are bound to its inputs, *outputs gets its outputs. */
xcvm_status xcc_lower_body(xcc_lowering *n, const Onnx__GraphProto *graph, xcc_graph *body, size_t count,
                           xcc_value *const *arguments, xcc_value ***outputs);

/* ---- The lowerings ---- */

#define LOWERED(domain, name, versions, function, becomes) xcvm_status function(xcc_lowering *n);
#include "compiler/import_onnx/lower/operators.def"

#endif
