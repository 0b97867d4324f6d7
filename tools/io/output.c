/* Atomic output files: written to a temporary file in the same directory, then renamed. */
#include "io/output.h"
#include "cli/memory.h"
#include "cli/report.h"
#include "cli/suffix.h"
#include "io/cleanup.h"
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PENDING_BYTES = 1 << 16 };

static xcvm_status fail(xcvm_error *error, const char *path, int number)
{
    return error_set(error, XCVM_IO, "%s: cannot be written: %s", path, strerror(number));
}

xcvm_status output_check(const char *path, xcvm_error *error)
{
    struct stat facts;
    struct output output;
    if (path == NULL || strcmp(path, "-") == 0)
        return XCVM_OK;
    char *folder = file_folder(path);
    int reason = file_is_folder(path) ? EISDIR : access(folder, W_OK) != 0 ? errno : 0;
    free(folder);
    if (reason != 0)
        return fail(error, path, reason);
    /* A pipe would wait for its reader. */
    if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
        return access(path, W_OK) == 0 ? XCVM_OK : fail(error, path, errno);
    TRY(output_open(&output, path, error));
    output_discard(&output, NULL);
    return XCVM_OK;
}

static xcvm_status refuse_size(xcvm_error *error, const char *path, uint64_t bytes, uint64_t room, int number,
                               const char *where)
{
    return error_set(error, XCVM_IO, "%s: cannot be written: %s (needs %.3f MB; %.3f MB %s)", path, strerror(number),
                     (double)bytes / 1e6, (double)room / 1e6, where);
}

xcvm_status output_check_room(const char *path, uint64_t bytes, xcvm_error *error)
{
    struct stat facts;
    struct rlimit limit;
    struct statvfs disk;
    if (path == NULL || strcmp(path, "-") == 0 || (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode)))
        return XCVM_OK;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes)
        return refuse_size(error, path, bytes, limit.rlim_cur, EFBIG, "is the file size limit, ulimit -f");
    char *folder = file_folder(path);
    const bool known = statvfs(folder, &disk) == 0 && disk.f_blocks > 0;
    free(folder);
    const uint64_t room = known ? (uint64_t)disk.f_bavail * disk.f_frsize : UINT64_MAX;
    return room < bytes ? refuse_size(error, path, bytes, room, ENOSPC, "are free") : XCVM_OK;
}

/* Descriptor of standard output while standard output is a target and prints go to standard error; otherwise -1. */
static int reserved = -1;

void output_reserve(const char *path)
{
    if (path == NULL || strcmp(path, "-") != 0 || reserved >= 0)
        return;
    fflush(stdout);
    reserved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (reserved >= 0)
        dup2(STDERR_FILENO, STDOUT_FILENO);
}

xcvm_status output_open(struct output *output, const char *path, xcvm_error *error)
{
    *output = (struct output){.fd = -1};
    if (strcmp(path, "-") == 0) {
        output_reserve(path);
        if (reserved < 0)
            return fail(error, "standard output", errno);
        output->fd = reserved;
        output->name = memory_text("standard output");
        output->pending = memory_take(PENDING_BYTES, 1);
        return XCVM_OK;
    }
    struct stat facts;
    bool exists = stat(path, &facts) == 0;
    if (exists && S_ISDIR(facts.st_mode))
        return fail(error, path, EISDIR);
    if (exists && !S_ISREG(facts.st_mode)) {
        output->fd = open(path, O_WRONLY | O_CLOEXEC);
        if (output->fd < 0)
            return fail(error, path, errno);
        output->target = memory_text(path);
    } else {
        /* A file without write permission must not be replaced, though the directory would allow it. */
        if (exists && access(path, W_OK) != 0)
            return fail(error, path, errno);
        char *real = exists ? realpath(path, NULL) : NULL;
        output->target = real != NULL ? real : memory_text(path);
        output->temporary = memory_format("%s.XXXXXX", output->target);
        output->fd = mkostemp(output->temporary, O_CLOEXEC);
        if (output->fd < 0) {
            int number = errno;
            free(output->temporary);
            free(output->target);
            *output = (struct output){.fd = -1};
            return fail(error, path, number);
        }
        cleanup_register(output->temporary);
        mode_t mask = umask(0);
        umask(mask);
        fchmod(output->fd, exists ? facts.st_mode & 0777 : 0666 & ~mask);
    }
    output->name = memory_text(path);
    output->pending = memory_take(PENDING_BYTES, 1);
    return XCVM_OK;
}

static bool write_all(struct output *output, const char *bytes, size_t count)
{
    while (count != 0) {
        ssize_t written = write(output->fd, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            output->failure = written < 0 ? errno : ENOSPC;
            return false;
        }
        bytes += written;
        count -= (size_t)written;
    }
    return true;
}

