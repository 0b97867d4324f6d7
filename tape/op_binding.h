/* Op bindings: from the struct that a macro of tape_calls.h fills to the arguments of the kernel. Generated from the op
 * definitions. */
#ifndef XCVM_TAPE_OP_BINDING_H
#define XCVM_TAPE_OP_BINDING_H

#include "tape/tape.h"

typedef struct tape_op_sizes {
    size_t in, out, extra;
} tape_op_sizes;

typedef struct tape_op_binder {
    xcvm_tape *tape;
    tape_op_record *record;
    uint32_t in, out; /* bound so far */
    char *behind;     /* free part of the record's extra memory */
    xcvm_var into;    /* destination of the first result; absent: a new variable */
} tape_op_binder;

typedef struct tape_op_binding {
    void (*measure)(const void *call, tape_op_sizes *sizes);
    void (*bind)(tape_op_binder *k, const void *call, void *args);
    /* Stores the handles of the results where the caller wants them; `record` NULL: the call failed. */
    xcvm_var (*results)(const void *call, const tape_op_record *record);
    bool windows; /* has lists of ints, which may be window attributes */
} tape_op_binding;

/* NULL: there is no such instruction, or hosts cannot call it. */
const tape_op_binding *tape_op_binding_of(int32_t opcode);
/* Sets window attributes that the call leaves out. */
void tape_op_fill_windows(const tape_op_record *r);

#endif
