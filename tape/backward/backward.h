/* The backward pass (reverse-mode differentiation) over recorded ops. */
#ifndef XCVM_TAPE_BACKWARD_BACKWARD_H
#define XCVM_TAPE_BACKWARD_BACKWARD_H

#include "tape/batch/batch.h"
#include "tape/side_table.h"
#include "tape/tracer.h"

typedef struct tape_weight_product tape_weight_product;

/* A running pass. It has a reference to each tracked variable until the creator of that is visited, or the pass
 * ends. */
struct tape_backward_pass {
    xcvm_tape *tape;
    const struct tape_backward_request *request;
    tape_backward_pass *outer;
    tape_variable *tracked;
    tape_cursor cursor;
    size_t pending;       /* ops that are still to be visited */
    bool *wanted;         /* operands whose gradients the running rule must build */
    bool weight_deferred; /* the rule must not build the gradient of operand 1 */
    struct tape_weight_product *products;
    xcc_builder builder;
};

typedef enum tape_backward_kind {
    TAPE_BACKWARD, /* accumulates gradients of all variables that require or retain them */
    TAPE_GRADIENTS /* returns the gradients with respect to `wrt` */
} tape_backward_kind;
typedef struct tape_backward_request {
    tape_backward_kind kind;
    size_t root_count;
    tape_variable *const *roots, *const *seeds; /* seeds are not NULL */
    size_t wrt_count;                           /* for TAPE_GRADIENTS */
    tape_variable *const *wrt;
    tape_variable **gradients; /* named in the innermost scope; NULL: zero */
    bool retain, create;
} tape_backward_request;
/* Runs a pass. If it fails, the failure stays, and no gradient has changed. */
xcvm_status tape_backward_run(xcvm_tape *t, const tape_backward_request *request);

/* ---- Running ---- */

/* Tracks v until the pass ends or v is untracked. */
xcvm_status tape_backward_track(tape_backward_pass *pass, tape_variable *v);
void tape_backward_untrack(tape_backward_pass *pass, tape_variable *v);
/* True if v needs a gradient in this pass. */
bool tape_backward_reaches(const tape_backward_pass *pass, const tape_variable *v);
/* Adds to the gradient of v. `mask` as in xcc_vjp. */
xcvm_status tape_backward_accumulate(tape_backward_pass *pass, tape_variable *v, xcc_value *gradient, xcc_value *mask);
/* Replaces the reference *to. `from` NULL is a failure, which `what` describes. */
xcvm_status tape_backward_hold(const tape_backward_pass *pass, tape_variable **to, xcc_value *from, const char *what);
/* Runs the rule of an op, and accumulates the gradients of its operands. */
xcvm_status tape_backward_apply_rule(tape_backward_pass *pass, tape_op_record *r);
/* Runs a function in a scope with memory and recording state of its own. `r` may be NULL. */
typedef xcvm_status (*tape_backward_step)(tape_backward_pass *pass, tape_op_record *r);
xcvm_status tape_backward_run_scoped(tape_backward_pass *pass, tape_op_record *r, tape_backward_step body);
/* The creator of v has been visited. */
void tape_backward_finish_variable(tape_backward_pass *pass, tape_variable *v);
/* The failure of a builder that returned NULL. */
xcvm_status tape_backward_failure(const tape_backward_pass *pass, const char *what);

/* Fails because an enclosing pass still needs the op or variable. */
xcvm_status tape_backward_refuse_overlap(const tape_backward_pass *pass);
/* Calls the visitor for each operand through which a gradient can flow. Operands that only determine a shape have
 * none. */
typedef xcvm_status (*tape_operand_visitor)(tape_backward_pass *pass, tape_op_record *r, uint32_t index,
                                            tape_variable *v);
xcvm_status tape_backward_each_operand(tape_backward_pass *pass, tape_op_record *r, tape_operand_visitor body);
/* Marks all variables that depend on a differentiation target. */
xcvm_status tape_backward_find_reached(tape_backward_pass *pass);
/* Marks the ops to visit, each of which has a rule. */
xcvm_status tape_backward_find_needed(tape_backward_pass *pass);
/* The op was visited, or will not be. */
void tape_backward_unmark(tape_backward_pass *pass, tape_op_record *r);
/* Names the op in the tape's error, and returns the status. */
xcvm_status tape_backward_locate_failure(const tape_backward_pass *pass, const tape_op_record *r, xcvm_status status);

