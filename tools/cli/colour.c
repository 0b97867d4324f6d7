/* Colours of a terminal: escape sequences, if they are wanted. */
#include "cli/colour.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int colours(int fd)
{
    const char *off = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return (off == NULL || *off == '\0') && (terminal == NULL || strcmp(terminal, "dumb") != 0) && isatty(fd);
}

const char *colour_good(int fd) { return colours(fd) ? "\033[32m" : ""; }
const char *colour_bad(int fd) { return colours(fd) ? "\033[31m" : ""; }
const char *colour_faint(int fd) { return colours(fd) ? "\033[2m" : ""; }
const char *colour_end(int fd) { return colours(fd) ? "\033[0m" : ""; }
