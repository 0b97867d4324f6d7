/* Attributes of a node that is being lowered, by name. An attribute that no lowering reads is an error, so none is
 * ignored silently. */
#ifndef XCVM_COMPILER_IMPORT_ONNX_LOWER_ATTRIBUTES_H
#define XCVM_COMPILER_IMPORT_ONNX_LOWER_ATTRIBUTES_H

#include "compiler/onnx_model/onnx_model.h"
#include "ops/op.h"

struct xcc_lowering;

typedef struct xcc_attribute {
    const char *name;
    const Onnx__AttributeProto *proto; /* of a function's caller, where it refers to one of those */
    bool used;
} xcc_attribute;

/* Fills n->attributes: those of the node, references to attributes of the function call resolved. */
xcvm_status xcc_attributes_resolve(struct xcc_lowering *n);
/* Fails if an attribute was never read. */
xcvm_status xcc_attributes_check(const struct xcc_lowering *n);

/* NULL if absent; counts as read. */
const Onnx__AttributeProto *xcc_attribute_find(struct xcc_lowering *n, const char *name);
/* The attribute is known and says nothing that matters. */
void xcc_attribute_ignore(struct xcc_lowering *n, const char *name);

/* Each returns `fallback` (an empty list, NULL) if the attribute is absent, and fails if it has another type. */
xcvm_status xcc_attribute_int(struct xcc_lowering *n, const char *name, int64_t fallback, int64_t *value);
xcvm_status xcc_attribute_bool(struct xcc_lowering *n, const char *name, bool fallback, bool *value);
xcvm_status xcc_attribute_float(struct xcc_lowering *n, const char *name, double fallback, double *value);
xcvm_status xcc_attribute_text(struct xcc_lowering *n, const char *name, const char *fallback, xcvm_text *value);
xcvm_status xcc_attribute_ints(struct xcc_lowering *n, const char *name, xcvm_ints *value);
xcvm_status xcc_attribute_floats(struct xcc_lowering *n, const char *name, xcvm_floats *value);
xcvm_status xcc_attribute_texts(struct xcc_lowering *n, const char *name, xcvm_texts *value);
xcvm_status xcc_attribute_dtype(struct xcc_lowering *n, const char *name, xcvm_dtype fallback, xcvm_dtype *value);
xcvm_status xcc_attribute_graph(struct xcc_lowering *n, const char *name, const Onnx__GraphProto **value);
xcvm_status xcc_attribute_tensor(struct xcc_lowering *n, const char *name, const Onnx__TensorProto **value);

static inline bool xcc_text_is(xcvm_text text, const char *what)
{
    return text.length == strlen(what) && memcmp(text.at, what, text.length) == 0;
}

#endif
