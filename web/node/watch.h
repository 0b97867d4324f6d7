/* A thread that cancels a run when JavaScript stores a number in shared memory. */
#ifndef XCVM_WEB_NODE_WATCH_H
#define XCVM_WEB_NODE_WATCH_H

#include "xcvm/xcvm.h"

#include <pthread.h>

typedef struct run_watch {
    const uint32_t *flag; /* NULL: nothing is watched */
    xcvm_session *session;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wakes;
    bool is_over;
    bool has_cancelled;
} run_watch;

/* Cancels runs of the session while `*flag` is not 0. Returns false if there is no thread. A NULL flag starts none. */
bool run_watch_start(run_watch *watch, xcvm_session *session, const uint32_t *flag);
/* Ends the thread. Returns whether it has cancelled. */
bool run_watch_end(run_watch *watch);

#endif
