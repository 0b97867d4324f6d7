/* Images as tensors: PNG files are read and written. */
#ifndef XCVM_TOOLS_TENSORS_PNG_H
#define XCVM_TOOLS_TENSORS_PNG_H

#include "values/budget.h"

/* Decodes a PNG file into the layout that `wanted` declares: 1xCxHxW or 1xHxWxC, CxHxW or HxWxC, HxW, or for one
 * channel any shape of so many elements whose last dimension is H * W. C is 1, 3 or 4; where it is open, the image's
 * own. Floats are from 0 to 1, integers from 0 to 255. `wanted` NULL: HxWxC of u8. `budget` may be NULL. */
xcvm_status png_read(const void *bytes, size_t count, const xcvm_type *wanted, struct value_budget *budget,
                     xcvm_value **tensor, xcvm_error *error);
/* Encodes a tensor of one of those layouts; floats from 0 to 1 and integers from 0 to 255 are clamped. */
xcvm_status png_write(const xcvm_value *tensor, xcvm_sink sink, void *user, xcvm_error *error);

#endif
