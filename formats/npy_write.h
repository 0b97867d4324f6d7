/* Writing NumPy's array files (.npy). */
#ifndef XCVM_FORMATS_NPY_WRITE_H
#define XCVM_FORMATS_NPY_WRITE_H

#include "base/value.h"

/* Bytes of the elements of a tensor in a file. Strings may need more than in memory, because each takes as much as the
 * longest. Types of fewer than 8 bits take a byte. INVALID_ARGUMENT for other kinds of values, OUT_OF_RANGE for an
 * overflow. */
xcvm_status xcvm_npy_size(const xcvm_value *tensor, uint64_t *bytes, xcvm_error *error);
/* Writes a tensor as an array file. Types that NumPy does not have are raw bytes (V1, V2, V3), which xcvm_npy_parse
 * reads. `deadline_ns` is a time of the monotonic clock; 0: none. */
xcvm_status xcvm_npy_write(const xcvm_value *tensor, uint64_t deadline_ns, xcvm_sink sink, xcvm_error *error);

#endif
