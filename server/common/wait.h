/* Waiting for events, with a busy poll before the thread sleeps. */
#ifndef XCVM_SERVER_COMMON_WAIT_H
#define XCVM_SERVER_COMMON_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

/* Looks at the source of the last event, without epoll. Returns true if it has something. */
typedef struct xcs_probe {
    bool (*call)(void *user);
    void *user;
} xcs_probe;

/* The probe has found something. */
enum { XCS_WAIT_PROBED = -2 };

/* Of one thread. */
typedef struct xcs_waiter {
    xcs_probe probe;       /* or none. Busy polls use it, because it takes one system call less than epoll */
    uint64_t longest_ns;   /* of a busy poll; 0: none */
    int most_polling;      /* threads of the process that may poll at once */
    uint64_t pauses_until; /* no busy poll before, because other threads need the processor; on the monotonic clock */
    bool expects_event;    /* the last wait was short, so the next one is likely to be */
    unsigned misses;       /* busy polls without an event, one after the other; bounded */
    unsigned skips;        /* waits until the next busy poll */
    uint64_t last;         /* data of the last event */
    uint64_t looked_ns;    /* when epoll was asked last; on the monotonic clock */
} xcs_waiter;

/* Returns a waiter that polls for up to `busy_poll_us` microseconds. It never polls if the process has one processor.
 */
xcs_waiter xcs_waiter_make(unsigned busy_poll_us);
/* Like epoll_wait, or XCS_WAIT_PROBED. */
int xcs_waiter_wait(xcs_waiter *waiter, int epoll, struct epoll_event *events, int most, int timeout_ms);

#endif
