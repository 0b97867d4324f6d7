/*
 * Ctrl-C ends a run or a compilation on the main thread. The handler of SIGINT first calls the handler that was there
 * before, which is CPython's and makes the interpreter raise KeyboardInterrupt as soon as it runs again. It then
 * cancels the session, or sets the flag of the compilation.
 *
 * The handler stays installed: two calls of sigaction cost more than the rest of a short call. Another handler that the
 * program installs later is noticed before each run that is expected to be long, and now and then before others.
 */
#include "xcvm_python.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Signals belong to the process, not to an interpreter. */
static _Atomic(xcvm_session *) running;
static _Atomic(uint32_t *) running_flag; /* of a compilation */
static atomic_int handlers_at_work;
static _Atomic(struct sigaction *) previous_action;
static struct sigaction actions[2]; /* the one in use, and the one that is being written */

enum { SHORT_RUNS_BETWEEN_CHECKS = 256 };

static void handle_interrupt(int number, siginfo_t *info, void *context)
{
    atomic_fetch_add(&handlers_at_work, 1);
    const struct sigaction *before = atomic_load(&previous_action);
    if (before != NULL && (before->sa_flags & SA_SIGINFO) != 0)
        before->sa_sigaction(number, info, context);
    else if (before != NULL && before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
        before->sa_handler(number);
    xcvm_session *session = atomic_load(&running);
    if (session != NULL)
        xcvm_session_cancel(session);
    uint32_t *flag = atomic_load(&running_flag);
    if (flag != NULL)
        __atomic_store_n(flag, 1, __ATOMIC_RELAXED);
    atomic_fetch_sub(&handlers_at_work, 1);
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == handle_interrupt;
}

/* Leaves SIG_DFL and SIG_IGN alone: then nobody asked for interrupts. */
static void install_handler(void)
{
    struct sigaction current;
    if (sigaction(SIGINT, NULL, &current) != 0 || is_ours(&current))
        return;
    if ((current.sa_flags & SA_SIGINFO) == 0 && (current.sa_handler == SIG_DFL || current.sa_handler == SIG_IGN))
        return;
    struct sigaction *kept = atomic_load(&previous_action) == &actions[0] ? &actions[1] : &actions[0];
    *kept = current;
    atomic_store(&previous_action, kept);
    struct sigaction own = {.sa_sigaction = handle_interrupt, .sa_flags = current.sa_flags | SA_SIGINFO};
    own.sa_mask = current.sa_mask;
    sigaction(SIGINT, &own, NULL);
}

/*
 * pthread_self() of the thread that started the process, 0 until it was met: CPython runs Python's signal handlers
 * there. After a fork that is the only thread. A variable for the process, not one per thread: a thread-local variable
 * of a library that dlopen loads is on the heap, and its release by the C library looks like a race to the thread
 * sanitizer.
 */
static atomic_uintptr_t main_thread;

static void forget_main_thread(void) { atomic_store(&main_thread, 0); }

static void register_fork(void) { pthread_atfork(NULL, NULL, forget_main_thread); }

static bool is_main_thread(void)
{
    uintptr_t self = (uintptr_t)pthread_self();
    uintptr_t known = atomic_load_explicit(&main_thread, memory_order_relaxed);
    if (known != 0)
        return known == self;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork);
    if (syscall(SYS_gettid) != getpid())
        return false;
    atomic_store(&main_thread, self);
    return true;
}

void interrupt_find_main_thread(void) { (void)is_main_thread(); }

void interrupt_begin(interrupt_scope *interruption, xcvm_session *session, bool expected_long)
{
    interruption->armed = is_main_thread();
    if (!interruption->armed)
        return;
    static unsigned short_runs; /* of the main thread alone */
    if (expected_long || short_runs++ % SHORT_RUNS_BETWEEN_CHECKS == 0)
        install_handler();
    interruption->previous = atomic_exchange(&running, session);
}

void interrupt_end(const interrupt_scope *interruption)
{
    if (interruption->armed)
        atomic_store(&running, interruption->previous);
}

void interrupt_begin_flag(interrupt_scope *interruption, uint32_t *flag)
{
    interruption->armed = is_main_thread();
    if (!interruption->armed)
        return;
    install_handler();
    interruption->previous_flag = atomic_exchange(&running_flag, flag);
}

void interrupt_end_flag(const interrupt_scope *interruption)
{
    if (!interruption->armed)
        return;
    atomic_store(&running_flag, interruption->previous_flag);
    interrupt_wait();
}

void interrupt_wait(void)
{
    while (atomic_load(&handlers_at_work) != 0)
        sched_yield();
}
