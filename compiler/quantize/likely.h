/* What inputs are likely to show that were not looked at, drawn from the tail of those that were: the likelihood is
 * nine in ten that none of as many further batches shows more. The greatest of what was seen says less: one of as many
 * further batches goes beyond it in every second case. */
#ifndef XCVM_COMPILER_QUANTIZE_LIKELY_H
#define XCVM_COMPILER_QUANTIZE_LIKELY_H

#include <stddef.h>

/* The greatest magnitudes of a tensor in so many batches, which are kept to tell its tail by. */
enum { XCC_EXTREMES = 16 };

/* Puts the magnitude of a batch where it belongs among the greatest, which fall; there are `*count` of them. */
void xcc_extremes_add(float extremes[XCC_EXTREMES], size_t *count, float magnitude);
/* The greatest magnitude that is likely. Activations that are multiplied by each other have tails that fall with a
 * power, whose exponent is Hill's ("A simple general approach to inference about the tail of a distribution", 1975).
 * Not less than the greatest that was seen; that one where there are fewer than 32 batches, too few to tell. */
double xcc_likely_extreme(const float extremes[XCC_EXTREMES], size_t count, size_t batches);
/* Likewise of errors, which are sums of many: what is above a high threshold falls exponentially. */
double xcc_likely_error(const float extremes[XCC_EXTREMES], size_t count, size_t batches);
/* The least share of rows that is likely to agree, from the shares of `batches` batches, their sum and that of their
 * squares. */
double xcc_likely_agreement(double sum, double squares, size_t batches);

#endif
