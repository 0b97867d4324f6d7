/* Insertion of items into lists. */
#ifndef XCVM_OPS_SEQUENCE_SEQUENCE_H
#define XCVM_OPS_SEQUENCE_SEQUENCE_H

#include "ops/util/kernel.h"

/* Sets item `index`, null so far, of a list result to `item`, and updates the list's element type and depth. */
xcvm_status xcvm_list_place(xcvm_kernel *k, xcvm_value *list, size_t index, const xcvm_value *item);

/* Checks that known element types of items agree; sets *dtype to a known one. */
xcvm_status xcvm_list_join_dtypes(xcvm_error *error, xcvm_dtype *dtype, const xcvm_value *item);
/* Reads a position, which may be negative to count from the end: in [0, count), or up to count with `one_more`. */
xcvm_status xcvm_list_position(xcvm_kernel *k, const xcvm_value *position, size_t count, bool one_more, size_t *index);
/* Makes y a sequence with the items of operand 0, `s`, and capacity for `room`. If this is the last use of s, its items
 * are moved or y takes over its storage; otherwise they are shared. Capacity grows geometrically, so the amortized cost
 * of appending is constant. */
xcvm_status xcvm_list_take(xcvm_kernel *k, xcvm_value *y, const xcvm_value *s, size_t room);

#endif
