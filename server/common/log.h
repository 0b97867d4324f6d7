/* The access log. */
#ifndef XCVM_SERVER_COMMON_LOG_H
#define XCVM_SERVER_COMMON_LOG_H

#include "base/allocator.h"
#include "xcvm/server.h"

#include <pthread.h>

typedef struct xcs_log_entry {
    const char *method, *path;
    int status;      /* of HTTP */
    int grpc_status; /* -1: none */
    size_t bytes_in, bytes_out;
    uint64_t begin_ns;      /* on the monotonic clock */
    bool sent;              /* the client has received the response */
    const xcs_model *model; /* NULL: none */
    const char *id;         /* of the request; NULL: none */
    const char *trace_id;   /* NULL: the request is not sampled */
} xcs_log_entry;

typedef struct xcs_log {
    xcvm_sink sink;         /* without a function: no log */
    pthread_mutex_t *mutex; /* held during its calls */
    uint64_t lost_lines;
} xcs_log;

/* Writes a JSON object on a line. A line that cannot be written is counted as lost, because a full disk must not stop
 * the service. */
void xcs_log_write(xcs_log *log, const xcs_log_entry *entry);

#endif
