/* Modes of a tape: one table of functions says how a tape of the mode executes op calls, and evaluates their results.
 */
#ifndef XCVM_TAPE_MODE_H
#define XCVM_TAPE_MODE_H

#include "tape/tape.h"

struct tape_backward_request;
struct tape_loop;

struct tape_mode {
    bool builds; /* Op calls become graph nodes; variables have no elements. */
    bool defers; /* Op calls wait until a value is needed. */
    /* Executes an op, and appends its record or frees it (tape_op_finish). */
    xcvm_status (*execute)(xcvm_tape *t, tape_op_record *r);
    /* Executes an op whose first result overwrites `target`. The caller frees the record and the results. */
    xcvm_status (*execute_into)(xcvm_tape *t, tape_op_record *r, tape_variable *target);
    /* Runs the kernel of an op. */
    xcvm_status (*compute)(xcvm_tape *t, const tape_op_record *r);
    /* Runs a waiting op and the ops that it depends on. */
    xcvm_status (*evaluate)(xcvm_tape *t, tape_op_record *r);
    xcvm_status (*evaluate_all)(xcvm_tape *t);
    /* Removes an op from its batch and from the queue. NULL: there are none. */
    void (*detach)(tape_op_record *r);
    /* Reserves memory for all ops that may wait again; then queues them again, which cannot fail. NULL: nothing to do.
     */
    bool (*reserve_queue)(xcvm_tape *t);
    void (*requeue)(xcvm_tape *t);
    /* Creates a tensor of the host's elements; `data` NULL: zeros. */
    tape_variable *(*create_tensor)(xcvm_tape *t, xcc_value_kind kind, xcvm_dtype dtype, int rank, const int64_t *dims,
                                    const void *data, size_t bytes);
    /* Builds a seed of ones for a root of one element, and gradients. NULL: a backward pass computes them. */
    tape_variable *(*build_seed)(xcvm_tape *t, const tape_variable *root);
    xcvm_status (*build_gradients)(xcvm_tape *t, const struct tape_backward_request *request);
    /* Executes or builds the branches of an If, and a Loop. Failures are those of the tape. */
    void (*branch)(xcvm_tape *t, const tape_variable *condition, const xcvm_tape_branch *branches, size_t count,
                   xcvm_var *results);
    void (*loop)(const struct tape_loop *loop);
    /* Frees what the mode caches, at a reset and at the end. NULL: nothing. */
    void (*reset)(xcvm_tape *t);
    void (*destroy)(xcvm_tape *t);
};

extern const tape_mode tape_eager_mode;

/* Implementations that several modes share. */
xcvm_status tape_eager_execute(xcvm_tape *t, tape_op_record *r);
xcvm_status tape_eager_execute_into(xcvm_tape *t, tape_op_record *r, tape_variable *target);
xcvm_status tape_eager_compute(xcvm_tape *t, const tape_op_record *r);
tape_variable *tape_eager_create_tensor(xcvm_tape *t, xcc_value_kind kind, xcvm_dtype dtype, int rank,
                                        const int64_t *dims, const void *data, size_t bytes);
void tape_eager_branch(xcvm_tape *t, const tape_variable *condition, const xcvm_tape_branch *branches, size_t count,
                       xcvm_var *results);
void tape_eager_loop(const struct tape_loop *loop);

#endif
