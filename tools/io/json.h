/* JSON: writing strings. */
#ifndef XCVM_TOOLS_IO_JSON_H
#define XCVM_TOOLS_IO_JSON_H

#include "cli/buffer.h"

/* A string with quotes and escapes; bytes that are no UTF-8 become U+FFFD. */
void json_string(struct buffer *text, const char *string);

#endif
