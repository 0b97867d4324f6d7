/* A busy poll saves the time that the kernel needs to wake a thread, which on an idle virtual machine exceeds that of a
 * small request. It is adaptive, as the halt polling of KVM (Documentation/virt/kvm/halt-polling.rst): a thread polls
 * only if its last wait was as short as a poll may be. */
#include "server/common/wait.h"

#include "base/clock.h"
#include "xcvm/xcvm.h"

/* Time between two polls that shows that the processor has done something else. */
#define PREEMPTED_NS UINT64_C(200000)
/* How long a thread does not poll after that. */
#define PAUSE_NS UINT64_C(10000000)
/* The longest time that the kernel usually needs to wake a thread. A wait without a busy poll includes it. */
#define WAKE_NS UINT64_C(100000)
/* How long probes may keep the thread from other events: without success, and with. */
#define LOOK_NS UINT64_C(20000)
#define LOOK_BETWEEN_NS UINT64_C(100000)
/* After so many busy polls without an event, the next one comes after two to the power of them waits. */
enum { MOST_MISSES = 6 };

/* Threads of the process that poll now. Atomic. */
static int polling;

xcs_waiter xcs_waiter_make(unsigned busy_poll_us)
{
    const int processors = xcvm_available_thread_count();
    return (xcs_waiter){.longest_ns = processors > 1 ? (uint64_t)busy_poll_us * 1000 : 0,
                        .most_polling = processors / 2};
}

static int look(xcs_waiter *w, int epoll, struct epoll_event *events, int most, uint64_t now, bool first)
{
    if (w->probe.call != NULL && now - w->looked_ns < (first ? LOOK_BETWEEN_NS : LOOK_NS))
        return w->probe.call(w->probe.user) ? XCS_WAIT_PROBED : 0;
    w->looked_ns = now;
    return epoll_wait(epoll, events, most, 0);
}

/* Returns a positive number of events, XCS_WAIT_PROBED, or 0 if the thread must sleep. */
static int poll_busily(xcs_waiter *w, int epoll, struct epoll_event *events, int most, uint64_t begin)
{
    int count = 0;
    if (__atomic_add_fetch(&polling, 1, __ATOMIC_RELAXED) <= w->most_polling)
        for (uint64_t now = begin, last = begin; count == 0 && now - begin < w->longest_ns; last = now) {
            count = look(w, epoll, events, most, now, now == begin);
            now = xcvm_clock_ns();
            if (now - last <= PREEMPTED_NS)
                continue;
            w->pauses_until = now + PAUSE_NS;
            break;
        }
    __atomic_sub_fetch(&polling, 1, __ATOMIC_RELAXED);
    return count == -1 ? 0 : count;
}

int xcs_waiter_wait(xcs_waiter *w, int epoll, struct epoll_event *events, int most, int timeout_ms)
{
    if (w->longest_ns == 0)
        return epoll_wait(epoll, events, most, timeout_ms);
    const uint64_t begin = xcvm_clock_ns();
    int count = 0;
    const bool may_poll = w->expects_event && timeout_ms != 0 && begin >= w->pauses_until;
    const bool polls = may_poll && w->skips == 0;
    w->skips -= may_poll && w->skips > 0;
    if (polls) {
        count = poll_busily(w, epoll, events, most, begin);
        w->misses = count != 0 ? 0 : w->misses < MOST_MISSES ? w->misses + 1 : MOST_MISSES;
        w->skips = count != 0 ? 0 : 1U << w->misses;
    }
    if (count == 0)
        count = epoll_wait(epoll, events, most, timeout_ms);
    const bool is_same = count == XCS_WAIT_PROBED || (count == 1 && events[0].data.u64 == w->last);
    if (count != XCS_WAIT_PROBED)
        w->last = count > 0 ? events[count - 1].data.u64 : 0;
    const uint64_t end = xcvm_clock_ns();
    if (!polls)
        w->looked_ns = end;
    w->expects_event = is_same && end - begin <= w->longest_ns + WAKE_NS;
    return count;
}
