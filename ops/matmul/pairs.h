/* Products of bf16: numbers in pairs, as the instructions for them (AVX512_BF16) take them.
 *
 * A word of 32 bits holds two neighbors of a sum, the first in its lower half; where their number is odd, the last
 * half is zero. A sum takes a pair in two steps, the second number's product first: each product is exact in f32, and
 * is added with one rounding to nearest even. So the bits of a sum follow from the order of its pairs, whatever
 * computes it, as long as no product and no sum leaves the normal numbers of f32: what is subnormal is zero where there
 * are such instructions, and wherever a session flushes subnormal numbers.
 *
 * The columns of a matrix of k rows lie in panels as in ops/matmul/packed.h, a word in place of an element: bf16[ceil(n
 * / 16), ceil(k / 2), 16, 2], element (p, j) is at [j / 16, p / 2, j % 16, p % 2]. */
#ifndef XCVM_OPS_MATMUL_PAIRS_H
#define XCVM_OPS_MATMUL_PAIRS_H

#include "ops/matmul/packed.h"

enum { XCVM_PAIR = 2 };

/* Words of `count` numbers. */
static inline size_t xcvm_pairs_of(size_t count) { return count / XCVM_PAIR + count % XCVM_PAIR; }

/* Rounds `lines` lines of XCVM_PACKED_COLUMNS floats to bf16, two lines to one of words; what would be subnormal
 * becomes zero, numbers beyond the greatest infinity. */
void xcvm_pairs_write(size_t lines, const float *from, uint16_t *to);

#endif
