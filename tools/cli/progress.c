/* The progress line of a terminal. */
#include "cli/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void progress_start(struct progress *progress)
{
    *progress = (struct progress){.started = now_seconds(), .shown = isatty(STDERR_FILENO) ? 0 : -1};
}

void progress_show(struct progress *progress, const char *what, double fraction)
{
    enum { WIDTH = 30, PERCENT = 6, ALL = WIDTH + PERCENT + 43 };
    double now = progress->shown < 0 ? 0 : now_seconds();
    if (progress->shown < 0 || now - progress->started < 0.5 || now - progress->drawn < 0.1)
        return;
    progress->drawn = now;
    progress->shown = 1;
    int done = (int)(fraction < 0 ? 0 : fraction > 1 ? WIDTH : fraction * WIDTH);
    char bar[WIDTH + 1];
    memset(bar, '-', WIDTH);
    memset(bar, '#', (size_t)done);
    bar[WIDTH] = '\0';
    /* What does not fit into one line could not be taken back. */
    struct winsize window;
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col != 0;
    if (known && window.ws_col < ALL)
        fprintf(stderr, "\r\033[K%3d%% %.*s", (int)(fraction * 100),
                window.ws_col > PERCENT ? window.ws_col - PERCENT : 0, what);
    else
        fprintf(stderr, "\r\033[K[%s] %3d%% %.40s", bar, (int)(fraction * 100), what);
    fflush(stderr);
}

void progress_end(struct progress *progress)
{
    if (progress->shown == 1)
        fputs("\r\033[K", stderr);
    if (progress->shown == 1)
        progress->shown = 0;
}

static int colours(int fd)
{
    const char *off = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return (off == NULL || *off == '\0') && (terminal == NULL || strcmp(terminal, "dumb") != 0) && isatty(fd);
}

const char *colour_good(int fd) { return colours(fd) ? "\033[32m" : ""; }
const char *colour_bad(int fd) { return colours(fd) ? "\033[31m" : ""; }
const char *colour_faint(int fd) { return colours(fd) ? "\033[2m" : ""; }
const char *colour_end(int fd) { return colours(fd) ? "\033[0m" : ""; }
