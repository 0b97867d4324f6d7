/* JSON: writing strings. */
#ifndef XCVM_TOOLS_IO_JSON_H
#define XCVM_TOOLS_IO_JSON_H

#include "cli/buffer.h"

/* Appends a string with quotes and escapes. Bytes that are not UTF-8 become U+FFFD. */
void json_string(struct buffer *text, const char *string);

#endif
