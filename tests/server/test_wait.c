/* Tests of waiting with a busy poll: it returns what epoll_wait returns. */
#include "server/common/wait.h"
#include "tests/suites.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 200 };

typedef struct pair {
    int epoll, question, answer;
} pair;

static pair open_pair(void)
{
    const pair p = {epoll_create1(0), eventfd(0, EFD_NONBLOCK), eventfd(0, 0)};
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7};
    ck_assert_int_eq(epoll_ctl(p.epoll, EPOLL_CTL_ADD, p.question, &event), 0);
    return p;
}

static void close_pair(pair p)
{
    close(p.epoll);
    close(p.question);
    close(p.answer);
}

/* Asks, and waits for the answer; sometimes longer than a busy poll lasts. */
static void *ask(void *argument)
{
    const pair *p = argument;
    for (int i = 0; i < ROUNDS; i++) {
        eventfd_t value;
        const struct timespec pause = {.tv_nsec = 300000};
        if (i % 8 == 7)
            nanosleep(&pause, NULL);
        ck_assert_int_eq(eventfd_write(p->question, 1), 0);
        ck_assert_int_eq(eventfd_read(p->answer, &value), 0);
    }
    return NULL;
}

START_TEST(events)
{
    static const unsigned polls[] = {0, 1, 50, 1000};
    for (size_t i = 0; i < sizeof polls / sizeof *polls; i++) {
        pair p = open_pair();
        xcs_waiter waiter = xcs_waiter_make(polls[i]);
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, ask, &p), 0);
        for (int round = 0; round < ROUNDS; round++) {
            struct epoll_event event = {.events = 0};
            eventfd_t value;
            ck_assert_int_eq(xcs_waiter_wait(&waiter, p.epoll, &event, 1, -1), 1);
            ck_assert_uint_eq(event.data.u64, 7);
            ck_assert_int_eq(eventfd_read(p.question, &value), 0);
            ck_assert_int_eq(eventfd_write(p.answer, 1), 0);
        }
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        close_pair(p);
    }
}
END_TEST

/* After a short wait the next one polls; it still ends at its timeout. */
START_TEST(timeouts)
{
    pair p = open_pair();
    xcs_waiter waiter = xcs_waiter_make(1000);
    struct epoll_event event;
    eventfd_t value;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            ck_assert_int_eq(eventfd_write(p.question, 1), 0);
            ck_assert_int_eq(xcs_waiter_wait(&waiter, p.epoll, &event, 1, 1000), 1);
            ck_assert_int_eq(eventfd_read(p.question, &value), 0);
        }
        ck_assert_int_eq(xcs_waiter_wait(&waiter, p.epoll, &event, 1, 0), 0);
        ck_assert_int_eq(xcs_waiter_wait(&waiter, p.epoll, &event, 1, 2), 0);
    }
    ck_assert_int_eq(xcs_waiter_wait(&waiter, -1, &event, 1, 0), -1);
    close_pair(p);
}
END_TEST

/* Finds what the source of the last event has, until another source has something. */
typedef struct probed {
    const pair *pair;
    int calls, found;
} probed;

static bool find(void *user)
{
    probed *p = user;
    eventfd_t value;
    p->calls++;
    if (eventfd_read(p->pair->question, &value) != 0)
        return false;
    p->found++;
    return true;
}

START_TEST(probes)
{
    pair p = open_pair();
    probed found = {.pair = &p};
    xcs_waiter waiter = xcs_waiter_make(1000);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 8};
    const int other = eventfd(0, EFD_NONBLOCK);
    eventfd_t value;
    ck_assert_int_eq(epoll_ctl(p.epoll, EPOLL_CTL_ADD, other, &event), 0);
    waiter.probe = (xcs_probe){find, &found};
    /* A busy machine may keep the waiter from polls. */
    for (int round = 0; found.found < 20; round++) {
        ck_assert_int_lt(round, 100000);
        ck_assert_int_eq(eventfd_write(p.question, 1), 0);
        const int before = found.found, count = xcs_waiter_wait(&waiter, p.epoll, &event, 1, 1000);
        ck_assert(count == 1 || count == XCS_WAIT_PROBED);
        ck_assert_int_eq(found.found - before, count == XCS_WAIT_PROBED);
        if (count == 1) {
            ck_assert_uint_eq(event.data.u64, 7);
            ck_assert_int_eq(eventfd_read(p.question, &value), 0);
        }
    }
    /* The other source has its turn, although the first one always has something. */
    ck_assert_int_eq(eventfd_write(other, 1), 0);
    for (int round = 0;; round++) {
        struct epoll_event both[2];
        ck_assert_int_lt(round, 100000);
        ck_assert_int_eq(eventfd_write(p.question, 1), 0);
        const int count = xcs_waiter_wait(&waiter, p.epoll, both, 2, 1000);
        ck_assert_int_ne(count, 0);
        if (count == 2)
            break;
    }
    /* Without anything it ends at its timeout. */
    ck_assert_int_eq(eventfd_read(p.question, &value), 0);
    ck_assert_int_eq(eventfd_read(other, &value), 0);
    ck_assert_int_eq(xcs_waiter_wait(&waiter, p.epoll, &event, 1, 2), 0);
    close(other);
    close_pair(p);
}
END_TEST

Suite *suite_server_wait(void);
Suite *suite_server_wait(void) { return SUITE_OF("server_wait", events, timeouts, probes); }
