/* Broadcasting: iteration over operands that broadcast to one shape. */
#ifndef XCVM_OPS_UTIL_BROADCAST_H
#define XCVM_OPS_UTIL_BROADCAST_H

#include "base/value.h"

enum { XCVM_BROADCAST_OPERANDS = 3 };

/* Iteration over the result's elements in row-major order. Adjacent axes over which all operands advance uniformly are
 * merged. */
typedef struct xcvm_broadcast {
    int rank; /* at least 1 */
    int operands;
    size_t dims[XCVM_MAX_RANK];
    size_t strides[XCVM_BROADCAST_OPERANDS][XCVM_MAX_RANK]; /* 0 if broadcast; last: 0 or 1 */
    bool whole[XCVM_BROADCAST_OPERANDS]; /* the operand has the result's elements in the same order */
    size_t count;
} xcvm_broadcast;

/* The operands must broadcast to `result`. */
void xcvm_broadcast_plan(xcvm_broadcast *b, const xcvm_value *result, const xcvm_value *const *in, int operands);

/* Called for `count` adjacent elements of the result from `at`. Operand i begins at offsets[i] and advances by its last
 * stride. */
typedef void (*xcvm_broadcast_body)(void *context, size_t at, const size_t *offsets, size_t count);
/* Calls `body` for the row segments of elements [begin, end). */
void xcvm_broadcast_rows(const xcvm_broadcast *b, size_t begin, size_t end, xcvm_broadcast_body body, void *context);
/* Writes the `count` elements of an operand, each of `size` bytes (1, 2, 4, 8 or 16), that correspond to result
 * elements from `at`. */
void xcvm_broadcast_spread(const xcvm_broadcast *b, int operand, const void *data, size_t size, size_t at, size_t count,
                           void *to);

#endif
