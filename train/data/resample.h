/* Resizing images of bytes. */
#ifndef XCVM_TRAIN_DATA_RESAMPLE_H
#define XCVM_TRAIN_DATA_RESAMPLE_H

#include "ops/util/kernel.h"

/* Rows of `height` x `width` pixels of 1 to 4 bytes. */
typedef struct xct_pixels {
    xcvm_storage *storage; /* of a heap, or NULL */
    uint8_t *at;
    size_t height, width, channels;
} xct_pixels;

/* Pixels without content, with memory of the kernel's heap. */
xcvm_status xct_pixels_create(const xcvm_kernel *k, size_t height, size_t width, size_t channels, xct_pixels *pixels);
void xct_pixels_release(xct_pixels *pixels);
/* Resizes in place, by a triangle filter that is as wide as what becomes one pixel: the bytes are those of
 * Image.resize(..., BILINEAR) of Pillow. The fourth of 4 channels is alpha, by which the others are weighted. */
xcvm_status xct_resample(const xcvm_kernel *k, xct_pixels *pixels, size_t height, size_t width);

#endif
