/* UTF-8, one character at a time. */
#ifndef XCVM_BASE_UTF8_H
#define XCVM_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decodes the character at `s` into `c` and returns its length; `left` > 0 bytes are available. An invalid byte counts
 * as a character. */
static inline size_t xcvm_utf8_decode(const unsigned char *s, size_t left, uint32_t *c)
{
    const size_t length = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 1;
    *c = length == 1 || length > left ? s[0] : s[0] & (0xffU >> (length + 1));
    if (length > left)
        return 1;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            *c = s[0];
            return 1;
        }
        *c = *c << 6 | (s[i] & 0x3f);
    }
    /* Overlong, or beyond Unicode. */
    if ((length == 3 && *c < 0x800) || (length == 4 && (*c < 0x10000 || *c > 0x10ffff))) {
        *c = s[0];
        return 1;
    }
    return length;
}

/* Writes a character to `to`, which has room for four bytes or is NULL. Returns its length. */
static inline size_t xcvm_utf8_encode(char *to, uint32_t c)
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (to == NULL)
        return length;
    for (size_t i = length; i-- > 1; c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(lead[length] | c);
    return length;
}

#endif
