/* Files in memory: mapped where that can be done. */
#ifndef XCVM_TRAIN_DATA_MAPPING_H
#define XCVM_TRAIN_DATA_MAPPING_H

#include "base/allocator.h"
#include "base/status.h"

/* The mapped bytes of a regular file. Zero-initialized it is empty. */
typedef struct xct_mapping {
    const void *bytes; /* never NULL of an open one */
    size_t count;
    void *mapped; /* NULL for an empty file */
} xct_mapping;

/* IO if the file cannot be read; the message begins with its path. */
xcvm_status xct_mapping_open(xct_mapping *mapping, const char *path, xcvm_error *error);
void xct_mapping_close(xct_mapping *mapping);

#endif
