/* The tape: variables, recorded calls, and the state that they share. */
#ifndef XCVM_TAPE_TAPE_H
#define XCVM_TAPE_TAPE_H

#include "compiler/gradients/gradients.h"
#include "tape/entry.h"

typedef struct xcvm_variable tape_variable;
typedef struct tape_record tape_record;
typedef struct tape_walk tape_walk;
typedef struct tape_hook tape_hook;
typedef struct tape_batch tape_batch;
typedef struct tape_tracer tape_tracer;
typedef struct tape_rows tape_rows;
typedef struct tape_product tape_product;
typedef struct tape_pending tape_pending;
typedef struct tape_panels tape_panels;
typedef struct tape_chunk tape_chunk;

/* What a handle names. Its memory is the tape's as long as that lives, so that a stale handle is known by its serial
 * number. Rules and kernels see it as a value of the compiler's. */
struct xcvm_variable {
    xcc_value value; /* first; a constant if no gradient can flow to it, so that rules know its elements */
    /* What few have, and is zero of a slot that is free: making and destroying does not touch it. */
    tape_rows *rows, *coming; /* of a parameter whose gradient is kept by rows: what backwards have given, and what the
                                 walk that goes on has */
    tape_panels *panels;      /* of a weight that is packed */
    tape_variable *left;      /* of a gradient that is a product which nobody has asked for: its factor a, transposed;
                                 while it is set `gradient` is factor b, and so others use tape_variable_gradient */
    uint32_t lenders;         /* whose gradient it is, and who lend it */
    uint32_t layers;          /* that keep it */
    /* What is asked for all the time lies in one line of the cache. */
    _Alignas(64) tape_record *creator; /* the call that made it; NULL: none, or one that is not recorded */
    uint32_t refs;     /* 1 while it is named, and one for each recorded call, walk or variable that needs it */
    uint32_t uses;     /* of those, by recorded calls that it is an operand of */
    uint32_t readers;  /* recorded calls, of which it is an operand or a result, whose rules read its elements */
    bool spared : 1;   /* its elements are gone, as nobody can name it and no rule reads them */
    bool named : 1;    /* by handles of the host or, in a rule, of the walk */
    bool requires : 1; /* a gradient can flow to it */
    bool retains : 1;  /* its gradient is kept though a call made it */
    bool spent : 1;    /* the call that made it was passed by a backward */
    bool stays : 1;    /* beyond the end of the scope that is being ended */
    bool kept : 1;     /* named, and in no scope */
    bool sparse : 1;
    bool by_rows : 1;  /* a gradient has come to it that is kept so */
    bool packed : 1;   /* it has panels */
    bool equipped : 1; /* it has had hooks, or a gradient */
    /* What a walk knows of it. */
    bool derived : 1; /* by calls from what is differentiated by */
    bool target : 1;  /* is differentiated by */
    bool root : 1;    /* is differentiated */
    bool partial : 1; /* of all members of a batch: its sum is there for those alone that the batch says */
    /* Its gradient in this walk is one product, which stays two factors unless something is added to it. */
    bool factored : 1;
    tape_walk *walk;           /* NULL: none goes over it */
    tape_variable *sum, *mask; /* of a slot that is free the sum is the next free one */
    uint64_t serial;           /* in the order in which variables are made; of a slot that is free none of those */
    xcvm_tape *tape;
    /* In another line, set while it is in that list. */
    tape_variable *next_touched, *previous_touched;
    tape_variable *previous, *next; /* of those that are kept */
    /* Like the first group, zero while the slot is free. */
    tape_hook *hooks;        /* in order */
    tape_variable *gradient; /* that was added up */
    tape_batch *batch;       /* whose result it is, for all members; NULL: none, or one that is gone */
    xcc_value *built;        /* of the graph, on a tape that builds; or of the trace that it was made in */
};

struct tape_hook {
    xcvm_gradient_hook hook;
    tape_hook *next;
};
static inline size_t tape_hook_count(const tape_variable *v)
{
    size_t count = 0;
    for (const tape_hook *hook = v->hooks; hook != NULL; hook = hook->next)
        count++;
    return count;
}

/* A gradient of some rows of a parameter, as one Gather has given it. */
struct tape_rows {
    tape_variable *gradient; /* a reference; of one row behind the other */
    tape_variable *indices;  /* a reference, for a tracer; NULL: there was none */
    tape_rows *next;         /* the one before */
    size_t count;
    int64_t at[]; /* none below 0 */
};

