/* ONNX's TensorProto as tensors: dims, element types and elements in all their encodings. */
#ifndef XCVM_COMPILER_ONNX_MODEL_TENSOR_PROTO_H
#define XCVM_COMPILER_ONNX_MODEL_TENSOR_PROTO_H

#include "compiler/onnx_model/external_data.h"

/* A tensor that was read. `data` has the layout of xcvm_value.data and is lent by the message, by a mapped file, or by
 * the arena; it is never NULL. */
typedef struct xcc_tensor {
    xcvm_dtype dtype;
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    size_t count, bytes;
    const void *data;
} xcc_tensor;

/* Reads `proto`. Converted elements are allocated in `arena`. If `files` is NULL, external data is refused. Messages
 * describe the problem but do not name the tensor. */
xcvm_status xcc_tensor_read(const Onnx__TensorProto *proto, xcvm_arena *arena, xcc_external_files *files,
                            xcc_tensor *tensor, xcvm_error *error);
/* Reads a sparse tensor as a dense one; of at most `most` bytes, as its size has nothing to do with that of the model.
 */
xcvm_status xcc_sparse_tensor_read(const Onnx__SparseTensorProto *proto, xcvm_arena *arena, xcc_external_files *files,
                                   size_t most, xcc_tensor *tensor, xcvm_error *error);
/* Element type of ONNX's number; fails with the number if there is no such type. */
xcvm_status xcc_dtype_read(int64_t number, xcvm_dtype *dtype, xcvm_error *error);

/* Types of the model. Dimensions are numbers, symbols, or fixed by the options; rank -1: not declared. */
xcvm_status xcc_type_read(xcc_module *m, const Onnx__TypeProto *type, xcvm_value *value);

#endif
