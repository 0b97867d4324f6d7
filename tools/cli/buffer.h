/* Growable buffers of bytes. */
#ifndef XCVM_TOOLS_CLI_BUFFER_H
#define XCVM_TOOLS_CLI_BUFFER_H

#include <xcvm/xcvm.h>

#include <stdarg.h>

/* A zero-initialized buffer is empty. `data` is aligned to 64 bytes, like the constants of a program, and ends
 * with a NUL unless it is NULL. */
struct buffer {
    char *data;
    size_t length, capacity;
};

void buffer_append(struct buffer *buffer, const void *bytes, size_t count);
void buffer_text(struct buffer *buffer, const char *text);
void buffer_format(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_format_list(struct buffer *buffer, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
/* Appends `count` uninitialized bytes and returns their address. */
void *buffer_extend(struct buffer *buffer, size_t count);
/* Appends at least one space, and more until the last line has `column` characters. */
void buffer_pad(struct buffer *buffer, size_t line_start, size_t column);
void buffer_release(struct buffer *buffer);
/* An xcvm_sink whose user is a buffer. */
bool buffer_sink(void *buffer, const void *bytes, size_t count);
/* The text; "" if the buffer is empty. */
const char *buffer_string(const struct buffer *buffer);

#endif
