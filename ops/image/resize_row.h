/* Image rows with copied pixels. */
#ifndef XCVM_OPS_IMAGE_RESIZE_ROW_H
#define XCVM_OPS_IMAGE_RESIZE_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes `width` pixels of `size` bytes: each pixel of `from` `repeats` times, which divides width, or, if it is 0, the
 * pixels at `columns`. */
void xcvm_resize_row(char *to, const char *from, size_t size, size_t width, size_t repeats, const int64_t *columns);
/* Writes each of `rows` rows of `count` pixels twice, with each pixel twice. Returns false for an unsupported size. */
bool xcvm_resize_double(char *to, const char *from, size_t size, size_t count, size_t rows);

#endif