static bool flush_pending(struct output *output)
{
    size_t count = output->pending_count;
    output->pending_count = 0;
    return output->failure == 0 && write_all(output, output->pending, count);
}

bool output_sink(void *user, const void *bytes, size_t count)
{
    struct output *output = user;
    if (output->failure != 0)
        return false;
    if (count > PENDING_BYTES - output->pending_count && !flush_pending(output))
        return false;
    if (count >= PENDING_BYTES)
        return write_all(output, bytes, count);
    if (count != 0)
        memcpy(output->pending + output->pending_count, bytes, count);
    output->pending_count += count;
    return true;
}

static void release(struct output *output)
{
    if (output->temporary != NULL)
        cleanup_forget(output->temporary);
    free(output->temporary);
    free(output->target);
    free(output->name);
    free(output->pending);
    *output = (struct output){.fd = -1};
}

/* Completes the temporary file, which is not renamed yet. */
static bool finish_output(struct output *output)
{
    bool good = flush_pending(output);
    if (good && output->temporary != NULL && fsync(output->fd) != 0 && errno != EINVAL) {
        output->failure = errno;
        good = false;
    }
    if (output->target != NULL) {
        if (close(output->fd) != 0 && good) {
            output->failure = errno;
            good = false;
        }
        output->fd = -1;
    }
    return good;
}

static bool put_in_place(struct output *output)
{
    if (output->temporary == NULL || rename(output->temporary, output->target) == 0)
        return true;
    output->failure = errno;
    return false;
}

xcvm_status output_finish(struct output *output, xcvm_error *error) { return output_finish_all(output, 1, error); }

/* Links the file that will be replaced to a second name, so that it can be restored; NULL if there is none. */
static char *keep_old(const struct output *output)
{
    if (output->temporary == NULL)
        return NULL;
    char *kept = memory_format("%s.old", output->temporary);
    if (link(output->target, kept) == 0) {
        cleanup_register(kept);
        return kept;
    }
    free(kept);
    return NULL;
}

static void forget_old(char *kept)
{
    if (kept == NULL)
        return;
    unlink(kept);
    cleanup_forget(kept);
    free(kept);
}

/* Undoes the replacement of a target: restores the previous file, or removes the new one. */
static void take_back(const struct output *output, const char *kept)
{
    if (output->temporary != NULL && (kept == NULL || rename(kept, output->target) != 0))
        unlink(output->target);
}

xcvm_status output_finish_all(struct output *outputs, size_t count, xcvm_error *error)
{
    size_t finished = 0, placed = 0;
    char **kept = memory_take(count, sizeof *kept);
    while (finished < count && finish_output(&outputs[finished]))
        finished++;
    const bool whole = finished == count;
    for (size_t i = 0; i < count && whole && count > 1; i++)
        kept[i] = keep_old(&outputs[i]);
    while (whole && placed < count && put_in_place(&outputs[placed]))
        placed++;
    const bool good = placed == count;
    for (size_t i = 0; i < placed && !good; i++)
        take_back(&outputs[i], kept[i]);
    for (size_t i = 0; i < count; i++)
        forget_old(kept[i]);
    free(kept);
    for (size_t i = 0; i < count; i++)
        if (good)
            release(&outputs[i]);
        else
            output_discard(&outputs[i], error);
    return good ? XCVM_OK : XCVM_IO;
}

void output_discard(struct output *output, xcvm_error *error)
{
    if (output->failure != 0)
        fail(error, output->name, output->failure);
    if (output->target != NULL && output->fd >= 0)
        close(output->fd);
    if (output->temporary != NULL)
        unlink(output->temporary);
    release(output);
}

xcvm_status output_write(const char *path, const void *bytes, size_t count, xcvm_error *error)
{
    struct output output;
    TRY(output_open(&output, path, error));
    output_sink(&output, bytes, count);
    return output_finish(&output, error);
}

bool output_guard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    return true;
}

/* errno of the first text that could not be printed; the stream itself does not keep it. */
static int print_failure;

void output_print(const char *text)
{
    if (fputs(text, stdout) < 0 && print_failure == 0)
        print_failure = errno;
}

int output_check_stdout(int code)
{
    bool bad = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) != 0)
        bad = true;
    /* Output to standard error is not requested output. */
    if (!bad || reserved >= 0)
        return code;
    errno = print_failure != 0 ? print_failure : errno;
    report_line("standard output cannot be written%s%s", errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
    return code == EXIT_OK ? EXIT_IO : code;
}

/* ---- Names ---- */

int output_check_name(const char *path, const char *own, const char *what)
{
    const char *other = path == NULL ? NULL : suffix_of_another(path, own);
    return other == NULL
               ? EXIT_OK
               : report_usage("%s: the suffix %s belongs to another format. The output is %s", path, other, what);
}

int output_check_program(const char *path)
{
    return output_check_name(path, ".bin .xcvm", "a program, for example prog.bin");
}
