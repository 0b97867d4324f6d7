/* Putting items into lists. */
#ifndef XCVM_OPS_SEQUENCE_H
#define XCVM_OPS_SEQUENCE_H

#include "ops/kernel.h"

/* Makes place `index` of a list result, null so far, the value `item`, and keeps the list's element type and depth up
 * to date. */
xcvm_status xcvm_list_place(xcvm_kernel *k, xcvm_value *list, size_t index, const xcvm_value *item);

#endif
