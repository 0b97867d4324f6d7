/* Check of a regular expression against RE2's syntax. */
#include "ops/text/regex_syntax.h"

#include <string.h>

static bool is_one_of(char c, const char *set) { return c != '\0' && strchr(set, c) != NULL; }

static bool is_letter_or_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Checks what follows "(?": a non-capturing group, a named group, or flags. */
static bool is_group(const char *at, size_t left)
{
    if (left > 0 && at[0] == ':')
        return true;
    if (left > 2 && at[0] == 'P' && at[1] == '<')
        return true;
    if (left > 1 && at[0] == '<')
        return at[1] != '=' && at[1] != '!';
    size_t i = 0;
    while (i < left && is_one_of(at[i], "imsU-"))
        i++;
    return i > 0 && i < left && (at[i] == ':' || at[i] == ')');
}

/* Length of "{2}", "{2,}" or "{2,3}"; 0 if it is none of them. */
static size_t count_length(const char *at, size_t left)
{
    size_t i = 1, digits = 0;
    for (; i < left && at[i] >= '0' && at[i] <= '9'; i++)
        digits++;
    if (digits == 0 || i == left)
        return 0;
    if (at[i] == ',')
        for (i++; i < left && at[i] >= '0' && at[i] <= '9';)
            i++;
    return i < left && at[i] == '}' ? i + 1 : 0;
}

xcvm_status xcvm_regex_check_syntax(const char *pattern, size_t length, xcvm_error *error)
{
    bool in_class = false, repeated = false;
    for (size_t i = 0; i < length; i++) {
        const char c = pattern[i];
        const size_t left = length - i - 1;
        const bool after_repetition = repeated;
        repeated = false;
        if (c == '\\' && left > 0) {
            const char e = pattern[++i];
            if (e == 'Q') {
                const char *end = memmem(pattern + i, length - i, "\\E", 2);
                i = end != NULL ? (size_t)(end - pattern) + 1 : length;
                continue;
            }
            const bool octal =
                e >= '0' && e <= '7' && (e == '0' || (i + 1 < length && is_one_of(pattern[i + 1], "01234567")));
            XCVM_CHECK(error,
                       !is_letter_or_digit(e) || octal ||
                           is_one_of(e, in_class ? "afnrtdDsSwWpPx" : "afnrtdDsSwWpPxAbBzQE"),
                       UNSUPPORTED, "'\\%c' at %zu of the pattern is not in the syntax of RE2", e, i - 1);
            continue;
        }
        if (in_class) {
            const char *end =
                c == '[' && left > 0 && pattern[i + 1] == ':' ? memmem(pattern + i, length - i, ":]", 2) : NULL;
            i = end != NULL ? (size_t)(end - pattern) + 1 : i;
            in_class = c != ']';
            continue;
        }
        if (c == '[') {
            /* A leading ']' belongs to the class. */
            in_class = true;
            i += i + 1 < length && pattern[i + 1] == '^';
            i += i + 1 < length && pattern[i + 1] == ']';
            continue;
        }
        if (c == '(' && left > 0 && pattern[i + 1] == '?')
            XCVM_CHECK(error, is_group(pattern + i + 2, left - 1), UNSUPPORTED,
                       "the group \"%.*s\" at %zu of the pattern is not in the syntax of RE2",
                       left > 2 ? 4 : (int)left + 1, pattern + i, i);
        if (c == '(' && left > 0 && pattern[i + 1] == '*')
            return xcvm_error_set(error, XCVM_UNSUPPORTED, "\"(*\" at %zu of the pattern is not in the syntax of RE2",
                                  i);
        XCVM_CHECK(error, !(after_repetition && is_one_of(c, "*+")), UNSUPPORTED,
                   "the repetition at %zu of the pattern is repeated, which is not in the syntax of RE2", i);
        repeated = is_one_of(c, "*+?") && !after_repetition;
        const size_t braces = c == '{' ? count_length(pattern + i, length - i) : 0;
        if (braces > 0) {
            repeated = true;
            i += braces - 1;
        }
    }
    return XCVM_OK;
}
