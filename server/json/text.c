/* A growing text, and JSON strings. */
#include "server/json/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LARGE = 64 << 10 };

char *xcs_text_reserve(xcs_text *text, size_t count)
{
    if (text->failed)
        return NULL;
    if (count <= text->capacity - text->count)
        return text->at != NULL ? text->at + text->count : NULL;
    size_t capacity = text->capacity < 256 ? 256 : text->capacity;
    while (capacity - text->count < count && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    /* Large texts have no room beyond what is reserved at once. Those that grow piece by piece double. */
    if (capacity > LARGE && capacity / 2 > text->capacity && count <= SIZE_MAX - text->count)
        capacity = text->count + count;
    char *grown = capacity - text->count >= count ? xcvm_allocate(text->allocator, capacity) : NULL;
    if (grown == NULL) {
        text->failed = true;
        return NULL;
    }
    if (text->count > 0)
        memcpy(grown, text->at, text->count);
    xcvm_deallocate(text->allocator, text->at, text->capacity);
    text->at = grown;
    text->capacity = capacity;
    return text->at + text->count;
}

void xcs_text_add(xcs_text *text, const void *bytes, size_t count)
{
    char *to = xcs_text_reserve(text, count);
    if (to == NULL || count == 0)
        return;
    memcpy(to, bytes, count);
    text->count += count;
}

void xcs_text_put(xcs_text *text, const char *string) { xcs_text_add(text, string, strlen(string)); }

void xcs_text_format(xcs_text *text, const char *format, ...)
{
    va_list arguments;
    for (size_t room = 128;; room *= 2) {
        char *to = xcs_text_reserve(text, room);
        if (to == NULL)
            return;
        va_start(arguments, format);
        const int written = vsnprintf(to, room, format, arguments);
        va_end(arguments);
        if (written < 0)
            return;
        if ((size_t)written < room) {
            text->count += (size_t)written;
            return;
        }
    }
}

/* The bytes of the UTF-8 sequence at `s`, of which `count` are left; 0 if it is not valid. */
static size_t utf8_length(const unsigned char *s, size_t count)
{
    const size_t length = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : 4;
    if (length == 1)
        return 1;
    if (length > count || s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    const bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    const bool no_character = (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf4 && s[1] >= 0x90);
    return overlong || no_character ? 0 : length;
}

void xcs_text_quote(xcs_text *text, const char *bytes, size_t count)
{
    xcs_text_add(text, "\"", 1);
    for (size_t i = 0; i < count;) {
        const unsigned char c = (unsigned char)bytes[i];
        const size_t length = utf8_length((const unsigned char *)bytes + i, count - i);
        if (c == '"' || c == '\\')
            xcs_text_format(text, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            xcs_text_format(text, "\\u%04x", c);
        else if (length == 0)
            xcs_text_put(text, "\\ufffd");
        else
            xcs_text_add(text, bytes + i, length);
        i += length == 0 ? 1 : length;
    }
    xcs_text_add(text, "\"", 1);
}

void xcs_text_free(xcs_text *text)
{
    xcvm_deallocate(text->allocator, text->at, text->capacity);
    text->at = NULL;
    text->count = text->capacity = 0;
}
