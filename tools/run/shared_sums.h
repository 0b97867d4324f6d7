/* Sums over processes of one machine, in memory that they share: no message is copied to be sent, and each process adds
 * up a part of every sum. */
#ifndef XCVM_TOOLS_RUN_SHARED_SUMS_H
#define XCVM_TOOLS_RUN_SHARED_SUMS_H

#include <xcvm/xcvm.h>

struct shared_sums;
struct shared_sum;

/* A file without a name for `count` processes, which holds `token` for shared_sums_join to tell it by; -1 if there
 * can be none. Nobody has its memory before it is written. */
int shared_sums_file(int count, uint64_t token);
/* Maps the file, as process `rank` of `count`; closing it is the caller's, any time. NULL if it is not that of `token`,
 * or cannot be mapped. */
struct shared_sums *shared_sums_join(int file, uint64_t token, int rank, int count);
void shared_sums_leave(struct shared_sums *sums);
/* Of memory in which sums are made where they lie; that of elsewhere is copied. Valid until shared_sums_leave. */
const xcvm_allocator *shared_sums_allocator(struct shared_sums *sums);

/* Begins a sum of f32 or f64. The elements belong to it until it is done. One thread at a time. */
xcvm_status shared_sums_begin(struct shared_sums *sums, xcvm_dtype dtype, void *elements, size_t count,
                              struct shared_sum **sum, xcvm_error *error);
/* Waits for some milliseconds at most. When *done, or on failure, the sum is released. The processes that add up do so
 * in the order of their ranks, so that all have the same bits. */
xcvm_status shared_sums_end(struct shared_sums *sums, struct shared_sum *sum, bool *done, xcvm_error *error);
/* Releases a sum that is not done; there are no sums any more behind it. */
void shared_sums_abandon(struct shared_sums *sums, struct shared_sum *sum);

#endif
