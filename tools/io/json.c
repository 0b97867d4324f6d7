/* Escaping of JSON strings. */
#include "io/json.h"

#include <string.h>

/* The number of bytes of the character at `text` if it is valid UTF-8, otherwise 0. */
static size_t character_length(const unsigned char *text)
{
    unsigned char lead = *text;
    size_t length = lead < 0x80                   ? 1
                    : lead >= 0xc2 && lead < 0xe0 ? 2
                    : (lead & 0xf0) == 0xe0       ? 3
                    : lead >= 0xf0 && lead < 0xf5 ? 4
                                                  : 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    /* Rejects overlong forms, surrogates, and code points beyond Unicode. */
    if ((lead == 0xe0 && text[1] < 0xa0) || (lead == 0xed && text[1] >= 0xa0) || (lead == 0xf0 && text[1] < 0x90) ||
        (lead == 0xf4 && text[1] >= 0x90))
        return 0;
    return length;
}

void json_string(struct buffer *text, const char *string)
{
    const unsigned char *at = (const unsigned char *)string;
    buffer_text(text, "\"");
    while (*at != '\0') {
        size_t length = character_length(at);
        if (length == 0) {
            buffer_text(text, "\xef\xbf\xbd");
            at++;
            continue;
        }
        if (*at == '"' || *at == '\\')
            buffer_format(text, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            buffer_format(text, "\\u%04x", *at);
        else
            buffer_append(text, at, length);
        at += length;
    }
    buffer_text(text, "\"");
}
