/* Checkpoints: return to an earlier state of the recording. */
#include "tape/tracer.h"

typedef struct tape_checkpoint {
    struct tape_checkpoint *before;
    uint64_t calls, serials; /* counts at the checkpoint */
} tape_checkpoint;

static void drop_checkpoint(xcvm_tape *t)
{
    tape_checkpoint *latest = t->checkpoints;
    t->checkpoints = latest->before;
    tape_free(t, latest, sizeof *latest);
}

void tape_checkpoints_release(xcvm_tape *t)
{
    while (t->checkpoints != NULL)
        drop_checkpoint(t);
}

xcvm_status xcvm_tape_checkpoint(xcvm_tape *tape, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_tape_checkpoint, error);
    tape_checkpoint *added = tape_allocate(tape, sizeof *added);
    if (added == NULL)
        return tape_report(tape, error);
    *added = (tape_checkpoint){.before = tape->checkpoints, .calls = tape->calls, .serials = tape->serials};
    tape->checkpoints = added;
    return XCVM_OK;
}

/* A kept variable becomes a constant when its op is removed. */
static void make_kept_constant(xcvm_tape *t, const tape_checkpoint *c)
{
    for (tape_variable *v = t->kept; v != NULL; v = v->next_kept)
        if (v->serial > c->serials && v->consumed) {
            if (t->tracer != NULL)
                t->tracer->functions->cut(t->tracer, v);
            tape_variable_require(v, false);
            v->consumed = false;
        }
}

/* Records are marked first and removed together, so that none is removed twice. */
static void remove_ops_since(xcvm_tape *t, const tape_checkpoint *c)
{
    t->removal.active = true;
    for (tape_op_record *r = t->waiting.last; r != NULL; r = r->previous)
        if (r->number >= c->calls) {
            r->busy = true;
            tape_op_record_remove(r);
        }
    /* An op that ran since may have been called before. */
    for (tape_op_record *r = t->ops.last; r != NULL && r->serial >= c->serials; r = r->previous)
        if (r->number >= c->calls) {
            r->busy = true;
            tape_op_record_remove(r);
        }
    tape_op_records_sweep(t);
}

xcvm_status xcvm_tape_revert(xcvm_tape *tape, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_tape_revert, error);
    XCVM_CHECK(error, tape->checkpoints != NULL, INVALID_ARGUMENT, "there is no checkpoint to go back to");
    const tape_checkpoint c = *tape->checkpoints;
    if (!tape_evaluate_kept(tape, c.serials))
        return tape_report(tape, error);
    drop_checkpoint(tape);
    remove_ops_since(tape, &c);
    make_kept_constant(tape, &c);
    tape_names_end_scope(tape, c.serials);
    return tape_report(tape, error);
}
