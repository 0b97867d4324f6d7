/* Writing NumPy's archives (.npz): ZIP files with an array file for each name, stored. */
#ifndef XCVM_FORMATS_NPZ_WRITE_H
#define XCVM_FORMATS_NPZ_WRITE_H

#include "formats/safetensors.h"

/* Writes tensors one behind the other under their names, in which '/' may stand, in the order given; names must differ.
 * UNSUPPORTED for texts and other types that NumPy has not (but for bf16, which it stores as V2), and for archives of 4
 * GB or more. The sink's refusal is IO. */
xcvm_status xcvm_npz_write(const xcvm_safetensor *tensors, size_t count, const xcvm_allocator *allocator,
                           xcvm_sink sink, xcvm_error *error);

#endif
