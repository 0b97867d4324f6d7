/* Sorting: order-preserving keys for elements of any type, and stable sorts. */
#ifndef XCVM_OPS_UTIL_ORDER_H
#define XCVM_OPS_UTIL_ORDER_H

#include "ops/util/kernel.h"

/* Computes unsigned keys of `count` elements of a tensor of real type or bool, from element `begin`, `stride` apart.
 * Both zeros have the same key; NaN has the largest. */
void xcvm_order_keys(const xcvm_value *tensor, size_t begin, size_t stride, size_t count, uint64_t *keys);

/* Returns a negative number, 0 or a positive number if item a sorts before, with or after item b. */
typedef int (*xcvm_order_compare)(const void *context, int64_t a, int64_t b);
/* Sorts items stably. `spare` has room for as many. Fails only as xcvm_kernel_poll does. */
xcvm_status xcvm_order_sort(const xcvm_kernel *k, int64_t *items, int64_t *spare, size_t count,
                            xcvm_order_compare compare, const void *context);

/* Sorts keys with their items stably. Afterwards *keys and *items point to the results: in their own memory or in the
 * spare memory, which has the same size. */
xcvm_status xcvm_order_sort_keys(const xcvm_kernel *k, uint64_t **keys, int64_t **items, uint64_t *spare_keys,
                                 int64_t *spare, size_t count);

#endif
