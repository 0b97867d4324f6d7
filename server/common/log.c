/* The access log: a JSON object on a line for each request. */
#include "server/common/log.h"

#include "base/clock.h"
#include "server/json/text.h"

#include <string.h>
#include <time.h>

static void put_quoted(xcs_text *text, const char *string) { xcs_text_quote(text, string, strlen(string)); }

void xcs_log_write(xcs_log *log, const xcs_log_entry *entry)
{
    if (log->sink.call == NULL)
        return;
    xcs_text line = {.allocator = NULL};
    struct timespec now;
    struct tm utc;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || gmtime_r(&now.tv_sec, &utc) == NULL)
        return;
    xcs_text_format(&line, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\",\"method\":", utc.tm_year + 1900,
                    utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
    put_quoted(&line, entry->method);
    xcs_text_put(&line, ",\"path\":");
    put_quoted(&line, entry->path);
    xcs_text_format(&line, ",\"status\":%d", entry->status);
    if (entry->grpc_status >= 0)
        xcs_text_format(&line, ",\"grpc_status\":%d", entry->grpc_status);
    xcs_text_format(&line, ",\"bytes_in\":%zu,\"bytes_out\":%zu,\"us\":%llu,\"sent\":%s", entry->bytes_in,
                    entry->bytes_out, (unsigned long long)((xcvm_clock_ns() - entry->begin_ns) / 1000),
                    entry->sent ? "true" : "false");
    if (entry->model != NULL) {
        xcs_text_put(&line, ",\"model\":");
        put_quoted(&line, xcs_model_name(entry->model));
        xcs_text_format(&line, ",\"version\":\"%s\"", xcs_model_version(entry->model));
    }
    if (entry->id != NULL) {
        xcs_text_put(&line, ",\"id\":");
        put_quoted(&line, entry->id);
    }
    if (entry->trace_id != NULL)
        xcs_text_format(&line, ",\"trace_id\":\"%s\"", entry->trace_id);
    xcs_text_put(&line, "}\n");
    pthread_mutex_lock(log->mutex);
    if (line.failed || !log->sink.call(log->sink.user, line.at, line.count))
        log->lost_lines++;
    pthread_mutex_unlock(log->mutex);
    xcs_text_free(&line);
}
