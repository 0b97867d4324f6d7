/* Growable buffers of bytes. */
#ifndef XCVM_TOOLS_CLI_BUFFER_H
#define XCVM_TOOLS_CLI_BUFFER_H

#include <xcvm/xcvm.h>

#include <stdarg.h>

/* Zero-initialized it is empty. `data` is aligned to 64 bytes, as constants in a program are, and has a NUL behind it
 * unless it is NULL. */
struct buffer {
    char *data;
    size_t length, capacity;
};

void buffer_append(struct buffer *buffer, const void *bytes, size_t count);
void buffer_text(struct buffer *buffer, const char *text);
void buffer_format(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_format_list(struct buffer *buffer, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
/* Room for `count` more bytes at the end, which become part of the buffer; returns where they start. */
void *buffer_extend(struct buffer *buffer, size_t count);
/* Spaces until the last line is `column` wide, and at least one. */
void buffer_pad(struct buffer *buffer, size_t line_start, size_t column);
void buffer_release(struct buffer *buffer);
/* An xcvm_sink whose user is a buffer. */
bool buffer_sink(void *buffer, const void *bytes, size_t count);
/* The text without the need to test for NULL. */
const char *buffer_string(const struct buffer *buffer);

#endif
