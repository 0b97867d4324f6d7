/* Subprocesses: jobs in processes of their own, so that one that crashes or hangs does not take the others with it. */
#ifndef XCVM_TOOLS_RUN_SUBPROCESS_H
#define XCVM_TOOLS_RUN_SUBPROCESS_H

#include "cli/buffer.h"

enum verdict { VERDICT_PASS, VERDICT_FAIL, VERDICT_SKIP };

/* Does job `index`; the text says more. */
typedef enum verdict (*job)(void *context, size_t index, struct buffer *text);
/* Hears of each job in the order of their indices. */
typedef void (*job_done)(void *context, size_t index, enum verdict verdict, const char *text);

/* Does `count` jobs, up to `parallel` at once, each in a forked process that is killed after `seconds` (0: never). What
 * a process does to its memory or prints to standard output is lost. Jobs that crash or are killed fail. */
void run_in_subprocesses(size_t count, size_t parallel, double seconds, job function, job_done done, void *context);

#endif
