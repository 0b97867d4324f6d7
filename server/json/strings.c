/* JSON arrays of strings to string tensors. */
#include "server/json/elements.h"

#include <string.h>

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Reads four hexadecimal digits; -1 if there are none. */
static int32_t read_hex(const char *at, const char *end)
{
    int32_t value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

/* Reads the escape behind a backslash. Returns its end, or NULL. */
static const char *read_escape(const char *at, const char *end, char **to)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (at >= end)
        return NULL;
    const char *found = *at != 'u' && *at != '\0' ? strchr(escapes, *at) : NULL;
    if (found != NULL) {
        *(*to)++ = meanings[found - escapes];
        return at + 1;
    }
    int32_t c = *at == 'u' ? read_hex(at + 1, end) : -1;
    if (c < 0 || (c >= 0xdc00 && c < 0xe000))
        return NULL;
    at += 5;
    if (c >= 0xd800 && c < 0xdc00) {
        const int32_t low = end - at >= 6 && at[0] == '\\' && at[1] == 'u' ? read_hex(at + 2, end) : -1;
        if (low < 0xdc00 || low >= 0xe000)
            return NULL;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
    }
    *to = put_utf8(*to, (uint32_t)c);
    return at;
}

const char *xcs_string_read(const char *at, const char *end, char *to, size_t *length)
{
    char *const begin = to;
    if (at >= end || *at++ != '"')
        return NULL;
    while (at < end && *at != '"') {
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        at = read_escape(at + 1, end, &to);
        if (at == NULL)
            return NULL;
    }
    *length = (size_t)(to - begin);
    return at < end ? at + 1 : NULL;
}

typedef struct string_reader {
    const char *at, *end;
    char *characters; /* room for all strings */
    const char **strings;
    size_t *lengths;
    size_t count, next;
    int depth;
} string_reader;

static void skip_separators(string_reader *r)
{
    for (; r->at < r->end && strchr(" \n\r\t,[]", *r->at) != NULL && *r->at != '\0'; r->at++)
        r->depth += *r->at == '[' ? 1 : *r->at == ']' ? -1 : 0;
}

static xcvm_status read_all(string_reader *r, xcvm_error *error)
{
    for (skip_separators(r); r->at < r->end; skip_separators(r)) {
        XCVM_CHECK(error, r->next < r->count, INVALID_ARGUMENT, "more than %zu elements, which the shape has",
                   r->count);
        r->strings[r->next] = r->characters;
        r->at = xcs_string_read(r->at, r->end, r->characters, &r->lengths[r->next]);
        XCVM_CHECK(error, r->at != NULL, INVALID_ARGUMENT, "element %zu is not a string", r->next);
        r->characters += r->lengths[r->next++];
    }
    XCVM_CHECK(error, r->depth == 0 && r->next == r->count, SHAPE_MISMATCH, "%zu elements; the shape has %zu", r->next,
               r->count);
    return XCVM_OK;
}

xcvm_status xcs_strings_read(const char *at, const char *end, const xcvm_allocator *allocator, int rank,
                             const int64_t *dims, xcvm_value **tensor, xcvm_error *error)
{
    size_t count = 1, bytes;
    for (int i = 0; i < rank; i++)
        XCVM_CHECK(error, xcvm_size_mul(count, (size_t)dims[i], &count), INVALID_ARGUMENT, "the shape is too large");
    const size_t length = (size_t)(end - at);
    /* Each string takes two quotes. */
    XCVM_CHECK(error, count <= length / 2, SHAPE_MISMATCH, "fewer elements than the shape has (%zu)", count);
    XCVM_CHECK(error,
               xcvm_size_mul(count, sizeof(char *) + sizeof(size_t), &bytes) && xcvm_size_add(bytes, length, &bytes),
               INVALID_ARGUMENT, "the shape is too large");
    char *block = xcvm_allocate(allocator, bytes);
    XCVM_CHECK(error, block != NULL, OUT_OF_MEMORY, "no memory for %zu strings", count);
    string_reader r = {.at = at, .end = end, .count = count};
    r.strings = (const char **)(void *)block;
    r.lengths = (size_t *)(void *)(block + count * sizeof(char *));
    r.characters = block + count * (sizeof(char *) + sizeof(size_t));
    xcvm_status status = read_all(&r, error);
    if (status == XCVM_OK)
        status = xcvm_string_tensor_create(allocator, rank, dims, r.strings, r.lengths, tensor, error);
    xcvm_deallocate(allocator, block, bytes);
    return status;
}
