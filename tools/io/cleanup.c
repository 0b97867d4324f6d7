/* Cleanup of temporary files at exit and in signal handlers. */
#include "io/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CLEANUP_MAX = 8 };

static _Atomic(char *) registered[CLEANUP_MAX];

/* A directory entry of getdents64. readdir allocates memory, which a signal handler must not do. */
struct entry {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

static void empty_folder(int folder)
{
    _Alignas(struct entry) char records[4096];
    for (long got; (got = syscall(SYS_getdents64, folder, records, sizeof records)) > 0;)
        for (long at = 0; at < got;) {
            const struct entry *entry = (const void *)(records + at);
            if (strcmp(entry->name, ".") != 0 && strcmp(entry->name, "..") != 0)
                unlinkat(folder, entry->name, 0);
            at += entry->length;
        }
}

void cleanup_remove(const char *path)
{
    if (unlink(path) == 0 || (errno != EISDIR && errno != EPERM))
        return;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return;
    empty_folder(folder);
    close(folder);
    rmdir(path);
}

static void remove_all(void)
{
    for (int i = 0; i < CLEANUP_MAX; i++) {
        const char *path = atomic_load(&registered[i]);
        if (path != NULL)
            cleanup_remove(path);
    }
}

static void on_signal(int number)
{
    remove_all();
    signal(number, SIG_DFL);
    raise(number);
}

void cleanup_register(char *path)
{
    static bool installed;
    if (!installed) {
        installed = true;
        atexit(remove_all);
        static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXCPU};
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            if (signal(numbers[i], on_signal) == SIG_IGN)
                signal(numbers[i], SIG_IGN);
    }
    for (int i = 0; i < CLEANUP_MAX; i++) {
        char *none = NULL;
        if (atomic_compare_exchange_strong(&registered[i], &none, path))
            return;
    }
}

void cleanup_forget(char *path)
{
    for (int i = 0; i < CLEANUP_MAX; i++) {
        char *expected = path;
        if (atomic_compare_exchange_strong(&registered[i], &expected, NULL))
            return;
    }
}
