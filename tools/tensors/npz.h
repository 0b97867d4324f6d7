/* NumPy's archives: ZIP files whose members are .npy files
 * (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT). */
#ifndef XCVM_TOOLS_TENSORS_NPZ_H
#define XCVM_TOOLS_TENSORS_NPZ_H

#include "cli/buffer.h"
#include "values/budget.h"

/* A writer that appends arrays to `archive`, and the directory at the end. */
struct npz_writer {
    struct buffer archive, directory;
    size_t count;
    struct value_budget *budget; /* limit of the archive; may be NULL */
};
xcvm_status npz_add(struct npz_writer *writer, const char *key, const xcvm_value *tensor, xcvm_error *error);
xcvm_status npz_finish(struct npz_writer *writer, xcvm_error *error);
void npz_release(struct npz_writer *writer);

#endif
