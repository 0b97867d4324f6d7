/* What the header of an image file says besides its pixels. */
#ifndef XCVM_FORMATS_IMAGE_HEADER_H
#define XCVM_FORMATS_IMAGE_HEADER_H

#include <stddef.h>

/* The orientation of EXIF, 1 to 8: where the first row and the first column are seen. 1, as they are, if the file says
 * nothing; of TIFF, too, whose decoder turns it. */
int xcvm_image_orientation(const void *bytes, size_t count);
/* Channels of its own: 1 (grayscale), 3, or 4 with alpha. */
int xcvm_image_channels(const void *bytes, size_t count);

#endif
