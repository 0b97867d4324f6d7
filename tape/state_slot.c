/* State slots: handles that layers keep between calls. */
#include "tape/tracer.h"

tape_state_slot *tape_state_slot_create(xcvm_tape *t)
{
    tape_state_slot *p = xcvm_allocate(t->allocator, sizeof *p);
    if (p == NULL)
        tape_fail(t, XCVM_OUT_OF_MEMORY, "the allocator has no %zu bytes for a place", sizeof *p);
    else
        *p = (tape_state_slot){.tape = t, .refs = 1};
    return p;
}

void tape_state_slot_release(tape_state_slot *p)
{
    if (--p->refs > 0)
        return;
    xcvm_var_release(p->tape, p->v);
    xcvm_deallocate(p->tape->allocator, p, sizeof *p);
}

void tape_state_slot_abandon(tape_state_slot *p)
{
    if (p == NULL)
        return;
    xcvm_var_release(p->tape, p->v);
    p->v = XCVM_ABSENT;
    p->abandoned = true;
    tape_state_slot_release(p);
}

static void notify_tracer(tape_state_slot *p)
{
    xcvm_tape *t = p->tape;
    if (t->tracer != NULL && !t->failed)
        t->tracer->functions->state_slot(t->tracer, p);
}

xcvm_var tape_state_slot_read(tape_state_slot *p)
{
    notify_tracer(p);
    return p->v;
}

void tape_state_slot_write(tape_state_slot *p, xcvm_var v)
{
    notify_tracer(p);
    xcvm_var_release(p->tape, p->v);
    p->v = v;
}
