/* Detection of instructions like vpdpbusd, which multiply and add four bytes at a time. They are not part of an
 * instruction set level, so kernels check for them at run time. */
#ifndef XCVM_OPS_UTIL_QUADS_H
#define XCVM_OPS_UTIL_QUADS_H

#include <stdbool.h>

/* Return true if this CPU has them: for vectors of 64 bytes, of 32, of either. */
bool xcvm_quads_of_64(void);
bool xcvm_quads_of_32(void);
bool xcvm_quads_at_once(void);

#endif
