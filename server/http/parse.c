/* The parser is strict where two readers of the same bytes could disagree: line ends are CRLF, a field has no space
 * before its colon, and a body has one length. */
#include "server/http/parse.h"

#include <string.h>
#include <strings.h>

enum { MOST_TARGET = 8000, MOST_EXTRA = 16 << 10 };

/* ---- Characters ---- */

static bool is_token(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static int hex_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* ---- The request line ---- */

/* Decodes %XX in place, except %00, which would end the string. */
static void decode_path(char *path)
{
    char *to = path;
    for (const char *from = path; *from != '\0'; to++) {
        const int high = *from == '%' ? hex_of(from[1]) : -1, low = high >= 0 ? hex_of(from[2]) : -1;
        if (low >= 0 && high * 16 + low != 0) {
            *to = (char)(high * 16 + low);
            from += 3;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* The path of "/path?query" or "http://host/path?query". Other forms become a path that does not exist. */
static char *path_of(char *target)
{
    char *path = target;
    if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
        path = strchr(strchr(target, ':') + 3, '/');
        path = path != NULL ? path : target + strlen(target);
    }
    path[strcspn(path, "?#")] = '\0';
    decode_path(path);
    return path;
}

static int parse_version(const char *version, xcs_head *head)
{
    if (strncmp(version, "HTTP/", 5) != 0 || strlen(version) != 8 || version[6] != '.' || hex_of(version[5]) < 0 ||
        hex_of(version[5]) > 9 || hex_of(version[7]) < 0 || hex_of(version[7]) > 9)
        return 400;
    head->keep_alive = version[7] != '0';
    return version[5] == '1' ? 200 : 505;
}

/* METHOD SP TARGET SP VERSION */
static int parse_request_line(char *line, xcs_head *head)
{
    char *target = strchr(line, ' '), *version = target != NULL ? strchr(target + 1, ' ') : NULL;
    if (version == NULL || target == line || version == target + 1)
        return 400;
    *target++ = '\0';
    *version++ = '\0';
    for (const char *c = line; *c != '\0'; c++)
        if (!is_token((unsigned char)*c))
            return 400;
    for (const char *c = target; *c != '\0'; c++)
        if ((unsigned char)*c <= 0x20 || *c == 0x7f)
            return 400;
    const int status = parse_version(version, head);
    if (status != 200)
        return status;
    if (strlen(target) > MOST_TARGET)
        return 414;
    head->method = line;
    head->path = path_of(target);
    return 200;
}

/* ---- Fields ---- */

static int parse_field(char *line, xcs_head *head)
{
    char *colon = strchr(line, ':');
    if (colon == NULL || colon == line)
        return 400;
    if (head->field_count == XCS_HEAD_FIELDS)
        return 431;
    for (const char *c = line; c < colon; c++)
        if (!is_token((unsigned char)*c))
            return 400;
    *colon = '\0';
    char *value = colon + 1 + strspn(colon + 1, " \t");
    size_t length = strlen(value);
    while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t'))
        value[--length] = '\0';
    for (const char *c = value; *c != '\0'; c++)
        if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f)
            return 400;
    head->fields[head->field_count].name = line;
    head->fields[head->field_count++].value = value;
    return 200;
}

/* True if a list such as "keep-alive, Upgrade" has the word. */
static bool list_has(const char *list, const char *word)
{
    const size_t length = strlen(word);
    while (*list != '\0') {
        list += strspn(list, ", \t");
        const size_t item = strcspn(list, ", \t");
        if (item == length && strncasecmp(list, word, length) == 0)
            return true;
        list += item;
    }
    return false;
}

static int read_length(const char *text, xcs_head *head)
{
    uint64_t length = 0;
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits] != '\0')
        return 400;
    for (; *text != '\0'; text++)
        if (__builtin_mul_overflow(length, 10, &length) ||
            __builtin_add_overflow(length, (uint64_t)(*text - '0'), &length)) {
            length = UINT64_MAX;
            break;
        }
    if (head->has_length && length != head->content_length)
        return 400;
    head->has_length = true;
    head->content_length = length;
    return 200;
}

/* Fields that say where the request ends, and whether another one follows. */
static int read_framing(xcs_head *head)
{
    const bool is_first_version = !head->keep_alive; /* HTTP/1.0 */
    int status = 200, hosts = 0;
    for (size_t i = 0; status == 200 && i < head->field_count; i++) {
        const char *name = head->fields[i].name, *value = head->fields[i].value;
        switch (name[0] | 0x20) {
        case 'c':
            if (strcasecmp(name, "Content-Length") == 0)
                status = read_length(value, head);
            else if (strcasecmp(name, "Connection") == 0)
                head->keep_alive = list_has(value, "close") ? false : head->keep_alive || list_has(value, "keep-alive");
            break;
        case 't':
            if (strcasecmp(name, "Transfer-Encoding") != 0)
                break;
            status = strcasecmp(value, "chunked") != 0 ? 501 : head->chunked || is_first_version ? 400 : 200;
            head->chunked = true;
            break;
        case 'e':
            if (strcasecmp(name, "Expect") != 0)
                break;
            status = strcasecmp(value, "100-continue") == 0 ? 200 : 417;
            head->expects_continue = true;
            break;
        case 'h':
            hosts += strcasecmp(name, "Host") == 0;
            break;
        default:
            break;
        }
    }
    if (status == 200 && (hosts > 1 || (hosts == 0 && !is_first_version) || (head->chunked && head->has_length)))
        return 400;
    return status;
}

