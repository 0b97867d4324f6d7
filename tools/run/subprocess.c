/* Subprocesses: concurrent jobs, each with a pipe for its result and a timeout. */
#include "run/subprocess.h"
#include "cli/memory.h"
#include "cli/clock.h"
#include "cli/report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A running process. It writes a letter for its verdict and then its text to its pipe. */
struct worker {
    pid_t pid; /* 0: none */
    int fd;
    size_t index;
    double deadline;
    bool killed;
    struct buffer said;
};

/* A job in its subprocess. */
struct outcome {
    bool known;
    enum verdict verdict;
    char *text;
};

static const char letters[] = "PFS";

static _Noreturn void run_jobs(int fd, size_t index, job function, void *context)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0)
        dup2(nowhere, STDOUT_FILENO);
    struct buffer text = {0}, message = {0};
    enum verdict verdict = function(context, index, &text);
    buffer_append(&message, &letters[verdict], 1);
    buffer_append(&message, buffer_string(&text), text.length);
    const char *at = message.data;
    for (size_t left = message.length; left != 0;) {
        ssize_t written = write(fd, at, left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            break;
        at += written;
        left -= (size_t)written;
    }
    _exit(EXIT_OK);
}

static bool start(struct worker *worker, size_t index, double seconds, job function, void *context)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    fflush(stdout);
    fflush(stderr);
    const pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        /* Ctrl-C, or a signal to the parent only, ends both processes. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(EXIT_INTERRUPTED);
        close(ends[0]);
        run_jobs(ends[1], index, function, context);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return false;
    }
    *worker = (struct worker){
        .pid = pid, .fd = ends[0], .index = index, .deadline = seconds > 0 ? now_seconds() + seconds : 0};
    return true;
}

/* Waits for a process that has closed its pipe, and returns the outcome of its job. */
static struct outcome finish(struct worker *worker, double seconds)
{
    int state = 0;
    while (waitpid(worker->pid, &state, 0) < 0 && errno == EINTR)
        continue;
    close(worker->fd);
    const char *letter = worker->said.length != 0 ? strchr(letters, *worker->said.data) : NULL;
    struct outcome outcome = {.known = true, .verdict = VERDICT_FAIL};
    if (worker->killed)
        outcome.text = memory_format("took longer than %g seconds", seconds);
    else if (WIFSIGNALED(state))
        outcome.text = memory_format("crashed: %s", strsignal(WTERMSIG(state)));
    else if (letter == NULL)
        outcome.text = memory_format("ended without a result, exit code %d", WEXITSTATUS(state));
    else {
        outcome.verdict = (enum verdict)(letter - letters);
        outcome.text = memory_text(worker->said.data + 1);
    }
    buffer_release(&worker->said);
    worker->pid = 0;
    return outcome;
}

/* Reads the available bytes. Returns true when the pipe is closed. */
static bool listen_to(struct worker *worker)
{
    char bytes[4096];
    ssize_t got = read(worker->fd, bytes, sizeof bytes);
    if (got > 0)
        buffer_append(&worker->said, bytes, (size_t)got);
    return got == 0 || (got < 0 && errno != EINTR);
}

static void kill_late(struct worker *workers, size_t count)
{
    double now = now_seconds();
    for (size_t i = 0; i < count; i++)
        if (workers[i].pid != 0 && workers[i].deadline > 0 && now > workers[i].deadline && !workers[i].killed) {
            workers[i].killed = true;
            kill(workers[i].pid, SIGKILL);
        }
}

void run_in_subprocesses(size_t count, size_t parallel, double seconds, job function, job_done done, void *context)
{
    struct outcome *outcomes = memory_take(count, sizeof *outcomes);
    struct worker *workers = memory_take(parallel, sizeof *workers);
    struct pollfd *polls = memory_take(parallel, sizeof *polls);
    size_t next = 0, reported = 0;
    while (reported < count) {
        size_t busy = 0;
        for (size_t i = 0; i < parallel; i++) {
            if (workers[i].pid == 0 && next < count) {
                if (!start(&workers[i], next, seconds, function, context))
                    outcomes[next] = (struct outcome){true, VERDICT_FAIL,
                                                      memory_format("cannot start a process: %s", strerror(errno))};
                next++;
            }
            polls[i] = (struct pollfd){.fd = workers[i].pid != 0 ? workers[i].fd : -1, .events = POLLIN};
            busy += workers[i].pid != 0;
        }
        if (busy != 0 && poll(polls, (nfds_t)parallel, 100) > 0)
            for (size_t i = 0; i < parallel; i++)
                if (polls[i].revents != 0 && listen_to(&workers[i]))
                    outcomes[workers[i].index] = finish(&workers[i], seconds);
        kill_late(workers, parallel);
        for (; reported < count && outcomes[reported].known; reported++) {
            done(context, reported, outcomes[reported].verdict, outcomes[reported].text);
            free(outcomes[reported].text);
        }
    }
    free(polls);
    free(workers);
    free(outcomes);
}
