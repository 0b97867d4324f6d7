/* The progress line on a terminal. It is not shown in a pipe, or in the first half second. */
#ifndef XCVM_TOOLS_CLI_PROGRESS_H
#define XCVM_TOOLS_CLI_PROGRESS_H

struct progress {
    double started, drawn;
    int shown;
};

void progress_start(struct progress *progress);
/* Shows the part that is done, from 0 to 1, and a name of the work. */
void progress_show(struct progress *progress, const char *what, double fraction);
/* Removes the line. */
void progress_end(struct progress *progress);

#endif
