/* Colours of a terminal. */
#ifndef XCVM_TOOLS_CLI_COLOUR_H
#define XCVM_TOOLS_CLI_COLOUR_H

/* Codes that what is printed next to `fd` (1 or 2) begins with, where that is a terminal and NO_COLOR is not set;
 * otherwise "". colour_end ends what one of the others began. */
const char *colour_good(int fd);
const char *colour_bad(int fd);
const char *colour_faint(int fd);
const char *colour_end(int fd);

#endif
