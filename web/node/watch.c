/* A thread that cancels a run when JavaScript stores a number in shared memory. */
#include "web/node/watch.h"

#include <time.h>

enum { NANOSECONDS = 1000000 };

static void *watch_flag(void *user)
{
    run_watch *watch = user;
    pthread_mutex_lock(&watch->lock);
    while (!watch->is_over && !watch->has_cancelled) {
        if (__atomic_load_n(watch->flag, __ATOMIC_ACQUIRE) != 0) {
            watch->has_cancelled = true;
            xcvm_session_cancel(watch->session);
            break;
        }
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += NANOSECONDS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&watch->wakes, &watch->lock, &until);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

bool run_watch_start(run_watch *watch, xcvm_session *session, const uint32_t *flag)
{
    *watch = (run_watch){.flag = flag, .session = session};
    if (flag == NULL)
        return true;
    /* A flag that is set already needs no thread. */
    if (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != 0) {
        watch->flag = NULL;
        watch->has_cancelled = true;
        xcvm_session_cancel(session);
        return true;
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->wakes, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&watch->thread, NULL, watch_flag, watch) == 0)
        return true;
    pthread_cond_destroy(&watch->wakes);
    pthread_mutex_destroy(&watch->lock);
    watch->flag = NULL;
    return false;
}

bool run_watch_end(run_watch *watch)
{
    if (watch->flag == NULL)
        return watch->has_cancelled;
    pthread_mutex_lock(&watch->lock);
    watch->is_over = true;
    pthread_cond_signal(&watch->wakes);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->wakes);
    pthread_mutex_destroy(&watch->lock);
    return watch->has_cancelled;
}