/* A weight and its transpose in panels, as they were when the storage had that version. */
struct tape_panels {
    const xcvm_storage *of;
    uint32_t version;
    uint32_t uses[2];        /* that could have read them */
    xcvm_storage *packed[2]; /* NULL: not yet */
};

/* A call: what its rule needs. The arrays lie behind it, in the same piece of memory. */
struct tape_record {
    const xcvm_schema *schema;
    void *args;
    size_t bytes;                    /* of this piece of memory */
    uint64_t number;                 /* of the call, from 0 */
    const xcvm_operation *operation; /* of the host's; NULL: the schema's */
    uint64_t random;                 /* state of the generator when the call was made, if it is random */
    tape_record *order;              /* the next in the evaluation that goes on */
    uint32_t mark;                   /* of that: 0, or how many operands it has looked at, + 1 */
    uint32_t signature;              /* of calls that can run together; 0: it runs by itself */
    /* What evaluations and walks ask for lies in the next two lines of the cache, and in that of the lists. */
    tape_record *previous, *next;
    xcvm_tape *tape;
    uint64_t serial;           /* of the latest variable that there was before it */
    uint32_t *versions;        /* of the elements of operands, then results, when the call was recorded */
    tape_variable **in, **out; /* in row order, lists spread out; NULL: absent */
    uint32_t in_count, out_count;
    tape_walk *walk;   /* that has to come by */
    tape_batch *batch; /* that it was run with, all of which is there; NULL: none */
    uint32_t slot;     /* its place in that */
    uint32_t place;    /* among what waits to be batched: number + 1; 0: it is not there */
    tape_record *dead; /* list of those that are being removed */
    uint32_t *users;   /* counts the records of a schedule; NULL: it is of none */
    uint8_t spares;    /* xcc_spares of its rule */
    bool busy : 1;     /* a walk is at it */
    bool backward : 1; /* a walk has made it */
    bool flows : 1;    /* a gradient can flow through it */
    bool deferred : 1; /* it is evaluated when a value is asked for, and can be again */
    bool waiting : 1;  /* which has not happened yet */
};

/* Pieces of memory of up to so many times 64 bytes are cut from slabs, and kept by size. */
enum { TAPE_CLASSES = 32, TAPE_CLASS_BYTES = 64 };
typedef struct tape_slab {
    struct tape_slab *next;
    size_t bytes; /* with this */
    size_t used;
} tape_slab;

/* References to a storage that variables gave back while calls were removed, which are given back at once: results of
 * a batch, which go together, share one. Storages are told apart by so many bits of a hash of their addresses; of two
 * that these are the same of, one gives its references back earlier. */
typedef struct tape_parting {
    xcvm_storage *storage;
    uint32_t count;
} tape_parting;
enum { TAPE_PARTING_BITS = 4 };

/* That a variable is named in a scope. It may have lost the name since, or be gone: names are left out where a scope
 * ends, many at a time, since what stands beside one in memory is not looked at then. */
typedef struct tape_name {
    tape_variable *variable;
    uint64_t serial;
} tape_name;

