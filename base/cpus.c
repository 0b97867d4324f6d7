/* The number of processors that this process may use, from its CPU affinity and the CPU quota of its cgroup. */
#include "base/threads.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads the start of a file as text. Returns false if it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t length = read(file, text, size - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* Processors that `quota` microseconds per `period` correspond to; INT_MAX without a quota. */
static int worth(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return INT_MAX;
    long long count = quota / period + (quota % period != 0);
    return count < INT_MAX ? (int)count : INT_MAX;
}

static int quota_v2(const char *folder)
{
    char path[1024], text[128];
    long long quota, period;
    if (snprintf(path, sizeof path, "%s/cpu.max", folder) >= (int)sizeof path || !read_text(path, text, sizeof text) ||
        sscanf(text, "%lld %lld", &quota, &period) != 2)
        return INT_MAX;
    return worth(quota, period);
}

static int quota_v1(const char *folder)
{
    char path[1024], quota[64], period[64];
    if (snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder) >= (int)sizeof path ||
        !read_text(path, quota, sizeof quota) ||
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder) >= (int)sizeof path ||
        !read_text(path, period, sizeof period))
        return INT_MAX;
    return worth(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

/* The smallest quota of a cgroup and its ancestors. In a container the group's path may not exist under the mount; the
 * mount's root is then the group. */
static int quota_upwards(const char *mount, const char *group, int (*quota)(const char *folder))
{
    char folder[1024];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, group);
    int least = INT_MAX;
    size_t root = strlen(mount);
    if (length < 0 || length >= (int)sizeof folder)
        return quota(mount);
    for (;;) {
        int here = quota(folder);
        if (here < least)
            least = here;
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= root || slash == NULL || (size_t)(slash - folder) < root)
            return least;
        *slash = '\0';
    }
}

static bool has_controller(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

static int cgroup_quota(void)
{
    char text[4096];
    int least = INT_MAX;
    if (!read_text("/proc/self/cgroup", text, sizeof text))
        return least;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        /* line format: number:controllers:path */
        char *controllers = strchr(line, ':');
        char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL)
            continue;
        controllers++;
        *group++ = '\0';
        int here = INT_MAX;
        if (*controllers == '\0') {
            here = quota_upwards("/sys/fs/cgroup", group, quota_v2);
        } else if (has_controller(controllers, "cpu")) {
            char mount[256];
            if (snprintf(mount, sizeof mount, "/sys/fs/cgroup/%s", controllers) < (int)sizeof mount)
                here = quota_upwards(mount, group, quota_v1);
            int of_v1 = quota_upwards("/sys/fs/cgroup/cpu", group, quota_v1);
            here = of_v1 < here ? of_v1 : here;
        }
        least = here < least ? here : least;
    }
    return least;
}

int xcvm_available_thread_count(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    long count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    int quota = cgroup_quota();
    if (count > quota)
        count = quota;
    return count < 1 ? 1 : (int)count;
}
