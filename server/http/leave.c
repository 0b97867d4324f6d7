/* Clients that leave: a suspended connection is not read, so a thread waits for its end and cancels the request. */
#include "server/http/exchange.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct xcs_leave_monitor {
    xcvm_allocator allocator;
    int epoll, stop;
    pthread_t thread;
    pthread_mutex_t mutex; /* of the list */
    xcs_exchange *first;
    uint64_t last_id; /* 0 is the event that stops the thread */
};

/* A connection may have ended after the event, so that its number is in use again. */
static void cancel_by_id(xcs_leave_monitor *monitor, uint64_t id)
{
    pthread_mutex_lock(&monitor->mutex);
    for (xcs_exchange *exchange = monitor->first; exchange != NULL; exchange = exchange->next)
        if (exchange->monitor_id == id) {
            xcs_request_cancel(exchange->request);
            break;
        }
    pthread_mutex_unlock(&monitor->mutex);
}

static void *monitor_connections(void *argument)
{
    xcs_leave_monitor *monitor = argument;
    for (;;) {
        struct epoll_event events[32];
        const int count = epoll_wait(monitor->epoll, events, sizeof events / sizeof *events, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == 0)
                return NULL;
            cancel_by_id(monitor, events[i].data.u64);
        }
    }
}

xcvm_status xcs_leave_monitor_create(const xcvm_allocator *allocator, xcs_leave_monitor **monitor, xcvm_error *error)
{
    xcs_leave_monitor *created = xcvm_allocate_zeroed(allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for a monitor of connections");
    created->allocator = *allocator;
    created->epoll = epoll_create1(EPOLL_CLOEXEC);
    created->stop = eventfd(0, EFD_CLOEXEC);
    struct epoll_event stop = {.events = EPOLLIN};
    if (created->epoll >= 0 && created->stop >= 0 &&
        epoll_ctl(created->epoll, EPOLL_CTL_ADD, created->stop, &stop) == 0 &&
        pthread_mutex_init(&created->mutex, NULL) == 0) {
        if (pthread_create(&created->thread, NULL, monitor_connections, created) == 0) {
            *monitor = created;
            return XCVM_OK;
        }
        pthread_mutex_destroy(&created->mutex);
    }
    if (created->epoll >= 0)
        close(created->epoll);
    if (created->stop >= 0)
        close(created->stop);
    xcvm_deallocate(allocator, created, sizeof *created);
    XCVM_FAIL(error, OUT_OF_MEMORY, "the system has no descriptor or thread for a monitor of connections");
}

void xcs_leave_monitor_destroy(xcs_leave_monitor *monitor)
{
    if (monitor == NULL)
        return;
    const uint64_t one = 1;
    if (write(monitor->stop, &one, sizeof one) == sizeof one)
        pthread_join(monitor->thread, NULL);
    close(monitor->epoll);
    close(monitor->stop);
    pthread_mutex_destroy(&monitor->mutex);
    const xcvm_allocator allocator = monitor->allocator;
    xcvm_deallocate(&allocator, monitor, sizeof *monitor);
}

void xcs_leave_monitor_add(xcs_leave_monitor *monitor, xcs_exchange *exchange, int descriptor)
{
    pthread_mutex_lock(&monitor->mutex);
    exchange->monitor_id = ++monitor->last_id;
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = exchange->monitor_id};
    if (epoll_ctl(monitor->epoll, EPOLL_CTL_ADD, descriptor, &event) == 0) {
        exchange->before = NULL;
        exchange->next = monitor->first;
        if (exchange->next != NULL)
            exchange->next->before = exchange;
        monitor->first = exchange;
        exchange->monitored = true;
    }
    pthread_mutex_unlock(&monitor->mutex);
}

void xcs_leave_monitor_remove(xcs_leave_monitor *monitor, xcs_exchange *exchange, int descriptor)
{
    pthread_mutex_lock(&monitor->mutex);
    *(exchange->before != NULL ? &exchange->before->next : &monitor->first) = exchange->next;
    if (exchange->next != NULL)
        exchange->next->before = exchange->before;
    pthread_mutex_unlock(&monitor->mutex);
    (void)epoll_ctl(monitor->epoll, EPOLL_CTL_DEL, descriptor, NULL);
}