struct xcvm_tape {
    xcc_recorder recorder; /* first */
    xcc_node executed;     /* that stands for whatever was */
    xcvm_budget budget;    /* counts; the allocator of all that follows */
    const xcvm_allocator *allocator;
    xcvm_kernel kernel;
    xcvm_error error; /* the failure that stays */
    bool failed;
    bool recording;
    bool formula;      /* recording is on for a formula that a rule differentiates, and then off again */
    bool building;     /* calls become nodes of the module's graph */
    bool lazy;         /* calls wait for their values to be asked for */
    const char *ended; /* why nothing can be done with it any more; NULL: it can be used */
    bool broken;       /* a graph that is incomplete, which cannot be compiled */
    bool builds;       /* or has had a tracer: variables may be of a graph */
    bool singles;      /* since the reset a result of a call was given a hook, or retains its gradient */
    xcc_builder builder;
    uint32_t traces; /* functions that are being differentiated, one within the other */
    uint64_t random;
    uint64_t calls, serials;
    tape_record *first, *last;                 /* recorded calls, in order */
    tape_record *first_waiting, *last_waiting; /* that are not evaluated yet */
    struct tape_checkpoint *checkpoints;       /* the latest first */
    xcvm_batching batching;
    struct tape_signatures *signatures; /* of calls that can run together */
    tape_pending *pending;              /* of a tape that batches: what waits */
    struct tape_agenda *agenda;         /* of evaluations */
    uint32_t trials;                    /* of strategies that are compared, so far */
    double trial_ns[2];                 /* that a call took in them */
    size_t recorded, variables;
    tape_record *dead; /* to be removed, one behind the other */
    bool removing;
    tape_parting parting[1 << TAPE_PARTING_BITS];
    uint32_t parted;  /* a bit for each of them that has references */
    tape_name *names; /* in the order of serial numbers, with those of variables that have none any more */
    size_t name_count, name_capacity;
    size_t named;              /* variables that are, and are not kept */
    tape_variable *kept_first; /* those that are kept, the latest first */
    tape_variable *free_variables;
    tape_chunk *chunks, *chunk; /* slots of variables: the first, and that which is cut now */
    size_t cut;                 /* slots of that, so far */
    uint64_t resets;
    void *pieces[TAPE_CLASSES + 1]; /* free, by size; each points to the next */
    size_t pieces_taken;
    tape_slab *slabs, *slab; /* the first, and that which is cut now */
    tape_walk *walk;         /* the innermost that goes on */
    xcvm_tape_observer observer;
    bool check_nan;
    bool packing;                   /* memory is asked for panels, which have none of other panels */
    tape_tracer *tracer;            /* that is told of calls; NULL: none */
    bool in_static;                 /* a static function runs */
    uint64_t shortages;             /* failures for want of memory, so far */
    const tape_record *overwritten; /* that a rule is run for, though some of its elements are no more */
    /* What rules build with: a module whose builder executes. */
    xcc_module module;
    xcvm_arena scratch; /* of the rule that runs */
};

/* ---- Failures ---- */

