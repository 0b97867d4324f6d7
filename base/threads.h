/* The thread pool: loops split over worker threads. */
#ifndef XCVM_BASE_THREADS_H
#define XCVM_BASE_THREADS_H

#include "base/allocator.h"

/* Creates a pool of `count` threads, including the caller; fewer if the system has no more. NULL is a pool of one. */
typedef struct xcvm_threads xcvm_threads;
xcvm_status xcvm_threads_create(const xcvm_allocator *allocator, int count, xcvm_threads **threads, xcvm_error *error);
void xcvm_threads_destroy(xcvm_threads *threads);
/* Makes the pool's own threads flush subnormal numbers to zero, or not (the default), from the next loop. The caller of
 * a loop sets its own mode (base/denormals.h). NULL has no threads. */
void xcvm_threads_flush_denormals(xcvm_threads *threads, bool flush);
int xcvm_threads_count(const xcvm_threads *threads);

/* Calls body(context, begin, end, worker) for disjoint ranges of at least `grain` items that cover [0, count). Returns
 * when all are done. The ranges depend only on count, grain and the number of threads. The thread that runs a range
 * varies, so data passed between ranges must not be in per-worker memory. `worker` in [0, threads count) is the
 * thread's number, the index of its scratch memory. A single range is called in place. */
typedef void (*xcvm_range_body)(void *context, size_t begin, size_t end, int worker);
void xcvm_parallel(xcvm_threads *threads, size_t count, size_t grain, xcvm_range_body body, void *context);

/* Records spans of ranges into `buffer` until the next call; NULL stops recording. Returns the number of spans in the
 * previous buffer. */
size_t xcvm_threads_record(xcvm_threads *threads, xcvm_span *buffer, size_t capacity);

#endif
