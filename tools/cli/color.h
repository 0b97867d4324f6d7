/* Colors of a terminal. */
#ifndef XCVM_TOOLS_CLI_COLOR_H
#define XCVM_TOOLS_CLI_COLOR_H

/* Codes that what is printed next to `fd` (1 or 2) begins with, where that is a terminal and NO_COLOR is not set;
 * otherwise "". color_end ends what one of the others began. */
const char *color_good(int fd);
const char *color_bad(int fd);
const char *color_faint(int fd);
const char *color_end(int fd);

#endif
