/* Keys of lookups: elements of any comparable type in ascending order. */
#ifndef XCVM_OPS_KEYS_H
#define XCVM_OPS_KEYS_H

#include "ops/kernel.h"

/* Order of element i of x and element j of keys, which are both strings, both floats or both integers: below, at or
 * above 0. Strings compare by their bytes; NaN is one key, behind all numbers. */
int xcvm_keys_compare(const xcvm_value *x, size_t i, const xcvm_value *keys, size_t j);
/* The steps (ops/kernel.h) that comparing element i of x with keys takes at most, each. */
size_t xcvm_keys_steps(const xcvm_value *x, size_t i);
/* Comparisons that finding a position takes, of some ten thousand keys. */
enum { XCVM_KEYS_HALVINGS = 16 };
/* Position of element i of x among `count` keys, of which order[0], order[1] ... ascend (order NULL: as they stand);
 * -1 if it is none of them. */
int64_t xcvm_keys_find(const xcvm_value *x, size_t i, const xcvm_value *keys, const int64_t *order, size_t count);

#endif
