/* Checkpoints: going back to what was recorded before. */
#include "tape/tape.h"

typedef struct tape_checkpoint {
    struct tape_checkpoint *before;
    uint64_t calls, serials; /* that there were */
} tape_checkpoint;

static void drop(xcvm_tape *t)
{
    tape_checkpoint *latest = t->checkpoints;
    t->checkpoints = latest->before;
    tape_give_back(t, latest, sizeof *latest);
}

void tape_checkpoints_release(xcvm_tape *t)
{
    while (t->checkpoints != NULL)
        drop(t);
}

xcvm_status xcvm_tape_checkpoint(xcvm_tape *tape, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_tape_checkpoint, error);
    tape_checkpoint *added = tape_take(tape, sizeof *added);
    if (added == NULL)
        return tape_report(tape, error);
    *added = (tape_checkpoint){.before = tape->checkpoints, .calls = tape->calls, .serials = tape->serials};
    tape->checkpoints = added;
    return XCVM_OK;
}

/* What was kept is constant when the call that made it has gone. */
static void settle_kept(xcvm_tape *t, const tape_checkpoint *c)
{
    for (tape_variable *v = t->kept_first; v != NULL; v = v->next)
        if (v->serial > c->serials && v->spent) {
            if (t->tracer != NULL)
                t->tracer->functions->cut(t->tracer, v);
            tape_variable_require(v, false);
            v->spent = false;
        }
}

/* Records are marked, then removed all together: nothing that is removed for want of need is among them again. */
static void remove_since(xcvm_tape *t, const tape_checkpoint *c)
{
    t->removing = true;
    for (tape_record *r = t->last_waiting; r != NULL; r = r->previous)
        if (r->number >= c->calls) {
            r->busy = true;
            tape_record_remove(r);
        }
    /* Those that were executed since may have been made before. */
    for (tape_record *r = t->last; r != NULL && r->serial >= c->serials; r = r->previous)
        if (r->number >= c->calls) {
            r->busy = true;
            tape_record_remove(r);
        }
    tape_records_sweep(t);
}

xcvm_status xcvm_tape_revert(xcvm_tape *tape, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_tape_revert, error);
    XCVM_CHECK(error, tape->checkpoints != NULL, INVALID_ARGUMENT, "there is no checkpoint to go back to");
    const tape_checkpoint c = *tape->checkpoints;
    if (!tape_evaluate_kept(tape, c.serials))
        return tape_report(tape, error);
    drop(tape);
    remove_since(tape, &c);
    settle_kept(tape, &c);
    tape_names_end(tape, c.serials);
    return tape_report(tape, error);
}
