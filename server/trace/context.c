/* Reads the headers of W3C Trace Context. A parent that is not valid is ignored, and so is a state. */
#include "server/trace/context.h"

#include <string.h>

/* Limits of the specification. */
enum { MOST_MEMBERS = 32, MOST_KEY = 256, MOST_VALUE = 256 };

/* ---- traceparent ---- */

static int digit_of(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* Reads 2 * count digits, without upper case. */
static bool read_hex(const char *from, uint8_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const int high = digit_of(from[2 * i]), low = high >= 0 ? digit_of(from[2 * i + 1]) : -1;
        if (low < 0)
            return false;
        to[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* VERSION-TRACE-PARENT-FLAGS. Later versions may have more fields behind a dash. */
static bool read_parent(const char *value, xcs_trace_headers *headers)
{
    const size_t length = strlen(value), known = XCS_TRACE_PARENT_BYTES - 1;
    uint8_t version, flags;
    if (length < known || value[2] != '-' || value[35] != '-' || value[52] != '-' || !read_hex(value, &version, 1) ||
        version == 0xff || (version == 0 ? length != known : length > known && value[known] != '-'))
        return false;
    if (!read_hex(value + 3, headers->trace_id, XCS_TRACE_ID_BYTES) ||
        !read_hex(value + 36, headers->parent_id, XCS_SPAN_ID_BYTES) || !read_hex(value + 53, &flags, 1))
        return false;
    headers->sampled = (flags & 1) != 0;
    return !is_zero(headers->trace_id, XCS_TRACE_ID_BYTES) && !is_zero(headers->parent_id, XCS_SPAN_ID_BYTES);
}

void xcs_trace_headers_add_parent(xcs_trace_headers *headers, const char *value)
{
    headers->parents++;
    headers->is_valid = read_parent(value, headers);
}

bool xcs_trace_headers_are_valid(const xcs_trace_headers *headers)
{
    return headers->parents == 1 && headers->is_valid;
}

/* ---- tracestate ---- */

static bool is_key(const char *at, size_t length)
{
    size_t ats = 0;
    if (length == 0 || length > MOST_KEY || !((at[0] >= 'a' && at[0] <= 'z') || (at[0] >= '0' && at[0] <= '9')))
        return false;
    for (size_t i = 0; i < length; i++) {
        const char c = at[i];
        ats += c == '@';
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '*' || c == '/' ||
              c == '@'))
            return false;
    }
    return ats <= 1 && at[length - 1] != '@';
}

static bool is_value(const char *at, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (at[i] < 0x20 || at[i] > 0x7e || at[i] == '=')
            return false;
    return length > 0 && length <= MOST_VALUE;
}

/* True if the state has a member with the key, which ends before "=". */
static bool has_key(const xcs_trace_headers *headers, const char *key, size_t length)
{
    for (const char *at = headers->state; *at != '\0';) {
        if (strncmp(at, key, length) == 0 && at[length] == '=')
            return true;
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return false;
}

static void add_member(xcs_trace_headers *headers, const char *at, size_t length)
{
    const char *equals = memchr(at, '=', length);
    const size_t key = equals != NULL ? (size_t)(equals - at) : 0;
    if (equals == NULL || !is_key(at, key) || !is_value(equals + 1, length - key - 1) || has_key(headers, at, key) ||
        ++headers->members > MOST_MEMBERS) {
        headers->state_is_invalid = true;
        return;
    }
    const size_t comma = headers->state_length > 0;
    /* A shorter state loses whole members from its end. */
    headers->state_is_full |= headers->state_length + comma + length > XCS_TRACE_STATE_BYTES;
    if (headers->state_is_full)
        return;
    if (comma)
        headers->state[headers->state_length++] = ',';
    memcpy(headers->state + headers->state_length, at, length);
    headers->state_length += length;
    headers->state[headers->state_length] = '\0';
}

void xcs_trace_headers_add_state(xcs_trace_headers *headers, const char *value)
{
    while (*value != '\0' && !headers->state_is_invalid) {
        value += strspn(value, ", \t");
        size_t length = strcspn(value, ",");
        const char *next = value + length;
        while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t'))
            length--;
        if (length > 0)
            add_member(headers, value, length);
        value = next;
    }
}

const char *xcs_trace_headers_state(const xcs_trace_headers *headers)
{
    return headers->state_is_invalid ? "" : headers->state;
}

void xcs_trace_hex(const uint8_t *bytes, size_t count, char *to)
{
    for (size_t i = 0; i < count; i++) {
        to[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        to[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    to[2 * count] = '\0';
}
