/* Matrices that were packed before a program runs: the layout of the weights of PackedGemm and its kin, the same for
 * every CPU.
 *
 * A matrix of k rows and n columns lies in panels of 16 columns, f32[ceil(n / 16), k, 16]: element (p, j) is at
 * [j / 16, p, j % 16], and columns that fill up the last panel are zero. A row of a panel is a line of the cache, and
 * one, two or four vectors. A program may hold the same as f16, bf16 or f24, which kernels read as f32: less memory.
 *
 * The columns of a recurrent network's weights are put in the order of its hidden units, so that all gates of a unit
 * are computed in one place: panel (u * gates + g) holds gate g of the units from 16 u on. */
#ifndef XCVM_OPS_MATMUL_PACKED_H
#define XCVM_OPS_MATMUL_PACKED_H

#include "base/dtype.h"

enum { XCVM_PACKED_COLUMNS = 16 };

/* Bytes of an element of panels: of f16, bf16 or f24, else f32. A constant where `dtype` is one. */
static inline size_t xcvm_packed_element(xcvm_dtype dtype)
{
    return dtype == XCVM_F16 || dtype == XCVM_BF16 ? 2 : dtype == XCVM_F24 ? 3 : sizeof(float);
}

/* Panels of n columns. */
static inline size_t xcvm_packed_panels(size_t n) { return n / XCVM_PACKED_COLUMNS + (n % XCVM_PACKED_COLUMNS != 0); }

/* Packs factor * w, where w(p, j) is w[p * row + j * column]; one of the strides is 1. */
void xcvm_packed_write(size_t k, size_t n, const float *w, size_t row, size_t column, float factor, float *panels);

/* Packs the weights of one direction: w has gates * hidden rows of k floats, those of one gate one behind the other.
 * Panels for all gates of whole sixteens of units. */
void xcvm_packed_write_gates(size_t k, size_t gates, size_t hidden, const float *w, float *panels);
/* Likewise what is added to the gates of one direction: the sums of both halves of b, 2 * gates * hidden numbers, first
 * those with the input, then those with the state. `reset` (NULL: there is no such) gets the last gate's number of the
 * second half, which then is no part of the sum: GRU's that is added within the reset. */
void xcvm_packed_write_biases(size_t gates, size_t hidden, const float *b, float *sums, float *reset);

#endif
