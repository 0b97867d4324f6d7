/* Building tapes: op calls become nodes of a graph, which is compiled like an imported model. */
#ifndef XCVM_TAPE_BUILDING_BUILDING_H
#define XCVM_TAPE_BUILDING_BUILDING_H

#include "tape/control.h"

extern const tape_mode tape_building_mode;

/* Creates a variable for a graph value; NULL with the failure set if `value` is NULL. */
tape_variable *tape_building_variable(xcvm_tape *t, xcc_value *value);
/* The graph value of a variable (NULL: NULL) where the tape builds now; NULL with the failure set if it is not visible
 * there. */
xcc_value *tape_building_value(xcvm_tape *t, const tape_variable *v);
void tape_building_branch(xcvm_tape *t, const tape_variable *condition, const xcvm_tape_branch *branches, size_t count,
                          xcvm_var *results);
void tape_building_loop(const tape_loop *loop);

#endif
