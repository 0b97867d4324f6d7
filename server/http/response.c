/* The head of a response. */
#include "server/http/connection.h"

#include "server/page/page.h"

#include <string.h>

static char *put(char *to, const char *text)
{
    const size_t length = strlen(text);
    memcpy(to, text, length);
    return to + length;
}

static char *put_number(char *to, size_t number)
{
    char digits[24];
    size_t count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (count > 0)
        *to++ = digits[--count];
    return to;
}

static char *put_field(char *to, const char *name, size_t number)
{
    to = put_number(put(to, name), number);
    return put(to, "\r\n");
}

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {{200, "OK"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {408, "Request Timeout"},
                   {413, "Content Too Large"},
                   {414, "URI Too Long"},
                   {415, "Unsupported Media Type"},
                   {417, "Expectation Failed"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {499, "Client Closed Request"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"},
                   {504, "Gateway Timeout"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Error";
}

/* All lines together are shorter than XCS_OUT_BYTES: each has a constant text and at most one number. */
size_t xcs_response_head(const xcs_connection *connection, char *to)
{
    const xcs_exchange *e = connection->exchange;
    char *at = put(to, "HTTP/1.1 ");
    at = put(put_number(at, (size_t)e->status), " ");
    at = put(put(at, reason_of(e->status)), "\r\n");
    at = put(put(put(at, "Content-Type: "), e->content_type), "\r\n");
    at = put_field(at, "Content-Length: ", e->response.count);
    at = put(at, xcs_loop_date(connection->loop));
    if (e->header_length != 0)
        at = put_field(at, "Inference-Header-Content-Length: ", e->header_length);
    if (e->retry_after_s != 0)
        at = put_field(at, "Retry-After: ", e->retry_after_s);
    if (e->status == 401)
        at = put(at, "WWW-Authenticate: Bearer\r\n");
    if (e->status == 405)
        at = put(put(put(at, "Allow: "), xcs_route_method(e->route.target)), "\r\n");
    if (e->route.target == XCS_TARGET_PAGE && e->status == 200)
        at = put(at, xcs_page_headers);
    if (e->trace != NULL)
        at = put(put(put(at, "Traceresponse: "), xcs_trace_response(e->trace)), "\r\n");
    if (!connection->keep_alive)
        at = put(at, "Connection: close\r\n");
    at = put(at, "\r\n");
    return (size_t)(at - to);
}
