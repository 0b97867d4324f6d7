/* Growable buffers of bytes: appending, formatting, strings. */
#include "cli/buffer.h"
#include "cli/memory.h"
#include "cli/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* From this size on, a buffer has pages of its own. mremap grows them without a copy. */
static const size_t mapped_from = (size_t)1 << 20;

static _Noreturn void give_up(void)
{
    report_line("out of memory");
    exit(EXIT_LIMIT);
}

static void reserve(struct buffer *buffer, size_t count)
{
    size_t needed;
    if (__builtin_add_overflow(buffer->length, count, &needed) || __builtin_add_overflow(needed, 1, &needed))
        give_up();
    if (needed <= buffer->capacity)
        return;
    size_t capacity = buffer->capacity != 0 ? buffer->capacity : 256;
    while (capacity < needed)
        if (__builtin_mul_overflow(capacity, (size_t)2, &capacity))
            give_up();
    void *data;
    if (buffer->capacity >= mapped_from) {
        data = mremap(buffer->data, buffer->capacity, capacity, MREMAP_MAYMOVE);
        if (data == MAP_FAILED)
            give_up();
    } else {
        data = capacity >= mapped_from
                   ? mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                   : aligned_alloc(64, capacity);
        if (data == NULL || data == MAP_FAILED)
            give_up();
        if (buffer->length != 0)
            memcpy(data, buffer->data, buffer->length);
        free(buffer->data);
    }
    buffer->data = data;
    buffer->capacity = capacity;
}

void *buffer_extend(struct buffer *buffer, size_t count)
{
    reserve(buffer, count);
    void *at = buffer->data + buffer->length;
    buffer->length += count;
    buffer->data[buffer->length] = '\0';
    return at;
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t count)
{
    void *at = buffer_extend(buffer, count);
    if (count != 0)
        memcpy(at, bytes, count);
}

void buffer_text(struct buffer *buffer, const char *text) { buffer_append(buffer, text, strlen(text)); }

void buffer_format_list(struct buffer *buffer, const char *format, va_list arguments)
{
    char *text;
    int length = vasprintf(&text, format, arguments);
    if (length < 0)
        give_up();
    buffer_append(buffer, text, (size_t)length);
    free(text);
}

void buffer_format(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    buffer_format_list(buffer, format, arguments);
    va_end(arguments);
}

void buffer_pad(struct buffer *buffer, size_t line_start, size_t column)
{
    do
        buffer_append(buffer, " ", 1);
    while (buffer->length - line_start < column);
}

void buffer_release(struct buffer *buffer)
{
    if (buffer->capacity >= mapped_from)
        munmap(buffer->data, buffer->capacity);
    else
        free(buffer->data);
    *buffer = (struct buffer){0};
}

bool buffer_sink(void *buffer, const void *bytes, size_t count)
{
    buffer_append(buffer, bytes, count);
    return true;
}

const char *buffer_string(const struct buffer *buffer) { return buffer->data != NULL ? buffer->data : ""; }
