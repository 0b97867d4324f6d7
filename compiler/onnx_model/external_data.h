/* External data: weights of a model in separate files. */
#ifndef XCVM_COMPILER_ONNX_MODEL_EXTERNAL_DATA_H
#define XCVM_COMPILER_ONNX_MODEL_EXTERNAL_DATA_H

#include "compiler/ir/graph.h"
#include "compiler/onnx_model/message.h"

/* The files of one import. They stay mapped, read-only, until the module is released. */
typedef struct xcc_external_files {
    xcc_module *module;
    const char *dir; /* directory that contains all of them; NULL: external data is refused */
    xcc_table files; /* addresses, by location */
} xcc_external_files;

/* Returns the `bytes` bytes that the external_data entries of `proto` name. The location must be relative and without
 * "..". After symbolic links are resolved, it must be a regular file below the directory of the model, or below the
 * directory of the model's own link target, as in the Hugging Face cache. ONNX Runtime has the same rule. */
xcvm_status xcc_external_data(xcc_external_files *files, const Onnx__TensorProto *proto, size_t bytes,
                              const void **data, xcvm_error *error);

#endif
