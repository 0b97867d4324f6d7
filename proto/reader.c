/* The lexer of text assembly: whitespace, words, names, strings, numbers, and errors with line and column. */
#include "proto/reader.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_word(char c) { return is_word_start(c) || is_digit(c); }

void xcvm_reader_start(xcvm_reader *r, const char *text, size_t length, xcvm_arena *arena, xcvm_error *error)
{
    *r = (xcvm_reader){.at = text, .end = text + length, .arena = arena, .error = error, .line = 1};
}

xcvm_status xcvm_reader_fail(xcvm_reader *r, const char *format, ...)
{
    char message[sizeof r->error->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return xcvm_error_set(r->error, XCVM_INVALID_PROGRAM, "line %d: %s", r->line, message);
}

xcvm_status xcvm_reader_no_memory(xcvm_reader *r)
{
    return xcvm_error_set(r->error, XCVM_OUT_OF_MEMORY, "line %d: no memory for what it says", r->line);
}

static void skip(xcvm_reader *r)
{
    while (r->at < r->end) {
        size_t left = (size_t)(r->end - r->at);
        size_t joined = left > 1 && r->at[0] == '\\' && r->at[1] == '\n'                       ? 2
                        : left > 2 && r->at[0] == '\\' && r->at[1] == '\r' && r->at[2] == '\n' ? 3
                                                                                               : 0;
        if (*r->at == ' ' || *r->at == '\t' || *r->at == '\r') {
            r->at++;
        } else if (*r->at == '#') {
            const char *line_end = memchr(r->at, '\n', left);
            r->at = line_end != NULL ? line_end : r->end;
        } else if (joined > 0 || (*r->at == '\n' && r->depth > 0)) {
            r->at += joined > 0 ? joined : 1;
            r->line++;
        } else {
            return;
        }
    }
}

const char *xcvm_reader_here(xcvm_reader *r, char text[48])
{
    skip(r);
    if (r->at == r->end)
        return "the end of the text";
    if (*r->at == '\n')
        return "the end of the line";
    size_t length = 1;
    if (is_word(*r->at))
        while (length < 40 && r->at + length < r->end && is_word(r->at[length]))
            length++;
    bool printable = *r->at > ' ' && *r->at < 0x7f;
    if (printable)
        snprintf(text, 48, "`%.*s`", (int)length, r->at);
    else
        snprintf(text, 48, "a byte 0x%02x", (unsigned char)*r->at);
    return text;
}

bool xcvm_reader_at_text_end(xcvm_reader *r)
{
    skip(r);
    return r->at == r->end;
}

bool xcvm_reader_at_line_end(xcvm_reader *r) { return xcvm_reader_at_text_end(r) || *r->at == '\n'; }

xcvm_status xcvm_reader_next_line(xcvm_reader *r)
{
    char here[48];
    if (!xcvm_reader_at_line_end(r))
        return xcvm_reader_fail(r, "%s is more than belongs on this line", xcvm_reader_here(r, here));
    if (r->at < r->end) {
        r->at++;
        r->line++;
    }
    return XCVM_OK;
}

char xcvm_reader_peek(xcvm_reader *r)
{
    skip(r);
    return r->at < r->end ? *r->at : '\0';
}

bool xcvm_reader_accept(xcvm_reader *r, char c)
{
    if (xcvm_reader_at_text_end(r) || *r->at != c)
        return false;
    r->at++;
    return true;
}

xcvm_status xcvm_reader_expect(xcvm_reader *r, char c)
{
    char here[48];
    if (!xcvm_reader_accept(r, c))
        return xcvm_reader_fail(r, "`%c` is expected, not %s", c, xcvm_reader_here(r, here));
    return XCVM_OK;
}

size_t xcvm_reader_peek_word(xcvm_reader *r, const char **word)
{
    skip(r);
    *word = r->at;
    if (r->at == r->end || !is_word_start(*r->at))
        return 0;
    size_t length = 1;
    while (r->at + length < r->end && is_word(r->at[length]))
        length++;
    return length;
}

size_t xcvm_reader_word(xcvm_reader *r, const char **word)
{
    size_t length = xcvm_reader_peek_word(r, word);
    r->at += length;
    return length;
}

/* Reads letters, digits, _ and the characters in `more`. */
static xcvm_status read_characters(xcvm_reader *r, const char *what, const char *more, char token[XCVM_TOKEN_SIZE])
{
    char here[48];
    size_t length = 0;
    skip(r);
    while (r->at + length < r->end &&
           (is_word(r->at[length]) || (r->at[length] != '\0' && strchr(more, r->at[length]) != NULL)))
        length++;
    if (length == 0)
        return xcvm_reader_fail(r, "%s is expected, not %s", what, xcvm_reader_here(r, here));
    if (length >= XCVM_TOKEN_SIZE)
        return xcvm_reader_fail(r, "%s is expected, not %zu characters", what, length);
    memcpy(token, r->at, length);
    token[length] = '\0';
    r->at += length;
    return XCVM_OK;
}

xcvm_status xcvm_reader_token(xcvm_reader *r, const char *what, char token[XCVM_TOKEN_SIZE])
{
    return read_characters(r, what, "+-.", token);
}

bool xcvm_uint_parse(const char *token, uint64_t *value)
{
    bool hex = token[0] == '0' && (token[1] == 'x' || token[1] == 'X');
    uint64_t base = hex ? 16 : 10, sum = 0;
    const char *at = hex ? token + 2 : token;
    if (*at == '\0')
        return false;
    for (; *at != '\0'; at++) {
        char lower = (char)(*at | 0x20);
        uint64_t digit;
        if (is_digit(*at))
            digit = (uint64_t)(*at - '0');
        else if (hex && lower >= 'a' && lower <= 'f')
            digit = (uint64_t)(lower - 'a') + 10;
        else
            return false;
        if (__builtin_mul_overflow(sum, base, &sum) || __builtin_add_overflow(sum, digit, &sum))
            return false;
    }
    *value = sum;
    return true;
}

bool xcvm_int_parse(const char *token, int64_t *value)
{
    uint64_t magnitude;
    bool negative = token[0] == '-';
    if (!xcvm_uint_parse(negative || token[0] == '+' ? token + 1 : token, &magnitude))
        return false;
    if (negative && magnitude == (uint64_t)INT64_MAX + 1) {
        *value = INT64_MIN;
        return true;
    }
    if (magnitude > INT64_MAX)
        return false;
    *value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

xcvm_status xcvm_reader_int(xcvm_reader *r, int64_t min, int64_t max, int64_t *value)
{
    char token[XCVM_TOKEN_SIZE];
    XCVM_TRY(xcvm_reader_token(r, "an integer", token));
    if (!xcvm_int_parse(token, value))
        return xcvm_reader_fail(r, "an integer is expected, not `%.100s`", token);
    if (*value < min || *value > max)
        return xcvm_reader_fail(r, "%lld is not between %lld and %lld", (long long)*value, (long long)min,
                                (long long)max);
    return XCVM_OK;
}

xcvm_status xcvm_reader_uint(xcvm_reader *r, uint64_t max, uint64_t *value)
{
    char token[XCVM_TOKEN_SIZE];
    XCVM_TRY(read_characters(r, "a number", "", token));
    if (!xcvm_uint_parse(token, value) || *value > max)
        return xcvm_reader_fail(r, "a number up to %llu is expected, not `%.100s`", (unsigned long long)max, token);
    return XCVM_OK;
}

/* Decodes an escape. `at` points after the backslash and is advanced past the escape. Returns -1 for an unknown escape.
 */
static int read_escape(const char **at, const char *end)
{
    static const char letters[] = "ntr0\"'\\", bytes[] = "\n\t\r\0\"'\\";
    char c = *(*at)++;
    if (c == 'x' && end - *at >= 2) {
        char digits[] = {'0', 'x', (*at)[0], (*at)[1], '\0'};
        uint64_t byte;
        if (!xcvm_uint_parse(digits, &byte))
            return -1;
        *at += 2;
        return (int)byte;
    }
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;
    return letter != NULL ? (unsigned char)bytes[letter - letters] : -1;
}

xcvm_status xcvm_reader_string(xcvm_reader *r, const char **text, size_t *length)
{
    char here[48];
    if (!xcvm_reader_accept(r, '"'))
        return xcvm_reader_fail(r, "a string in quotes is expected, not %s", xcvm_reader_here(r, here));
    const char *close = r->at;
    while (close < r->end && *close != '"' && *close != '\n')
        close += *close == '\\' && close + 1 < r->end ? 2 : 1;
    if (close >= r->end || *close != '"')
        return xcvm_reader_fail(r, "a string is not closed");
    char *copy = xcvm_arena_allocate(r->arena, (size_t)(close - r->at) + 1);
    if (copy == NULL)
        return xcvm_reader_no_memory(r);
    size_t count = 0;
    while (r->at < close) {
        int byte = (unsigned char)*r->at++;
        if (byte == '\\' && *r->at == '\n') {
            r->at++;
            r->line++;
            continue;
        }
        if (byte == '\\') {
            byte = read_escape(&r->at, close);
            if (byte < 0)
                return xcvm_reader_fail(r, "a string has an unknown escape; \\n \\t \\r \\0 \\\" \\\\ and \\x with two "
                                           "digits are known");
        }
        copy[count++] = (char)byte;
    }
    r->at = close + 1;
    copy[count] = '\0';
    *text = copy;
    *length = count;
    return XCVM_OK;
}

bool xcvm_name_is_plain(const char *name, size_t length)
{
    if (length == 0 || !is_word_start(name[0]))
        return false;
    for (size_t i = 1; i < length; i++)
        if (!is_word(name[i]) && name[i] != '.')
            return false;
    return true;
}

xcvm_status xcvm_reader_name(xcvm_reader *r, const char **name)
{
    char here[48];
    size_t length;
    if (xcvm_reader_peek(r) == '"') {
        XCVM_TRY(xcvm_reader_string(r, name, &length));
        if (strlen(*name) != length)
            return xcvm_reader_fail(r, "a name has a NUL in it");
        return XCVM_OK;
    }
    const char *start;
    length = xcvm_reader_word(r, &start);
    if (length == 0)
        return xcvm_reader_fail(r, "a name is expected, not %s", xcvm_reader_here(r, here));
    while (r->at < r->end && (is_word(*r->at) || *r->at == '.')) {
        r->at++;
        length++;
    }
    *name = xcvm_arena_string(r->arena, start, length);
    return *name != NULL ? XCVM_OK : xcvm_reader_no_memory(r);
}
