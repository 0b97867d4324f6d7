/* A thread that cancels a run when JavaScript stores a number in shared memory. */
#include "web/node/monitor.h"

#include <time.h>

enum { NANOSECONDS = 1000000 };

static void *monitor_flag(void *user)
{
    run_monitor *monitor = user;
    pthread_mutex_lock(&monitor->lock);
    while (!monitor->is_over && !monitor->has_cancelled) {
        if (__atomic_load_n(monitor->flag, __ATOMIC_ACQUIRE) != 0) {
            monitor->has_cancelled = true;
            xcvm_session_cancel(monitor->session);
            break;
        }
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += NANOSECONDS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&monitor->wakes, &monitor->lock, &until);
    }
    pthread_mutex_unlock(&monitor->lock);
    return NULL;
}

bool run_monitor_start(run_monitor *monitor, xcvm_session *session, const uint32_t *flag)
{
    *monitor = (run_monitor){.flag = flag, .session = session};
    if (flag == NULL)
        return true;
    /* A flag that is set already needs no thread. */
    if (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != 0) {
        monitor->flag = NULL;
        monitor->has_cancelled = true;
        xcvm_session_cancel(session);
        return true;
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&monitor->lock, NULL);
    pthread_cond_init(&monitor->wakes, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&monitor->thread, NULL, monitor_flag, monitor) == 0)
        return true;
    pthread_cond_destroy(&monitor->wakes);
    pthread_mutex_destroy(&monitor->lock);
    monitor->flag = NULL;
    return false;
}

bool run_monitor_end(run_monitor *monitor)
{
    if (monitor->flag == NULL)
        return monitor->has_cancelled;
    pthread_mutex_lock(&monitor->lock);
    monitor->is_over = true;
    pthread_cond_signal(&monitor->wakes);
    pthread_mutex_unlock(&monitor->lock);
    pthread_join(monitor->thread, NULL);
    pthread_cond_destroy(&monitor->wakes);
    pthread_mutex_destroy(&monitor->lock);
    return monitor->has_cancelled;
}
