/* The progress line of a terminal. */
#include "cli/progress.h"
#include "cli/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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
    /* A text longer than a line could not be removed. */
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
