/* Tensors as PNG files. */
#ifndef XCVM_TOOLS_TENSORS_PNG_H
#define XCVM_TOOLS_TENSORS_PNG_H

#include <xcvm/xcvm.h>

/* Encodes a tensor of a layout that xct_image_load makes; floats from 0 to 1 and integers from 0 to 255 are clamped. */
xcvm_status png_write(const xcvm_value *tensor, xcvm_sink sink, xcvm_error *error);

#endif
