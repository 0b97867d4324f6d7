/* Sorting: keys that compare as elements of any type do, and a sort that keeps equals in order. */
#ifndef XCVM_OPS_UTIL_ORDER_H
#define XCVM_OPS_UTIL_ORDER_H

#include "ops/util/kernel.h"

/* Unsigned keys of `count` elements of a tensor of real type or bool, from element `begin` on, `stride` apart. Both
 * zeros have one key; NaN has the greatest. */
void xcvm_order_keys(const xcvm_value *tensor, size_t begin, size_t stride, size_t count, uint64_t *keys);

/* Below 0, 0 or above 0 as item a stands before, beside or behind item b. */
typedef int (*xcvm_order_compare)(const void *context, int64_t a, int64_t b);
/* Sorts items, equal ones staying in their order; `spare` is room for as many. Fails only as xcvm_kernel_poll does. */
xcvm_status xcvm_order_sort(const xcvm_kernel *k, int64_t *items, int64_t *spare, size_t count,
                            xcvm_order_compare compare, const void *context);

/* Puts keys, and the item of each with it, in the order of the keys, equal ones staying in theirs. The results are
 * where *keys and *items point to then: in their memory or in the spare one, which holds as many. */
xcvm_status xcvm_order_sort_keys(const xcvm_kernel *k, uint64_t **keys, int64_t **items, uint64_t *spare_keys,
                                 int64_t *spare, size_t count);

#endif
