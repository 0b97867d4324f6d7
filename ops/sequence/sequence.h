/* Putting items into lists. */
#ifndef XCVM_OPS_SEQUENCE_SEQUENCE_H
#define XCVM_OPS_SEQUENCE_SEQUENCE_H

#include "ops/util/kernel.h"

/* Makes place `index` of a list result, null so far, the value `item`, and keeps the list's element type and depth up
 * to date. */
xcvm_status xcvm_list_place(xcvm_kernel *k, xcvm_value *list, size_t index, const xcvm_value *item);

/* Element types of items must agree as far as they are known; *dtype becomes the one known. */
xcvm_status xcvm_list_join_dtypes(xcvm_error *error, xcvm_dtype *dtype, const xcvm_value *item);
/* The position that an operand gives, which may count from the end: in [0, count), or also count with `one_more`. */
xcvm_status xcvm_list_position(xcvm_kernel *k, const xcvm_value *position, size_t count, bool one_more, size_t *index);
/* Makes the result y a sequence with the items of operand 0, `s`, and room for `room` in all. If nothing else will ever
 * look at s, its items are moved, or y gets its very storage; else they are shared. Room grows by more than asked for,
 * so that a list built item by item is copied a constant number of times for each item. */
xcvm_status xcvm_list_take(xcvm_kernel *k, xcvm_value *y, const xcvm_value *s, size_t room);

#endif
