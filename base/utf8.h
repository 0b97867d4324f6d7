/* UTF-8, one character at a time. */
#ifndef XCVM_OPS_UTF8_H
#define XCVM_OPS_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The character at `s`, of which `left` > 0 bytes are there: its length, and itself in `c`; broken bytes count as
 * characters of their own. */
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
    return length;
}

/* What str.split() of Python takes for space. */
static inline int xcvm_utf8_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

#endif
