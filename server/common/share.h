/* Memory that the connections of a server share, so that a few of them cannot take what all others need. */
#ifndef XCVM_SERVER_COMMON_SHARE_H
#define XCVM_SERVER_COMMON_SHARE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct xcs_share {
    size_t limit; /* bytes */
    size_t held;  /* by all connections; atomic */
} xcs_share;

/* The limit for a server whose messages have at most this many bytes. */
size_t xcs_share_limit(size_t message_limit);
/* Counts bytes that something holds now, in place of *counted. `connection` has those of everything of its connection,
 * and is of one thread; NULL: it is closed. Returns false if the connection then holds more than its part: half of what
 * the others leave. So each further connection finds a part that is free. */
bool xcs_share_hold(xcs_share *share, size_t *connection, size_t *counted, size_t bytes);

#endif
