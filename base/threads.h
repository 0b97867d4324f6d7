/* The thread pool: loops split over worker threads. */
#ifndef XCVM_BASE_THREADS_H
#define XCVM_BASE_THREADS_H

#include "base/allocator.h"

/* A pool of `count` threads, the caller included; fewer work where the system has no more. NULL is a pool of one. */
typedef struct xcvm_threads xcvm_threads;
xcvm_status xcvm_threads_create(const xcvm_allocator *allocator, int count, xcvm_threads **threads, xcvm_error *error);
void xcvm_threads_destroy(xcvm_threads *threads);
/* Whether the pool's own threads flush subnormal numbers to zero, from the next loop on; they keep them at first. The
 * caller of a loop takes care of its own (base/denormals.h). NULL has none. */
void xcvm_threads_flush_denormals(xcvm_threads *threads, bool flush);
int xcvm_threads_count(const xcvm_threads *threads);

/* Calls body(context, begin, end, worker) for disjoint ranges that cover [0, count), each of at least `grain` items,
 * and returns when all are done. The ranges depend only on count, grain and the number of threads; which thread runs
 * which does not, and one thread runs several, so what a range leaves for another must lie in memory of the range's,
 * not of the worker's. worker is the thread's own number, in [0, threads count): the index of its scratch memory. One
 * range: called in place. */
typedef void (*xcvm_range_body)(void *context, size_t begin, size_t end, int worker);
void xcvm_parallel(xcvm_threads *threads, size_t count, size_t grain, xcvm_range_body body, void *context);

/* Spans of the ranges run since the last call, for profiles: recording is off until a buffer is given. Returns how many
 * spans were written into the buffer that was given before. */
size_t xcvm_threads_record(xcvm_threads *threads, xcvm_span *buffer, size_t capacity);

#endif
