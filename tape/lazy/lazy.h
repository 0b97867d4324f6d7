/* Lazy execution: an op has the types of its results at once, and runs when a value is needed. */
#ifndef XCVM_TAPE_LAZY_LAZY_H
#define XCVM_TAPE_LAZY_LAZY_H

#include "tape/mode.h"

extern const tape_mode tape_lazy_mode;

/* Infers the types of the results; *waits: the op may run later. */
xcvm_status tape_lazy_infer(xcvm_tape *t, const tape_op_record *r, bool *waits);
/* Executes an op whose operands may be waiting. */
xcvm_status tape_lazy_run_immediately(xcvm_tape *t, tape_op_record *r);
/* Appends an op to the waiting ones. */
void tape_lazy_defer(xcvm_tape *t, tape_op_record *r);
/* Runs a waiting op whose operands are evaluated. */
xcvm_status tape_lazy_run(xcvm_tape *t, tape_op_record *r);
/* Moves an evaluated op to the executed ones. The caller saves the versions. */
void tape_op_record_complete(tape_op_record *r);
/* Appends an op and the waiting ops that it depends on to a list that *end terminates. */
tape_op_record **tape_lazy_collect(tape_op_record *r, tape_op_record **end);
/* Implementations of the mode's functions. */
xcvm_status tape_lazy_evaluate(xcvm_tape *t, tape_op_record *r);
xcvm_status tape_lazy_evaluate_all(xcvm_tape *t);

#endif
