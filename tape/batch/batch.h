/* Batching: like ops that do not depend on each other run as one op on stacked operands (Neubig, Goldberg and Dyer,
 * 2017). The results of a batch are contiguous, in the order of its members, so that the next batch often needs no
 * copy. */
#ifndef XCVM_TAPE_BATCH_BATCH_H
#define XCVM_TAPE_BATCH_BATCH_H

#include "tape/mode.h"
#include "tape/side_table.h"

extern const tape_mode tape_batched_mode;

/* ---- Batching rules ---- */

/* An operand of the batch's op. */
typedef struct tape_batch_operand_plan {
    int32_t of;              /* index of the members' operand; -1: it is `constant` */
    bool shared;             /* the first member's operand is used for all */
    tape_variable *constant; /* made for the batch; a reference */
    int rank;                /* of the stacked operand */
    int64_t dims[XCVM_MAX_RANK];
} tape_batch_operand_plan;

typedef struct tape_batch_plan {
    xcvm_tape *tape;
    tape_op_record *const *members;
    uint32_t count;
    const tape_op_record *like; /* the first member */
    const bool *same;           /* for each operand: all members share it */
    /* Set by the rule. */
    const xcvm_schema *schema;
    void *args; /* initially those of the first member; room for those of any instruction */
    tape_batch_operand_plan *in;
    size_t in_count;
    int64_t ints[XCVM_MAX_RANK]; /* copy of a list among the arguments; `list` NULL: none */
    xcvm_ints *list;
} tape_batch_plan;

typedef struct tape_batching_rule {
    bool (*plan)(tape_batch_plan *p); /* false: not batchable, or no memory */
    uint32_t same; /* bit per operand that all members must share; the last bit stands for all further ones */
} tape_batching_rule;
/* NULL: ops of the instruction run one by one. */
const tape_batching_rule *tape_batching_rule_of(const xcvm_schema *schema);
static inline bool tape_batching_rule_needs_same(const tape_batching_rule *f, uint32_t operand)
{
    return (f->same >> (operand < 31 ? operand : 31) & 1) != 0;
}

/* ---- Signatures ---- */

enum { TAPE_KEY_WORDS = 96 };
typedef struct tape_key {
    uint64_t words[TAPE_KEY_WORDS];
    size_t count;
} tape_key;
/* Sets the signature of an op, the types of its results, and whether it is differentiable, if an op with the same
 * operand types was called before. False: unknown; the caller infers the types and then adds `key`. Signature 0
 * means that the op runs alone. */
bool tape_signature_recall(xcvm_tape *t, tape_op_record *r, tape_key *key);
void tape_signature_add(xcvm_tape *t, tape_op_record *r, tape_key *key);
/* Operands that all members must share are compared by value up to this size in bytes. */
enum { TAPE_SMALL = 128 };

/* ---- Queue of waiting ops ---- */

typedef struct tape_pending_op {
    tape_op_record *record; /* NULL: it has run or was removed */
    uint32_t first;         /* index of its first dependency */
    uint32_t signature;
    uint32_t mark; /* in the running evaluation: index + 1 */
} tape_pending_op;

typedef struct tape_pending {
    tape_pending_op *calls; /* in order of dependencies; tape_op_record.pending_index is the index + 1 */
    uint32_t *needed;       /* indices of ops */
    size_t count, capacity, edges, edge_capacity;
    size_t live;    /* entries that have a record */
    bool evaluated; /* an evaluation runs, so indices must not change */
} tape_pending;

static inline uint32_t tape_pending_end(const tape_pending *p, uint32_t call)
{
    return (uint32_t)(call + 1 < p->count ? p->calls[call + 1].first : p->edges);
}
/* An evaluation begins or ends. */
void tape_pending_evaluate(tape_pending *p, bool begins);

/* Queues an op behind those that it depends on; false: no memory. */
bool tape_pending_add(xcvm_tape *t, tape_op_record *r);
/* Removes an op from the queue, if it is in it. */
void tape_pending_remove(tape_op_record *r);
/* Reserves memory for ops and their dependencies; false: no memory. */
bool tape_pending_reserve(xcvm_tape *t, size_t calls, size_t edges);
void tape_pending_release(xcvm_tape *t);
void tape_agenda_release(xcvm_tape *t);
/* Frees the signatures if there are many. No record may have one. */
void tape_signatures_clear(xcvm_tape *t);
void tape_signatures_release(xcvm_tape *t);

/* ---- Batches ---- */

typedef struct tape_batch_operand {
    int32_t of;
    bool shared;
    tape_variable *base; /* result of another batch that contains it; a reference, or NULL */
    uint32_t first;      /* first member in that batch */
} tape_batch_operand;

struct tape_batch {
    tape_backward_pass *pass; /* first; that will visit all members; NULL: see their own marks */
    tape_op_record *call;     /* the op on stacked operands; not in the list of ops */
    tape_op_record **members;
    tape_variable **results;      /* of the members, grouped by result */
    tape_batch_operand *operands; /* of `call` */
    uint32_t count;
    size_t bytes; /* of the block of memory */
    /* State of the backward pass for all members, so that it need not visit each. */
    uint32_t marked; /* members that are marked themselves */
    uint8_t *given;  /* per result and member: its part of a partial sum is present */
    bool separate;   /* members need individual treatment: one has a hook or a gradient */
};
/* Members of the batch of v are visited one by one from now on. */
static inline void tape_batch_treat_separately(const tape_variable *v)
{
    if (v->creator != NULL && v->creator->batch != NULL)
        v->creator->batch->separate = true;
}
/* True if the backward pass will visit the op. */
static inline bool tape_backward_visits(const tape_backward_pass *pass, const tape_op_record *r)
{
    return r->pass == pass || (r->batch != NULL && r->batch->pass == pass);
}
/* Saves the versions of each member's elements. */
void tape_batch_save_versions(const tape_batch *b);
/* Copies the mark of the batch to its members. */
void tape_batch_mark_members(tape_batch *b);

void tape_batch_release(tape_batch *b);
/* Computes a product by a packed weight, or by one that becomes packed now; false: the op is none. */
bool tape_panels_multiply(xcvm_tape *t, const tape_op_record *r, xcvm_status *status);

/* Number of ops with equal keys, from the first on, that should run as one batch. A run of operands that are
 * contiguous in another batch's result is not joined with others if that would need a copy. */
uint32_t tape_batch_length(tape_op_record *const *members, uint32_t count);
/* Runs waiting ops with equal keys as one batch. False: nothing has changed. */
bool tape_run_batch(xcvm_tape *t, tape_op_record *const *members, uint32_t count);
/* Prefetch records and variables that are about to be read; they are far apart in memory. */
void tape_prefetch_to_run(tape_op_record *const *records, uint32_t count);
void tape_prefetch_to_visit(tape_op_record *const *records, uint32_t count);
/* The same for the creators of an operand; at most as many as the cache holds until they are read. */
enum { TAPE_AHEAD = 64 };
void tape_prefetch_creators(tape_op_record *const *records, uint32_t count, uint32_t operand);
/* Makes v, whose type is set, a view of `whole` from byte `at` on. */
void tape_variable_view(tape_variable *v, const xcvm_value *whole, size_t at);
/* Runs a waiting op and its dependencies, batching like ops. NULL: all waiting ops. */
xcvm_status tape_run_agenda(xcvm_tape *t, tape_op_record *root);

#endif
