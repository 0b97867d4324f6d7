/* Instructions like vpdpbusd, which multiply and add four bytes at a time: no part of an instruction set's level, so
 * kernels ask for them. */
#ifndef XCVM_OPS_UTIL_QUADS_H
#define XCVM_OPS_UTIL_QUADS_H

#include <stdbool.h>

/* Whether this processor has them, exactly: for vectors of 64 bytes, of 32, of either. */
bool xcvm_quads_of_64(void);
bool xcvm_quads_of_32(void);
bool xcvm_quads_at_once(void);

#endif