/* True if the gradient of a weight, operand 1 of a batch, can be accumulated later with those of other batches.
 * tape_product_defer saves its factors. */
bool tape_product_can_wait(const tape_backward_pass *pass, const tape_op_record *call);
xcvm_status tape_product_defer(tape_backward_pass *pass, const tape_op_record *call);
/* Computes all deferred products: before other code reads gradients or writes elements, and at the end. */
xcvm_status tape_products_flush(tape_backward_pass *pass);
void tape_products_release(tape_backward_pass *pass);
/* True if the gradient of a weight can stay two factors. The product has few terms, so writing it takes longer than
 * reading the factors. */
bool tape_product_stays_factored(const tape_backward_pass *pass, const tape_op_record *r);
/* Computes the deferred gradient of v before another is added to it. */
xcvm_status tape_product_compute(tape_backward_pass *pass, const tape_variable *v);
/* At the end: computes all products except those that stay factored, whose factors get memory of their own.
 * Committing these afterwards cannot fail. */
xcvm_status tape_products_own(tape_backward_pass *pass);
void tape_products_commit(tape_backward_pass *pass);
/* A copy with elements of its own, in the current scope; NULL: no memory. */
tape_variable *tape_backward_copy_sum(xcvm_tape *t, const tape_variable *sum);
/* True if other variables share the elements or the variable, so that they must not be overwritten. */
bool tape_backward_is_shared(const tape_variable *sum);

/* True if one run of the rule can serve all members: each is visited, and no result needs individual treatment. */
bool tape_batch_is_complete(const tape_backward_pass *pass, const tape_batch *b);
xcvm_status tape_backward_visit_batch(tape_backward_pass *pass, tape_batch *b);
/* Runs the rule of a batch so that its gradients are differentiable (create_graph). A tape_backward_step. */
xcvm_status tape_backward_differentiate_batch(tape_backward_pass *pass, tape_op_record *call);
/* True for operations that this records internally; they read no gradients of others. */
bool tape_batch_is_internal(const xcvm_operation *operation);
/* Zeros the parts of a stacked gradient that have received nothing. */
void tape_batch_fill_missing(tape_variable *whole);
/* One member's part of a stacked tensor, as a variable named in the innermost scope; NULL: a failure. */
tape_variable *tape_batch_slice(const tape_variable *all, const tape_variable *like, size_t index);
/* Distributes the stacked gradient to the members. */
xcvm_status tape_backward_split_batch(tape_backward_pass *pass, tape_batch *b);

/* ---- Row-sparse gradients ---- */

/* True if the gradient of the first operand is row-sparse. */
bool tape_sparse_applies(const tape_op_record *r);
/* Saves the rows until the pass ends. */
xcvm_status tape_sparse_collect(xcvm_tape *t, const tape_op_record *r, tape_variable *gradient);
/* Adds the rows at `indices` to the front of a list. */
xcvm_status tape_sparse_add(xcvm_tape *t, tape_sparse_rows **rows, tape_variable *table, tape_variable *indices,
                            tape_variable *gradient);
/* Adds the rows of the pass to the accumulated ones. */
void tape_sparse_commit(tape_variable *v);
/* Sets the gradients of variables to those of the changes, which are in order of time. */
xcvm_status tape_changes_apply(xcvm_tape *t, size_t count, const tape_change *changes);
/* Sums the rows of a gradient that has some. The new variables have each row once, in ascending order, and are named
 * in the innermost scope. */
xcvm_status tape_sparse_sum(xcvm_tape *t, const tape_variable *v, tape_variable **rows, tape_variable **gradient);

/* The sum of the dense and the row-sparse gradient; a new variable. */
tape_variable *tape_sparse_to_dense(xcvm_tape *t, tape_variable *v);

/* Runs the gradient function of a host operation in place of a rule. */
void tape_operation_apply_gradient(xcvm_tape *t, xcc_vjp *d, const tape_op_record *r);
/* A variable that stands for v in a function that is differentiated. It is connected with v if a gradient can flow
 * on. */
tape_variable *tape_variable_alias(xcvm_tape *t, tape_variable *v);
/* Sets the recorder of the tape: a builder whose nodes are executed. */
void tape_recorder_init(xcvm_tape *t);

#endif
