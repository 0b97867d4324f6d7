/* The structures of DLPack 1.1 (https://dmlc.github.io/dlpack). */
#ifndef XCVM_PYTHON_SRC_DLPACK_H
#define XCVM_PYTHON_SRC_DLPACK_H

#include <stdint.h>

enum { DLPACK_CPU = 1, DLPACK_CUDA_HOST = 3, DLPACK_ROCM_HOST = 11, DLPACK_MAJOR = 1, DLPACK_MINOR = 1 };

typedef struct dlpack_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t rank;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides; /* strides count elements; NULL: dense */
    uint64_t byte_offset;
} dlpack_tensor;

/* The content of a capsule "dltensor". */
typedef struct dlpack_managed {
    dlpack_tensor tensor;
    void *user;
    void (*deleter)(struct dlpack_managed *self);
} dlpack_managed;

/* The content of a capsule "dltensor_versioned". */
typedef struct dlpack_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *user;
    void (*deleter)(struct dlpack_versioned *self);
    uint64_t flags; /* 1: read-only; 2: copied */
    dlpack_tensor tensor;
} dlpack_versioned;

#endif
