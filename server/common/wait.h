/* Waiting for events, with a busy poll before the thread sleeps. */
#ifndef XCVM_SERVER_COMMON_WAIT_H
#define XCVM_SERVER_COMMON_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

/* Of one thread. */
typedef struct xcs_waiter {
    uint64_t longest_ns;   /* of a busy poll; 0: none */
    int most_polling;      /* threads of the process that may poll at once */
    uint64_t pauses_until; /* no busy poll before, because other threads need the processor; on the monotonic clock */
    bool expects_event;    /* the last wait was short, so the next one is likely to be */
    unsigned misses;       /* busy polls without an event, one after the other; bounded */
    unsigned skips;        /* waits until the next busy poll */
    uint64_t last;         /* data of the last event */
} xcs_waiter;

/* Returns a waiter that polls for up to `busy_poll_us` microseconds. It never polls if the process has one processor.
 */
xcs_waiter xcs_waiter_make(unsigned busy_poll_us);
/* Like epoll_wait. */
int xcs_waiter_wait(xcs_waiter *waiter, int epoll, struct epoll_event *events, int most, int timeout_ms);

#endif
