/* Processes that mpirun starts together, with communication by Open MPI. The library is opened on demand, so nothing
 * depends on it otherwise. */
#ifndef XCVM_TOOLS_TRAINING_PROCESSES_H
#define XCVM_TOOLS_TRAINING_PROCESSES_H

#include <xcvm/xcvm.h>

struct processes {
    int rank, count; /* rank of this process; 1 process without mpirun */
    void *library;   /* NULL: there is one process */
};

/* Joins the other processes if mpirun started this one. Fails with UNSUPPORTED if no library is found. */
xcvm_status processes_begin(struct processes *processes, xcvm_error *error);
/* Callbacks of xcvm_session_options.all_reduce: sum, begin, end and abandon. After abandon there are no more sums.
 * `user` is not used. */
xcvm_status processes_all_reduce(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error);
xcvm_status processes_sum_begin(void *user, xcvm_dtype dtype, void *elements, size_t count, void **request,
                                xcvm_error *error);
xcvm_status processes_sum_end(void *user, void *request, bool *done, xcvm_error *error);
void processes_sum_abandon(void *user, void *request);
/* Number of calls of processes_sum_begin, which is the number of buckets of gradients. */
uint64_t processes_sum_count(void);
/* xcvm_session_options.all_reduce.allocator, valid until processes_release; NULL: any memory can be used. */
const xcvm_allocator *processes_allocator(void);
/* Returns true if all processes arrive here without a failure. Otherwise *speak is true for one of the processes with
 * the same failure, which prints it. */
bool processes_agree(const struct processes *processes, bool failed, bool *speak);
/* Leaves the other processes. `together`: all leave at the same time. Otherwise the others would wait forever, and are
 * killed. */
void processes_end(struct processes *processes, bool together, int exit_code);
/* Releases the shared memory after all of its pieces have been released. */
void processes_release(void);

#endif
