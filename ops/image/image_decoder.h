/* Decoding images with the limits of a kernel. */
#ifndef XCVM_OPS_IMAGE_IMAGE_DECODER_H
#define XCVM_OPS_IMAGE_IMAGE_DECODER_H

#include "formats/image.h"
#include "ops/util/kernel.h"

/* As xcvm_image_decode_source, with memory and time of `k`. */
xcvm_status xcvm_image_decode_any(xcvm_kernel *k, const void *bytes, size_t count, size_t channels,
                                  xcvm_image_room room, void *user);

#endif
