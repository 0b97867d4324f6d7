/* The core of the tape: variables, op records and the state that they share. The modules of the tape build on it. */
#ifndef XCVM_TAPE_TAPE_H
#define XCVM_TAPE_TAPE_H

#include "compiler/gradients/gradients.h"
#include "tape/entry.h"

typedef struct xcvm_variable tape_variable;
typedef struct tape_op_record tape_op_record;
typedef struct tape_mode tape_mode;
typedef struct tape_side_state tape_side_state;
typedef struct tape_backward_pass tape_backward_pass;
typedef struct tape_batch tape_batch;
typedef struct tape_tracer tape_tracer;

/* ---- Types ---- */

/* The slot of a variable stays in place while the tape lives, and serial numbers are unique, so a stale handle is
 * always detected. Rules and kernels see the variable as a graph value. All members above `creator` are zero in a free
 * slot. */
struct xcvm_variable {
    xcc_value value;       /* first; a constant if no gradient can flow to it, so that rules may read its elements */
    tape_side_state *side; /* rare state (side_table.h); NULL: none */
    xcc_value *built;      /* its value in the graph, on a building tape or in a trace */
    uint32_t lent_refs;    /* references as a gradient, and as a handle lent to a callback */
    tape_variable *previous_kept, *next_kept;
    tape_variable *next_tracked, *previous_tracked; /* in the list of the backward pass */
    /* The members below are used all the time and share a cache line. */
    _Alignas(64) tape_op_record *creator; /* NULL: no recorded op made it */
    uint32_t refs;                        /* one for its handles, one for each record, pass or variable that needs it */
    uint32_t uses;                        /* references by recorded ops that read it */
    uint32_t readers;                     /* recorded ops whose gradient rules read its elements */
    bool elements_freed : 1;              /* no handle and no rule can read them */
    bool named : 1;                       /* it has a handle */
    bool requires : 1;                    /* a gradient can flow to it */
    bool retains : 1;                     /* its gradient is accumulated though an op made it */
    bool consumed : 1;                    /* a backward pass has visited and released its op */
    bool outlives_scope : 1;              /* it is a result of the scope that ends now */
    bool kept : 1;                        /* it is named, and in no scope */
    bool sparse : 1;                      /* its gradient is row-sparse */
    bool has_side_state : 1;
    /* State of the backward pass. */
    bool derived : 1;  /* depends on a differentiation target */
    bool target : 1;   /* is a differentiation target */
    bool root : 1;     /* is differentiated */
    bool partial : 1;  /* the sum of a stacked result lacks the parts of some members */
    bool factored : 1; /* its gradient is a deferred product of two factors */
    tape_backward_pass *pass;
    tape_variable *sum, *mask; /* gradient so far; in a free slot `sum` is the next free one */
    uint64_t serial;           /* in order of creation; 0 or a mark in a free slot */
    xcvm_tape *tape;
};

/* An op call. The argument struct and the arrays follow in the same block of memory. */
struct tape_op_record {
    const xcvm_schema *schema;
    void *args;
    size_t bytes;                    /* of the block */
    uint64_t number;                 /* of the call, from 0 */
    const xcvm_operation *operation; /* operation of the host; NULL: an instruction */
    uint64_t random;                 /* state of the generator before a random op */
    tape_op_record *order;           /* next in the running evaluation */
    uint32_t mark;                   /* in it: 0, or number of operands visited, + 1 */
    uint32_t signature;              /* of ops that may be batched together; 0: not batchable */
    /* The members below are read by evaluation and backward pass, and share cache lines with the arrays. */
    tape_op_record *previous, *next;
    xcvm_tape *tape;
    uint64_t serial;           /* of the latest variable before the op ran */
    uint32_t *versions;        /* of the elements of operands, then results, when the op ran */
    tape_variable **in, **out; /* in order of the definition, lists expanded; entries may be NULL */
    uint32_t in_count, out_count;
    tape_backward_pass *pass;  /* that will visit the op */
    tape_batch *batch;         /* that it ran with; NULL: none */
    uint32_t slot;             /* index in the batch */
    uint32_t pending_index;    /* index in the queue of waiting ops, + 1; 0: not queued */
    tape_op_record *next_dead; /* in the list of records to remove */
    uint32_t *schedule_users;  /* counts the records of a schedule; NULL: of none */
    uint8_t read_elements;     /* enum xcvm_reads: elements that its rule may read */
    bool busy : 1;             /* in use, and must not be removed */
    bool backward : 1;         /* made by a backward pass */
    bool differentiable : 1;   /* gradients flow through it */
    bool deferred : 1;         /* evaluated when a value is needed, and again after invalidation */
    bool waiting : 1;          /* not evaluated yet */
};

typedef struct tape_op_list {
    tape_op_record *first, *last;
} tape_op_list;

