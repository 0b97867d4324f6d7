/* One node of the model that is being lowered: filled in by the import, and read by the lowering of its operator. */
#ifndef XCVM_COMPILER_IMPORT_ONNX_LOWER_LOWERING_H
#define XCVM_COMPILER_IMPORT_ONNX_LOWER_LOWERING_H

#include "compiler/import_onnx/lower/importer.h"
#include "compiler/ir/builder.h"

typedef struct xcc_lowering xcc_lowering;
typedef xcvm_status (*xcc_lower)(xcc_lowering *n);

struct xcc_operator_row {
    xcc_operator_info info;
    xcc_lower lower;
};

/* One node of the model being lowered. Its results are bound, all that have a name, before the function returns. */
struct xcc_lowering {
    xcc_importer *importer;
    xcc_module *m;
    xcc_builder b;
    xcc_scope *scope;
    const xcc_operator_row *op;
    const Onnx__NodeProto *proto;
    int64_t version;    /* of the operator's opset */
    xcc_value **inputs; /* as the model has them, NULL where absent; a lowering may change them */
    size_t input_count, input_capacity;
    xcc_value **outputs; /* as bound so far */
    size_t output_count; /* up to the last that has a name */
    struct xcc_attribute *attributes;
    size_t attribute_count;
    xcc_table attribute_names; /* their indices, where there are many */
    bool is_unsupported;       /* a node of a body failed, which is reported already */
    bool inner;                /* as a part of another (xcc_lower_inner): results have no names */
    uint32_t first_id;         /* values with an id from here on were made by this lowering */
    uint32_t number;           /* of the lowering, from 1 on: the mark of values that are its results already */
};

/* ---- Operands and results ---- */

/* Status of the failure that a NULL indicates. */
xcvm_status xcc_failure(const xcc_lowering *n);

/* Operand i, NULL if absent. */
static inline xcc_value *xcc_input(const xcc_lowering *n, size_t i) { return i < n->input_count ? n->inputs[i] : NULL; }
static inline bool xcc_wants(const xcc_lowering *n, size_t i)
{
    return i < n->output_count && (n->inner || (i < n->proto->n_output && n->proto->output[i][0] != '\0'));
}
/* Fails with INVALID_MODEL unless the number of operands is in the range and the first `least` are present. */
xcvm_status xcc_need_inputs(const xcc_lowering *n, size_t least, size_t most);
xcvm_status xcc_set_input(xcc_lowering *n, size_t i, xcc_value *value);
/* A new value for result i under its name in the model; for the lowering to emit into. */
xcc_value *xcc_result(xcc_lowering *n, size_t i);
/* Makes `value` result i. If this lowering created it, it gets the result's name. NULL: returns the status of the
 * failure. */
xcvm_status xcc_bind(xcc_lowering *n, size_t i, xcc_value *value);
/* Lowers another operator, as of an opset of its domain, with the node's attributes and these operands (NULL: left out;
 * one that a failure left NULL fails). outputs[0] ... outputs[output_count - 1] are its results. */
xcvm_status xcc_lower_inner(xcc_lowering *n, const char *domain, const char *name, int64_t version, size_t input_count,
                            xcc_value *const *inputs, size_t output_count, xcc_value **outputs);

#endif
