/* Terminal colors. */
#ifndef XCVM_TOOLS_CLI_COLOR_H
#define XCVM_TOOLS_CLI_COLOR_H

/* Escape codes for output to `fd` (1 or 2). They are "" unless `fd` is a terminal and NO_COLOR is not set.
 * color_end ends a color. */
const char *color_good(int fd);
const char *color_bad(int fd);
const char *color_faint(int fd);
const char *color_end(int fd);

#endif