/* Notes the first failure. Gives its status. */
xcvm_status tape_fail(xcvm_tape *t, xcvm_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A failure that is written in the tape's error stays. */
xcvm_status tape_stick(xcvm_tape *t, xcvm_status status);
/* Hands out the failure that stays, if any. */
xcvm_status tape_report(xcvm_tape *t, xcvm_error *error);
/* Whether nothing can be done with it now. */
static inline bool tape_is_unusable(const xcvm_tape *t) { return t == NULL || t->failed; }
/* What a failed call gives. */
#define TAPE_FAILED ((xcvm_var){NULL, 1})

/* ---- Memory ---- */

/* Not zeroed. NULL, with the failure noted, if there is none. */
void *tape_take(xcvm_tape *t, size_t bytes);
void tape_give_back(xcvm_tape *t, void *memory, size_t bytes);

/* ---- Variables ---- */

/* Gives the slots back, at the end. */
void tape_chunks_release(xcvm_tape *t);
/* Cuts slots anew, in the order of their addresses: what is made next lies side by side. */
void tape_chunks_order(xcvm_tape *t);
/* What was a variable is none any more; handles of it are stale. */
void tape_slot_give_back(tape_variable *v);
/* Calls f for each variable that lives. */
void tape_variables_each(const xcvm_tape *t, void (*f)(void *user, const tape_variable *v), void *user);
/* A new variable without a type, named in the innermost scope; NULL: no memory, which is noted. */
tape_variable *tape_variable_make(xcvm_tape *t);
static inline tape_variable *tape_variable_of(const xcc_value *v) { return (tape_variable *)(uintptr_t)v; }
static inline xcvm_var tape_handle(const tape_variable *v)
{
    return (xcvm_var){(tape_variable *)(uintptr_t)v, v->serial};
}
/* What a handle that was kept names; NULL: what is gone, or has no name and may have lost its elements. */
static inline tape_variable *tape_find(xcvm_var v)
{
    return v.at != NULL && v.at->serial == v.serial && (v.at->named || v.at->lenders > 0) ? v.at : NULL;
}
/* Whether the elements of a tensor are there: they were computed, and not given back since. */
static inline bool tape_has_elements(const tape_variable *v)
{
    const xcvm_value *type = &v->value.type;
    return type->kind != XCVM_KIND_TENSOR || type->data != NULL || type->bytes == 0;
}
/* What a handle names; NULL with the failure noted if that is gone, another tape's, or failed. `what` is for the
 * message. */
tape_variable *tape_resolve(xcvm_tape *t, xcvm_var v, const char *what);
/* The same for an operand, which may be absent: NULL without a failure. */
tape_variable *tape_operand(xcvm_tape *t, xcvm_var v, const char *what);
/* Gives a reference back. */
void tape_variable_release(tape_variable *v);
/* So many references to a storage more, at the price of one: counting waits for all that was written before. */
static inline void tape_storage_retain(xcvm_storage *storage, uint32_t times)
{
    __atomic_fetch_add(&storage->refs, times, __ATOMIC_RELAXED);
}
/* Gives back what variables have parted with. */
void tape_partings_end(xcvm_tape *t);
/* It is named, in the scope that it was made in; false: no memory, which is noted. */
bool tape_variable_name(tape_variable *v);
/* Variables of serial numbers above that are named no more, but for those that stay and those that are kept. */
void tape_names_end(xcvm_tape *t, uint64_t serial);
/* Takes the reference to `gradient`, which becomes that of v; NULL: v has none any more. */
void tape_variable_set_gradient(tape_variable *v, tape_variable *gradient);
/* The gradient of v is the product of `left`, transposed, and `right`. */
void tape_variable_set_factors(tape_variable *v, tape_variable *left, tape_variable *right);
/* The gradient of v, which is made of its factors if it is given as those; NULL: it has none, or a failure. */
tape_variable *tape_variable_gradient(tape_variable *v);
/* v has no gradient any more, nor rows of one; the tape's tracer is told. */
void tape_variable_clear_gradient(tape_variable *v);
/* It is named no more. */
void tape_variable_unname(tape_variable *v);
/* Out of its scope, to live until it is unnamed. */
void tape_variable_keep(tape_variable *v);
/* Memory for a tensor whose type is set. */
xcvm_status tape_variable_allocate(xcvm_tape *t, tape_variable *v);
/* Whether a gradient can be of such a value: a tensor of a float type, or a list of those. */
bool tape_carries(const tape_variable *v);
void tape_variable_require(tape_variable *v, bool wanted);
/* A constant tensor; data NULL: uninitialized. */
tape_variable *tape_tensor(xcvm_tape *t, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data);
/* A variable, of no call, with the elements of v. */
tape_variable *tape_variable_share(xcvm_tape *t, tape_variable *v);

/* ---- Calls ---- */

/* A record with room for so many operands and results and `extra` bytes behind its arguments, 16-byte aligned; NULL,
 * with the failure noted, if there is no memory. */
tape_record *tape_record_make(xcvm_tape *t, const xcvm_schema *schema, size_t in_count, size_t out_count, size_t extra,
                              void **behind);
/* Executes the call, and records it if a gradient can flow through it; else the record is gone, and in failure the
 * results are too. */
xcvm_status tape_execute(xcvm_tape *t, tape_record *r);
/* An instruction whose arguments, with results, stand in a struct; lists are copied. */
xcvm_status tape_execute_args(xcvm_tape *t, const xcvm_schema *schema, const void *args);
/* The same for what was computed by other means. */
xcvm_status tape_conclude(xcvm_tape *t, tape_record *r, xcvm_status status);
/* Parts of executing: types of results; their memory, but for the first `placed`, and the kernel. */
xcvm_status tape_infer(xcvm_tape *t, const tape_record *r);
/* What shape rules are given of a call. */
xcvm_inference tape_inference_of(xcvm_tape *t, const tape_record *r);
xcvm_status tape_run_kernel(xcvm_tape *t, const tape_record *r, uint32_t placed);
/* Computes a product of rows by a weight that is, or now becomes, packed; false: it is none of those. */
bool tape_panels_multiply(xcvm_tape *t, const tape_record *r, xcvm_status *status);
/* Gives back the panels of a weight that is packed. */
void tape_panels_release(tape_variable *v);
/* The same for all variables of the tape; whether there were any. */
bool tape_panels_release_all(xcvm_tape *t);
/* What the tape's heap asks, as xcvm_heap_reclaim: whatever needs memory has that of panels. */
bool tape_panels_reclaim(void *tape);
/* Tells the observer that a call begins (begun 0), and gives the time; or that it is done. */
uint64_t tape_observe(xcvm_tape *t, const tape_record *r, uint64_t begun);
/* Fails if the call has made NaN of operands without any. */
xcvm_status tape_check_nan(xcvm_tape *t, const tape_record *r);
/* Whether the call is to be recorded. */
bool tape_flows(const xcvm_tape *t, const tape_record *r);
/* The failure is this call's. */
void tape_locate(xcvm_tape *t, const tape_record *r);

/* Puts a record among those that were executed, or that wait. */
void tape_record_link(tape_record *r);
void tape_record_unlink(tape_record *r);
/* Records a call: it needs its operands from here on, and has made its results. */
void tape_record_keep(tape_record *r);
/* Whether the call is to be recorded for a walk back; then gradients can flow to its results. */
bool tape_let_flow(tape_record *r);

/* ---- Lazy tapes ---- */

/* Records a call that can wait, and executes another. */
xcvm_status tape_execute_lazily(xcvm_tape *t, tape_record *r);
/* Evaluates what is kept, of later serial numbers; what cannot be computed goes. False: memory ran out. */
bool tape_evaluate_kept(xcvm_tape *t, uint64_t serial);
/* Evaluates all calls that wait. */
xcvm_status tape_evaluate_all(xcvm_tape *t);
/* Evaluates the call that made a variable, and what that needs. */
xcvm_status tape_evaluate_creator(tape_variable *v);
/* The elements of v (NULL: nothing) are there from here on. The failure stays, and is that of the call. */
static inline xcvm_status tape_evaluate(tape_variable *v)
{
    return v == NULL || v->creator == NULL || !v->creator->waiting ? XCVM_OK : tape_evaluate_creator(v);
}
/* Members are not of the batch from here on, which is gone; they were run, and are calls like others. */
void tape_batch_release(tape_batch *b);
/* A call waits to be batched, those that it needs before it; false: there is no memory. It waits no more, if it did. */
bool tape_pending_add(xcvm_tape *t, tape_record *r);
void tape_pending_remove(tape_record *r);
/* Room for so many calls that wait, and operands of them, where nothing else waits; false: there is no memory. */
bool tape_pending_reserve(xcvm_tape *t, size_t calls, size_t edges);
void tape_pending_release(xcvm_tape *t);
void tape_agenda_release(xcvm_tape *t);
/* Forgets signatures, if there are many: no record has one any more. */
void tape_signatures_clear(xcvm_tape *t);
void tape_signatures_release(xcvm_tape *t);
/* A call that was evaluated waits no more; which versions it is of is to be noted besides. */
void tape_record_settle(tape_record *r);

/* ---- Checkpoints ---- */

void tape_checkpoints_release(xcvm_tape *t);

/* ---- Retained elements ---- */

/* A call is recorded, or forgotten: whose elements its rule reads. */
void tape_retain(tape_record *r);
void tape_retain_no_more(tape_record *r);
/* Where a call has made v, it has made `instead`, which has the same elements. */
void tape_retain_instead(tape_record *r, tape_variable *v, tape_variable *instead);
/* Gives the elements of a variable back that only recorded calls refer to, if no rule reads them. */
void tape_spare(tape_variable *v);

/* ---- In place ---- */

/* Executes a call whose first result takes the place of what `target` is. The record, and its results, are the
 * caller's to give back. */
xcvm_status tape_execute_into(xcvm_tape *t, tape_record *r, tape_variable *target);
/* Notes which versions of elements a record is of; whether some were overwritten since. */
void tape_note_versions(tape_record *r);
bool tape_has_overwritten(const tape_record *r);
/* Fails if a rule wants to read v, and that is what was overwritten of t->overwritten, or was spared. */
xcvm_status tape_check_read(xcvm_tape *t, const tape_variable *v);

/* The elements of v, a tensor, become the tape's own, if they are not: those of the host's values stay as they are. */
xcvm_status tape_own_elements(xcvm_tape *t, tape_variable *v);
/* Elements of a tensor were overwritten by the call of that number. */
static inline void tape_note_overwritten(const xcvm_value *type, uint64_t call)
{
    type->storage->version = (uint32_t)(call + 1);
}

/* Whether nobody needs any of its results. */
bool tape_record_is_dead(const tape_record *r);
/* Forgets a recorded call. */
void tape_record_remove(tape_record *r);
/* Forgets those that tape_record_remove was called for while t->removing was set. */
void tape_records_sweep(xcvm_tape *t);
/* The functions of xcc_recorder. */
void tape_recorder_init(xcvm_tape *t);

/* ---- Building ---- */

/* A call becomes a node; its results are those of the record. */
xcvm_status tape_build(xcvm_tape *t, tape_record *r);
/* A variable for a value of the graph; NULL, which is a failure, for NULL. */
tape_variable *tape_built(xcvm_tape *t, xcc_value *value);
/* What a variable (NULL: NULL) is where the tape builds now; NULL with the failure noted if it is none there. */
xcc_value *tape_built_operand(xcvm_tape *t, const tape_variable *v);
/* Ones, for a root. */
tape_variable *tape_build_seed(xcvm_tape *t, const tape_variable *root);
xcvm_status tape_build_gradients(xcvm_tape *t, size_t root_count, tape_variable *const *roots,
                                 tape_variable *const *seeds, size_t wrt_count, tape_variable *const *wrt,
                                 tape_variable **gradients);

/* ---- Gradients ---- */

/* A walk back over recorded calls. It refers to each variable that it has touched until the call that made that is
 * passed, or the walk ends. */
struct tape_walk {
    xcvm_tape *tape;
    const struct tape_walk_request *request;
    tape_walk *outer;
    tape_variable *touched;
    tape_record *cursor; /* the next record to look at, moved when that is removed */
    size_t pending;      /* records that have to be passed yet */
    bool *wanted;        /* of the rule that runs */
    bool weight_waits;   /* which is not to give the gradient of operand 1 */
    tape_product *products;
    xcc_builder builder;
};

typedef enum tape_walk_kind {
    TAPE_BACKWARD, /* adds up the gradients of whatever requires or retains one */
    TAPE_GRADIENTS /* gives those by `wrt` */
} tape_walk_kind;
typedef struct tape_walk_request {
    tape_walk_kind kind;
    size_t root_count;
    tape_variable *const *roots, *const *seeds; /* no seed is NULL */
    size_t wrt_count;                           /* of TAPE_GRADIENTS */
    tape_variable *const *wrt;
    tape_variable **gradients; /* named in the innermost scope; NULL: zero */
    bool retain, create;
} tape_walk_request;
/* In failure, which stays with the tape, no gradient has changed. */
xcvm_status tape_walk_back(xcvm_tape *t, const tape_walk_request *request);

/* A variable that is changed by a gradient, of all of it, or of those rows (NULL: all), or by the product of `left`,
 * transposed, and the gradient (NULL: by that itself). `stays`: the gradient is the variable's from there on, else that
 * has none. */
typedef struct tape_change {
    tape_variable *variable, *gradient, *rows, *left;
    bool stays;
} tape_change;

/* Whether what the call gives of the gradient of its first operand is kept by rows. */
bool tape_gathers_rows(const tape_record *r);
/* Notes it, for as long as the walk goes on. */
xcvm_status tape_rows_take(xcvm_tape *t, const tape_record *r, tape_variable *gradient);
/* Adds the rows at `indices` to a list, the latest first. */
xcvm_status tape_rows_add(xcvm_tape *t, tape_rows **rows, tape_variable *table, tape_variable *indices,
                          tape_variable *gradient);
/* Adds what the walk has noted to what was there. */
void tape_rows_keep(tape_variable *v);
void tape_rows_drop(xcvm_tape *t, tape_rows **rows);
/* Makes the gradients of changes, which stand in the order in which they came, those of their variables. */
xcvm_status tape_changes_give(xcvm_tape *t, size_t count, const tape_change *changes);
/* All rows that have a gradient, each once, in ascending order, and the sum for each; new variables, named in the
 * innermost scope. There is at least one. */
xcvm_status tape_rows_sum(xcvm_tape *t, const tape_variable *v, tape_variable **rows, tape_variable **gradient);

/* What v has by rows, added to what it has as a tensor; new variables. */
tape_variable *tape_rows_dense(xcvm_tape *t, tape_variable *v);

/* The gradients of the operands of a host's operation, in place of a rule. */
void tape_operation_backward(xcvm_tape *t, xcc_vjp *d, const tape_record *r);
/* A variable that stands for v in a function that is differentiated by it: connected with it if a gradient can flow on
 * to it. */
tape_variable *tape_stand_in(xcvm_tape *t, tape_variable *v);

/* ---- Tracers ---- */

/* A place where a handle is kept from call to call, as a state of a layer is. Who keeps it, and tracers, refer to it.
 */
typedef struct tape_place {
    xcvm_tape *tape;
    xcvm_var v; /* kept (xcvm_var_keep); absent at first */
    uint32_t refs;
    bool left; /* whoever kept it is gone */
} tape_place;

/* The same in a module, where the variable is a state. */
typedef struct tape_program_change {
    const tape_variable *variable;
    xcc_value *state, *gradient;
    bool by_rows;
} tape_program_change;

/* What is no call, but can be had again with other gradients: a step of an optimizer, which it is a part of. */
typedef struct tape_effect tape_effect;
struct tape_effect {
    uint32_t refs;
    bool left; /* whoever made it is done with it */
    xcvm_status (*run)(tape_effect *e, size_t count, const tape_change *changes);
    /* Puts it at the end of a module. Errors are the module's. */
    xcvm_status (*build)(tape_effect *e, xcc_module *m, size_t count, const tape_program_change *changes);
    void (*destroy)(tape_effect *e); /* when the last reference is given back */
};
static inline void tape_effect_release(tape_effect *e)
{
    if (--e->refs == 0)
        e->destroy(e);
}

/* What is told of all that the tape does, as it is done; one at a time (xcvm_tape.tracer). Functions with a status fail
 * if there is no memory. */
typedef struct tape_tracer_functions {
    /* A call has succeeded. */
    xcvm_status (*call)(tape_tracer *tracer, const tape_record *r);
    /* A variable has the elements of another. */
    void (*share)(tape_tracer *tracer, tape_variable *to, const tape_variable *from);
    /* A call goes into a variable; it has succeeded. */
    void (*target)(tape_tracer *tracer, const tape_variable *target);
    void (*into)(tape_tracer *tracer, tape_variable *result, tape_variable *target);
    /* No gradient flows to the call that made v any more. */
    void (*cut)(tape_tracer *tracer, const tape_variable *v);
    /* What has been added up as the gradient of v is about to be forgotten. */
    xcvm_status (*clear)(tape_tracer *tracer, const tape_variable *v);
    /* A walk back is about to pass a call. */
    void (*pass)(tape_tracer *tracer, const tape_record *r);
    /* What v is decides which calls are made. */
    void (*decide)(tape_tracer *tracer, tape_variable *v);
    /* What is in a place is about to be read, or replaced. */
    xcvm_status (*place)(tape_tracer *tracer, tape_place *place);
    /* An effect is about to happen; where a gradient is NULL there is none this time. */
    xcvm_status (*effect)(tape_tracer *tracer, tape_effect *e, size_t count, const tape_change *changes);
    /* What is done is no call; why it cannot be had again, as a sentence. */
    void (*refuse)(tape_tracer *tracer, const char *why);
} tape_tracer_functions;
struct tape_tracer {
    const tape_tracer_functions *functions;
};
/* The tape does what its tracer, if it has one, cannot have. */
static inline void tape_refuse(const xcvm_tape *t, const char *why)
{
    if (t->tracer != NULL)
        t->tracer->functions->refuse(t->tracer, why);
}

/* NULL, with the failure noted: no memory. */
tape_place *tape_place_make(xcvm_tape *t);
void tape_place_release(tape_place *p);
/* Whoever kept it keeps nothing more there. NULL is accepted. */
void tape_place_leave(tape_place *p);
/* What is there; the tape's tracer is told. */
xcvm_var tape_place_read(tape_place *p);
/* v, kept or absent, takes the place of what is there. */
void tape_place_write(tape_place *p, xcvm_var v);

/* ---- Rows ---- */

typedef struct tape_sizes {
    size_t in, out, extra;
} tape_sizes;
typedef struct tape_taking {
    xcvm_tape *tape;
    tape_record *record;
    uint32_t in, out; /* so far */
    char *behind;     /* extra memory that is left */
    xcvm_var into;    /* where the first result goes; absent: to a variable of its own */
} tape_taking;
/* What the call of one row takes: its struct, measured, then made into arguments. */
typedef struct tape_row {
    void (*measure)(const void *call, tape_sizes *sizes);
    void (*take)(tape_taking *k, const void *call, void *args);
    /* Writes the results' handles where the caller wants them; record NULL: the call failed. */
    xcvm_var (*give)(const void *call, const tape_record *record);
    bool windows; /* has lists of ints, which may be those of a window */
} tape_row;
/* Puts what a call has left out of a window's attributes in. */
void tape_fill_windows(const tape_record *r);
/* NULL: there is no such instruction, or it is the machine's own. */
const tape_row *tape_row_of(int32_t opcode);

#endif