/* ---- The head ---- */

/* Finds the end of the head. Returns 0 if there is none yet, else a status. */
static int find_end(const char *text, size_t count, size_t *scanned, size_t *length)
{
    const char *at = text + *scanned, *const end = text + count, *newline;
    while ((newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        if (newline == text || newline[-1] != '\r')
            return 400;
        if (newline - text >= 3 && newline[-2] == '\n') {
            *length = (size_t)(newline + 1 - text);
            return *length <= XCS_HEAD_BYTES ? 200 : 431;
        }
        at = newline + 1;
    }
    *scanned = (size_t)(at - text);
    return count < XCS_HEAD_BYTES ? 0 : 431;
}

int xcs_head_parse(char *text, size_t count, size_t *scanned, xcs_head *head)
{
    size_t length = 0;
    int status = find_end(text, count, scanned, &length);
    if (status != 200)
        return status;
    if (memchr(text, '\0', length) != NULL)
        return 400;
    head->length = length;
    head->keep_alive = head->chunked = head->expects_continue = head->has_length = false;
    head->content_length = 0;
    head->field_count = 0;
    for (char *line = text, *next; status == 200 && line < text + length - 2; line = next) {
        char *end = memchr(line, '\n', (size_t)(text + length - line));
        next = end + 1;
        *--end = '\0';
        if (strchr(line, '\r') != NULL)
            return 400;
        status = line == text ? parse_request_line(line, head) : parse_field(line, head);
    }
    return status == 200 ? read_framing(head) : status;
}

const char *xcs_head_find(const xcs_head *head, const char *name)
{
    for (size_t i = 0; i < head->field_count; i++)
        if (strcasecmp(head->fields[i].name, name) == 0)
            return head->fields[i].value;
    return NULL;
}

/* ---- Chunked bodies ---- */

enum {
    AT_SIZE,
    IN_EXTENSION,
    AT_SIZE_END,
    IN_DATA,
    AT_DATA_CR,
    AT_DATA_LF,
    AT_TRAILER,
    IN_TRAILER,
    AT_TRAILER_END,
    AT_LAST,
    ENDED
};

/* Reads a byte outside of the data. Returns false if it is not valid. */
static bool read_frame(xcs_chunks *c, char byte)
{
    switch (c->state) {
    case AT_SIZE:
        if (hex_of(byte) >= 0) {
            c->left = c->left * 16 + (uint64_t)hex_of(byte);
            return ++c->digits <= 15;
        }
        c->state = byte == '\r' ? AT_SIZE_END : IN_EXTENSION;
        return c->digits > 0 && (byte == '\r' || byte == ';' || byte == ' ' || byte == '\t');
    case IN_EXTENSION:
        c->state = byte == '\r' ? AT_SIZE_END : IN_EXTENSION;
        return byte != '\n' && ++c->extra <= MOST_EXTRA;
    case AT_SIZE_END:
        c->state = c->left > 0 ? IN_DATA : AT_TRAILER;
        return byte == '\n';
    case AT_DATA_CR:
        c->state = AT_DATA_LF;
        return byte == '\r';
    case AT_DATA_LF:
        c->state = AT_SIZE;
        c->digits = 0;
        return byte == '\n';
    case AT_TRAILER:
        c->state = byte == '\r' ? AT_LAST : IN_TRAILER;
        return byte != '\n' && ++c->extra <= MOST_EXTRA;
    case IN_TRAILER:
        c->state = byte == '\r' ? AT_TRAILER_END : IN_TRAILER;
        return byte != '\n' && ++c->extra <= MOST_EXTRA;
    case AT_TRAILER_END:
        c->state = AT_TRAILER;
        return byte == '\n';
    case AT_LAST:
        c->state = ENDED;
        return byte == '\n';
    default:
        return false;
    }
}

xcs_chunks_result xcs_chunks_read(xcs_chunks *chunks, const char **at, const char *end, const char **data,
                                  size_t *length)
{
    while (*at < end) {
        if (chunks->state == IN_DATA) {
            const size_t there = (size_t)(end - *at);
            *data = *at;
            *length = chunks->left < there ? (size_t)chunks->left : there;
            *at += *length;
            chunks->left -= *length;
            chunks->state = chunks->left > 0 ? IN_DATA : AT_DATA_CR;
            return XCS_CHUNKS_DATA;
        }
        if (!read_frame(chunks, *(*at)++))
            return XCS_CHUNKS_INVALID;
        if (chunks->state == ENDED)
            return XCS_CHUNKS_END;
    }
    return XCS_CHUNKS_MORE;
}
