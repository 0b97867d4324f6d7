/* Branches and loops of tapes. */
#ifndef XCVM_TAPE_CONTROL_H
#define XCVM_TAPE_CONTROL_H

#include "tape/mode.h"

typedef struct tape_loop {
    xcvm_tape *tape;
    const tape_variable *trips, *cond; /* NULL: absent */
    xcvm_tape_loop_body body;
    size_t state_count, scan_count;
    xcvm_var *states, *scans;
} tape_loop;

/* The variable of a scalar of a type, evaluated; NULL: it is absent, or a failure. */
tape_variable *tape_resolve_scalar(xcvm_tape *t, xcvm_var v, xcvm_dtype dtype, const char *what);
/* Makes all scans absent, before a body runs. */
void tape_loop_clear_scans(const tape_loop *l);

#endif
