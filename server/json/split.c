/* Finds the arrays of elements in an inference request without parsing them. */
#include "server/json/split.h"

#include <string.h>

enum { DEEPEST = 16 };

typedef struct scanner {
    const char *at, *end;
    char open[DEEPEST + 1]; /* '{' or '[' of each depth, from 1 */
    int depth;
    bool expects_key;
    bool in_inputs; /* the key of the outermost object is "inputs" */
    bool is_data;   /* the key of an input is "data" */
} scanner;

/* Returns the end of the string at `at`, or NULL. */
static const char *end_of_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\' && at + 1 < end;
    return at < end ? at + 1 : NULL;
}

/* Returns the end of the array at `at`, or NULL. */
static const char *end_of_array(const char *at, const char *end)
{
    /* Nearly all arrays are flat and have no strings. */
    const char *close = memchr(at, ']', (size_t)(end - at));
    if (close == NULL)
        return NULL;
    const size_t inside = (size_t)(close - at - 1);
    if (memchr(at + 1, '[', inside) == NULL && memchr(at + 1, '"', inside) == NULL)
        return close + 1;
    int64_t depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = end_of_string(at, end);
            if (at == NULL)
                return NULL;
            continue;
        }
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
        at++;
        if (depth == 0)
            return at;
    }
    return NULL;
}

static bool key_is(const char *at, const char *end, const char *key)
{
    const size_t length = strlen(key);
    return (size_t)(end - at) == length + 2 && memcmp(at + 1, key, length) == 0;
}

static void note_key(scanner *s, const char *end)
{
    if (s->depth == 1)
        s->in_inputs = key_is(s->at, end, "inputs");
    else if (s->depth == 3)
        s->is_data = key_is(s->at, end, "data");
    s->expects_key = false;
}

static bool at_data(const scanner *s)
{
    return s->depth == 3 && s->in_inputs && s->is_data && s->open[1] == '{' && s->open[2] == '[' && s->open[3] == '{';
}

/* Moves past a token other than an array of elements. */
static xcvm_status skip_token(scanner *s, xcvm_error *error)
{
    const char c = *s->at;
    if (c == '"') {
        const char *end = end_of_string(s->at, s->end);
        XCVM_CHECK(error, end != NULL, INVALID_ARGUMENT, "the JSON document is not valid: a string does not end");
        if (s->expects_key && s->depth > 0 && s->open[s->depth] == '{')
            note_key(s, end);
        s->at = end;
        return XCVM_OK;
    }
    s->at++;
    if (c == '{' || c == '[') {
        XCVM_CHECK(error, s->depth < DEEPEST, INVALID_ARGUMENT, "the JSON document is nested more than %d deep",
                   DEEPEST);
        s->open[++s->depth] = c;
        s->expects_key = c == '{';
    } else if (c == '}' || c == ']') {
        XCVM_CHECK(error, s->depth > 0, INVALID_ARGUMENT, "the JSON document is not valid: \"%c\" closes nothing", c);
        s->depth--;
        s->expects_key = false;
    } else if (c == ',') {
        s->expects_key = true;
    }
    return XCVM_OK;
}

xcvm_status xcs_json_split(const char *body, size_t length, size_t rest_limit, xcs_text *rest, xcs_span *arrays,
                           size_t capacity, size_t *count, xcvm_error *error)
{
    scanner s = {.at = body, .end = body + length};
    const char *copied = body;
    size_t found = 0;
    while (s.at < s.end) {
        const bool value_follows = *s.at == ':' && at_data(&s);
        XCVM_TRY(skip_token(&s, error));
        if (!value_follows)
            continue;
        while (s.at < s.end && strchr(" \n\r\t", *s.at) != NULL && *s.at != '\0')
            s.at++;
        s.is_data = false;
        XCVM_CHECK(error, s.at < s.end && *s.at == '[', INVALID_ARGUMENT, "input %zu: \"data\" is not an array", found);
        XCVM_CHECK(error, found < capacity, INVALID_ARGUMENT, "more than %zu inputs", capacity);
        arrays[found] = (xcs_span){s.at, end_of_array(s.at, s.end)};
        XCVM_CHECK(error, arrays[found].end != NULL, INVALID_ARGUMENT,
                   "the JSON document is not valid: the array of input %zu does not end", found);
        xcs_text_add(rest, copied, (size_t)(s.at - copied));
        xcs_text_format(rest, "%zu", found);
        s.at = copied = arrays[found++].end;
        XCVM_CHECK(error, rest->count <= rest_limit, INVALID_ARGUMENT,
                   "the JSON document is too large without its data");
    }
    XCVM_CHECK(error, (size_t)(s.end - copied) <= rest_limit - rest->count, INVALID_ARGUMENT,
               "the JSON document is too large without its data");
    xcs_text_add(rest, copied, (size_t)(s.end - copied));
    XCVM_CHECK(error, !rest->failed, OUT_OF_MEMORY, "no memory for a request");
    *count = found;
    return XCVM_OK;
}
