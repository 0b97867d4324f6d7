/* The progress line: how far long work is, on a terminal. Nothing is shown in a pipe, nor in the first half second. */
#ifndef XCVM_TOOLS_CLI_PROGRESS_H
#define XCVM_TOOLS_CLI_PROGRESS_H

struct progress {
    double started, drawn;
    int shown;
};

void progress_start(struct progress *progress);
/* `fraction` from 0 to 1 is done; `what` is what is being done. */
void progress_show(struct progress *progress, const char *what, double fraction);
/* Removes the line. */
void progress_end(struct progress *progress);

#endif
