/* Batched execution: ops of a lazy tape wait in a queue, and like ones run together. */
#include "tape/batch/batch.h"
#include "tape/control.h"
#include "tape/lazy/lazy.h"

static xcvm_status execute_batched(xcvm_tape *t, tape_op_record *r)
{
    tape_key key;
    bool waits = false, recalled = false;
    xcvm_status status = t->failed ? t->error.status : XCVM_OK;
    if (status == XCVM_OK && t->pass == NULL) {
        waits = recalled = tape_signature_recall(t, r, &key);
        if (!recalled)
            status = tape_lazy_infer(t, r, &waits);
    }
    if (status == XCVM_OK && !waits)
        status = tape_lazy_run_immediately(t, r);
    if (status != XCVM_OK || !waits)
        return tape_op_finish(t, r, status);
    if (!recalled) {
        tape_op_mark_differentiable(r);
        tape_signature_add(t, r, &key);
    }
    if (!tape_pending_add(t, r))
        return tape_op_finish(
            t, r, tape_fail(t, XCVM_OUT_OF_MEMORY, "the allocator has no memory for one more call that waits"));
    tape_lazy_defer(t, r);
    return XCVM_OK;
}

static xcvm_status compute_batched(xcvm_tape *t, const tape_op_record *r)
{
    xcvm_status status;
    return tape_panels_multiply(t, r, &status) ? status : tape_eager_compute(t, r);
}

static xcvm_status evaluate_batched(xcvm_tape *t, tape_op_record *r)
{
    return t->failed ? tape_lazy_evaluate(t, r) : tape_run_agenda(t, r);
}

static xcvm_status evaluate_all_batched(xcvm_tape *t)
{
    return t->failed ? tape_lazy_evaluate_all(t) : tape_run_agenda(t, NULL);
}

static void detach(tape_op_record *r)
{
    if (r->batch != NULL)
        tape_batch_release(r->batch);
    tape_pending_remove(r);
}

/* Reserves the queue for all ops that wait, or may wait again. */
static bool reserve_queue(xcvm_tape *t)
{
    size_t calls = 0, edges = 0;
    for (int waiting = 0; waiting < 2; waiting++)
        for (const tape_op_record *r = waiting ? t->waiting.first : t->ops.first; r != NULL; r = r->next)
            if (waiting || r->deferred) {
                calls++;
                edges += r->in_count;
            }
    return tape_pending_reserve(t, calls, edges);
}

/* Queues all waiting ops anew. Memory is reserved. */
static void requeue_waiting(xcvm_tape *t)
{
    tape_op_record *first = NULL, **end = &first;
    for (tape_op_record *r = t->waiting.first; r != NULL; r = r->next) {
        tape_pending_remove(r);
        end = tape_lazy_collect(r, end);
    }
    for (tape_op_record *r = first, *next; r != NULL; r = next) {
        next = r->order;
        r->mark = 0;
        r->order = NULL;
        (void)tape_pending_add(t, r);
    }
}

static void destroy_batching(xcvm_tape *t)
{
    tape_agenda_release(t);
    tape_signatures_release(t);
    tape_pending_release(t);
}

static void reset_batching(xcvm_tape *t)
{
    t->batching.separate_results = false;
    tape_signatures_clear(t);
}

const tape_mode tape_batched_mode = {.defers = true,
                                     .execute = execute_batched,
                                     .execute_into = tape_eager_execute_into,
                                     .compute = compute_batched,
                                     .evaluate = evaluate_batched,
                                     .evaluate_all = evaluate_all_batched,
                                     .detach = detach,
                                     .reserve_queue = reserve_queue,
                                     .requeue = requeue_waiting,
                                     .create_tensor = tape_eager_create_tensor,
                                     .branch = tape_eager_branch,
                                     .loop = tape_eager_loop,
                                     .reset = reset_batching,
                                     .destroy = destroy_batching};
