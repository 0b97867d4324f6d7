/* Prepacked matrices: the layout of the weights of PackedGemm and similar instructions, the same for every CPU.
 *
 * A matrix of k rows and n columns is stored in panels of 16 columns, f32[ceil(n / 16), k, 16]: element (p, j) is at [j
 * / 16, p, j % 16], and columns that pad the last panel are zero. A row of a panel is a cache line, and one, two or
 * four vectors. A program may store panels as f16, bf16 or f24, which kernels read as f32; this takes less memory.
 *
 * The weight columns of a recurrent network are in the order of its hidden units, so that all gates of a unit are
 * computed together: panel (u * gates + g) has gate g of the units from 16 u. */
#ifndef XCVM_OPS_MATMUL_PACKED_H
#define XCVM_OPS_MATMUL_PACKED_H

#include "base/dtype.h"

enum { XCVM_PACKED_COLUMNS = 16 };

/* Bytes of an element of panels of f16, bf16, f24, or else f32. Constant if `dtype` is. */
static inline size_t xcvm_packed_element(xcvm_dtype dtype)
{
    return dtype == XCVM_F16 || dtype == XCVM_BF16 ? 2 : dtype == XCVM_F24 ? 3 : sizeof(float);
}

/* Number of panels of n columns. */
static inline size_t xcvm_packed_panels(size_t n) { return n / XCVM_PACKED_COLUMNS + (n % XCVM_PACKED_COLUMNS != 0); }

/* Packs factor * w, where w(p, j) is w[p * row + j * column]. One of the strides is 1. */
void xcvm_packed_write(size_t k, size_t n, const float *w, size_t row, size_t column, float factor, float *panels);

/* Packs the weights of one direction. w has gates * hidden rows of k floats, grouped by gate. The panels have all gates
 * of groups of 16 units. */
void xcvm_packed_write_gates(size_t k, size_t gates, size_t hidden, const float *w, float *panels);
/* Packs the biases of one direction: the sums of both halves of b, which has 2 * gates * hidden numbers, first the
 * input biases, then the state biases. If `reset` is not NULL (GRU), it receives the last gate's state biases, which
 * are added within the reset and are then not part of the sums. */
void xcvm_packed_write_biases(size_t gates, size_t hidden, const float *b, float *sums, float *reset);

#endif
