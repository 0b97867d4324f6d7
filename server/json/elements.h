/* JSON arrays of elements, read into the memory of a tensor and written from it without a tree in between. */
#ifndef XCVM_SERVER_JSON_ELEMENTS_H
#define XCVM_SERVER_JSON_ELEMENTS_H

#include "server/json/text.h"

/* Reads the elements of a tensor, which is not of strings, from the array in [at, end). The array is flat, or nested
 * like the shape. Messages begin with the position of the element. */
xcvm_status xcs_elements_read(const char *at, const char *end, xcvm_value *tensor, xcvm_error *error);
/* Reads a string tensor. */
xcvm_status xcs_strings_read(const char *at, const char *end, const xcvm_allocator *allocator, int rank,
                             const int64_t *dims, xcvm_value **tensor, xcvm_error *error);
/* Appends a flat array. Floats that are not finite become null. UNSUPPORTED for types without a JSON form. */
xcvm_status xcs_elements_write(xcs_text *text, const xcvm_value *tensor, xcvm_error *error);
/* Copies the characters of the JSON string at `at` with its escapes resolved. `to` has room for as many bytes as the
 * string. Returns the end of the string, or NULL if it is not valid. */
const char *xcs_string_read(const char *at, const char *end, char *to, size_t *length);

#endif
