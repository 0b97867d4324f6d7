/* Estimates of extremes of inputs that were not measured, from the tail of those that were: bounds that as many further
 * batches keep in nine of ten cases. In every second case, one of them exceeds the greatest measured value. */
#ifndef XCVM_COMPILER_QUANTIZE_TAIL_ESTIMATE_H
#define XCVM_COMPILER_QUANTIZE_TAIL_ESTIMATE_H

#include <stddef.h>

/* Number of greatest batch magnitudes of a tensor that describe its tail. */
enum { XCC_EXTREMES = 16 };

/* Inserts a batch's magnitude into the greatest ones, in descending order. `*count` is their number. */
void xcc_extremes_add(float extremes[XCC_EXTREMES], size_t *count, float magnitude);
/* Estimates the maximum magnitude. Products of activations have power-law tails, with Hill's exponent ("A simple
 * general approach to inference about the tail of a distribution", 1975). Returns at least the measured maximum, and
 * exactly that for fewer than 32 batches. */
double xcc_tail_extreme(const float extremes[XCC_EXTREMES], size_t count, size_t batches);
/* Estimates the greatest error. Errors are sums of many terms, so their tail is exponential. */
double xcc_tail_error(const float extremes[XCC_EXTREMES], size_t count, size_t batches);
/* Estimates a lower bound of the share of agreeing rows, from the sum of the batches' shares and the sum of their
 * squares. */
double xcc_tail_agreement(double sum, double squares, size_t batches);

#endif
