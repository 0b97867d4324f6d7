/* Jobs in processes of their own, so that a crash or hang fails only one job. */
#ifndef XCVM_TOOLS_RUN_SUBPROCESS_H
#define XCVM_TOOLS_RUN_SUBPROCESS_H

#include "cli/buffer.h"

enum verdict { VERDICT_PASS, VERDICT_FAIL, VERDICT_SKIP };

/* Runs job `index`. The text describes the result. */
typedef enum verdict (*job)(void *context, size_t index, struct buffer *text);
/* Called for each job in the order of their indices. */
typedef void (*job_done)(void *context, size_t index, enum verdict verdict, const char *text);

/* Runs `count` jobs, up to `parallel` at once, each in a forked process that is killed after `seconds` (0: never).
 * Changes of memory and standard output of a process are lost. Jobs that crash or are killed fail. */
void run_in_subprocesses(size_t count, size_t parallel, double seconds, job function, job_done done, void *context);

#endif
