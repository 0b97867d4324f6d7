/* The access log: a JSON object on a line for each request. */
#include "server/http/exchange.h"

#include "base/clock.h"

#include <string.h>
#include <time.h>

void xcs_log_exchange(xcs_exchange *exchange, bool sent)
{
    xcs_http *http = exchange->http;
    if (http->options.access_log.call == NULL)
        return;
    xcs_text line = {.allocator = &http->allocator};
    struct timespec now;
    struct tm utc;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || gmtime_r(&now.tv_sec, &utc) == NULL)
        return;
    xcs_text_format(&line, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\",\"method\":", utc.tm_year + 1900,
                    utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
    xcs_text_quote(&line, exchange->method, strlen(exchange->method));
    xcs_text_put(&line, ",\"path\":");
    xcs_text_quote(&line, exchange->path, strlen(exchange->path));
    xcs_text_format(&line, ",\"status\":%d,\"bytes_in\":%zu,\"bytes_out\":%zu,\"us\":%llu,\"sent\":%s",
                    exchange->status, exchange->body_bytes, exchange->response.count,
                    (unsigned long long)((xcvm_clock_ns() - exchange->begin_ns) / 1000), sent ? "true" : "false");
    if (exchange->model != NULL) {
        xcs_text_put(&line, ",\"model\":");
        xcs_text_quote(&line, xcs_model_name(exchange->model), strlen(xcs_model_name(exchange->model)));
        xcs_text_format(&line, ",\"version\":\"%s\"", xcs_model_version(exchange->model));
    }
    if (exchange->infer.id != NULL) {
        xcs_text_put(&line, ",\"id\":");
        xcs_text_quote(&line, exchange->infer.id, strlen(exchange->infer.id));
    }
    xcs_text_put(&line, "}\n");
    pthread_mutex_lock(&http->mutex);
    /* A full disk must not stop the service. */
    if (line.failed || !http->options.access_log.call(http->options.access_log.user, line.at, line.count))
        http->lost_lines++;
    pthread_mutex_unlock(&http->mutex);
    xcs_text_free(&line);
}
