/* Memory that the connections of a server share. */
#include "server/common/share.h"

size_t xcs_share_limit(size_t message_limit)
{
    /* A small limit of messages must not refuse many requests at once, nor responses that are longer than requests. */
    const size_t least = (size_t)256 << 20, wanted = 8 * message_limit;
    return wanted > least ? wanted : least;
}

bool xcs_share_hold(xcs_share *share, size_t *connection, size_t *counted, size_t bytes)
{
    const size_t more = bytes - *counted; /* modulo 2^64 if it is less */
    const bool grows = bytes > *counted;
    *counted = bytes;
    const size_t held = __atomic_add_fetch(&share->held, more, __ATOMIC_RELAXED);
    if (connection == NULL)
        return true;
    *connection += more;
    const size_t others = held - *connection;
    /* One request may always hold something. */
    return !grows || held == bytes || (others < share->limit && *connection <= (share->limit - others) / 2);
}
