/* Elements of data on their way into a batch: conversions in which no element changes, and the search for NaN. */
#ifndef XCVM_TRAIN_DATA_CONVERT_ROWS_H
#define XCVM_TRAIN_DATA_CONVERT_ROWS_H

#include "base/dtype.h"

/* Returns true if type `to` can represent each number of type `from`. */
bool xct_converts(xcvm_dtype from, xcvm_dtype to);
/* `count` elements; they need not be aligned. xct_converts(from, to) holds. */
void xct_convert(xcvm_dtype from, const void *data, xcvm_dtype to, void *result, size_t count);
/* Returns true if one of `count` elements, which may be unaligned, is NaN; false for types without NaN. */
bool xct_has_nan(xcvm_dtype dtype, const void *data, size_t count);

#endif
