/* Sums over processes of one machine in shared memory. No messages are copied, and each process computes a part of
 * every sum. */
#ifndef XCVM_TOOLS_TRAINING_SHARED_SUMS_H
#define XCVM_TOOLS_TRAINING_SHARED_SUMS_H

#include <xcvm/xcvm.h>

struct shared_sums;
struct shared_sum;

/* Creates an unnamed file for `count` processes. It contains `token`, which shared_sums_join checks. Returns -1 on
 * failure. Memory is allocated when it is first written. */
int shared_sums_file(int count, uint64_t token);
/* Maps the file for process `rank` of `count`. The caller may close the file at any time. Returns NULL if the token
 * differs or the file cannot be mapped. */
struct shared_sums *shared_sums_join(int file, uint64_t token, int rank, int count);
void shared_sums_leave(struct shared_sums *sums);
/* Allocator of memory in which sums are computed in place; other memory is copied. Valid until shared_sums_leave. */
const xcvm_allocator *shared_sums_allocator(struct shared_sums *sums);

/* Begins a sum of f32 or f64, which uses the elements until it is finished. One thread at a time. */
xcvm_status shared_sums_begin(struct shared_sums *sums, xcvm_dtype dtype, void *elements, size_t count,
                              struct shared_sum **sum, xcvm_error *error);
/* Waits at most some milliseconds. The sum is released when *done is set or on failure. Ranks are added in order, so
 * all processes get the same bits. */
xcvm_status shared_sums_end(struct shared_sums *sums, struct shared_sum *sum, bool *done, xcvm_error *error);
/* Releases an unfinished sum. No sums are possible afterwards. */
void shared_sums_abandon(struct shared_sums *sums, struct shared_sum *sum);

#endif
