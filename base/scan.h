/* A sequential text scanner for the headers of tensor files. */
#ifndef XCVM_BASE_SCAN_H
#define XCVM_BASE_SCAN_H

#include <stdbool.h>
#include <stdint.h>

typedef struct xcvm_scanner {
    const char *at, *end;
} xcvm_scanner;

/* Skips blanks, tabs and line ends. Each function below does so first. */
static inline void xcvm_scan_space(xcvm_scanner *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

/* Consumes `c` if it is the next character. */
static inline bool xcvm_scan_take(xcvm_scanner *s, char c)
{
    xcvm_scan_space(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

/* Reads an unsigned decimal integer. Returns false if there is none or it exceeds int64_t. */
static inline bool xcvm_scan_size(xcvm_scanner *s, int64_t *size)
{
    xcvm_scan_space(s);
    const char *start = s->at;
    *size = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
        if (__builtin_mul_overflow(*size, 10, size) || __builtin_add_overflow(*size, *s->at - '0', size))
            return false;
    return s->at > start;
}

#endif
