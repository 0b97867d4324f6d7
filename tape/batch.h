/* Batching: calls that are alike and do not depend on each other run as one call, on all of their operands (Neubig,
 * Goldberg and Dyer, 2017). A batch's results lie one behind the other, each where its member's result is, so that what
 * is made of them in the same order is there already. */
#ifndef XCVM_TAPE_BATCH_H
#define XCVM_TAPE_BATCH_H

#include "tape/tape.h"

/* ---- Forms: how a call is one call on many ---- */

/* An operand of the call on all members. */
typedef struct tape_piece {
    int32_t of;              /* the members' operand that it is made of; -1: none, it is `constant` */
    bool shared;             /* the first member's, for all */
    tape_variable *constant; /* made for the batch, held */
    int rank;                /* of all members' together */
    int64_t dims[XCVM_MAX_RANK];
} tape_piece;

typedef struct tape_plan {
    xcvm_tape *tape;
    tape_record *const *members;
    uint32_t count;
    const tape_record *like; /* the first member */
    const bool *same;        /* for each operand: it is the same variable for all members */
    /* What the form decides. */
    const xcvm_schema *schema;
    void *args; /* at first those of the first member, in room for those of any instruction */
    tape_piece *in;
    size_t in_count;
    int64_t ints[XCVM_MAX_RANK]; /* a list among the arguments, which is copied; NULL: there is none */
    xcvm_ints *list;
} tape_plan;

typedef struct tape_form {
    bool (*plan)(tape_plan *p); /* false: these have none, or no memory is left */
    uint32_t same;              /* a bit for each operand that has to be the same; the last one stands for all behind */
} tape_form;
/* NULL: calls of the instruction run one by one. */
const tape_form *tape_form_of(const xcvm_schema *schema);
static inline bool tape_form_needs_same(const tape_form *f, uint32_t operand)
{
    return (f->same >> (operand < 31 ? operand : 31) & 1) != 0;
}

/* ---- Signatures: what calls of one batch have in common ---- */

enum { TAPE_KEY_WORDS = 96 };
typedef struct tape_key {
    uint64_t words[TAPE_KEY_WORDS];
    size_t count;
} tape_key;
/* Gives a call the signature of one like it, its results their types, and says whether gradients flow: all of that
 * follows from what it is called with, mostly. False: it does not, or there was none like it yet; then, when its
 * results have their types, the same key is to be noted. A signature of 0: it has none and runs by itself, or there is
 * no memory to know it by. */
bool tape_signature_recall(xcvm_tape *t, tape_record *r, tape_key *key);
void tape_signature_note(xcvm_tape *t, tape_record *r, tape_key *key);
/* Elements up to so many bytes are compared, where an operand has to be the same for all. */
enum { TAPE_SMALL = 128 };

/* ---- What waits ---- */

typedef struct tape_pending_call {
    tape_record *record; /* NULL: it has run, or is gone */
    uint32_t first;      /* of what it needs, in the list of that */
    uint32_t signature;
    uint32_t mark; /* of the evaluation that goes on: its place there, + 1 */
} tape_pending_call;

struct tape_pending {
    tape_pending_call *calls; /* behind those that they need; a record's place is its number, + 1 */
    uint32_t *needed;         /* numbers of calls */
    size_t count, capacity, edges, edge_capacity;
    size_t live;    /* that have a record */
    bool evaluated; /* now: numbers stay */
};

static inline uint32_t tape_pending_end(const tape_pending *p, uint32_t call)
{
    return (uint32_t)(call + 1 < p->count ? p->calls[call + 1].first : p->edges);
}
/* An evaluation begins, or is at its end. */
void tape_pending_evaluate(tape_pending *p, bool begins);

/* ---- Batches ---- */

typedef struct tape_stacked {
    int32_t of;
    bool shared;
    tape_variable *base; /* the result of another batch that it lies in, held; NULL: none */
    uint32_t first;      /* the member there that it begins with */
} tape_stacked;

struct tape_batch {
    tape_record *call; /* on all members, not on the tape; needs its operands, and has results, of the batch's own */
    tape_record **members;
    tape_variable **results; /* of members, for each result of the call those of all */
    tape_stacked *operands;  /* of the call */
    uint32_t count;
    size_t bytes; /* of this piece of memory */
    /* What a walk back knows of all members, so that it need not look at each. */
    tape_walk *walk; /* that has to pass them all; NULL: what their own marks say */
    uint32_t marked; /* members that have one of their own */
    uint8_t *given;  /* of members, for each result: whether their part of a sum that is partial is there */
    bool singled;    /* something is asked of single results, or known of them: a hook, a gradient */
};
/* What v is a result of in a batch, if it is, is looked at one by one from here on. */
static inline void tape_batch_single_out(const tape_variable *v)
{
    if (v->creator != NULL && v->creator->batch != NULL)
        v->creator->batch->singled = true;
}
/* Whether a walk back has to pass a call. */
static inline bool tape_walk_passes(const tape_walk *w, const tape_record *r)
{
    return r->walk == w || (r->batch != NULL && r->batch->walk == w);
}
/* tape_note_versions of each member, whose results lie in those of the batch. */
void tape_batch_note_versions(const tape_batch *b);
/* Puts the mark of all members on each. */
void tape_batch_mark_members(tape_batch *b);

/* How many of calls with equal keys, from the first on, are to run as one: those whose operands lie one behind the
 * other in results of other batches are no part of a larger one if that would have to copy them. */
uint32_t tape_batch_length(tape_record *const *members, uint32_t count);
/* Runs calls that wait, whose operands are there and whose keys are equal, as one. False: nothing has changed. */
bool tape_run_batch(xcvm_tape *t, tape_record *const *members, uint32_t count);
/* Asks the caches for what of calls, and of the variables between them, is about to be read: they lie far apart. */
void tape_prefetch_to_run(tape_record *const *records, uint32_t count);
void tape_prefetch_to_pass(tape_record *const *records, uint32_t count);
/* The same for the calls that have made an operand of the first of them, as many as stay there until they are read. */
enum { TAPE_AHEAD = 64 };
void tape_prefetch_creators(tape_record *const *records, uint32_t count, uint32_t operand);
/* Makes a variable that no handle names, with one reference. */
tape_variable *tape_variable_inner(xcvm_tape *t);
/* Makes `v`, without elements, a part of those of `whole`, from byte `at` on, of the type that it has. */
void tape_variable_lie_in(tape_variable *v, const xcvm_value *whole, size_t at);
/* Runs a call that waits, and what it needs, alike calls together; NULL: all calls that wait. */
xcvm_status tape_run_agenda(xcvm_tape *t, tape_record *root);
/* Runs one call whose operands are there. */
xcvm_status tape_run_waiting(xcvm_tape *t, tape_record *r);

#endif
