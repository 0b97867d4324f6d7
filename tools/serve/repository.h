/* Models of a directory, in the layouts of Triton and KServe. */
#ifndef XCVM_TOOLS_SERVE_REPOSITORY_H
#define XCVM_TOOLS_SERVE_REPOSITORY_H

#include <xcvm/xcvm.h>

#include <stddef.h>

struct served_model {
    char *name, *version, *path;
};

struct repository {
    struct served_model *models;
    size_t count;
};

/* Adds the models of an operand "[NAME=]PATH". A file is a model of version 1. A directory is one of these:
 *   NAME/1/model.onnx, NAME/2/... below it, or NAME itself: Triton. All versions are added.
 *   model.onnx in it: KServe. The model has the name of the directory.
 *   other model files in it: each is a model. */
xcvm_status repository_add(struct repository *repository, const char *operand, xcvm_error *error);
void repository_release(struct repository *repository);

#endif