/* Position of a traversal of the op list, from the last to the first. Removing the op moves it. */
typedef struct tape_cursor {
    tape_op_record *next;
    struct tape_cursor *outer; /* of the traversal that this one interrupts */
} tape_cursor;

/* Blocks of up to TAPE_SIZE_CLASSES units are cut from slabs, and kept in a free list for each size. */
enum { TAPE_SIZE_CLASSES = 32, TAPE_SIZE_CLASS_BYTES = 64 };
typedef struct tape_slab {
    struct tape_slab *next;
    size_t bytes; /* including this header */
    size_t used;
} tape_slab;
typedef struct tape_blocks {
    void *free[TAPE_SIZE_CLASSES + 1]; /* each block points to the next */
    size_t in_use;
    tape_slab *slabs, *slab; /* the first, and the current one */
} tape_blocks;

/* Slots of variables, in chunks. */
typedef struct tape_slots {
    tape_variable *free;
    struct tape_slot_chunk *chunks, *chunk; /* the first, and the current one */
    size_t used;                            /* slots of the current chunk */
    uint64_t resets;
} tape_slots;

/* A named variable of a scope. The entry is stale if the variable has lost its name or is gone. */
typedef struct tape_name {
    tape_variable *variable;
    uint64_t serial;
} tape_name;
typedef struct tape_names {
    tape_name *at; /* in order of serial numbers */
    size_t count, capacity;
    size_t live; /* named variables that are not kept */
} tape_names;

/* References to a storage that are released together. Results of a batch share one storage, and an atomic decrement
 * per result would be slow. The table is indexed by a hash of the storage; a collision releases early. */
typedef struct tape_deferred_release {
    xcvm_storage *storage;
    uint32_t count;
} tape_deferred_release;
enum { TAPE_DEFERRED_RELEASE_BITS = 4 };
typedef struct tape_removal {
    tape_op_record *dead;
    bool active;
    tape_deferred_release deferred[1 << TAPE_DEFERRED_RELEASE_BITS];
    uint32_t deferred_mask; /* bit set of used entries */
} tape_removal;

/* State of batch/. */
typedef struct tape_batching {
    xcvm_batching strategy;
    struct tape_signatures *signatures;
    struct tape_pending *pending; /* queue of waiting ops */
    struct tape_agenda *agenda;   /* reused by evaluations */
    uint32_t trial_count;         /* strategies timed so far */
    double trial_ns[2];           /* time per op of each */
    bool separate_results;        /* since the reset a result was given a hook, or retains its gradient */
} tape_batching;

/* State of building/. */
typedef struct tape_building {
    xcc_builder builder;
    bool broken; /* the graph is incomplete */
} tape_building;

struct xcvm_tape {
    xcc_recorder recorder;  /* first */
    xcc_node recorded_node; /* stands for any executed node */
    const tape_mode *mode;
    xcvm_budget budget; /* counts all memory of the tape */
    const xcvm_allocator *allocator;
    xcvm_kernel kernel;
    xcvm_error error; /* the failure that stays */
    bool failed;
    const char *ended; /* why the tape can no longer be used; NULL: it can */
    bool recording;
    bool formula;   /* recording is on only for a formula that a rule differentiates */
    bool may_build; /* variables may have `built` set */
    bool check_nan;
    bool in_static;          /* a static function runs */
    bool packing;            /* memory is requested for panels, and may not be taken from other panels */
    uint32_t function_depth; /* nested functions that are being differentiated */
    uint64_t random;
    uint64_t calls, serials;
    uint64_t out_of_memory_count;        /* failed requests for memory */
    tape_op_list ops;                    /* recorded ops in execution order */
    tape_op_list waiting;                /* ops that are not evaluated yet */
    size_t recorded, variables;          /* counts */
    struct tape_checkpoint *checkpoints; /* the latest first */
    tape_removal removal;
    tape_names names;
    tape_variable *kept; /* kept variables, the latest first */
    tape_slots slots;
    tape_blocks blocks;
    tape_side_state *free_side_states;
    tape_backward_pass *pass;          /* the innermost running one */
    tape_cursor *cursors;              /* of traversals that may remove ops */
    const tape_op_record *overwritten; /* op whose rule runs and some of whose elements were overwritten */
    tape_batching batching;
    tape_building building;
    xcvm_tape_observer observer;
    tape_tracer *tracer; /* NULL: none */
    xcc_module module;   /* rules build in it; on a building tape the program */
    xcvm_arena scratch;  /* of the running rule */
};

/* ---- Failures ---- */

