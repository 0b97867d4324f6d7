/* A thread that cancels a run when JavaScript stores a number in shared memory. */
#ifndef XCVM_WEB_NODE_MONITOR_H
#define XCVM_WEB_NODE_MONITOR_H

#include "xcvm/xcvm.h"

#include <pthread.h>

typedef struct run_monitor {
    const uint32_t *flag; /* NULL: nothing is monitored */
    xcvm_session *session;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wakes;
    bool is_over;
    bool has_cancelled;
} run_monitor;

/* Cancels runs of the session while `*flag` is not 0. Returns false if there is no thread. A NULL flag starts none. */
bool run_monitor_start(run_monitor *monitor, xcvm_session *session, const uint32_t *flag);
/* Ends the thread. Returns whether it has cancelled. */
bool run_monitor_end(run_monitor *monitor);

#endif
