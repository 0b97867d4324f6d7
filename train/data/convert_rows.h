/* Elements of data on their way into a batch: conversions in which no element changes, and the search for NaN. */
#ifndef XCVM_TRAIN_DATA_CONVERT_ROWS_H
#define XCVM_TRAIN_DATA_CONVERT_ROWS_H

#include "base/dtype.h"

/* Whether every number of type `from` is one of type `to`. */
bool xct_converts(xcvm_dtype from, xcvm_dtype to);
/* `count` elements; they need not be aligned. xct_converts(from, to) holds. */
void xct_convert(xcvm_dtype from, const void *data, xcvm_dtype to, void *result, size_t count);
/* Whether one of `count` elements (which need not be aligned) is NaN; false for types that have none. */
bool xct_has_nan(xcvm_dtype dtype, const void *data, size_t count);

#endif