/* Sets the failure, unless there is one. Returns the status of the failure that stays. */
xcvm_status tape_fail(xcvm_tape *t, xcvm_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Makes a failure that is in the tape's error stay. */
xcvm_status tape_latch_failure(xcvm_tape *t, xcvm_status status);
/* Returns and clears the failure, if any. */
xcvm_status tape_report(xcvm_tape *t, xcvm_error *error);
static inline bool tape_is_unusable(const xcvm_tape *t) { return t == NULL || t->failed; }
/* The result of a failed op call. */
#define TAPE_FAILED ((xcvm_var){NULL, 1})

/* ---- Memory ---- */

/* Allocates a block, not zeroed. NULL with the failure set if there is no memory. */
void *tape_allocate(xcvm_tape *t, size_t bytes);
void tape_free(xcvm_tape *t, void *memory, size_t bytes);
/* Cuts the slabs anew if no block is in use, so that the next blocks are contiguous. */
void tape_blocks_restart(xcvm_tape *t);
void tape_blocks_release(xcvm_tape *t);

/* ---- Slots and names ---- */

void tape_slots_release(xcvm_tape *t);
/* Cuts the chunks anew, so that the next variables are contiguous. */
void tape_slots_restart(xcvm_tape *t);
void tape_variable_free_slot(tape_variable *v);
/* Calls f for each live variable. */
void tape_variables_each(const xcvm_tape *t, void (*f)(void *user, const tape_variable *v), void *user);
/* Names a variable in the scope that it was made in; false with the failure set if there is no memory. */
bool tape_variable_name(tape_variable *v);
/* Removes the name, and with it a reference. */
void tape_variable_unname(tape_variable *v);
/* Moves a variable out of its scope. It lives until it is unnamed. */
void tape_variable_keep(tape_variable *v);
/* Removes the names of variables after `serial`, except those that outlive their scope or are kept. */
void tape_names_end_scope(xcvm_tape *t, uint64_t serial);

/* ---- Variables ---- */

/* Creates a variable without a type, named in the innermost scope; NULL with the failure set if there is no memory. */
tape_variable *tape_variable_create(xcvm_tape *t);
/* The same with one reference and no name. */
tape_variable *tape_variable_create_unnamed(xcvm_tape *t);
void tape_variable_release(tape_variable *v);
static inline tape_variable *tape_variable_of(const xcc_value *v) { return (tape_variable *)(uintptr_t)v; }
static inline xcvm_var tape_handle(const tape_variable *v)
{
    return (xcvm_var){(tape_variable *)(uintptr_t)v, v->serial};
}
/* The variable of a handle; NULL if it is gone, or has no name and may have lost its elements. */
static inline tape_variable *tape_find(xcvm_var v)
{
    return v.at != NULL && v.at->serial == v.serial && (v.at->named || v.at->lent_refs > 0) ? v.at : NULL;
}
/* The variable of a handle; NULL with the failure set if it is absent, stale, failed or of another tape. `what` names
 * it in the message. */
tape_variable *tape_resolve(xcvm_tape *t, xcvm_var v, const char *what);
/* The same for an operand that may be absent: NULL without a failure. */
tape_variable *tape_resolve_optional(xcvm_tape *t, xcvm_var v, const char *what);
/* The type of v; on a building tape that of its graph value. */
const xcvm_value *tape_variable_type(const tape_variable *v);
/* True if a gradient can be of such a value: a float tensor, or a list of them. */
bool tape_variable_can_have_gradient(const tape_variable *v);
void tape_variable_require(tape_variable *v, bool wanted);
static inline bool tape_variable_has_elements(const tape_variable *v)
{
    const xcvm_value *type = &v->value.type;
    return type->kind != XCVM_KIND_TENSOR || type->data != NULL || type->bytes == 0;
}
/* Allocates the elements of a tensor whose type is set. */
xcvm_status tape_variable_allocate(xcvm_tape *t, tape_variable *v);
/* Creates a constant tensor; `data` NULL: uninitialized. */
tape_variable *tape_tensor(xcvm_tape *t, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data);
/* Creates a variable that shares the elements of v. */
tape_variable *tape_variable_share(xcvm_tape *t, tape_variable *v);
/* Adds references with one atomic operation. */
static inline void tape_storage_retain(xcvm_storage *storage, uint32_t times)
{
    __atomic_fetch_add(&storage->refs, times, __ATOMIC_RELAXED);
}
void tape_release_deferred_storages(xcvm_tape *t);

/* ---- Op records ---- */

/* Creates a record with room for its operands and results, and `extra` bytes, 16-byte aligned, at *behind; NULL with
 * the failure set if there is no memory. */
tape_op_record *tape_op_record_create(xcvm_tape *t, const xcvm_schema *schema, size_t in_count, size_t out_count,
                                      size_t extra, void **behind);
/* Links a record into the list of executed or of waiting ops. */
void tape_op_record_link(tape_op_record *r);
void tape_op_record_unlink(tape_op_record *r);
/* Appends a record: it refers to its operands, and is the creator of its results. */
void tape_op_record_append(tape_op_record *r);
/* True if no result is needed. */
bool tape_op_record_is_dead(const tape_op_record *r);
/* Removes a record from the tape. While t->removal.active is set, it is removed by tape_op_records_sweep. */
void tape_op_record_remove(tape_op_record *r);
void tape_op_records_sweep(xcvm_tape *t);
/* Name for messages. */
static inline const char *tape_op_name(const tape_op_record *r)
{
    return r->operation != NULL ? r->operation->name : r->schema->name;
}

/* The backward pass that will visit all members of a batch: its first member. */
static inline tape_backward_pass *tape_batch_pass(const tape_batch *b)
{
    return *(tape_backward_pass *const *)(const void *)b;
}

/* ---- Executing ---- */

/* Executes an op, and records it if a gradient can flow through it; otherwise the record is freed. In failure the
 * results are freed too. */
xcvm_status tape_op_execute(xcvm_tape *t, tape_op_record *r);
/* Executes an instruction whose arguments, results included, are in a struct. Lists are copied. */
xcvm_status tape_op_execute_args(xcvm_tape *t, const xcvm_schema *schema, const void *args);
/* Ends an op with the status that its execution had: records or frees it. */
xcvm_status tape_op_finish(xcvm_tape *t, tape_op_record *r, xcvm_status status);
/* Infers the types of the results. */
xcvm_status tape_op_infer(xcvm_tape *t, const tape_op_record *r);
xcvm_inference tape_op_inference(xcvm_tape *t, const tape_op_record *r);
/* Allocates the results, except the first `placed`, and runs the kernel. */
xcvm_status tape_op_run_kernel(xcvm_tape *t, const tape_op_record *r, uint32_t placed);
/* Informs the observer that an op begins (`begun` 0), and returns the time; or that it has ended. */
uint64_t tape_op_observe(xcvm_tape *t, const tape_op_record *r, uint64_t begun);
/* Fails if the op produced NaN from operands without any. */
xcvm_status tape_op_check_nan(xcvm_tape *t, const tape_op_record *r);
/* True if a gradient can flow through the op. */
bool tape_op_is_differentiable(const xcvm_tape *t, const tape_op_record *r);
/* The same; then gradients can flow to its results. */
bool tape_op_mark_differentiable(tape_op_record *r);
/* Names the op in the tape's error. */
void tape_op_locate_failure(xcvm_tape *t, const tape_op_record *r);

/* ---- Evaluating ---- */

xcvm_status tape_evaluate_creator(tape_variable *v);
/* Makes the elements of v (NULL: nothing) available. The failure stays, and names the op. */
static inline xcvm_status tape_evaluate(tape_variable *v)
{
    return v == NULL || v->creator == NULL || !v->creator->waiting ? XCVM_OK : tape_evaluate_creator(v);
}
xcvm_status tape_evaluate_all(xcvm_tape *t);
/* Evaluates kept variables after `serial`. Those that cannot be computed are unnamed. False: memory ran out. */
bool tape_evaluate_kept(xcvm_tape *t, uint64_t serial);

/* ---- Retained elements ---- */

/* A record is appended, or removed: counts the variables whose elements its rule reads. */
void tape_retain_elements(tape_op_record *r);
void tape_unretain_elements(tape_op_record *r);
/* Makes `instead`, which has the same elements, the result of r in the place of v. */
void tape_replace_retained_result(tape_op_record *r, tape_variable *v, tape_variable *instead);
/* Frees the elements of a variable that only records refer to, and no rule reads. */
void tape_free_unused_elements(tape_variable *v);

/* ---- In-place writes ---- */

/* The version of the elements of v (NULL: 0). */
static inline uint32_t tape_variable_version(const tape_variable *v)
{
    const xcvm_storage *storage = v != NULL ? v->value.type.storage : NULL;
    return storage != NULL ? storage->version : 0;
}
/* Saves the versions of the elements that a record is of. */
void tape_op_save_versions(tape_op_record *r);
/* True if some of them were overwritten since. */
bool tape_op_has_overwritten(const tape_op_record *r);
/* Fails if a rule reads v, and its elements were overwritten or freed. */
xcvm_status tape_variable_check_readable(xcvm_tape *t, const tape_variable *v);
/* Copies the elements of the tensor v unless the tape owns them: values of the host are never written. */
xcvm_status tape_variable_own_elements(xcvm_tape *t, tape_variable *v);
/* Op number `call` has overwritten the elements of a tensor. */
static inline void tape_mark_overwritten(const xcvm_value *type, uint64_t call)
{
    type->storage->version = (uint32_t)(call + 1);
}

void tape_checkpoints_release(xcvm_tape *t);

#endif
