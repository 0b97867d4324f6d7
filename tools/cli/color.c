/* Colors of a terminal: escape sequences, if they are wanted. */
#include "cli/color.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int colors(int fd)
{
    const char *off = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return (off == NULL || *off == '\0') && (terminal == NULL || strcmp(terminal, "dumb") != 0) && isatty(fd);
}

const char *color_good(int fd) { return colors(fd) ? "\033[32m" : ""; }
const char *color_bad(int fd) { return colors(fd) ? "\033[31m" : ""; }
const char *color_faint(int fd) { return colors(fd) ? "\033[2m" : ""; }
const char *color_end(int fd) { return colors(fd) ? "\033[0m" : ""; }
