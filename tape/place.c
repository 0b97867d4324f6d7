/* Places of handles that layers keep from call to call. */
#include "tape/tape.h"

tape_place *tape_place_make(xcvm_tape *t)
{
    tape_place *p = xcvm_allocate(t->allocator, sizeof *p);
    if (p == NULL)
        tape_fail(t, XCVM_OUT_OF_MEMORY, "the allocator has no %zu bytes for a place", sizeof *p);
    else
        *p = (tape_place){.tape = t, .refs = 1};
    return p;
}

void tape_place_release(tape_place *p)
{
    if (--p->refs > 0)
        return;
    xcvm_var_release(p->tape, p->v);
    xcvm_deallocate(p->tape->allocator, p, sizeof *p);
}

void tape_place_leave(tape_place *p)
{
    if (p == NULL)
        return;
    xcvm_var_release(p->tape, p->v);
    p->v = XCVM_ABSENT;
    p->left = true;
    tape_place_release(p);
}

static void tell(tape_place *p)
{
    xcvm_tape *t = p->tape;
    if (t->tracer != NULL && !t->failed)
        t->tracer->functions->place(t->tracer, p);
}

xcvm_var tape_place_read(tape_place *p)
{
    tell(p);
    return p->v;
}

void tape_place_write(tape_place *p, xcvm_var v)
{
    tell(p);
    xcvm_var_release(p->tape, p->v);
    p->v = v;
}
