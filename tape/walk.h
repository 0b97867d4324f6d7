/* The walk back, for what goes back over several calls at once. */
#ifndef XCVM_TAPE_WALK_H
#define XCVM_TAPE_WALK_H

#include "tape/batch.h"

/* The walk knows things of v from here on, until it ends or v is untouched. */
xcvm_status tape_walk_touch(tape_walk *w, tape_variable *v);
void tape_walk_untouch(tape_walk *w, tape_variable *v);
/* Whether a gradient is to come to v. */
bool tape_walk_reaches(const tape_walk *w, const tape_variable *v);
/* Adds to what comes to v. `mask` as in xcc_vjp. */
xcvm_status tape_walk_add(tape_walk *w, tape_variable *v, xcc_value *gradient, xcc_value *mask);
/* Puts `from`, which failed if it is NULL, in the place of *to, held. */
xcvm_status tape_walk_hold(const tape_walk *w, tape_variable **to, xcc_value *from, const char *what);
/* Runs the rule of a call, and adds up what it gives. */
xcvm_status tape_walk_rule(tape_walk *w, tape_record *r);
/* Does something for a call (NULL: for none), in a scope, with memory and recording of its own. */
typedef xcvm_status (*tape_walk_body)(tape_walk *w, tape_record *r);
xcvm_status tape_walk_run(tape_walk *w, tape_record *r, tape_walk_body body);
/* The call that made v has been passed. */
void tape_walk_finish(tape_walk *w, tape_variable *v);
/* The failure of what gave nothing. */
xcvm_status tape_walk_failure(const tape_walk *w, const char *what);

/* Fails for what another walk, around this one, is to pass or has yet to add to. */
xcvm_status tape_walk_refuse_overlap(const tape_walk *w);
/* Calls body for each operand through which a gradient can flow; what decides a shape has none. */
typedef xcvm_status (*tape_walk_operand)(tape_walk *w, tape_record *r, uint32_t index, tape_variable *v);
xcvm_status tape_walk_each_operand(tape_walk *w, tape_record *r, tape_walk_operand body);
/* Finds what depends on the variables that are differentiated by. */
xcvm_status tape_walk_find_reached(tape_walk *w);
/* Marks the calls that have to be passed, each of which has a rule. */
xcvm_status tape_walk_find_needed(tape_walk *w);
/* A marked call was passed, or will not be. */
void tape_walk_unmark(tape_walk *w, tape_record *r);
/* Says in the tape's error that the failure is this call's, and returns it. */
xcvm_status tape_walk_blame(const tape_walk *w, const tape_record *r, xcvm_status status);

/* Whether the gradient of a weight, operand 1 of a batch's call to whose result one has come, can be added up later,
 * with those by other batches; notes what it is made of. */
bool tape_product_waits(const tape_walk *w, const tape_record *call);
xcvm_status tape_product_wait(tape_walk *w, const tape_record *call);
/* Adds up all that wait: before anybody else can read gradients or write elements, and at the end. */
xcvm_status tape_products_add(tape_walk *w);
void tape_products_drop(tape_walk *w);
/* Whether the gradient of a weight, operand 1 of a call, can be left as its factors: it is a product of few terms,
 * which takes longer to write than they do, and nobody looks on. */
bool tape_product_is_left(const tape_walk *w, const tape_record *r);
/* Makes the product that the gradient of v is in this walk, before something else is added to it. */
xcvm_status tape_product_make(tape_walk *w, const tape_variable *v);
/* At the end: adds up all but those that are all of a gradient, whose factors have memory of their own from here on;
 * and then gives these, which cannot fail. */
xcvm_status tape_products_own(tape_walk *w);
void tape_products_give(tape_walk *w);
/* A copy with elements of its own, in the scope around; NULL if there is no memory. */
tape_variable *tape_walk_copy(xcvm_tape *t, const tape_variable *sum);
/* Whether its elements are others' too, or of two sums: who is given them may overwrite them. */
bool tape_walk_is_shared(const tape_variable *sum);

/* Whether the walk can go back over all members as over one call: each has to be passed, and nobody asks for what comes
 * to single results. */
bool tape_batch_is_whole(const tape_walk *w, const tape_batch *b);
xcvm_status tape_batch_visit(tape_walk *w, tape_batch *b);
/* Runs the rule of a batch's call so that its gradients can be differentiated (create_graph), as a tape_walk_body. */
xcvm_status tape_batch_differentiate(tape_walk *w, tape_record *call);
/* Whether it is one of those that this records, which see no gradients of others. */
bool tape_batch_is_inner(const xcvm_operation *operation);
/* What has come to the results of some members is there for all, as zeros for the others. */
void tape_batch_complete(tape_variable *whole);
/* One member's part of what is there for all, as a variable; named in the innermost scope. NULL: a failure. */
tape_variable *tape_batch_part(const tape_variable *all, const tape_variable *like, size_t index);
/* Gives each member its part of what came to the results of all. */
xcvm_status tape_batch_spread(tape_walk *w, tape_batch *b);

#endif
