/* Writing NumPy's archives (.npz): ZIP files with one stored array file per name. */
#ifndef XCVM_FORMATS_NPZ_WRITE_H
#define XCVM_FORMATS_NPZ_WRITE_H

#include "formats/safetensors.h"

/* Writes tensors in order under unique names, which may contain '/'. Fails with UNSUPPORTED for texts, for types that
 * NumPy lacks (except bf16, which is stored as V2), and for archives of 4 GB or more. Fails with IO if the sink
 * does. */
xcvm_status xcvm_npz_write(const xcvm_safetensor *tensors, size_t count, const xcvm_allocator *allocator,
                           xcvm_sink sink, xcvm_error *error);

#endif
