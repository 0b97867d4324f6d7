/* Tensors as PNG files. */
#ifndef XCVM_TOOLS_TENSORS_PNG_H
#define XCVM_TOOLS_TENSORS_PNG_H

#include <xcvm/xcvm.h>

/* Encodes a tensor in a layout of xct_image_load. Floats are clamped to 0 to 1, integers to 0 to 255. */
xcvm_status png_write(const xcvm_value *tensor, xcvm_sink sink, xcvm_error *error);

#endif
