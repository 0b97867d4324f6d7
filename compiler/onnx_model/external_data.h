/* External data: weights that a model keeps in files beside it. */
#ifndef XCVM_COMPILER_ONNX_MODEL_EXTERNAL_DATA_H
#define XCVM_COMPILER_ONNX_MODEL_EXTERNAL_DATA_H

#include "compiler/ir/graph.h"
#include "compiler/onnx_model/message.h"

/* The files of one import. They stay mapped, read-only, until the module is released. */
typedef struct xcc_external_files {
    xcc_module *module;
    const char *dir; /* that all of them lie in or below; NULL: external data is refused */
    xcc_table files; /* addresses, by location */
} xcc_external_files;

/* The `bytes` bytes that the external_data entries of `proto` name. The location must be relative, without "..".
 * What it leads to, behind symbolic links, must be a regular file below the folder, or below the one that the model's
 * own file is in behind links, as in the cache of Hugging Face; ONNX Runtime has the same rule. */
xcvm_status xcc_external_data(xcc_external_files *files, const Onnx__TensorProto *proto, size_t bytes,
                              const void **data, xcvm_error *error);

#endif
