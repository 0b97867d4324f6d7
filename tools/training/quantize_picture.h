/* The errors of a quantized model as a picture. */
#ifndef XCVM_TOOLS_TRAINING_QUANTIZE_PICTURE_H
#define XCVM_TOOLS_TRAINING_QUANTIZE_PICTURE_H

#include "cli/buffer.h"

#include <xcvm/quantize.h>

/* Appends an SVG: a bar for each tensor, its signal to quantization noise in dB, worst first. */
void quantize_picture(struct buffer *svg, const xcc_quantizer *quantizer, const char *title);

#endif
