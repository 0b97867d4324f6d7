/* Processes that mpirun has started together, as Open MPI lets them talk to each other. The library is opened when it
 * is needed, so that nothing depends on it otherwise. */
#ifndef XCVM_TOOLS_RUN_PROCESSES_H
#define XCVM_TOOLS_RUN_PROCESSES_H

#include <xcvm/xcvm.h>

struct processes {
    int rank, count; /* this one's number, from 0 on; 1 process where there is no mpirun */
    void *library;   /* NULL: there is one process */
};

/* Joins the others, if mpirun has started this process. UNSUPPORTED if there is no library to do it with. */
xcvm_status processes_begin(struct processes *processes, xcvm_error *error);
/* As xcvm_session_options.all_reduce, all_reduce_begin, all_reduce_end and all_reduce_abandon, behind which there are
 * no sums any more; `user` is not used. */
xcvm_status processes_all_reduce(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error);
xcvm_status processes_sum_begin(void *user, xcvm_dtype dtype, void *elements, size_t count, void **request,
                                xcvm_error *error);
xcvm_status processes_sum_end(void *user, void *request, bool *done, xcvm_error *error);
void processes_sum_abandon(void *user, void *request);
/* How often processes_sum_begin was called: buckets of gradients. */
uint64_t processes_sum_count(void);
/* As xcvm_session_options.all_reduce_allocator, until processes_release; NULL: any memory does. */
const xcvm_allocator *processes_allocator(void);
/* Whether all have come here without a failure; if not, *speak tells whether this process should say what its own was,
 * so that what all of them have met is said once. */
bool processes_agree(const struct processes *processes, bool failed, bool *speak);
/* Leaves the others; `together` tells that they leave, too. If not they would wait for this one in vain, and are ended.
 */
void processes_end(struct processes *processes, bool together, int exit_code);
/* Gives back the memory that the processes share, when nothing holds a piece of it any more. */
void processes_release(void);

#endif
