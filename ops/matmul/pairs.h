/* Products of bf16 in pairs, as the AVX512_BF16 instructions use them.
 *
 * A 32-bit word has two neighbors of a sum, the first in its lower half; for an odd count the last half is zero. A sum
 * adds a pair in two steps, the second number's product first: each product is exact in f32, and each addition rounds
 * once to nearest even. So results are identical on every CPU, as long as products and sums are normal numbers:
 * subnormal ones are zero with these instructions, and in sessions that flush subnormal numbers.
 *
 * Panels are as in ops/matmul/packed.h with words instead of elements: bf16[ceil(n / 16), ceil(k / 2), 16, 2], element
 * (p, j) is at [j / 16, p / 2, j % 16, p % 2]. */
#ifndef XCVM_OPS_MATMUL_PAIRS_H
#define XCVM_OPS_MATMUL_PAIRS_H

#include "ops/matmul/packed.h"

enum { XCVM_PAIR = 2 };

/* Number of words for `count` numbers. */
static inline size_t xcvm_pairs_of(size_t count) { return count / XCVM_PAIR + count % XCVM_PAIR; }

/* Rounds `lines` lines of XCVM_PACKED_COLUMNS floats to bf16, two lines to one line of words. Subnormal results become
 * zero, and overflow becomes infinity. */
void xcvm_pairs_write(size_t lines, const float *from, uint16_t *to);

#endif
