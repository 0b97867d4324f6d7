/* Allocation of the command, which ends the process when memory runs out. */
#include "cli/memory.h"
#include "cli/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void give_up(void)
{
    report_line("out of memory");
    exit(EXIT_LIMIT);
}

void *memory_take(size_t count, size_t size)
{
    void *memory = calloc(count != 0 ? count : 1, size);
    if (memory == NULL)
        give_up();
    return memory;
}

void *memory_grow(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        give_up();
    void *memory = realloc(old, bytes != 0 ? bytes : 1);
    if (memory == NULL)
        give_up();
    return memory;
}

void *memory_append(void *items, size_t count, size_t size)
{
    if ((count & (count - 1)) != 0)
        return items;
    return memory_grow(items, count != 0 ? count * 2 : 1, size);
}

char *memory_text_n(const char *text, size_t length)
{
    char *copy = memory_take(length + 1, 1);
    memcpy(copy, text, length);
    return copy;
}

char *memory_text(const char *text) { return memory_text_n(text, strlen(text)); }

char *memory_format(const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        give_up();
    return text;
}
