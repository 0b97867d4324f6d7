/* A model file in memory. */
#ifndef XCVM_COMPILER_ONNX_MODEL_MODEL_FILE_H
#define XCVM_COMPILER_ONNX_MODEL_MODEL_FILE_H

#include "compiler/ir/graph.h"

typedef struct xcc_model_file {
    const xcvm_allocator *allocator;
    void *bytes;
    size_t count;
    bool mapped;
    char *dir; /* directory of the file, "." if the path names none */
    size_t dir_bytes;
} xcc_model_file;

/* Maps a regular file, reads anything else (a pipe) to its end, into memory of the module. IO if it cannot be read. */
xcvm_status xcc_model_file_open(xcc_model_file *file, const char *path, xcc_module *m);
/* Before the module is released. May be called again. */
void xcc_model_file_close(xcc_model_file *file);

#endif
