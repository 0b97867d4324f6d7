/* Writing files whole. */
#include "train/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

ssize_t xct_write(int fd, const void *bytes, size_t count)
{
    const struct timespec now = {.tv_nsec = 0};
    sigset_t broken, before, waiting;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    const bool there = sigpending(&waiting) == 0 && sigismember(&waiting, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &broken, &before);
    const ssize_t done = write(fd, bytes, count);
    const int number = errno;
    if (done < 0 && number == EPIPE && !there)
        (void)sigtimedwait(&broken, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = number;
    return done;
}

xcvm_status xct_open_target(const char *path, int flags, const atomic_bool *stop, int *fd, xcvm_error *error)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    /* O_NONBLOCK, since opening a pipe would otherwise wait without a way to stop. */
    while ((*fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | flags, 0666)) < 0) {
        const int number = errno;
        struct stat facts;
        const bool waits = number == ENXIO && stat(path, &facts) == 0 && S_ISFIFO(facts.st_mode);
        XCVM_CHECK(error, waits || number == EINTR, IO, "%s: %s", path, strerror(number));
        XCVM_CHECK(error, stop == NULL || !atomic_load(stop), CANCELLED, "%s: stopped while nobody read it", path);
        (void)nanosleep(&pause, NULL);
    }
    const int set = fcntl(*fd, F_GETFL);
    if (set >= 0)
        (void)fcntl(*fd, F_SETFL, set & ~O_NONBLOCK);
    return XCVM_OK;
}

/* Creates a new file in the target's directory. O_EXCL prevents others from choosing its target. */
static int open_new(xct_whole_file *file)
{
    enum { ATTEMPTS = 1000 };
    int fd = -1;
    for (int i = 0; i < ATTEMPTS && fd < 0; i++) {
        char number[24] = "";
        if (i > 0)
            (void)snprintf(number, sizeof number, "-%d", i);
        (void)snprintf(file->temporary, sizeof file->temporary, "%s.%ld%s.new", file->target, (long)getpid(), number);
        fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST && errno != EINTR)
            break;
    }
    return fd;
}

xcvm_status xct_whole_file_open(xct_whole_file *file, const char *path, const atomic_bool *stop, xcvm_error *error)
{
    struct stat facts;
    *file = (xct_whole_file){.fd = -1};
    const int length = snprintf(file->path, sizeof file->path, "%s", path);
    XCVM_CHECK(error, length > 0 && (size_t)length < sizeof file->path, IO, "%.100s: no name for a file", path);
    const bool exists = stat(path, &facts) == 0;
    XCVM_CHECK(error, !exists || !S_ISDIR(facts.st_mode), IO, "%s: %s", path, strerror(EISDIR));
    if (exists && !S_ISREG(facts.st_mode)) {
        XCVM_TRY(xct_open_target(path, 0, stop, &file->fd, error));
        const int set = S_ISFIFO(facts.st_mode) ? fcntl(file->fd, F_GETFL) : -1;
        if (set >= 0)
            (void)fcntl(file->fd, F_SETFL, set | O_NONBLOCK);
        return XCVM_OK;
    }
    XCVM_CHECK(error, !exists || access(path, W_OK) == 0, IO, "%s: %s", path, strerror(errno));
    _Static_assert(PATH_MAX <= XCT_PATH, "realpath fills it");
    if (!exists || realpath(path, file->target) == NULL)
        memcpy(file->target, file->path, (size_t)length + 1);
    file->fd = open_new(file);
    XCVM_CHECK(error, file->fd >= 0, IO, "%s: %s", path, strerror(errno));
    if (exists)
        (void)fchmod(file->fd, facts.st_mode & 0777);
    return XCVM_OK;
}

/* Waits a while for a full pipe. */
static bool wait_for_reader(int fd)
{
    enum { MILLISECONDS = 2000 };
    struct pollfd here = {.fd = fd, .events = POLLOUT};
    const bool reads = poll(&here, 1, MILLISECONDS) > 0;
    if (!reads)
        errno = EAGAIN;
    return reads;
}

bool xct_whole_file_sink(void *user, const void *bytes, size_t count)
{
    xct_whole_file *file = user;
    for (const char *at = bytes; count > 0 && file->failure == 0;) {
        const ssize_t done = xct_write(file->fd, at, count);
        if (done < 0 && (errno == EINTR || (errno == EAGAIN && wait_for_reader(file->fd))))
            continue;
        if (done < 0) {
            file->failure = errno;
            break;
        }
        at += done;
        count -= (size_t)done;
    }
    return file->failure == 0;
}

/* Synchronizes the directory, so that the new name is on the disk. */
static void sync_folder(const char *path)
{
    char folder[XCT_PATH];
    (void)snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        (void)snprintf(folder, sizeof folder, ".");
    else
        slash[slash == folder] = '\0';
    const int fd = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

xcvm_status xct_whole_file_close(xct_whole_file *file, xcvm_status status, xcvm_error *error)
{
    if (file->fd < 0)
        return status;
    /* EINVAL: some file systems cannot synchronize. */
    if (status == XCVM_OK && file->failure == 0 && fsync(file->fd) != 0 && errno != EINVAL && errno != ENOSYS)
        file->failure = errno;
    if (close(file->fd) != 0 && file->failure == 0)
        file->failure = errno;
    file->fd = -1;
    const bool replaces = file->temporary[0] != '\0';
    if (status == XCVM_OK && file->failure == 0 && replaces && rename(file->temporary, file->target) != 0)
        file->failure = errno;
    if (!replaces && (file->failure == EPIPE || file->failure == EAGAIN))
        status = xcvm_error_set(error, XCVM_CANCELLED, "%s: nobody reads it", file->path);
    else if (file->failure != 0)
        status = xcvm_error_set(error, XCVM_IO, "%s: cannot be written: %s", file->path, strerror(file->failure));
    if (replaces && status != XCVM_OK)
        (void)unlink(file->temporary);
    else if (replaces)
        sync_folder(file->target);
    return status;
}
