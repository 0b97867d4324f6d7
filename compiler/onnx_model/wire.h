/* The wire format of a model: reading its fields, with errors in the words of the import. */
#ifndef XCVM_COMPILER_ONNX_MODEL_WIRE_H
#define XCVM_COMPILER_ONNX_MODEL_WIRE_H

#include "proto/wire_reader.h"

/* Reads the next field. At the end *more becomes false. INVALID_MODEL if the bytes are no field or break off. */
xcvm_status xcc_wire_next(xcvm_wire *wire, xcvm_wire_field *field, bool *more, xcvm_error *error);

/* Numbers of a TensorProto's fields. */
enum {
    XCC_TENSOR_DIMS = 1,
    XCC_TENSOR_DATA_TYPE = 2,
    XCC_TENSOR_STRING_DATA = 6,
    XCC_TENSOR_NAME = 8,
    XCC_TENSOR_RAW_DATA = 9
};

/* Numbers of fields of models, graphs, nodes and value infos. */
enum {
    XCC_MODEL_GRAPH = 7,
    XCC_MODEL_OPSET = 8,
    XCC_MODEL_METADATA = 14,
    XCC_MODEL_FUNCTION = 25,
    XCC_GRAPH_NODE = 1,
    XCC_GRAPH_INITIALIZER = 5,
    XCC_GRAPH_INPUT = 11,
    XCC_GRAPH_OUTPUT = 12,
    XCC_GRAPH_VALUE_INFO = 13,
    XCC_NODE_INPUT = 1,
    XCC_NODE_OUTPUT = 2,
    XCC_NODE_OP_TYPE = 4,
    XCC_NODE_ATTRIBUTE = 5,
    XCC_NODE_DOMAIN = 7,
    XCC_INFO_NAME = 1
};

/* The last field of bytes with that number, which counts in protobuf; no bytes if there is none. */
xcvm_status xcc_wire_find(xcvm_wire message, uint32_t number, xcvm_wire *found, xcvm_error *error);
/* Returns true if the bytes are this text. */
bool xcc_wire_is(const xcvm_wire *wire, const char *text);
/* Reads an attribute of a node: *number is its integer if it has this name, otherwise it stays. *named says whether it
 * has. */
xcvm_status xcc_wire_int_attribute(xcvm_wire attribute, const char *name, bool *named, int64_t *number,
                                   xcvm_error *error);

#endif
